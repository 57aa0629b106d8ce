package decode

import "github.com/softhca/softhca/mad"

// SIDRREQ asks for the queue pair of a service.
type SIDRREQ struct {
	RequestID   uint32 `json:"request_id"`
	PKey        uint16 `json:"pkey"`
	ServiceID   Hex64  `json:"service_id"`
	Service     string `json:"service"`
	IP          *IP    `json:"ip,omitempty"`
	PrivateData string `json:"private_data"` // behind the addressing
}

// SIDRREP answers a SIDRREQ.
type SIDRREP struct {
	RequestID   uint32 `json:"request_id"`
	Status      uint8  `json:"status"`
	StatusName  string `json:"status_name"`
	InfoLength  uint8  `json:"info_length"`
	VendorID    uint32 `json:"vendor_id"`
	QPN         uint32 `json:"qpn"`
	ServiceID   Hex64  `json:"service_id"`
	Service     string `json:"service"`
	QKey        uint32 `json:"qkey"`
	Info        string `json:"info"`
	PrivateData string `json:"private_data"`
}

// LAP asks the peer to load an alternate path.
type LAP struct {
	LocalCommID           uint32 `json:"local_comm_id"`
	RemoteCommID          uint32 `json:"remote_comm_id"`
	RemoteQPN             uint32 `json:"remote_qpn"`
	RemoteResponseTimeout uint8  `json:"remote_response_timeout"`
	Alternate             *Path  `json:"alternate"`
	PrivateData           string `json:"private_data"`
}

// APR answers a LAP.
type APR struct {
	LocalCommID  uint32 `json:"local_comm_id"`
	RemoteCommID uint32 `json:"remote_comm_id"`
	InfoLength   uint8  `json:"info_length"`
	Status       uint8  `json:"status"`
	StatusName   string `json:"status_name"`
	Info         string `json:"info"`
	PrivateData  string `json:"private_data"`
}

func newSIDRREQ(m *mad.MAD) *SIDRREQ {
	var r mad.SIDRREQ
	r.Decode(m)
	ip, rest := ipOf(r.ServiceID, r.PrivateData[:])
	return &SIDRREQ{r.RequestID, uint16(r.PKey), Hex64(r.ServiceID), r.ServiceID.String(), ip, private(rest)}
}

func newSIDRREP(m *mad.MAD) *SIDRREP {
	var r mad.SIDRREP
	r.Decode(m)
	return &SIDRREP{
		RequestID: r.RequestID, Status: uint8(r.Status), StatusName: r.Status.String(), InfoLength: r.InfoLength, VendorID: r.VendorID,
		QPN: uint32(r.QPN), ServiceID: Hex64(r.ServiceID), Service: r.ServiceID.String(), QKey: uint32(r.QKey),
		Info: information(&r.Info, r.InfoLength), PrivateData: private(r.PrivateData[:]),
	}
}

func newLAP(m *mad.MAD) *LAP {
	var r mad.LAP
	r.Decode(m)
	return &LAP{
		LocalCommID: r.LocalCommID, RemoteCommID: r.RemoteCommID, RemoteQPN: uint32(r.RemoteQPN),
		RemoteResponseTimeout: r.RemoteResponseTimeout, Alternate: newPath(&r.Alternate), PrivateData: private(r.PrivateData[:]),
	}
}

func newAPR(m *mad.MAD) *APR {
	var r mad.APR
	r.Decode(m)
	return &APR{
		LocalCommID: r.LocalCommID, RemoteCommID: r.RemoteCommID, InfoLength: r.InfoLength, Status: uint8(r.Status),
		StatusName: r.Status.String(), Info: information(&r.Info, r.InfoLength), PrivateData: private(r.PrivateData[:]),
	}
}

package decode

import (
	"net/netip"

	"github.com/softhca/softhca/mad"
)

// REQ asks for a connection. Timeouts are codes: 4.096 µs times that power of
// two.
type REQ struct {
	LocalCommID           uint32 `json:"local_comm_id"`
	VendorID              uint32 `json:"vendor_id"`
	ServiceID             Hex64  `json:"service_id"`
	Service               string `json:"service"`
	LocalCAGUID           Hex64  `json:"local_ca_guid"`
	LocalQKey             uint32 `json:"local_qkey"`
	LocalQPN              uint32 `json:"local_qpn"`
	ResponderResources    uint8  `json:"responder_resources"`
	LocalEECN             uint32 `json:"local_eecn"`
	InitiatorDepth        uint8  `json:"initiator_depth"`
	RemoteEECN            uint32 `json:"remote_eecn"`
	RemoteResponseTimeout uint8  `json:"remote_response_timeout"`
	Transport             uint8  `json:"transport"`
	TransportName         string `json:"transport_name"`
	EndToEndFlowControl   bool   `json:"end_to_end_flow_control"`
	StartingPSN           uint32 `json:"starting_psn"`
	LocalResponseTimeout  uint8  `json:"local_response_timeout"`
	RetryCount            uint8  `json:"retry_count"`
	PKey                  uint16 `json:"pkey"`
	PathMTU               uint8  `json:"path_mtu"` // code
	RDCExists             bool   `json:"rdc_exists"`
	RNRRetryCount         uint8  `json:"rnr_retry_count"`
	MaxCMRetries          uint8  `json:"max_cm_retries"`
	SRQ                   bool   `json:"srq"`
	ExtendedTransport     uint8  `json:"extended_transport"`
	Primary               *Path  `json:"primary"`
	Alternate             *Path  `json:"alternate,omitempty"`
	SAPSupported          bool   `json:"sap_supported"`
	IP                    *IP    `json:"ip,omitempty"`
	PrivateData           string `json:"private_data"` // behind the addressing
}

// Path is a path of a REQ or a LAP.
type Path struct {
	LocalLID        uint16     `json:"local_lid"`
	RemoteLID       uint16     `json:"remote_lid"`
	LocalGID        netip.Addr `json:"local_gid"`
	RemoteGID       netip.Addr `json:"remote_gid"`
	FlowLabel       uint32     `json:"flow_label"`
	PacketRate      uint8      `json:"packet_rate"`
	TrafficClass    uint8      `json:"traffic_class"`
	HopLimit        uint8      `json:"hop_limit"`
	SL              uint8      `json:"sl"`
	SubnetLocal     bool       `json:"subnet_local"`
	LocalAckTimeout uint8      `json:"local_ack_timeout"`
}

// REP answers a REQ.
type REP struct {
	LocalCommID         uint32 `json:"local_comm_id"`
	RemoteCommID        uint32 `json:"remote_comm_id"`
	LocalQKey           uint32 `json:"local_qkey"`
	LocalQPN            uint32 `json:"local_qpn"`
	LocalEECN           uint32 `json:"local_eecn"`
	StartingPSN         uint32 `json:"starting_psn"`
	VendorID            uint32 `json:"vendor_id"`
	ResponderResources  uint8  `json:"responder_resources"`
	InitiatorDepth      uint8  `json:"initiator_depth"`
	TargetAckDelay      uint8  `json:"target_ack_delay"`
	FailoverAccepted    uint8  `json:"failover_accepted"`
	EndToEndFlowControl bool   `json:"end_to_end_flow_control"`
	RNRRetryCount       uint8  `json:"rnr_retry_count"`
	SRQ                 bool   `json:"srq"`
	LocalCAGUID         Hex64  `json:"local_ca_guid"`
	PrivateData         string `json:"private_data"`
}

// RTU ends the set-up. A DREP has the same fields.
type RTU struct {
	LocalCommID  uint32 `json:"local_comm_id"`
	RemoteCommID uint32 `json:"remote_comm_id"`
	PrivateData  string `json:"private_data"`
}

// MRA asks for patience.
type MRA struct {
	LocalCommID    uint32 `json:"local_comm_id"`
	RemoteCommID   uint32 `json:"remote_comm_id"`
	Message        uint8  `json:"message"`
	MessageName    string `json:"message_name"`
	ServiceTimeout uint8  `json:"service_timeout"`
	PrivateData    string `json:"private_data"`
}

// REJ refuses or gives up.
type REJ struct {
	LocalCommID  uint32 `json:"local_comm_id"`
	RemoteCommID uint32 `json:"remote_comm_id"`
	Message      uint8  `json:"message"`
	MessageName  string `json:"message_name"`
	Reason       uint16 `json:"reason"`
	ReasonName   string `json:"reason_name"`
	InfoLength   uint8  `json:"info_length"`
	Info         string `json:"info"`
	PrivateData  string `json:"private_data"`
}

// DREQ asks for the end of a connection.
type DREQ struct {
	LocalCommID  uint32 `json:"local_comm_id"`
	RemoteCommID uint32 `json:"remote_comm_id"`
	RemoteQPN    uint32 `json:"remote_qpn"`
	PrivateData  string `json:"private_data"`
}

func newREQ(m *mad.MAD) *REQ {
	var r mad.REQ
	r.Decode(m)
	out := &REQ{
		LocalCommID: r.LocalCommID, VendorID: r.VendorID, ServiceID: Hex64(r.ServiceID), Service: r.ServiceID.String(),
		LocalCAGUID: Hex64(r.LocalCAGUID), LocalQKey: uint32(r.LocalQKey), LocalQPN: uint32(r.LocalQPN),
		ResponderResources: r.ResponderResources, LocalEECN: r.LocalEECN, InitiatorDepth: r.InitiatorDepth, RemoteEECN: r.RemoteEECN,
		RemoteResponseTimeout: r.RemoteResponseTimeout, Transport: uint8(r.Transport), TransportName: r.Transport.String(),
		EndToEndFlowControl: r.EndToEndFlowControl, StartingPSN: r.StartingPSN.Value(), LocalResponseTimeout: r.LocalResponseTimeout,
		RetryCount: r.RetryCount, PKey: uint16(r.PKey), PathMTU: uint8(r.PathMTU), RDCExists: r.RDCExists,
		RNRRetryCount: r.RNRRetryCount, MaxCMRetries: r.MaxCMRetries, SRQ: r.SRQ, ExtendedTransport: r.ExtendedTransport,
		Primary: newPath(&r.Primary), SAPSupported: r.SAPSupported,
	}
	if r.Alternate != (mad.Path{}) {
		out.Alternate = newPath(&r.Alternate)
	}
	ip, rest := ipOf(r.ServiceID, r.PrivateData[:])
	out.IP, out.PrivateData = ip, private(rest)
	return out
}

func newPath(p *mad.Path) *Path {
	return &Path{
		LocalLID: p.LocalLID, RemoteLID: p.RemoteLID, LocalGID: netip.AddrFrom16(p.LocalGID), RemoteGID: netip.AddrFrom16(p.RemoteGID),
		FlowLabel: p.FlowLabel, PacketRate: p.PacketRate, TrafficClass: p.TrafficClass, HopLimit: p.HopLimit,
		SL: p.SL, SubnetLocal: p.SubnetLocal, LocalAckTimeout: p.LocalAckTimeout,
	}
}

func newREP(m *mad.MAD) *REP {
	var r mad.REP
	r.Decode(m)
	return &REP{
		LocalCommID: r.LocalCommID, RemoteCommID: r.RemoteCommID, LocalQKey: uint32(r.LocalQKey), LocalQPN: uint32(r.LocalQPN),
		LocalEECN: r.LocalEECN, StartingPSN: r.StartingPSN.Value(), VendorID: r.VendorID, ResponderResources: r.ResponderResources,
		InitiatorDepth: r.InitiatorDepth, TargetAckDelay: r.TargetAckDelay, FailoverAccepted: uint8(r.FailoverAccepted),
		EndToEndFlowControl: r.EndToEndFlowControl, RNRRetryCount: r.RNRRetryCount, SRQ: r.SRQ, LocalCAGUID: Hex64(r.LocalCAGUID),
		PrivateData: private(r.PrivateData[:]),
	}
}

func newRTU(m *mad.MAD) *RTU {
	var r mad.RTU
	r.Decode(m)
	return &RTU{r.LocalCommID, r.RemoteCommID, private(r.PrivateData[:])}
}

func newDREP(m *mad.MAD) *RTU {
	var r mad.DREP
	r.Decode(m)
	return &RTU{r.LocalCommID, r.RemoteCommID, private(r.PrivateData[:])}
}

func newMRA(m *mad.MAD) *MRA {
	var r mad.MRA
	r.Decode(m)
	return &MRA{r.LocalCommID, r.RemoteCommID, uint8(r.Message), r.Message.String(), r.ServiceTimeout, private(r.PrivateData[:])}
}

func newREJ(m *mad.MAD) *REJ {
	var r mad.REJ
	r.Decode(m)
	return &REJ{
		LocalCommID: r.LocalCommID, RemoteCommID: r.RemoteCommID, Message: uint8(r.Message), MessageName: r.Message.String(),
		Reason: uint16(r.Reason), ReasonName: r.Reason.String(), InfoLength: r.InfoLength, Info: information(&r.Info, r.InfoLength),
		PrivateData: private(r.PrivateData[:]),
	}
}

func newDREQ(m *mad.MAD) *DREQ {
	var r mad.DREQ
	r.Decode(m)
	return &DREQ{r.LocalCommID, r.RemoteCommID, uint32(r.RemoteQPN), private(r.PrivateData[:])}
}

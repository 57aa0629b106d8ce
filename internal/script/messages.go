package script

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/mad"
)

// The fields of connection manager messages, in the order in which they are
// shown.

var headerFields = []field[mad.Header]{
	numberField("base", unusual, 8, "%d", func(h *mad.Header) *uint8 { return &h.BaseVersion }),
	enumField("class", unusual, mad.ClassSMDirected, func(h *mad.Header) *mad.Class { return &h.Class }),
	numberField("version", unusual, 8, "%d", func(h *mad.Header) *uint8 { return &h.ClassVersion }),
	enumField("method", unusual, mad.MethodReportResp, func(h *mad.Header) *mad.Method { return &h.Method }),
	enumField("attr", unusual, mad.AttrAPR, func(h *mad.Header) *mad.AttrID { return &h.AttrID }),
	numberField("attr_mod", unusual, 32, "%#x", func(h *mad.Header) *uint32 { return &h.AttrMod }),
	{
		name: "mad_status", shown: unusual,
		set:  func(w *world, h *mad.Header, s string) error { return setNumber(w, &h.Status, s, 16, plainNumber) },
		show: func(_ *world, h *mad.Header) string { return fmt.Sprintf("%#x (%v)", uint16(h.Status), h.Status) },
	},
	numberField("tid", unusual, 64, "%#x", func(h *mad.Header) *uint64 { return &h.TID }),
}

var reqFields = slices.Concat([]field[mad.REQ]{
	idField("comm", peerID, func(m *mad.REQ) *uint32 { return &m.LocalCommID }),
	serviceField(func(m *mad.REQ) *mad.ServiceID { return &m.ServiceID }),
	enumField("transport", unusual, mad.TransportExtended, func(m *mad.REQ) *mad.TransportService { return &m.Transport }),
	numberField("extended", unusual, 3, "%d", func(m *mad.REQ) *uint8 { return &m.ExtendedTransport }),
	qpField("qp", plainly, func(m *mad.REQ) *ib.QPN { return &m.LocalQPN }),
	eecField("eecn", func(m *mad.REQ) *uint32 { return &m.LocalEECN }),
	eecField("remote_eecn", func(m *mad.REQ) *uint32 { return &m.RemoteEECN }),
	flagField("rdc_exists", plainly, func(m *mad.REQ) *bool { return &m.RDCExists }),
	psnField("psn", func(m *mad.REQ) *ib.PSN { return &m.StartingPSN }),
	mtuField("mtu", func(m *mad.REQ) *ib.MTU { return &m.PathMTU }),
	numberField("resources", plainly, 8, "%d", func(m *mad.REQ) *uint8 { return &m.ResponderResources }),
	numberField("depth", plainly, 8, "%d", func(m *mad.REQ) *uint8 { return &m.InitiatorDepth }),
	numberField("retry", plainly, 3, "%d", func(m *mad.REQ) *uint8 { return &m.RetryCount }),
	numberField("rnr", plainly, 3, "%d", func(m *mad.REQ) *uint8 { return &m.RNRRetryCount }),
	numberField("timeout", unusual, 5, "%d", func(m *mad.REQ) *uint8 { return &m.RemoteResponseTimeout }),
	numberField("local_timeout", unusual, 5, "%d", func(m *mad.REQ) *uint8 { return &m.LocalResponseTimeout }),
	numberField("cm_retries", unusual, 4, "%d", func(m *mad.REQ) *uint8 { return &m.MaxCMRetries }),
	numberField("pkey", unusual, 16, "%#x", func(m *mad.REQ) *ib.PKey { return &m.PKey }),
	flagField("srq", plainly, func(m *mad.REQ) *bool { return &m.SRQ }),
	flagField("flow_control", plainly, func(m *mad.REQ) *bool { return &m.EndToEndFlowControl }),
	numberField("guid", unusual, 64, "%#x", func(m *mad.REQ) *uint64 { return &m.LocalCAGUID }),
	numberField("qkey", unusual, 32, "%#x", func(m *mad.REQ) *ib.QKey { return &m.LocalQKey }),
	numberField("vendor", unusual, 24, "%#x", func(m *mad.REQ) *uint32 { return &m.VendorID }),
},
	pathFields("", func(m *mad.REQ) *mad.Path { return &m.Primary }),
	pathFields("alt_", func(m *mad.REQ) *mad.Path { return &m.Alternate }),
	[]field[mad.REQ]{dataField(func(m *mad.REQ) []byte { return m.PrivateData[:] })})

var repFields = []field[mad.REP]{
	idField("comm", peerID, func(m *mad.REP) *uint32 { return &m.LocalCommID }),
	idField("remote", ourID, func(m *mad.REP) *uint32 { return &m.RemoteCommID }),
	qpField("qp", plainly, func(m *mad.REP) *ib.QPN { return &m.LocalQPN }),
	eecField("eecn", func(m *mad.REP) *uint32 { return &m.LocalEECN }),
	psnField("psn", func(m *mad.REP) *ib.PSN { return &m.StartingPSN }),
	numberField("resources", plainly, 8, "%d", func(m *mad.REP) *uint8 { return &m.ResponderResources }),
	numberField("depth", plainly, 8, "%d", func(m *mad.REP) *uint8 { return &m.InitiatorDepth }),
	numberField("rnr", plainly, 3, "%d", func(m *mad.REP) *uint8 { return &m.RNRRetryCount }),
	numberField("ack_delay", plainly, 5, "%d", func(m *mad.REP) *uint8 { return &m.TargetAckDelay }),
	codeField("failover", unusual, mad.FailoverRejected, func(m *mad.REP) *mad.Failover { return &m.FailoverAccepted }),
	flagField("srq", plainly, func(m *mad.REP) *bool { return &m.SRQ }),
	flagField("flow_control", plainly, func(m *mad.REP) *bool { return &m.EndToEndFlowControl }),
	numberField("guid", unusual, 64, "%#x", func(m *mad.REP) *uint64 { return &m.LocalCAGUID }),
	numberField("qkey", unusual, 32, "%#x", func(m *mad.REP) *ib.QKey { return &m.LocalQKey }),
	numberField("vendor", unusual, 24, "%#x", func(m *mad.REP) *uint32 { return &m.VendorID }),
	dataField(func(m *mad.REP) []byte { return m.PrivateData[:] }),
}

var mraFields = []field[mad.MRA]{
	idField("comm", peerID, func(m *mad.MRA) *uint32 { return &m.LocalCommID }),
	idField("remote", ourID, func(m *mad.MRA) *uint32 { return &m.RemoteCommID }),
	enumField("message", always, mad.WhichOther, func(m *mad.MRA) *mad.Which { return &m.Message }),
	numberField("timeout", telling, 5, "%d", func(m *mad.MRA) *uint8 { return &m.ServiceTimeout }),
	dataField(func(m *mad.MRA) []byte { return m.PrivateData[:] }),
}

var rejFields = slices.Concat([]field[mad.REJ]{
	idField("comm", peerID, func(m *mad.REJ) *uint32 { return &m.LocalCommID }),
	idField("remote", ourID, func(m *mad.REJ) *uint32 { return &m.RemoteCommID }),
	enumField("message", always, mad.WhichOther, func(m *mad.REJ) *mad.Which { return &m.Message }),
	codeField("reason", always, mad.RejVendorOptionUnsupported, func(m *mad.REJ) *mad.RejReason { return &m.Reason }),
},
	infoFields(7, func(m *mad.REJ) []byte { return m.Info[:] }, func(m *mad.REJ) *uint8 { return &m.InfoLength }),
	[]field[mad.REJ]{dataField(func(m *mad.REJ) []byte { return m.PrivateData[:] })})

var rtuFields = []field[mad.RTU]{
	idField("comm", peerID, func(m *mad.RTU) *uint32 { return &m.LocalCommID }),
	idField("remote", ourID, func(m *mad.RTU) *uint32 { return &m.RemoteCommID }),
	dataField(func(m *mad.RTU) []byte { return m.PrivateData[:] }),
}

var dreqFields = []field[mad.DREQ]{
	idField("comm", peerID, func(m *mad.DREQ) *uint32 { return &m.LocalCommID }),
	idField("remote", ourID, func(m *mad.DREQ) *uint32 { return &m.RemoteCommID }),
	endField("remote_qp", func(m *mad.DREQ) *ib.QPN { return &m.RemoteQPN }),
	dataField(func(m *mad.DREQ) []byte { return m.PrivateData[:] }),
}

var drepFields = []field[mad.DREP]{
	idField("comm", peerID, func(m *mad.DREP) *uint32 { return &m.LocalCommID }),
	idField("remote", ourID, func(m *mad.DREP) *uint32 { return &m.RemoteCommID }),
	dataField(func(m *mad.DREP) []byte { return m.PrivateData[:] }),
}

var sidrReqFields = []field[mad.SIDRREQ]{
	idField("request", peerID, func(m *mad.SIDRREQ) *uint32 { return &m.RequestID }),
	serviceField(func(m *mad.SIDRREQ) *mad.ServiceID { return &m.ServiceID }),
	numberField("pkey", unusual, 16, "%#x", func(m *mad.SIDRREQ) *ib.PKey { return &m.PKey }),
	dataField(func(m *mad.SIDRREQ) []byte { return m.PrivateData[:] }),
}

var sidrRepFields = slices.Concat([]field[mad.SIDRREP]{
	idField("request", ourID, func(m *mad.SIDRREP) *uint32 { return &m.RequestID }),
	serviceField(func(m *mad.SIDRREP) *mad.ServiceID { return &m.ServiceID }),
	codeField("status", always, mad.SIDRUnsupportedVersion, func(m *mad.SIDRREP) *mad.SIDRStatus { return &m.Status }),
	qpField("qp", telling, func(m *mad.SIDRREP) *ib.QPN { return &m.QPN }),
	numberField("qkey", telling, 32, "%#x", func(m *mad.SIDRREP) *ib.QKey { return &m.QKey }),
	numberField("vendor", unusual, 24, "%#x", func(m *mad.SIDRREP) *uint32 { return &m.VendorID }),
},
	infoFields(8, func(m *mad.SIDRREP) []byte { return m.Info[:] }, func(m *mad.SIDRREP) *uint8 { return &m.InfoLength }),
	[]field[mad.SIDRREP]{dataField(func(m *mad.SIDRREP) []byte { return m.PrivateData[:] })})

var lapFields = slices.Concat([]field[mad.LAP]{
	idField("comm", peerID, func(m *mad.LAP) *uint32 { return &m.LocalCommID }),
	idField("remote", ourID, func(m *mad.LAP) *uint32 { return &m.RemoteCommID }),
	endField("remote_qp", func(m *mad.LAP) *ib.QPN { return &m.RemoteQPN }),
	numberField("timeout", unusual, 5, "%d", func(m *mad.LAP) *uint8 { return &m.RemoteResponseTimeout }),
},
	pathFields("", func(m *mad.LAP) *mad.Path { return &m.Alternate }),
	[]field[mad.LAP]{dataField(func(m *mad.LAP) []byte { return m.PrivateData[:] })})

var aprFields = slices.Concat([]field[mad.APR]{
	idField("comm", peerID, func(m *mad.APR) *uint32 { return &m.LocalCommID }),
	idField("remote", ourID, func(m *mad.APR) *uint32 { return &m.RemoteCommID }),
	codeField("status", always, mad.APRInvalidSL, func(m *mad.APR) *mad.APRStatus { return &m.Status }),
},
	infoFields(8, func(m *mad.APR) []byte { return m.Info[:] }, func(m *mad.APR) *uint8 { return &m.InfoLength }),
	[]field[mad.APR]{dataField(func(m *mad.APR) []byte { return m.PrivateData[:] })})

// pathFields are the fields of a path, their names with a prefix.
func pathFields[M any](prefix string, at func(*M) *mad.Path) []field[M] {
	return []field[M]{
		gidField(prefix+"gid", func(m *M) *ib.GID { return &at(m).LocalGID }),
		gidField(prefix+"remote_gid", func(m *M) *ib.GID { return &at(m).RemoteGID }),
		numberField(prefix+"ack_timeout", plainly, 5, "%d", func(m *M) *uint8 { return &at(m).LocalAckTimeout }),
		numberField(prefix+"flow_label", plainly, 20, "%#x", func(m *M) *uint32 { return &at(m).FlowLabel }),
		numberField(prefix+"traffic_class", plainly, 8, "%d", func(m *M) *uint8 { return &at(m).TrafficClass }),
		numberField(prefix+"hop_limit", unusual, 8, "%d", func(m *M) *uint8 { return &at(m).HopLimit }),
		numberField(prefix+"sl", plainly, 4, "%d", func(m *M) *uint8 { return &at(m).SL }),
		numberField(prefix+"rate", plainly, 6, "%d", func(m *M) *uint8 { return &at(m).PacketRate }),
		numberField(prefix+"lid", unusual, 16, "%#x", func(m *M) *uint16 { return &at(m).LocalLID }),
		numberField(prefix+"remote_lid", unusual, 16, "%#x", func(m *M) *uint16 { return &at(m).RemoteLID }),
		flagField(prefix+"subnet_local", unusual, func(m *M) *bool { return &at(m).SubnetLocal }),
	}
}

func serviceField[M any](at func(*M) *mad.ServiceID) field[M] {
	return field[M]{
		name: "service", shown: plainly,
		set:  func(_ *world, m *M, s string) (err error) { *at(m), err = parseService(s); return err },
		show: func(_ *world, m *M) string { return at(m).String() },
	}
}

// parseService reads a service: tcp:PORT, udp:PORT, ib:PORT, ipoib:PORT, rd:PORT,
// or a service ID as a number.
func parseService(s string) (mad.ServiceID, error) {
	space, port, ok := strings.Cut(s, ":")
	if !ok {
		v, err := strconv.ParseUint(s, 0, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is no service: want tcp:PORT, udp:PORT, ib:PORT, ipoib:PORT, rd:PORT or a number", s)
		}
		return mad.ServiceID(v), nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("%q is no port", port)
	}
	ps, err := choose("port space", space, []mad.PortSpace{mad.PSTCP, mad.PSUDP, mad.PSIB, mad.PSIPoIB, mad.PSRD})
	return mad.IPServiceID(ps, uint16(n)), err
}

package mad

import (
	"fmt"
	"strings"
)

// SummarySize is how many bytes of a datagram Summary reads: up to the path
// of a REQ.
const SummarySize = HeaderSize + 52

// Summary returns the beginning of what Describe does: the name of a message
// of the communication manager and what tells it from others, its IDs among
// it, such as "REQ comm 0x198a00ac service tcp:7472 qp 0x0000f7 psn 36e49f".
// It is for traces, which keep the beginning of a packet only.
func Summary(first *[SummarySize]byte) string {
	var m MAD
	copy(m[:], first[:])
	var b strings.Builder
	h := m.Header()
	if !h.IsCM() {
		describeHeader(&b, &h)
		return b.String()
	}
	summarize(&b, &m, h.AttrID)
	return b.String()
}

// summarize writes the name and the fields in the first SummarySize bytes that
// matter most.
func summarize(b *strings.Builder, m *MAD, attr AttrID) {
	b.WriteString(attr.String())
	switch attr {
	case AttrREQ:
		r := decoded[REQ](m)
		fmt.Fprintf(b, " comm %s service %v qp %v psn %v", hexText(uint64(r.LocalCommID), 8), r.ServiceID, r.LocalQPN, r.StartingPSN)
	case AttrSIDRREQ:
		r := decoded[SIDRREQ](m)
		fmt.Fprintf(b, " request %s service %v pkey %s", hexText(uint64(r.RequestID), 8), r.ServiceID, hexText(uint64(r.PKey), 4))
	case AttrSIDRREP:
		r := decoded[SIDRREP](m)
		fmt.Fprintf(b, " request %s service %v status %d (%v) qp %v qkey %s", hexText(uint64(r.RequestID), 8), r.ServiceID,
			uint8(r.Status), r.Status, r.QPN, hexText(uint64(r.QKey), 8))
	default:
		r := decoded[RTU](m) // begins as all the others do
		fmt.Fprintf(b, " comm %s remote %s", hexText(uint64(r.LocalCommID), 8), hexText(uint64(r.RemoteCommID), 8))
		summarizeConnected(b, m, attr)
	}
}

// summarizeConnected writes what follows both IDs.
func summarizeConnected(b *strings.Builder, m *MAD, attr AttrID) {
	switch attr {
	case AttrMRA:
		r := decoded[MRA](m)
		fmt.Fprintf(b, " message %v service timeout %d", r.Message, r.ServiceTimeout)
	case AttrREJ:
		r := decoded[REJ](m)
		fmt.Fprintf(b, " message %v reason %d (%v)", r.Message, uint16(r.Reason), r.Reason)
	case AttrREP:
		r := decoded[REP](m)
		fmt.Fprintf(b, " qp %v psn %v", r.LocalQPN, r.StartingPSN)
	case AttrDREQ:
		r := decoded[DREQ](m)
		fmt.Fprintf(b, " remote qp %v", r.RemoteQPN)
	case AttrLAP:
		r := decoded[LAP](m)
		fmt.Fprintf(b, " remote qp %v", r.RemoteQPN)
	case AttrAPR:
		r := decoded[APR](m)
		fmt.Fprintf(b, " status %d (%v)", uint8(r.Status), r.Status)
	}
}

package mad

import (
	"bytes"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/softhca/softhca/ib"
)

// Describe returns a readable line about m, such as "RTU comm 0x198a00ac remote
// 0x38566c6b", without a line end. It accepts any bytes and shows them without
// judging them.
func Describe(m *MAD) string {
	var b strings.Builder
	h := m.Header()
	if !h.IsCM() {
		describeHeader(&b, &h)
		return b.String()
	}
	summarize(&b, m, h.AttrID)
	describeMessage(&b, m, h.AttrID)
	if h.Status != StatusOK {
		fmt.Fprintf(&b, " status %v", h.Status)
	}
	if h.AttrMod != 0 {
		fmt.Fprintf(&b, " modifier %s", hexText(uint64(h.AttrMod), 8))
	}
	return b.String()
}

// IsCM reports whether the data is one of the messages of the communication
// manager in the layout that this package knows: AttrID then says which.
func (h *Header) IsCM() bool {
	return h.BaseVersion == BaseVersion && h.Class == ClassCM && h.ClassVersion == CMClassVersion &&
		h.Method == MethodSend && h.AttrID >= AttrREQ && h.AttrID <= AttrAPR
}

// hexText returns 0x and at least the given number of hexadecimal digits.
func hexText(v uint64, digits int) string { return fmt.Sprintf("0x%0*x", digits, v) }

// describeHeader shows a datagram whose data has an unknown layout.
func describeHeader(b *strings.Builder, h *Header) {
	attr := hexText(uint64(h.AttrID), 4)
	if h.Class == ClassCM || h.AttrID == AttrClassPortInfo {
		attr = h.AttrID.String()
	}
	fmt.Fprintf(b, "MAD class %v version %d.%d method %v attribute %s modifier %s status %v tid %s",
		h.Class, h.BaseVersion, h.ClassVersion, h.Method, attr, hexText(uint64(h.AttrMod), 8), h.Status, hexText(h.TID, 16))
}

// decoded returns the message that is in the data of m.
func decoded[T any, P interface {
	*T
	Decode(*MAD)
}](m *MAD) *T {
	r := new(T)
	P(r).Decode(m)
	return r
}

// describeMessage writes what summarize leaves out.
func describeMessage(b *strings.Builder, m *MAD, attr AttrID) {
	switch attr {
	case AttrREQ:
		describeREQ(b, decoded[REQ](m))
	case AttrMRA:
		describePrivate(b, decoded[MRA](m).PrivateData[:])
	case AttrREJ:
		r := decoded[REJ](m)
		describeInfo(b, &r.Info, r.InfoLength)
		describePrivate(b, r.PrivateData[:])
	case AttrREP:
		describeREP(b, decoded[REP](m))
	case AttrRTU:
		describePrivate(b, decoded[RTU](m).PrivateData[:])
	case AttrDREQ:
		describePrivate(b, decoded[DREQ](m).PrivateData[:])
	case AttrDREP:
		describePrivate(b, decoded[DREP](m).PrivateData[:])
	case AttrSIDRREQ:
		r := decoded[SIDRREQ](m)
		describeService(b, r.ServiceID, r.PrivateData[:])
	case AttrSIDRREP:
		r := decoded[SIDRREP](m)
		describeInfo(b, &r.Info, r.InfoLength)
		describeVendor(b, r.VendorID)
		describePrivate(b, r.PrivateData[:])
	case AttrLAP:
		r := decoded[LAP](m)
		fmt.Fprintf(b, " ack timeout %d", r.Alternate.LocalAckTimeout)
		describePath(b, " alternate", &r.Alternate)
		describePrivate(b, r.PrivateData[:])
	case AttrAPR:
		r := decoded[APR](m)
		describeInfo(b, &r.Info, r.InfoLength)
		describePrivate(b, r.PrivateData[:])
	}
}

func describeREQ(b *strings.Builder, r *REQ) {
	fmt.Fprintf(b, " %s", transportText(r))
	describeChannel(b, r)
	fmt.Fprintf(b, " pkey %s mtu %s", hexText(uint64(r.PKey), 4), mtuText(r.PathMTU))
	fmt.Fprintf(b, " resources %d depth %d retry %d rnr %d ack timeout %d", r.ResponderResources, r.InitiatorDepth,
		r.RetryCount, r.RNRRetryCount, r.Primary.LocalAckTimeout)
	h, ok := r.ServiceID.IPHeader(r.PrivateData[:])
	if !ok || r.Primary.LocalGID.Addr() != h.SrcAddr || r.Primary.RemoteGID.Addr() != h.DstAddr {
		describePath(b, " path", &r.Primary)
	}
	if r.Alternate != (Path{}) {
		describePath(b, " alternate", &r.Alternate)
	}
	describeVendor(b, r.VendorID)
	describeService(b, r.ServiceID, r.PrivateData[:])
}

func describeREP(b *strings.Builder, r *REP) {
	if r.LocalEECN != 0 {
		fmt.Fprintf(b, " eecn %v", ib.QPN(r.LocalEECN))
	}
	fmt.Fprintf(b, " resources %d depth %d rnr %d ack delay %d", r.ResponderResources, r.InitiatorDepth,
		r.RNRRetryCount, r.TargetAckDelay)
	if r.FailoverAccepted != FailoverAccepted {
		fmt.Fprintf(b, " failover %v", r.FailoverAccepted)
	}
	describeVendor(b, r.VendorID)
	describePrivate(b, r.PrivateData[:])
}

// describeChannel shows the channel fields of a REQ for reliable datagrams.
func describeChannel(b *strings.Builder, r *REQ) {
	if r.Transport != TransportRD {
		return
	}
	fmt.Fprintf(b, " eecn %v", ib.EECN(r.LocalEECN))
	if r.RDCExists {
		fmt.Fprintf(b, " of a channel to eecn %v", ib.EECN(r.RemoteEECN))
	}
	fmt.Fprintf(b, " qkey %s", hexText(uint64(r.LocalQKey), 8))
}

// transportText returns the name of the service of a REQ; an extended one is
// XRC or a number.
func transportText(r *REQ) string {
	switch {
	case r.Transport != TransportExtended:
		return r.Transport.String()
	case r.ExtendedTransport == ExtendedXRC:
		return "XRC"
	default:
		return fmt.Sprintf("extended %d", r.ExtendedTransport)
	}
}

func mtuText(m ib.MTU) string {
	if !m.Valid() {
		return fmt.Sprintf("code %d", uint8(m))
	}
	return fmt.Sprint(m.Bytes())
}

func describePath(b *strings.Builder, what string, p *Path) {
	fmt.Fprintf(b, "%s %v > %v", what, p.LocalGID.Addr(), p.RemoteGID.Addr())
}

func describeVendor(b *strings.Builder, id uint32) {
	if id != 0 {
		fmt.Fprintf(b, " vendor %s", hexText(uint64(id), 6))
	}
}

// describeService shows the private data of a REQ or a SIDR_REQ: its IP
// header, if there is one, and the rest.
func describeService(b *strings.Builder, id ServiceID, data []byte) {
	if h, ok := id.IPHeader(data); ok {
		fmt.Fprintf(b, " from %v to %v", netip.AddrPortFrom(h.SrcAddr, h.SrcPort), h.DstAddr)
		data = data[IPHeaderSize:]
	}
	describePrivate(b, data)
}

// describeInfo shows additional information as bytes if it is as short as a
// GUID or a GID, otherwise its length.
func describeInfo(b *strings.Builder, info *[InfoSize]byte, length uint8) {
	switch {
	case length == 0:
	case length <= 16:
		fmt.Fprintf(b, " info %x", info[:length])
	default:
		fmt.Fprintf(b, " info %d bytes", length)
	}
}

// describePrivate shows how long private data is without the zeros at its
// end: the field itself always has its full length.
func describePrivate(b *strings.Builder, data []byte) {
	if data = bytes.TrimRight(data, "\x00"); len(data) > 0 {
		fmt.Fprintf(b, " private %d bytes", len(data))
	}
}

// name returns the entry of a table of names, or the number after kind for a
// value that has no name.
func name(names []string, v int, kind string) string {
	if v < len(names) && names[v] != "" {
		return names[v]
	}
	return kind + "(" + strconv.Itoa(v) + ")"
}

// hexName is name for enumerations with gaps, whose numbers are written in
// hexadecimal.
func hexName[V ~uint8 | ~uint16](names map[V]string, v V, kind string) string {
	if s, ok := names[v]; ok {
		return s
	}
	return kind + "(0x" + strconv.FormatUint(uint64(v), 16) + ")"
}

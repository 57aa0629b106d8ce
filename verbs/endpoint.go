package verbs

import (
	"bytes"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
)

// Endpoint is one end of a connection: the queue pair, the PSN of its first
// packet, and its address. Two programs that connect without package rdmacm exchange
// their endpoints, over TCP for example, and call QP.Connect. The text form, which
// is also used in JSON, looks like this:
//
//	qpn=0x00002a psn=0x5a3c01 gid=10.0.0.1
type Endpoint struct {
	QPN QPN
	PSN PSN // of its first packet: its SQPSN, and the peer's RQPSN
	GID GID
}

// endpointText is the maximum length of a text to read, more than any endpoint has.
const endpointText = 128

// Endpoint returns the queue pair's end of a connection, for the peer: psn is the
// PSN of the first packet, such as RandomPSN(), and gidIndex an entry of the
// adapter's GID table (Context.GIDIndex). EINVAL for a queue pair that is nil or
// destroyed, and for an entry that is empty.
func (q *QP) Endpoint(psn PSN, gidIndex int) (Endpoint, error) {
	if err := q.object().Usable(device.ErrNoQP); err != nil {
		return Endpoint{}, wrap("endpoint of QP", err)
	}
	gid := q.dev.HCA.GID(gidIndex)
	if gid.IsZero() {
		return Endpoint{}, fmt.Errorf("endpoint of QP %v: the port has no GID with index %d: %w", q.QPN(), gidIndex, ib.EINVAL)
	}
	return Endpoint{QPN: q.QPN(), PSN: psn, GID: gid}, nil
}

// Connected returns attr with the peer's QPN, GID and first PSN and the own first
// PSN filled in, for ModifyToRTS, and with a hop limit of 64 and port 1 where attr
// has none. It does not set the own GID index, which Connect finds.
func (e Endpoint) Connected(peer Endpoint, attr QPAttr) QPAttr {
	attr.DestQPN, attr.RQPSN, attr.SQPSN, attr.AV.DGID = peer.QPN, peer.PSN, e.PSN, peer.GID
	if attr.AV.HopLimit == 0 {
		attr.AV.HopLimit = 64
	}
	if attr.AV.Port == 0 {
		attr.AV.Port = 1
	}
	if attr.Port == 0 {
		attr.Port = 1
	}
	return attr
}

// ConnectionAttr returns attributes that suit most RC and UC connections, for
// Connect: a path MTU of 1024 bytes, which every Ethernet link carries; an ACK
// timeout of 67 ms; 7 retries; RNR retries without limit, 0.64 ms apart; up to 16
// READs and atomics outstanding in each direction; and every right of a peer, so
// that the access flags of the MRs decide.
func ConnectionAttr() QPAttr {
	return QPAttr{
		AccessFlags: AccessRemote | AccessFlush, PathMTU: MTU1024, Port: 1, Timeout: 14, RetryCnt: 7, RNRRetry: ib.RNRInfiniteRetry, MinRNRTimer: 12,
		MaxRDAtomic: 16, MaxDestRDAtomic: 16,
	}
}

// Connect connects the queue pair, which is in RESET, to the peer: it moves it to
// RTS, as ModifyToRTS does, with own.Connected(peer, attr) and the GID index of
// own. Both sides need the same path MTU. EINVAL if own is not an Endpoint of this
// queue pair.
func (q *QP) Connect(own, peer Endpoint, attr QPAttr) error {
	if err := q.object().Usable(device.ErrNoQP); err != nil {
		return wrap("connect QP", err)
	}
	if own.QPN != q.QPN() {
		return fmt.Errorf("connect QP %v: the local endpoint belongs to QP %v: %w", q.QPN(), own.QPN, ib.EINVAL)
	}
	for i := 0; ; i++ {
		switch gid := q.dev.HCA.GID(i); gid {
		case GID{}:
			return fmt.Errorf("connect QP %v: %v is not an address of its adapter: %w", q.QPN(), own.GID.Addr(), ib.EINVAL)
		case own.GID:
			attr.AV.SGIDIndex = uint8(i)
			return q.ModifyToRTS(own.Connected(peer, attr))
		}
	}
}

// String returns the endpoint as text.
func (e Endpoint) String() string {
	return fmt.Sprintf("qpn=%v psn=%v gid=%v", e.QPN, e.PSN, e.GID.Addr())
}

// MarshalText returns the endpoint as text. It never fails.
func (e Endpoint) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads the form that MarshalText writes, with the parts in any order;
// numbers may also be decimal. On an error, which names the wrong part, e is unchanged.
func (e *Endpoint) UnmarshalText(text []byte) error {
	if e == nil {
		return fmt.Errorf("no endpoint to read into: %w", ib.EINVAL)
	}
	if len(text) > endpointText {
		return fmt.Errorf("endpoint of %d bytes: want at most %d: %w", len(text), endpointText, ib.EINVAL)
	}
	var read Endpoint
	seen := map[string]bool{}
	for part := range bytes.FieldsSeq(text) {
		name, value, _ := strings.Cut(string(part), "=")
		if seen[name] {
			return fmt.Errorf("endpoint: %s is given twice: %w", name, ib.EINVAL)
		}
		seen[name] = true
		if err := read.set(name, value); err != nil {
			return err
		}
	}
	for _, name := range []string{"qpn", "psn", "gid"} {
		if !seen[name] {
			return fmt.Errorf("endpoint %q has no %s=; an example is %v: %w", text, name,
				Endpoint{0x2a, NewPSN(0x5a3c01), GIDFromAddr(netip.AddrFrom4([4]byte{10, 0, 0, 1}))}, ib.EINVAL)
		}
	}
	*e = read
	return nil
}

// set reads one part of the text.
func (e *Endpoint) set(name, value string) error {
	switch name {
	case "qpn", "psn":
		n, err := strconv.ParseUint(value, 0, 24)
		if err != nil {
			return fmt.Errorf("endpoint: %s=%q: want a number of up to 24 bits: %w", name, value, ib.EINVAL)
		}
		if name == "qpn" {
			e.QPN = QPN(n)
		} else {
			e.PSN = NewPSN(uint32(n))
		}
	case "gid":
		a, err := netip.ParseAddr(value)
		if err != nil || a.Zone() != "" {
			return fmt.Errorf("endpoint: gid=%q: want an IP address without a zone: %w", value, ib.EINVAL)
		}
		e.GID = GIDFromAddr(a)
	default:
		return fmt.Errorf("endpoint: %q: want qpn=, psn= and gid=: %w", name, ib.EINVAL)
	}
	return nil
}

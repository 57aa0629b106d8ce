package judge

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/script"
	"github.com/softhca/softhca/roce"
)

// maxHex bounds the bytes of a packet in the evidence: all headers, and some
// payload.
const maxHex = 64

func hexOf(b []byte) string {
	if len(b) > maxHex {
		return hex.EncodeToString(b[:maxHex]) + fmt.Sprintf("... (%d bytes)", len(b))
	}
	return hex.EncodeToString(b)
}

// edits describes the edits that make a packet malformed beyond its fields.
func edits(in *script.Injection) string {
	var s string
	b := &in.Packet.BTH
	if b.TVer != 0 {
		s += fmt.Sprintf(" tver=%d", b.TVer)
	}
	if in.Pad >= 0 {
		s += fmt.Sprintf(" pad=%d", in.Pad)
	}
	if in.Cut > 0 {
		s += fmt.Sprintf(" cut=%d", in.Cut)
	}
	if in.Raw != nil {
		s += fmt.Sprintf(" raw=%x", in.Raw)
	}
	if in.Corrupt >= 0 {
		s += fmt.Sprintf(" corrupt=%d", in.Corrupt)
	}
	return s
}

// samePacket compares the fields that the architecture determines. It leaves
// out AckReq, which a requester sets where it likes, credits, which a responder
// may withhold, and MigReq, which shows the adapter's migration state.
func samePacket(a, b *roce.Packet, msn bool) bool {
	if a.BTH.Opcode != b.BTH.Opcode || a.BTH.PSN != b.BTH.PSN || a.BTH.PKey != b.BTH.PKey || a.BTH.SE != b.BTH.SE {
		return false
	}
	has := func(h roce.Headers) bool { return a.Info.Headers&h != 0 }
	switch {
	case has(roce.HasDETH) && (a.DETH.QKey != b.DETH.QKey || a.BTH.DestQP != b.BTH.DestQP):
	case has(roce.HasRETH) && a.RETH != b.RETH:
	case has(roce.HasAtomicETH) && a.AtomicETH != b.AtomicETH:
	case has(roce.HasAETH) && !sameSyndrome(a.AETH.Syndrome, b.AETH.Syndrome):
	case has(roce.HasAETH) && msn && a.AETH.MSN != b.AETH.MSN:
	case has(roce.HasAtomicAckETH) && a.AtomicAck != b.AtomicAck:
	case has(roce.HasImmDt) && a.Imm != b.Imm:
	case has(roce.HasIETH) && a.InvRKey != b.InvRKey:
	case !bytes.Equal(a.Payload, b.Payload):
	default:
		return true
	}
	return false
}

func sameSyndrome(a, b roce.Syndrome) bool { return a == b || a.IsACK() && b.IsACK() }

// thin removes acknowledgements that a later answer makes superfluous: a
// responder may coalesce them.
func thin(list []*roce.Packet) []*roce.Packet {
	var out []*roce.Packet
	for i, p := range list {
		if !plainACK(p) || !slices.ContainsFunc(list[i+1:], func(l *roce.Packet) bool {
			return l.Info.Flags&roce.FlagResponse != 0 && l.BTH.PSN.Diff(p.BTH.PSN) >= 0
		}) {
			out = append(out, p)
		}
	}
	return out
}

func plainACK(p *roce.Packet) bool { return p.Info.Kind == roce.KindAck && p.AETH.Syndrome.IsACK() }

// verdict is how two lists compare.
type verdict uint8

const (
	equal   verdict = iota
	missing         // all that came is right, but something is missing
	surplus         // all that was expected came, and more
	other
)

// streams splits the packets of a queue pair into those of its requester and
// those of its responder. The order between the two is not determined.
func streams(list []*roce.Packet) (out [2][]*roce.Packet) {
	for _, p := range list {
		which := 0
		if p.Info.Flags&roce.FlagResponse != 0 {
			which = 1
		}
		out[which] = append(out[which], p)
	}
	return out
}

// comparison is the result of comparing a queue pair's packets, and the stream with
// the first difference.
type comparison struct {
	verdict   verdict
	at        int
	want, got []*roce.Packet
}

// comparePackets compares both streams and returns the one with the worst
// difference.
func comparePackets(want, got []*roce.Packet, msn bool) comparison {
	w, g := streams(want), streams(got)
	var out comparison
	for i := range w {
		p := comparison{want: thin(w[i]), got: thin(g[i])}
		if p.verdict, p.at = compareStream(p.want, p.got, msn); p.verdict > out.verdict {
			out = p
		}
	}
	return out
}

// compareStream compares lists from the first to the last packet; at is the
// index of the first difference.
func compareStream(want, got []*roce.Packet, msn bool) (v verdict, at int) {
	for at < len(want) && at < len(got) {
		if !samePacket(want[at], got[at], msn) {
			// An acknowledgement below the expected PSN is no difference: another
			// will follow.
			if plainACK(got[at]) && at == len(got)-1 && want[at].BTH.PSN.Diff(got[at].BTH.PSN) > 0 {
				return missing, at
			}
			return other, at
		}
		at++
	}
	switch {
	case at < len(want):
		return missing, at
	case at < len(got):
		return surplus, at
	}
	return equal, at
}

// packetsOf are the packets that a step expects of a queue pair.
func packetsOf(st *script.PlayStep, qp string) []*roce.Packet {
	var out []*roce.Packet
	for i := range st.Packets {
		if st.Packets[i].QP != qp {
			continue
		}
		p := new(roce.Packet)
		if p.Parse(bytes.Clone(st.Packets[i].Bytes)) == roce.FaultNone {
			out = append(out, p)
		}
	}
	return out
}

func (p *pair) got() []*roce.Packet {
	var out []*roce.Packet
	for i := range p.packets {
		out = append(out, &p.packets[i].packet)
	}
	return out
}

// showAll writes a list of packets, of long ones the part around the first
// difference.
func (s *stage) showAll(list []*roce.Packet, at int) string {
	const around = 3
	if len(list) == 0 {
		return "nothing"
	}
	var b strings.Builder
	for i, p := range list {
		if i < at-around || i > at+around {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(" | ")
		}
		b.WriteString(s.show(p))
	}
	if n := len(list); n > 2*around {
		fmt.Fprintf(&b, " | (%d packets)", n)
	}
	return b.String()
}

// wcsOf are the completions that a step expects of a queue pair.
func wcsOf(st *script.PlayStep, qp string) []ib.WC {
	var out []ib.WC
	for _, c := range st.Completions {
		if c.QP == qp {
			out = append(out, c.WC)
		}
	}
	return out
}

// showWCs writes completions: sends and receives apart, each in their order. The
// order between the two is the adapter's choice.
func (p *pair) showWCs(list []ib.WC) string {
	var lines [3][]string
	for i := range list {
		which, id := 0, list[i].WRID
		if p.sends[id] && p.recvs[id] {
			which = 2 // an error does not show which of the two it is
		} else if !p.sends[id] {
			which = 1
		}
		lines[which] = append(lines[which], showWC(&list[i], p.Type == ib.UD))
	}
	slices.Sort(lines[2])
	all := slices.Concat(lines[:]...)
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, " | ")
}

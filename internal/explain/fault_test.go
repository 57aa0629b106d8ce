package explain

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/capture"
	"github.com/softhca/softhca/internal/fabric/pipe"
	"github.com/softhca/softhca/internal/fault"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/roce"
)

// wire is a port with faults and a capture, as adapters open it, and the port at
// the other end.
type wire struct {
	t    *testing.T
	near *capture.Port
	far  fabric.Port
	now  clock.Instant
	file bytes.Buffer
}

func newWire(t *testing.T, rule string) *wire {
	t.Helper()
	parsed, err := fault.Parse(rule)
	must.Do(t, err)
	n := pipe.NewNetwork(pipe.Options{})
	inner, err := n.Port(netip.MustParseAddr("10.0.0.1"))
	must.Do(t, err)
	w := &wire{t: t}
	if w.far, err = n.Port(netip.MustParseAddr("10.0.0.2")); err != nil {
		t.Fatal(err)
	}
	faulty := fault.Wrap(inner, fault.Config{
		Rules: []*fault.Live{fault.NewLive(parsed[0], 1, 0)}, Now: func() clock.Instant { return w.now },
		Mark: func(m *fault.Mark) {
			if m.Dir == fault.In && (m.Lost || m.Changed) {
				w.near.Arrived(&fabric.Datagram{Src: m.Src, Dst: m.Dst, SrcPort: m.SrcPort, DstPort: fabric.RoCEPort, Bytes: m.Bytes}, m.Text, m.Before)
				return
			}
			w.near.Note(m.Bytes, m.Text)
		},
	})
	clock := func() time.Time { return time.Unix(1, int64(w.now)) }
	if w.near, err = capture.Wrap(faulty, &w.file, capture.Options{Clock: clock}); err != nil {
		t.Fatal(err)
	}
	return w
}

// send sends a packet from one port, and has the other receive it.
func (w *wire) send(from, to fabric.Port, p *roce.Packet) {
	w.t.Helper()
	path := fabric.Path{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), SrcPort: 0xc000, HopLimit: 64}
	if from == w.far {
		path.Src, path.Dst = path.Dst, path.Src
	}
	b := fabric.NewBatch(1<<16, from.Caps())
	seg, id := b.Append(&path, roce.Size(p.BTH.Opcode, len(p.Payload)))
	p.Build(seg)
	roce.Seal(seg, roce.NewPrefix(path.Src, path.Dst, path.SrcPort, fabric.RoCEPort, len(seg)).WithID(uint16(id)))
	must.Do(w.t, from.Send(b))
	if _, err := to.Receive(make([]fabric.Datagram, 4)); err != nil {
		w.t.Fatal(err)
	}
}

// TestFaultsLeaveMarks captures a SEND and its acknowledgement at a port with a
// fault, and the repeat of both: the capture says which rule did it, and the verdict
// repeats that.
func TestFaultsLeaveMarks(t *testing.T) {
	for _, c := range []struct{ rule, finding, asked string }{
		{"drop nth=1 op=SEND_ONLY dir=out", "timeout-repeat", "record 1, RC_SEND_ONLY: lost by rule 'drop nth=1 op=SEND_ONLY dir=out'"},
		{"drop nth=1 op=ACK dir=in", "answer-lost", "record 2, RC_ACKNOWLEDGE: lost by rule 'drop nth=1 op=ACK dir=in'"},
		{"corrupt byte=13 nth=1 op=ACK dir=in", "icrc-damaged", "record 2, RC_ACKNOWLEDGE: changed by rule 'corrupt byte=13 nth=1 op=ACK dir=in'"},
		{"corrupt byte=13 nth=1 op=SEND_ONLY dir=out", "timeout-repeat", "record 1, RC_SEND_ONLY: changed by rule 'corrupt byte=13 nth=1 op=SEND_ONLY dir=out'"},
	} {
		w := newWire(t, c.rule)
		request := func() {
			w.send(w.near, w.far, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, 7), Payload: []byte("sent")})
		}
		answer := func() {
			w.send(w.far, w.near, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, 7), AETH: roce.AETH{Syndrome: roce.ACKUnlimited, MSN: 1}})
		}
		request()
		if !strings.Contains(c.rule, "dir=out") {
			w.now += clock.Instant(time.Millisecond)
			answer()
		}
		w.now += clock.Instant(100 * time.Millisecond)
		request()
		w.now += clock.Instant(time.Millisecond)
		answer()
		must.Do(t, w.near.Close())
		r, err := Read(&w.file, Config{})
		must.Do(t, err)
		if r.Verdict.Fault != c.asked || !strings.Contains(names(r), c.finding) || !strings.Contains(names(r), table[faultAsked].Name) {
			t.Errorf("%s: asked for %q, found %s", c.rule, r.Verdict.Fault, names(r))
		}
	}
}

// TestRuleLosesForGood has a rule lose what nobody repeats: a message is gone, and that
// is the verdict.
func TestRuleLosesForGood(t *testing.T) {
	for _, op := range []roce.Opcode{roce.UCSendOnly, roce.UDSendOnly} {
		w := newWire(t, "drop nth=1 dir=out")
		for psn := range uint32(2) {
			w.send(w.near, w.far, &roce.Packet{BTH: bth(op, 0x22, psn), Payload: []byte("sent")})
		}
		must.Do(t, w.near.Close())
		r, err := Read(&w.file, Config{})
		must.Do(t, err)
		if r.Verdict.Outcome != "lost" || r.Verdict.Cause != "fault-lost-message" || !strings.Contains(r.Verdict.Fault, "lost by rule 'drop nth=1 dir=out'") {
			t.Errorf("%v: %+v", op, r.Verdict)
		}
	}
}

// TestSpoiltAnswers has a rule do something to the last answer: whether its requester
// gets it the capture tells only if the rule leaves it as it is.
func TestSpoiltAnswers(t *testing.T) {
	for _, c := range []struct {
		rule     string
		syndrome roce.Syndrome
		want     string
	}{
		{"drop nth=1 op=ACK dir=in", roce.ACKUnlimited, "unknown answer-spoilt"},
		{"dup nth=1 op=ACK dir=in", roce.ACKUnlimited, "repaired fault-asked-for"},
		{"delay 1ms nth=1 op=ACK", roce.ACKUnlimited, "unknown fault-delayed"},
		{"drop nth=1 op=NAK dir=in", roce.NAKInvalidRequest, "failed refusal-unheard"},
		{"dup nth=1 op=NAK dir=in", roce.NAKInvalidRequest, "failed invalid-request"},
		{"delay 1ms nth=1 op=NAK", roce.NAKInvalidRequest, "failed refusal-late"},
	} {
		w := newWire(t, c.rule)
		w.send(w.near, w.far, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, 7), Payload: []byte("sent")})
		w.now += clock.Instant(time.Millisecond)
		w.send(w.far, w.near, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, 7), AETH: roce.AETH{Syndrome: c.syndrome}})
		w.now += clock.Instant(time.Second)
		if _, err := w.near.Receive(make([]fabric.Datagram, 4)); err != nil {
			t.Fatal(err)
		}
		must.Do(t, w.near.Close())
		r, err := Read(&w.file, Config{})
		must.Do(t, err)
		if got := r.Verdict.Outcome + " " + r.Verdict.Cause; got != c.want {
			t.Errorf("%s: %s, want %s; found %s", c.rule, got, c.want, names(r))
		}
	}
}

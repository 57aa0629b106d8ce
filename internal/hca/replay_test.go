package hca_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/roce"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

const (
	capturesGlob = "../testdata/captures/*.pcap"
	replayGolden = "testdata/replay.golden"
	serverHost   = "10.77.0.2"
	serverHost6  = "fd00:77::2"
)

// unfit are captures that cannot be replayed from their packets alone.
var unfit = map[string]string{
	"cm_rping":      "the program writes to the memory that the peer reads, between the READs",
	"cm_rping_3000": "as cm_rping",
	"cm_rping_v6":   "as cm_rping",
	"cm_rstream":    "the program went away before the last request was answered",
}

// TestReplay takes the request packets that one Linux peer sent to another,
// hands them to a queue pair of ours that stands where the Linux responder
// stood, one at a time and at their times, and compares every answer with
// what Linux answered: opcode, PSN, syndrome, MSN, payload. What UC and UD
// deliver is compared with what was sent. The golden file counts, for every
// flow, what was compared and which of the known differences showed.
func TestReplay(t *testing.T) {
	names, err := filepath.Glob(capturesGlob)
	if err != nil || len(names) == 0 {
		t.Fatalf("no captures at %s: %v", capturesGlob, err)
	}
	var golden strings.Builder
	var total tally
	for _, name := range names {
		base := strings.TrimSuffix(filepath.Base(name), ".pcap")
		if unfit[base] != "" {
			continue
		}
		for i, f := range loadFlows(t, name) {
			if !f.seenByResponder(base) {
				continue
			}
			f.name = base
			got := f.replay(t)
			fmt.Fprintf(&golden, "%s %d %v %v\n", base, i, f.service, got)
			total.add(got)
		}
	}
	fmt.Fprintf(&golden, "total %v\n", total)
	for _, d := range differences {
		fmt.Fprintf(&golden, "%s: %s\n", d.name, d.why)
		if total.known[d.name] == 0 {
			t.Errorf("the known difference %s does not show in any capture", d.name)
		}
	}
	if total.compared == 0 || total.delivered == 0 {
		t.Error("nothing was compared")
	}
	checkGolden(t, replayGolden, golden.String())
}

func checkGolden(t *testing.T, file, got string) {
	t.Helper()
	if *rewrite {
		rig.Must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		rig.Must(t, os.WriteFile(file, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	rig.Must(t, err)
	g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Errorf("%s:%d differs (go test -rewrite accepts it)\n got %s\nwant %s", file, i+1, g[i], w[i])
		}
	}
	if len(g) != len(w) {
		t.Errorf("%s: %d lines, want %d", file, len(g), len(w))
	}
}

// tally counts what a replay compared.
type tally struct {
	requests  int
	compared  int // answers equal to those of Linux
	delivered int // messages in receives, with the bytes that were sent
	placed    int // WRITEs whose bytes are in the region
	known     map[string]int
}

func (c *tally) add(o tally) {
	c.requests += o.requests
	c.compared += o.compared
	c.delivered += o.delivered
	c.placed += o.placed
	for what, n := range o.known {
		c.note(what, n)
	}
}

func (c *tally) note(what string, n int) {
	if c.known == nil {
		c.known = map[string]int{}
	}
	c.known[what] += n
}

// String returns the counts in a fixed order.
func (c tally) String() string {
	var known []string
	for what, n := range c.known {
		known = append(known, fmt.Sprintf("%s=%d", what, n))
	}
	slices.Sort(known)
	return strings.TrimSpace(fmt.Sprintf("requests=%d answers=%d delivered=%d placed=%d %s",
		c.requests, c.compared, c.delivered, c.placed, strings.Join(known, " ")))
}

// seenByResponder reports whether the file shows what the responder of the
// flow got: where packets were lost, only the file taken at its side does.
func (f *flow) seenByResponder(base string) bool {
	atServer := f.dst.String() == serverHost || f.dst.String() == serverHost6
	switch {
	case strings.HasSuffix(base, ".client"):
		return !atServer
	case strings.HasSuffix(base, ".server"):
		return atServer
	}
	return true
}

// difference is a place where our answers and those of Linux differ for a
// reason.
type difference struct {
	name, why string
	applies   func(f *flow, ours, theirs *answer) bool
	skipOurs  bool // ours is one more than Linux sends
	skip      bool // theirs is one that we do not send
}

// differences is all that may differ; everything else is an error. ours or
// theirs is nil at the end of the list.
var differences = [...]difference{
	{
		name: "send_too_long", why: "a SEND longer than its receive is an invalid request (E15); Linux says remote operational error",
		applies: func(f *flow, ours, theirs *answer) bool {
			return f.scenario().recvLen != 0 && ours.isNAK(roce.NAKInvalidRequest) && theirs.isNAK(roce.NAKRemoteOperational) &&
				ours.psn == theirs.psn && ours.msn == theirs.msn
		},
	},
	{
		name: "nak_after_rnr", why: "after an RNR NAK the rest of the burst is dropped in silence; Linux adds a sequence NAK", skip: true,
		applies: func(f *flow, _, theirs *answer) bool {
			return theirs.isNAK(roce.NAKSequence) && f.rnrAt[theirs.psn]
		},
	},
	{
		name: "duplicate_before_any", why: "Linux acknowledges a duplicate before anything was executed with PSN 0xffffff",
		applies: func(_ *flow, ours, theirs *answer) bool {
			return theirs.isACK() && ours.isACK() && theirs.psn == ib.NewPSN(0xffffff) && theirs.msn == 0 && ours.msn == 0
		},
	},
	{
		name: "send_with_inv", why: "a SEND that invalidates a bad key is refused, as every use of one (E14); Linux acknowledges it",
		applies: func(f *flow, ours, theirs *answer) bool {
			return f.scenario().badInv && ours.isNAK(roce.NAKRemoteAccess) && theirs.isACK() && ours.psn == theirs.psn && ours.msn == theirs.msn
		},
	},
	{
		name: "mtu_mismatch", why: "packets over the path MTU are refused (E15); Linux 6.1 takes them in SENDs",
		applies: func(f *flow, ours, theirs *answer) bool {
			return f.scenario().overMTU && ours.isNAK(roce.NAKInvalidRequest) && theirs.isACK()
		},
	},
	{
		name: "mtu_mismatch_rest", why: "a queue pair that refused a request is in ERR and answers nothing more", skip: true,
		applies: func(f *flow, ours, _ *answer) bool { return f.scenario().overMTU && ours == nil },
	},
	{
		name: "ack_not_past_read", why: "the ACK of a duplicate does not pass a READ or atomic that the peer may still lack",
		applies: func(f *flow, ours, theirs *answer) bool {
			return ours.isACK() && theirs.isACK() && ours.msn == theirs.msn && ours.psn.Diff(theirs.psn) < 0 && f.keepsBetween(ours.psn, theirs.psn)
		},
	},
}

// match compares our answers with those of Linux, up to the first that
// differs for no known reason.
func (f *flow) match(ours, theirs []answer) (c tally, err error) {
	for i, k := 0, 0; i < len(ours) || k < len(theirs); {
		o, l := at(ours, i), at(theirs, k)
		if o != nil && l != nil && *o == *l {
			c.compared++
			i++
			k++
			continue
		}
		d := slices.IndexFunc(differences[:], func(d difference) bool {
			usable := (o != nil || d.skip) && (l != nil || d.skipOurs)
			return usable && d.applies(f, o, l)
		})
		if d < 0 {
			return c, fmt.Errorf("%s, %v from %v to %v: answer %d is\n%v, that of Linux\n%v", f.name, f.service, f.src, f.dst, i, o, l)
		}
		c.note(differences[d].name, 1)
		if !differences[d].skip {
			i++
		}
		if !differences[d].skipOurs {
			k++
		}
	}
	return c, nil
}

// TestReplayRejects shows that the comparison notices one wrong answer, one
// too few and one too many.
func TestReplayRejects(t *testing.T) {
	f := loadFlows(t, strings.Replace(capturesGlob, "*", "errs_read", 1))[0]
	if c, err := f.match(f.answers, f.answers); err != nil || c.compared != len(f.answers) || c.compared == 0 {
		t.Fatalf("%d of %d answers equal themselves: %v", c.compared, len(f.answers), err)
	}
	for what, change := range map[string]func(*answer){
		"opcode":   func(a *answer) { a.op++ },
		"PSN":      func(a *answer) { a.psn = a.psn.Next() },
		"syndrome": func(a *answer) { a.syndrome ^= 1 },
		"MSN":      func(a *answer) { a.msn++ },
		"payload":  func(a *answer) { a.payload += "x" },
		"SE":       func(a *answer) { a.se = !a.se },
	} {
		ours := slices.Clone(f.answers)
		change(&ours[3])
		if _, err := f.match(ours, f.answers); err == nil {
			t.Errorf("an answer with another %s is taken for the same", what)
		}
	}
	if _, err := f.match(f.answers[1:], f.answers); err == nil {
		t.Error("an answer less is not noticed")
	}
	if _, err := f.match(append(slices.Clone(f.answers), f.answers[0]), f.answers); err == nil {
		t.Error("an answer more is not noticed")
	}
}

func at(as []answer, i int) *answer {
	if i < len(as) {
		return &as[i]
	}
	return nil
}

// keepsBetween reports whether a READ or atomic begins after the first PSN
// and not after the second.
func (f *flow) keepsBetween(from, to ib.PSN) bool {
	return slices.ContainsFunc(f.requests, func(r captured) bool {
		return readOrAtomic(&r.p) && r.p.BTH.PSN.Diff(from) > 0 && r.p.BTH.PSN.Diff(to) <= 0
	})
}

func readOrAtomic(p *roce.Packet) bool {
	k, ok := p.Info.Kind.Answer()
	return ok && k != roce.KindAck
}

// answer is what is compared of an answer.
type answer struct {
	op        roce.Opcode
	psn       ib.PSN
	aeth      bool
	syndrome  roce.Syndrome
	msn       ib.MSN
	original  uint64 // of an atomic
	payload   string
	pad       uint8
	se, acked bool
}

func answerOf(p *roce.Packet) answer {
	a := answer{op: p.BTH.Opcode, psn: p.BTH.PSN, payload: string(p.Payload), pad: p.BTH.PadCnt, se: p.BTH.SE, acked: p.BTH.AckReq}
	if p.Info.Headers&roce.HasAETH != 0 {
		a.aeth, a.syndrome, a.msn = true, p.AETH.Syndrome, p.AETH.MSN
	}
	if p.Info.Headers&roce.HasAtomicAckETH != 0 {
		a.original = p.AtomicAck
	}
	return a
}

func (a *answer) isACK() bool { return a.op == roce.RCAcknowledge && a.syndrome.IsACK() }

func (a *answer) isNAK(s roce.Syndrome) bool { return a.op == roce.RCAcknowledge && a.syndrome == s }

// String shows an answer without most of its payload.
func (a *answer) String() string {
	if a == nil {
		return "none"
	}
	return fmt.Sprintf("%v psn %v %v msn %d original %#x, %d bytes % x", a.op, a.psn, a.syndrome, a.msn, a.original,
		len(a.payload), a.payload[:min(len(a.payload), 16)])
}

// replay hands the requests of a flow to a fresh adapter.
func (f *flow) replay(t *testing.T) tally {
	t.Helper()
	s := f.open(t)
	var ours []answer
	for i := range f.requests {
		r := &f.requests[i]
		s.Now = max(s.Now, r.at)
		for _, p := range s.Pass(0) {
			ours = append(ours, answerOf(&p))
		}
		f.provide(s, r)
		s.Deliver(f.datagram(s, r))
		for _, p := range s.Out() {
			ours = append(ours, answerOf(&p))
		}
		f.collect(t, s, i)
	}
	c, err := f.match(ours, f.answers)
	if err != nil {
		t.Error(err)
	}
	c.requests, c.delivered, c.placed = len(f.requests), f.delivered, f.placed
	if n, want := s.Counters().Drops[counters.DropNoQP], f.toNobody(); n != want {
		t.Errorf("%s: %d packets found no queue pair, want %d", f.name, n, want)
	}
	if n := lostInVain(s.Counters()); n != 0 {
		t.Errorf("%s: %d packets were dropped before they reached the queue pair", f.name, n)
	}
	return c
}

// toNobody returns how many requests go to a queue pair that is no more.
func (f *flow) toNobody() uint64 {
	if f.scenario().left == "destroyed" {
		return uint64(len(f.requests))
	}
	return 0
}

// lostInVain counts packets that the adapter took for damaged or misdirected:
// a replay has none.
func lostInVain(c counters.Set) uint64 {
	return c.Drops[counters.DropMalformed] + c.Drops[counters.DropICRC] + c.Drops[counters.DropAddress] +
		c.Drops[counters.DropService] + c.Drops[counters.DropPKey]
}

// byOrder sorts flows by their first request.
func byOrder(a, b *flow) int { return cmp.Compare(a.order, b.order) }

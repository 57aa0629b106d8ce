package gsi

import (
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// FuzzGSI hands arbitrary datagrams to an interface that has agents and waits
// for answers, some twice, with time between them. Whatever they are, nothing
// panics, each is counted once, what leaves are whole MADs, answers go only to
// Gets and Sets and are none more than those, every request ends once, and
// nothing is left when time has passed.
func FuzzGSI(f *testing.F) {
	r := newRig(f, Config{})
	for _, m := range []*mad.MAD{
		madOf(mad.ClassSA, 2, mad.MethodGet, 1), madOf(mad.ClassPerf, 1, mad.MethodSet, 1), madOf(mad.ClassPerf, 1, mad.MethodGetResp, 0),
		madOf(mad.ClassPerf, 1, mad.MethodGetResp, 3), madOf(mad.ClassPerf, 9, mad.MethodSend, 1), madOf(mad.ClassCM, 2, mad.MethodTrapRepress, 1),
	} {
		p := r.packet(m)
		f.Add(byte(0), wire(p))
		p.BTH.Opcode = roce.UDSendOnlyWithImm
		f.Add(byte(1), wire(p))
	}
	eachMAD(f, "cm_rping.pcap", func(_ string, c *pcapfile.Packet, _ *roce.Packet) { f.Add(byte(2), append([]byte(nil), c.Payload...)) })
	f.Fuzz(func(t *testing.T, choice byte, b []byte) {
		r := newRig(t, Config{MaxQueue: 8, MaxTransactions: 4, PKeys: []ib.PKey{0xffff, 0x0123}})
		a := newMeddler(r, choice)
		var p roce.Packet
		if p.Parse(b) != roce.FaultNone {
			return
		}
		for range 1 + choice>>6 {
			d := r.datagram()
			before := r.counters
			r.g.Receive(r.now, &p, &d)
			checkCounted(t, before, r.counters)
			r.pass(time.Duration(choice) * time.Millisecond)
		}
		own := a.sent
		out := r.sent()
		answers := 0
		for i := range out {
			if h := out[i].header(); h.Method == mad.MethodGetResp {
				answers++
			} else if h.TID>>32 != 0xfeed {
				t.Fatalf("a MAD leaves that no agent sent: %+v", h)
			}
		}
		if m := methodOf(&p); answers > 0 && m != mad.MethodGet && m != mad.MethodSet {
			t.Fatalf("%d answers to a %v", answers, m)
		}
		c := r.g.Counters()
		if uint64(answers) != c.Unsupported+c.Informed || len(out) > own+answers+int(c.Retried) {
			t.Fatalf("%d MADs leave, %d of them answers; agents sent %d: %+v", len(out), answers, own, c)
		}
		r.pass(time.Hour)
		a.finish(t)
	})
}

// wire returns the bytes of a packet, without a right ICRC.
func wire(p roce.Packet) []byte {
	b := make([]byte, roce.Size(p.BTH.Opcode, len(p.Payload)))
	p.Build(b)
	return b
}

// methodOf returns the method of a packet that may be no MAD.
func methodOf(p *roce.Packet) mad.Method {
	if len(p.Payload) != mad.Size {
		return 0
	}
	return (*mad.MAD)(p.Payload).Header().Method
}

// checkCounted checks that a packet is counted as received, unless it was
// dropped earlier, and as dropped at most once.
func checkCounted(t *testing.T, before, after counters.Set) {
	t.Helper()
	drops, received := uint64(0), after.RcvdPkts-before.RcvdPkts
	for d := range counters.NumDrops {
		n := after.Drops[d] - before.Drops[d]
		drops += n
		if n > 0 && admitted(d) != (received == 1) {
			t.Fatalf("%v is counted with %d received", d, received)
		}
	}
	if drops > 1 || drops+received == 0 || received > 1 {
		t.Fatalf("%d received, %d dropped", received, drops)
	}
}

// meddler is an agent of two classes whose handlers make all calls that
// handlers may make.
type meddler struct {
	r      *rig
	choice byte
	agents [2]*Agent
	asked  [4]*Transaction
	ends   [4]int
	sent   int
}

func newMeddler(r *rig, choice byte) *meddler {
	a := &meddler{r: r, choice: choice}
	for i, c := range []AgentConfig{
		{Class: mad.ClassPerf, Version: 1, Methods: []mad.Method{mad.MethodGet, mad.MethodSend}, Receive: a.receive},
		{Class: mad.ClassCM, Version: 2, Methods: []mad.Method{mad.MethodSend}, Receive: a.receive},
	} {
		var err error
		a.agents[i], err = r.g.Register(c)
		must.Do(r.t, err)
	}
	methods := []mad.Method{mad.MethodGet, mad.MethodSet, mad.MethodReport, mad.MethodTrap}
	for i, m := range methods {
		req := madOf(mad.ClassPerf, 1, m, 0xfeed<<32|uint64(i))
		var err error
		a.asked[i], err = a.agents[0].Request(r.now, Address{Remote: rigPeer}, req, Retry{Timeout: time.Second, Retries: int(choice & 3)},
			func(now clock.Instant, m *Received, err error) {
				if (m == nil) != (err != nil) {
					r.t.Fatalf("a request ends with %v and %v", m, err)
				}
				a.ends[i]++
				a.meddle(now)
			})
		must.Do(r.t, err)
		a.sent++
	}
	return a
}

func (a *meddler) receive(now clock.Instant, m *Received) bool {
	if err := a.agents[1].Send(now, m.From, madOf(mad.ClassCM, 2, mad.MethodSend, 0xfeed<<32)); err == nil {
		a.sent++
	}
	a.meddle(now)
	return a.choice&4 == 0
}

// meddle ends requests and agents within a handler.
func (a *meddler) meddle(now clock.Instant) {
	if a.choice&8 != 0 {
		a.asked[a.choice&3].Cancel(now)
	}
	if a.choice&16 != 0 {
		a.agents[0].Close(now)
	}
	if a.choice&32 != 0 {
		a.agents[1].Close(now)
	}
}

// finish checks that every request has ended once and nothing waits.
func (a *meddler) finish(t *testing.T) {
	t.Helper()
	for i, n := range a.ends {
		if n != 1 {
			t.Errorf("request %d ends %d times", i, n)
		}
	}
	w := &a.r.g.waiting
	if len(w.byKey) != 0 || w.byDue.Len() != 0 || a.r.g.Deadline() != clock.Never {
		t.Errorf("%d requests wait after an hour", len(w.byKey))
	}
}

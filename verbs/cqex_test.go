package verbs

import (
	"syscall"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// newTimedPair returns two connected endpoints. The second receives into a CQ with timestamps
// and a completion channel.
func newTimedPair(t *testing.T, pair func(testing.TB, ib.QPType) (a, b *endpoint)) (a, b *endpoint, cq *CQ, ch *CompChannel) {
	t.Helper()
	a, b = pair(t, ib.RC)
	ch = NewCompChannel(1)
	cq, err := b.ctx.CreateCQEx(&CQInitAttr{CQE: 64, Channel: ch, Timestamps: true})
	must.Do(t, err)
	b.qp, err = b.pd.CreateQP(&QPInitAttr{Type: ib.RC, SendCQ: b.cq, RecvCQ: cq, Cap: QPCap{MaxRecvWR: 64, MaxRecvSGE: 1}})
	must.Do(t, err)
	connect(t, a, b, func(attr *QPAttr) { attr.Timeout = 19 })
	return a, b, cq, ch
}

// TestM7_Timestamps shows that a completion has the time at which it was made, however late the
// program polls it, and that a resize of the CQ keeps it.
func TestM7_Timestamps(t *testing.T) {
	for name, pair := range networks {
		t.Run(name, func(t *testing.T) {
			const messages = 20
			a, b, cq, _ := newTimedPair(t, pair)
			var from, to [messages]time.Time
			for i := range uint64(messages) {
				must.Do(t, b.qp.PostRecv(b.recv(i, 0, 8)))
				from[i] = time.Now()
				must.Do(t, a.qp.PostSend(a.send(i, 8)))
				a.wait(t, 1) // the acknowledgement follows the completion at b
				to[i] = time.Now()
			}
			must.Do(t, cq.Resize(200))
			var wc [messages]WC
			var at [messages]time.Time
			n, err := cq.PollTimestamps(wc[:], at[:])
			if err != nil || n != messages {
				t.Fatalf("polled %d of %d completions: %v", n, messages, err)
			}
			for i := range n {
				if wc[i].WRID != uint64(i) || at[i].Before(from[i]) || at[i].After(to[i]) {
					t.Errorf("completion %d of receive %d: made at %v, want between %v and %v", i, wc[i].WRID, at[i], from[i], to[i])
				}
			}
		})
	}
}

// TestM7_TimestampsRefused shows the errors of CQs with timestamps.
func TestM7_TimestampsRefused(t *testing.T) {
	e := newEndpoint(t, Config{Addr: "10.0.0.1", Network: NewNetwork()}, ib.RC)
	_, err := e.ctx.CreateCQEx(nil)
	must.Fail(t, err, syscall.EINVAL, "create a CQ without attributes")
	_, err = e.cq.PollTimestamps(make([]WC, 1), make([]time.Time, 1))
	must.Fail(t, err, syscall.EINVAL, "poll the timestamps of a CQ without")
	cq, err := e.ctx.CreateCQEx(&CQInitAttr{CQE: 1, Timestamps: true})
	must.Do(t, err)
	_, err = cq.PollTimestamps(make([]WC, 2), make([]time.Time, 1))
	must.Fail(t, err, syscall.EINVAL, "poll two completions with one timestamp")
	if n, err := cq.PollTimestamps(make([]WC, 1), make([]time.Time, 2)); n != 0 || err != nil {
		t.Errorf("an empty CQ has %d completions, %v", n, err)
	}
	must.Do(t, cq.Destroy())
	_, err = cq.PollTimestamps(make([]WC, 1), make([]time.Time, 1))
	must.Fail(t, err, ErrInvalidCQ, "poll a CQ that is gone")
}

// TestM7_Moderation shows that the event of a moderated CQ waits for its period, and comes at
// once when moderation ends. The scripts m09_... show the rest.
func TestM7_Moderation(t *testing.T) {
	for name, pair := range networks {
		t.Run(name, func(t *testing.T) {
			a, b, cq, ch := newTimedPair(t, pair)
			const period = 4095 * time.Microsecond
			must.Do(t, cq.Moderate(Moderation{Count: 100, Period: period}))
			var wc [1]WC
			var at [1]time.Time
			for i := range uint64(3) {
				must.Do(t, b.qp.PostRecv(b.recv(i, 0, 8)))
				must.Do(t, cq.ReqNotify(false))
				must.Do(t, a.qp.PostSend(a.send(i, 8)))
				a.wait(t, 1)
				if got, err := ch.Get(waitContext(t)); got != cq || err != nil {
					t.Fatalf("the channel has %p, %v; want the CQ %p", got, err, cq)
				}
				told := time.Now()
				if n, err := cq.PollTimestamps(wc[:], at[:]); n != 1 || err != nil || told.Sub(at[0]) < period {
					t.Errorf("%d completions (%v) %v old, want one of at least %v", n, err, told.Sub(at[0]), period)
				}
			}
			must.Fail(t, cq.Moderate(Moderation{Count: 65536, Period: 1}), syscall.EINVAL, "moderate by too many completions")
			must.Fail(t, cq.Moderate(Moderation{Count: -1, Period: 1}), syscall.EINVAL, "moderate by less than none")
			must.Fail(t, cq.Moderate(Moderation{Count: 1, Period: time.Second}), syscall.EINVAL, "moderate by too long a period")
			must.Do(t, cq.Moderate(Moderation{}))
		})
	}
}

// TestM7_SRQResize resizes an SRQ while messages arrive. None is lost, and the receives keep
// their order.
func TestM7_SRQResize(t *testing.T) {
	a, b := newPair(t, ib.RC)
	s, b1, _ := newSRQ(t, b, SRQInitAttr{MaxWR: 8, MaxSGE: 1})
	connect(t, a, b1, func(q *QPAttr) { q.MinRNRTimer = 1 })
	posted, sent := uint64(0), uint64(0)
	for i := range uint64(200) {
		for posted < sent+4 {
			must.Do(t, s.PostRecv(b.recv(posted, 0, 8)))
			posted++
		}
		must.Do(t, a.qp.PostSend(a.send(i, 8), a.send(i, 8)))
		must.Do(t, s.Resize([]uint32{4, 8, 100, 5}[i%4]))
		a.wait(t, 2)
		for _, wc := range b.wait(t, 2) {
			if wc.WRID != sent {
				t.Fatalf("message %d took receive %d", sent, wc.WRID)
			}
			sent++
		}
	}
	must.Do(t, s.Resize(5))
	if got := s.Query(); got.MaxWR != 8 {
		t.Errorf("an SRQ resized to 5 work requests has %d, want 8", got.MaxWR)
	}
	must.Fail(t, s.Resize(1), syscall.EINVAL, "resize an SRQ below its receives")
	must.Fail(t, s.Resize(0), syscall.EINVAL, "resize an SRQ to nothing")
	must.Do(t, b1.qp.Destroy())
}

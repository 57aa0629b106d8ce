package observe

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

var (
	tableChurn     = flag.Duration("table-churn", 0, "how long TestW1_Churn reads, with 1000 queue pairs; 0: until it has seen 1000, of 100 at a time")
	tableChurnSeed = flag.Uint64("table-churn-seed", 0, "of TestW1_Churn; 0: random")
)

// Addresses of TestW1_Churn. Queue pairs are connected to themselves, and send, or to another address,
// where they have no peer.
var (
	churnAddr = netip.MustParseAddr("127.0.0.93")
	emptyAddr = netip.MustParseAddr("127.0.0.94")
)

// churner creates, connects and destroys queue pairs of an adapter.
type churner struct {
	*side
	busy *verbs.CQ // of queue pairs that send to themselves
	most int       // queue pairs at a time

	mu    sync.Mutex // guards made
	made  map[ib.QPN]int
	alive []*verbs.QP
}

// Depths of the completion queues, and sizes of the queues of both sorts of queue pairs.
const (
	churnDepth = 63
	busyDepth  = 8191
	farSend    = 16
	farRecv    = 8
	selfSend   = 32
	selfRecv   = 4
)

// TestW1_Churn reads the table in several goroutines while queue pairs come and go and change: each row
// that is seen is consistent, and no counter of a queue pair decreases.
func TestW1_Churn(t *testing.T) {
	privately(t)
	c := &churner{side: open(t, churnAddr.String()), most: 100, made: make(map[ib.QPN]int)}
	must.Do(t, c.qp.Destroy())
	var err error
	c.busy, err = c.ctx.CreateCQ(busyDepth, nil)
	must.Do(t, err)
	seed := *tableChurnSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	if *tableChurn != 0 {
		c.most = 1000
	}
	t.Logf("repeat with -table-churn-seed %d", seed)
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- c.churn(rand.New(rand.NewPCG(seed, 0)), stop) }()
	end := time.Now().Add(*tableChurn)
	var readers sync.WaitGroup
	for i := range 3 {
		readers.Go(func() {
			r := &churnReader{churner: c, set: NewSet(), last: make(map[ib.QPN]QP), cqs: make(map[uint32]uint64)}
			defer r.set.Close()
			for len(r.last) < 1000 && *tableChurn == 0 || time.Now().Before(end) {
				if err := r.read(); err != nil {
					t.Error(err)
					return
				}
			}
			t.Logf("reader %d: %d reads, %d queue pairs, up to %d at a time, %d rows, %d of them of a queue pair that had sent", i, r.reads, len(r.last), r.most, r.rows, r.sent)
			if r.sent == 0 {
				t.Error("no queue pair was seen to have sent")
			}
		})
	}
	readers.Wait()
	close(stop)
	must.Do(t, <-done)
}

// churnReader is one of the readers.
type churnReader struct {
	*churner
	set  *Set
	last map[ib.QPN]QP     // as each was seen last
	cqs  map[uint32]uint64 // completions added, by completion queue

	reads, rows, most, sent int
}

// read reads the table once.
func (r *churnReader) read() error {
	all, err := r.set.Read()
	if err != nil || len(all) != 1 {
		return fmt.Errorf("%d adapters: %w", len(all), err)
	}
	a := all[0]
	if len(a.PDs) != 1 || len(a.CQs) != 2 || len(a.MRs) != 1 || a.PDs[0].Users > uint64(r.churner.most)+2 {
		return fmt.Errorf("objects that do not change are %+v, %+v, %+v", a.PDs, a.CQs, a.MRs)
	}
	numbers := make(map[uint32]uint32) // of completion queues, by depth
	for _, q := range a.CQs {
		if numbers[q.Depth] = q.Num; q.Waiting > q.Depth || q.Produced < r.cqs[q.Num] || q.Overflows != 0 {
			return fmt.Errorf("completion queue %+v, after %d completions", q, r.cqs[q.Num])
		}
		r.cqs[q.Num] = q.Produced
	}
	seen := make(map[ib.QPN]bool)
	for i := range a.QPs {
		q := &a.QPs[i]
		if err := r.check(q, a.PDs[0].Num, numbers); err != nil {
			return fmt.Errorf("%w: %+v", err, *q)
		}
		if was, ok := r.last[q.Num]; (seen[q.Num] || ok && decreased(q, &was)) && !r.reused(q.Num) {
			return fmt.Errorf("it occurs twice, or a counter has decreased: %+v, before %+v", *q, was)
		}
		seen[q.Num], r.last[q.Num] = true, *q
		if q.SentMessages > 0 {
			r.sent++
		}
	}
	r.reads, r.rows, r.most = r.reads+1, r.rows+len(a.QPs), max(r.most, len(a.QPs))
	return nil
}

// check checks the columns of a queue pair.
func (r *churnReader) check(q *QP, pd uint32, cqs map[uint32]uint32) error {
	peer, remote, cq, send, recv := q.Num^1, emptyAddr, cqs[churnDepth], uint32(farSend), uint32(farRecv)
	if q.MaxSend == selfSend {
		peer, remote, cq, send, recv = q.Num, churnAddr, cqs[busyDepth], selfSend, selfRecv
	}
	switch {
	case q.Num == 0 || q.Type != ib.RC || q.PD != pd || q.SRQ != 0 || q.XRCD != 0 || q.CM != 0:
		return errors.New("number, type, domain or another object")
	case q.SendCQ != cq || q.RecvCQ != cq || q.MaxSend != send || q.MaxRecv != recv:
		return errors.New("completion queues or sizes")
	case q.State > ib.ERR || q.State == ib.SQD || q.State == ib.SQE:
		return errors.New("a state in which it never is")
	case (q.State == ib.RTR || q.State == ib.RTS || q.Peer != 0) && (q.Peer != peer || q.Remote != remote || q.Local != churnAddr || q.SrcPort == 0 || q.MTU == 0 || q.PKey != ib.PKeyDefault):
		return errors.New("the peer or its path")
	case (q.State == ib.RESET || q.State == ib.INIT) && (q.Peer != 0 || q.Remote.IsValid()):
		return errors.New("a peer before RTR")
	case q.SendPSN >= 1<<24 || q.AckPSN >= 1<<24 || q.RecvPSN >= 1<<24 || q.Outstanding > uint64(q.MaxSend):
		return errors.New("a counter beyond its bound")
	case q.MaxSend == farSend && q.SentMessages+q.RcvdMessages+q.Errors != 0:
		return errors.New("counts of another queue pair")
	}
	return nil
}

// decreased reports whether a counter is less than it was.
func decreased(q, was *QP) bool {
	a, b := &q.QPCounts, &was.QPCounts
	if a.SentPackets < b.SentPackets || a.SentBytes < b.SentBytes || a.SentMessages < b.SentMessages || a.RcvdPackets < b.RcvdPackets ||
		a.RcvdBytes < b.RcvdBytes || a.RcvdMessages < b.RcvdMessages || a.Retransmitted < b.Retransmitted || a.Timeouts < b.Timeouts ||
		a.RNRSent < b.RNRSent || a.RNRRcvd < b.RNRRcvd || a.SeqErrors < b.SeqErrors || a.Errors < b.Errors {
		return true
	}
	for i := range a.Latency {
		if a.Latency[i] < b.Latency[i] {
			return true
		}
	}
	return false
}

// reused reports whether several queue pairs have had a number.
func (c *churner) reused(n ib.QPN) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made[n] > 1
}

// churn changes queue pairs until stop.
func (c *churner) churn(r *rand.Rand, stop chan struct{}) error {
	wc := make([]verbs.WC, busyDepth)
	for growing := true; ; {
		select {
		case <-stop:
			return nil
		default:
		}
		if _, err := c.busy.Poll(wc); err != nil {
			return err
		}
		switch len(c.alive) { // the number goes up to the maximum, and down to half of it
		case c.most:
			growing = false
		case c.most / 2:
			growing = true
		}
		if len(c.alive) == 0 || len(c.alive) < c.most && (r.IntN(4) == 0) != growing {
			if err := c.create(r.IntN(2) == 0); err != nil {
				return err
			}
			continue
		}
		i := r.IntN(len(c.alive))
		q := c.alive[i]
		if r.IntN(4) == 0 {
			if err := q.Modify(&verbs.QPAttr{State: ib.ERR}, ib.AttrState); err != nil {
				return err
			}
		}
		if err := q.Destroy(); err != nil {
			return err
		}
		c.alive = slices.Delete(c.alive, i, i+1)
	}
}

// create creates a queue pair and connects it. If self is true it is connected to itself, and sends messages.
func (c *churner) create(self bool) error {
	attr := verbs.QPInitAttr{Type: ib.RC, SendCQ: c.cq, RecvCQ: c.cq, SQSig: ib.SigAll, Cap: verbs.QPCap{MaxSendWR: farSend, MaxRecvWR: farRecv, MaxSendSGE: 1, MaxRecvSGE: 1}}
	if self {
		attr.SendCQ, attr.RecvCQ, attr.Cap.MaxSendWR, attr.Cap.MaxRecvWR = c.busy, c.busy, selfSend, selfRecv
	}
	c.mu.Lock()
	q, err := c.pd.CreateQP(&attr)
	if err == nil {
		c.made[q.QPN()]++
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	c.alive = append(c.alive, q)
	e, err := q.Endpoint(ib.NewPSN(1), c.ctx.GIDIndex())
	if err != nil {
		return err
	}
	peer := e
	if !self {
		peer.QPN ^= 1
		peer.GID = ib.GIDFromAddr(emptyAddr)
	}
	if err := q.Connect(e, peer, verbs.ConnectionAttr()); err != nil || !self {
		return err
	}
	for range selfRecv {
		if err := q.PostRecv(verbs.RecvWR{SGList: []verbs.SGE{c.mr.SGE(0, 3000)}}); err != nil {
			return err
		}
		if err := q.PostSend(verbs.SendWR{Opcode: ib.WRSend, SGList: []verbs.SGE{c.mr.SGE(3000, 3000)}}); err != nil {
			return err
		}
	}
	return nil
}

package perf

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// TestM4_SharedQueue measures every operation over XRC.
func TestM4_SharedQueue(t *testing.T) {
	r := newRig(t)
	for _, op := range (&Plan{Type: ib.XRCIni}).service().ops {
		for _, p := range []Plan{
			{QPs: 3, Depth: 7},
			{QPs: 2, Size: 5000, MTU: ib.MTU1024},
			{Latency: true},
			{Latency: true, Events: op.info().receives},
		} {
			if op.info().word {
				p.Size = 0
			}
			p.Type, p.Op, p.Duration = ib.XRCIni, op, 30*time.Millisecond
			s, client, server := r.long(t, p, moving)
			if client != nil || server != nil {
				t.Fatalf("%+v: client: %v; server: %v", p, client, server)
			}
			if s.Type != "xrc" || s.Messages == 0 || s.Bytes != s.Messages*uint64(s.Size) || s.Latency.P50 <= 0 {
				t.Errorf("%+v: nothing measured: %+v", p, s)
			}
			// The second connection exists only for messages back.
			want := map[bool]string{true: "2 in RTS", false: "RTS"}[p.Latency && !op.info().answered]
			if p.QPs == 0 && (s.Client.States != want || s.Server.States != want) {
				t.Errorf("%+v: the queue pairs are in %q and %q, want %q", p, s.Client.States, s.Server.States, want)
			}
		}
	}
}

// TestM4_PlacesTakeTurns checks the receives of three queue pairs in their shared queue: any three
// consecutive receives have three different places.
func TestM4_PlacesTakeTurns(t *testing.T) {
	p := Plan{Type: ib.XRCIni, Op: Send, QPs: 3, Depth: 4}
	must.Do(t, p.Check())
	own, err := newLocalSide(newRig(t).server, p, true, true)
	must.Do(t, err)
	s, err := newSink(own)
	must.Do(t, err)
	pool := s.lanes[0].pool
	for i := range s.lanes {
		if s.lanes[i].pool != pool || s.lane(&ib.WC{QPN: own.qps[i].QPN(), WRID: 1}) != &s.lanes[i] {
			t.Errorf("queue pair %d has receives of its own, or none of its messages counts for it", i)
		}
	}
	if n := p.QPs * p.Depth * recvSlack; len(s.batch) != n || pool.next != n%p.QPs {
		t.Errorf("%d receives are posted, the next one is for place %d", len(s.batch), pool.next)
	}
	// The number of receives that are posted again is not a multiple of three.
	for _, n := range []int{1, 4, 2} {
		first := pool.next
		pool.owed = n
		must.Do(t, s.repost(pool)) // the queue has room: its size is a power of two
		for i, wr := range s.batch[:n] {
			if place := (first + i) % p.QPs; wr.WRID != uint64(place) || wr.SGList[0].Addr != own.inSGE(place)[0].Addr {
				t.Errorf("%d receives: number %d is for place %d at %#x", n, i, wr.WRID, wr.SGList[0].Addr)
			}
		}
	}
	must.Do(t, own.Close())
}

// TestM4_LargeSharedQueue wants more receives than an adapter has in one queue.
func TestM4_LargeSharedQueue(t *testing.T) {
	r := newRig(t)
	attr, err := r.server.QueryDevice()
	must.Do(t, err)
	p := Plan{Type: ib.XRCIni, Op: Send, QPs: 8, Depth: int(attr.MaxSRQWR) / 4, Size: 8, Duration: 30 * time.Millisecond}
	s, client, server := r.long(t, p, moving)
	if client != nil || server != nil || s.Least == 0 {
		t.Errorf("client: %v; server: %v; %v", client, server, s)
	}
}

// TestM4_MeasuredFailures lets measurements over XRC fail: the client reports the error.
func TestM4_MeasuredFailures(t *testing.T) {
	for _, c := range []struct {
		op             Op
		client, server string
		status         string
		states         [2]string
	}{
		{Write, "drop p=1 after=20ms", "", "RETRY_EXC_ERR", [2]string{"ERR", "RTS"}},
		{Read, "", "nak REMOTE_ACCESS nth=9", "REM_ACCESS_ERR", [2]string{"ERR", "ERR"}},
		{Send, "", "nak INVALID_REQUEST nth=9", "REM_INV_REQ_ERR", [2]string{"ERR", "ERR"}},
	} {
		r := newFaultyRig(t, c.client, c.server)
		p := Plan{Type: ib.XRCIni, Op: c.op, Duration: 5 * time.Second, Timeout: 12, Retry: 1}
		_, client, server := r.measure(t.Context(), p, c.op)
		f := (*Failure)(nil)
		if !errors.As(client, &f) || f.Status != c.status || f.Server == nil || !errors.Is(server, ErrPeerFailed) {
			t.Errorf("%+v: the client ends with %v, the server with %v", c, client, server)
			continue
		}
		if got := [2]string{f.Client.States, f.Server.States}; got != c.states {
			t.Errorf("%+v: the queue pairs are in %v, want %v", c, got, c.states)
		}
	}
}

// TestM4_NoWayBack: a client asks for messages back without a second queue pair, and gets an error.
func TestM4_NoWayBack(t *testing.T) {
	ctl, result := newRig(t).serve(t, Send)
	q := valid(Send)
	q.Type, q.Depth, q.Latency, q.SRQN = "xrc", 1, true, 5
	must.Do(t, ctl.send(q))
	var o offer
	if err := ctl.receive(&o, replyDue); err == nil || !strings.Contains(err.Error(), "no second queue pair") {
		t.Errorf("the client is told %v", err)
	}
	if err := <-result; err == nil {
		t.Error("the server has no error")
	}
}

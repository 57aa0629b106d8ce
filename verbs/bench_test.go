package verbs

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// benchWrite keeps depth WRITEs of n bytes outstanding over UDP on the
// loopback interface, between two adapters of one process, posted in lists.
func benchWrite(b *testing.B, n, depth, list int) {
	x := newEndpoint(b, Config{Addr: "127.0.82.1", Wire: WireUDP}, ib.RC)
	y := newEndpoint(b, Config{Addr: "127.0.82.2", Wire: WireUDP}, ib.RC)
	connect(b, x, y, nil)
	wr := SendWR{
		Opcode: ib.WRRDMAWrite, SGList: []SGE{x.mr.SGE(0, uint32(n))},
		RemoteAddr: y.mr.Addr(), RKey: y.mr.RKey(),
	}
	wrs := make([]SendWR, list)
	for i := range wrs {
		wrs[i] = wr
	}
	wcs := make([]WC, 64)
	b.SetBytes(int64(n))
	b.ReportAllocs()
	b.ResetTimer()
	posted, done := 0, 0
	for done < b.N {
		for posted < b.N && posted-done <= depth-list {
			must.Do(b, x.qp.PostSend(wrs...))
			posted += list
		}
		k := poll(b, x.cq, wcs)
		for _, wc := range wcs[:k] {
			if wc.Status != ib.WCSuccess {
				b.Fatal(wc.Status)
			}
		}
		done += k
	}
}

func BenchmarkWrite1MiB(b *testing.B) { benchWrite(b, 1<<20, 8, 1) }

func BenchmarkWrite64B(b *testing.B) { benchWrite(b, 64, 64, 1) }

func BenchmarkWrite64BList16(b *testing.B) { benchWrite(b, 64, 512, 16) }

func BenchmarkWrite64BList64(b *testing.B) { benchWrite(b, 64, 512, 64) }

// BenchmarkArmPollSleep is a round trip between two programs that sleep: each
// arms its completion queue, polls it until it is empty and waits for the
// event, over UDP on the loopback interface.
func BenchmarkArmPollSleep(b *testing.B) {
	x := newEndpoint(b, Config{Addr: "127.0.82.1", Wire: WireUDP}, ib.RC)
	y := newEndpoint(b, Config{Addr: "127.0.82.2", Wire: WireUDP}, ib.RC)
	connect(b, x, y, nil)
	for _, e := range []*endpoint{x, y} {
		must.Do(b, e.qp.PostRecv(RecvWR{SGList: []SGE{e.mr.SGE(64, 64)}}))
	}
	echoed := make(chan error, 1)
	b.ReportAllocs()
	b.ResetTimer()
	go func() { echoed <- y.turns(b.N, false) }()
	must.Do(b, x.turns(b.N, true))
	must.Do(b, <-echoed)
}

// turns alternately sends and receives n messages, and sleeps in between. One receive
// is already posted.
func (e *endpoint) turns(n int, first bool) error {
	wcs := make([]WC, 4)
	send := []SendWR{{Opcode: ib.WRSend, SGList: []SGE{e.mr.SGE(0, 64)}}}
	recv := []RecvWR{{SGList: []SGE{e.mr.SGE(64, 64)}}}
	for i, sent, received := 0, 0, 0; i < n; i++ {
		if first {
			if err := e.qp.PostSend(send...); err != nil {
				return err
			}
		}
		for received <= i || sent < i {
			k, err := e.cq.Poll(wcs)
			if err == nil && k == 0 {
				if err := e.cq.ReqNotify(false); err != nil {
					return err
				}
				if k, err = e.cq.Poll(wcs); err == nil && k == 0 {
					_, err = e.ch.Get(context.Background())
				}
			}
			if err != nil {
				return err
			}
			for _, wc := range wcs[:k] {
				if wc.Status != ib.WCSuccess {
					return fmt.Errorf("message %d: %v", i, wc.Status)
				}
				if wc.Opcode == ib.WCRecv {
					received++
				} else {
					sent++
				}
			}
		}
		if err := e.qp.PostRecv(recv...); err != nil {
			return err
		}
		if !first {
			if err := e.qp.PostSend(send...); err != nil {
				return err
			}
		}
	}
	return nil
}

// BenchmarkLatencyBesidePaced measures sequential WRITEs of 8 bytes over UDP on the
// loopback interface, while another queue pair of the same adapters is full of work
// and paced to 1 Gb/s, and alternately while that queue pair is idle. It reports
// both times and their ratios.
func BenchmarkLatencyBesidePaced(b *testing.B) {
	const (
		kbps  = 1_000_000
		turn  = 500 // WRITEs
		depth = 4   // of the paced queue pair
	)
	x := newEndpoint(b, Config{Addr: "127.0.82.1", Wire: WireUDP}, ib.RC)
	y := newEndpoint(b, Config{Addr: "127.0.82.2", Wire: WireUDP}, ib.RC)
	px, py := x.sibling(b, ib.RC), y.sibling(b, ib.RC)
	connect(b, x, y, nil)
	connect(b, px, py, nil)
	must.Do(b, px.qp.ModifyRateLimit(RateLimit{Rate: kbps}))
	large := SendWR{Opcode: ib.WRRDMAWrite, SGList: []SGE{px.mr.SGE(0, 64<<10)}, RemoteAddr: py.mr.Addr(), RKey: py.mr.RKey()}
	small := SendWR{Opcode: ib.WRRDMAWrite, SGList: []SGE{x.mr.SGE(0, 8)}, RemoteAddr: y.mr.Addr(), RKey: y.mr.RKey()}
	wcs := make([]WC, 16)
	busy, moved := 0, 0 // of the paced queue pair
	trips := map[bool][]time.Duration{}
	var paced time.Duration
	for i := range max(b.N, 2*turn) {
		work := i/turn%2 == 1
		for ; work && busy < depth; busy++ {
			must.Do(b, px.qp.PostSend(large))
		}
		for !work && busy > 0 {
			busy -= poll(b, px.cq, wcs)
		}
		start := time.Now()
		must.Do(b, x.qp.PostSend(small))
		for poll(b, x.cq, wcs[:1]) == 0 {
		}
		trip := time.Since(start)
		trips[work] = append(trips[work], trip)
		if work {
			n := poll(b, px.cq, wcs)
			busy, moved, paced = busy-n, moved+n, paced+trip
		}
	}
	at := func(work bool, share float64) float64 {
		slices.Sort(trips[work])
		return float64(trips[work][int(share*float64(len(trips[work])-1))]) / 1e3
	}
	b.ReportMetric(0, "ns/op") // the mean of both kinds is meaningless
	b.ReportMetric(at(false, .5), "µs-p50-idle")
	b.ReportMetric(at(true, .5)/at(false, .5), "p50-ratio")
	b.ReportMetric(at(false, .99), "µs-p99-idle")
	b.ReportMetric(at(true, .99)/at(false, .99), "p99-ratio")
	b.ReportMetric(float64(moved)*(64<<10)*8/1e9/paced.Seconds(), "Gb/s-paced")
}

package verbs

import (
	"context"
	"encoding/binary"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// waiting is a program on two adapters that posts one request after another, and waits for each.
type waiting struct {
	a, b  *endpoint
	bound *MR // of b, with the windows
	one   *MW
	two   *MW
	key   RKey // of the window of type 2
	dm    *DM
	ofDM  *MR
	n     uint64 // the last number that an ATOMIC WRITE wrote
}

// act posts a request, which completes on a side.
type act struct {
	name      string
	onB       bool
	solicited bool
	post      func(t *testing.T, w *waiting)
}

// word returns the number in the first 8 bytes of b's region.
func (w *waiting) word() *uint64 { return (*uint64)(unsafe.Pointer(&w.b.mr.Bytes()[0])) }

func (w *waiting) bindTwo(t *testing.T) {
	m := part(w.two, w.bound, 0, 64)
	must.Do(t, w.b.qp.PostSend(SendWR{Opcode: ib.WRBindMW, Bind: &m}))
	w.key = m.RKey
}

// acts are the requests, in an order in which each finds the window that it needs.
var acts = []act{
	{"bind type 1", true, false, func(t *testing.T, w *waiting) { must.Do(t, w.b.qp.BindMW(1, 0, part(w.one, w.bound, 64, 64))) }},
	{"WRITE through type 1", false, false, func(t *testing.T, w *waiting) {
		must.Do(t, w.a.qp.PostSend(w.a.through(w.one.RKey(), w.bound.Addr()+64, 8)))
	}},
	{"bind type 2", true, false, func(t *testing.T, w *waiting) { w.bindTwo(t) }},
	{"WRITE through type 2", false, false, func(t *testing.T, w *waiting) { must.Do(t, w.a.qp.PostSend(w.a.through(w.key, w.bound.Addr(), 8))) }},
	{"LOCAL_INV", true, false, func(t *testing.T, w *waiting) {
		must.Do(t, w.b.qp.PostSend(SendWR{Opcode: ib.WRLocalInv, InvRKey: w.key}))
	}},
	{"bind type 2 again", true, false, func(t *testing.T, w *waiting) { w.bindTwo(t) }},
	{"SEND_WITH_INV", true, true, func(t *testing.T, w *waiting) {
		must.Do(t, w.b.qp.PostRecv(RecvWR{}))
		must.Do(t, w.a.qp.PostSend(SendWR{Opcode: ib.WRSendWithInv, InvRKey: w.key, Flags: ib.SendSolicited}))
		w.a.wait(t, 1)
	}},
	{"FLUSH", false, false, func(t *testing.T, w *waiting) {
		flush := SendWR{Opcode: WRFlush, RemoteAddr: w.b.mr.Addr(), RKey: w.b.mr.RKey(), Flush: Flush{Length: 8, Type: FlushGlobal}}
		must.Do(t, w.a.qp.PostSend(flush))
	}},
	{"WRITE to device memory", false, false, func(t *testing.T, w *waiting) { must.Do(t, w.a.qp.PostSend(w.a.through(w.ofDM.RKey(), 0, 8))) }},
	{"ATOMIC WRITE", false, false, func(t *testing.T, w *waiting) {
		w.n++
		binary.NativeEndian.PutUint64(w.a.mr.Bytes(), w.n)
		wr := w.a.through(w.b.mr.RKey(), w.b.mr.Addr(), 8)
		wr.Opcode = WRAtomicWrite
		must.Do(t, w.a.qp.PostSend(wr))
	}},
}

// get waits for the event of an endpoint's queue in Get.
func get(t *testing.T, e *endpoint) {
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	q, err := e.ch.Get(ctx)
	must.Do(t, err)
	if q != e.cq {
		t.Error("the event is of another queue")
	}
}

// ways are the ways in which programs wait. Each makes an act, and waits for its completion, except
// "polling", which leaves that to the caller.
var ways = map[string]func(*testing.T, *waiting, *act, *endpoint){
	"polling": func(t *testing.T, w *waiting, a *act, _ *endpoint) { a.post(t, w) },
	"in Get": func(t *testing.T, w *waiting, a *act, e *endpoint) {
		must.Do(t, e.cq.ReqNotify(a.solicited))
		a.post(t, w)
		get(t, e)
	},
	"for a Go channel": func(t *testing.T, w *waiting, a *act, e *endpoint) {
		must.Do(t, e.cq.ReqNotify(a.solicited))
		a.post(t, w)
		if next(t, e.ch) != e.cq {
			t.Error("the event is of another queue")
		}
	},
	// One goroutine gets the event of the act, the other one the event of a WRITE.
	"in Get twice": func(t *testing.T, w *waiting, a *act, e *endpoint) {
		got := make(chan struct{}, 2)
		for range 2 {
			go func() {
				get(t, e)
				got <- struct{}{}
			}()
		}
		must.Do(t, e.cq.ReqNotify(a.solicited))
		a.post(t, w)
		<-got
		must.Do(t, e.cq.ReqNotify(false))
		e.wait(t, 1)
		peer := w.a
		if e == w.a {
			peer = w.b
		}
		must.Do(t, e.qp.PostSend(e.through(peer.mr.RKey(), peer.mr.Addr()+64, 8)))
		<-got
	},
	// The target of an ATOMIC WRITE changes although no goroutine calls the library.
	"for memory": func(t *testing.T, w *waiting, a *act, _ *endpoint) {
		n := w.n
		a.post(t, w)
		for end := time.Now().Add(waitLimit); w.n != n && atomic.LoadUint64(w.word()) != w.n; runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatalf("the memory holds %d after %v, want %d", atomic.LoadUint64(w.word()), waitLimit, w.n)
			}
		}
	},
}

// TestM1_M2_M3_M5_M6_EachWayToWait makes each request while the program waits in each way, with and
// without moderation, on a network in the process and over UDP.
func TestM1_M2_M3_M5_M6_EachWayToWait(t *testing.T) {
	for network, pair := range networks {
		for way, do := range ways {
			t.Run(network+" "+way, func(t *testing.T) {
				t.Parallel()
				a, b := pair(t, ib.RC)
				connect(t, a, b, nil)
				w := newWaiting(t, a, b)
				for _, moderation := range []Moderation{{}, {Count: 4, Period: time.Millisecond}} {
					must.Do(t, a.cq.Moderate(moderation))
					must.Do(t, b.cq.Moderate(moderation))
					for i := range acts {
						e := a
						if acts[i].onB {
							e = b
						}
						do(t, w, &acts[i], e)
						e.wait(t, 1)
						a.quiet(t, acts[i].name)
						b.quiet(t, acts[i].name)
					}
				}
			})
		}
	}
}

func newWaiting(t *testing.T, a, b *endpoint) *waiting {
	w := &waiting{a: a, b: b, bound: b.secret(t, 128), one: b.mw(t, ib.MWType1), two: b.mw(t, ib.MWType2)}
	must.Do(t, b.mr.ReregAccess(AccessLocalWrite|AccessRemote|AccessFlushGlobal))
	var err error
	w.dm, err = b.ctx.AllocDM(64, 3)
	must.Do(t, err)
	w.ofDM, err = b.pd.RegMREx(&MRAttr{DM: w.dm, Length: 64, Access: ib.AccessLocalWrite | ib.AccessRemote})
	must.Do(t, err)
	return w
}

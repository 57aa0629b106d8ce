// Package verbs is the public interface of the adapter: the verbs of the
// InfiniBand architecture, in the shape that users of libibverbs know. Two adapters,
// in one process or in two, on one host or on two, talk RoCEv2 over UDP port 4791,
// and so do an adapter and Linux's Soft-RoCE.
//
// A program opens an adapter with Open and creates a protection domain (PD), memory
// regions (MR), completion queues (CQ) and queue pairs (QP). It exchanges an
// Endpoint with its peer, connects with QP.Connect, posts work with PostSend and
// PostRecv, and takes the completions with CQ.Poll. CQ.Wait sleeps until there is
// one. Package rdmacm connects by address and port instead.
//
// This program sends a message from one adapter to another:
//
//	package main
//
//	import (
//		"context"
//		"fmt"
//		"log"
//		"time"
//
//		"github.com/softhca/softhca/verbs"
//	)
//
//	// side is an adapter with memory and a queue pair.
//	type side struct {
//		ctx *verbs.Context
//		cq  *verbs.CQ
//		mr  *verbs.MR
//		qp  *verbs.QP
//		end verbs.Endpoint
//	}
//
//	func open(addr string) *side {
//		s := &side{ctx: must(verbs.Open(verbs.Config{Addr: addr}))}
//		pd := must(s.ctx.AllocPD())
//		s.cq = must(s.ctx.CreateCQ(16, nil))
//		s.mr = must(pd.RegMR(make([]byte, 4096), verbs.AccessLocalWrite))
//		s.qp = must(pd.CreateQP(&verbs.QPInitAttr{
//			Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq,
//			Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1},
//		}))
//		s.end = must(s.qp.Endpoint(verbs.RandomPSN(), s.ctx.GIDIndex()))
//		return s
//	}
//
//	// complete waits for a completion.
//	func (s *side) complete() verbs.WC {
//		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
//		defer cancel()
//		wcs := make([]verbs.WC, 1)
//		for must(s.cq.Poll(wcs)) == 0 {
//			check(s.cq.Wait(ctx))
//		}
//		check(wcs[0].Err())
//		return wcs[0]
//	}
//
//	func main() {
//		a, b := open("127.0.0.1"), open("127.0.0.2")
//		defer a.ctx.Close()
//		defer b.ctx.Close()
//
//		// Each side needs the other's Endpoint. Programs on two hosts send it over TCP, say:
//		// an Endpoint has a form as text.
//		check(a.qp.Connect(a.end, b.end, verbs.ConnectionAttr()))
//		check(b.qp.Connect(b.end, a.end, verbs.ConnectionAttr()))
//
//		check(b.qp.PostRecv(verbs.RecvWR{WRID: 1, SGList: []verbs.SGE{b.mr.SGE(0, 4096)}}))
//		n := copy(a.mr.Bytes(), "hello")
//		check(a.qp.PostSend(verbs.SendWR{
//			WRID: 2, Opcode: verbs.WRSend, Flags: verbs.SendSignaled,
//			SGList: []verbs.SGE{a.mr.SGE(0, uint32(n))},
//		}))
//		fmt.Println("sent:", a.complete().Status)
//		wc := b.complete()
//		fmt.Printf("received: %s\n", b.mr.Bytes()[:wc.ByteLen])
//	}
//
//	func check(err error) {
//		if err != nil {
//			log.Fatal(err)
//		}
//	}
//
//	func must[T any](v T, err error) T {
//		check(err)
//		return v
//	}
//
// Three mistakes are common. A QPCap without MaxSendSGE or MaxRecvSGE creates queues
// for requests without data. A send work request completes with an entry in the CQ
// only if it has SendSignaled, unless QPInitAttr.SQSig is SigAll. A receive must be
// posted before the message arrives; until then the sender retries, RNRRetry times.
//
// All functions and methods may be called from several goroutines at once. Only
// CQ.Wait, CompChannel.Get and GetAsyncEvent wait for a peer. Calls that create,
// change or destroy an object wait for the adapter's lock, which is held briefly;
// AttachMcast and DetachMcast also wait for the operating system. Errors unwrap to
// the errno that libibverbs would return, so errors.Is(err, syscall.ENOMEM) works;
// an Error says which object was wrong.
package verbs

// For readers of the source: config.go, devices.go and context.go, pd.go, mr.go and ah.go,
// cq.go, channel.go and wait.go, endpoint.go, qp.go and sendwr.go, rd.go, mcast.go, srq.go, event.go, faults.go,
// check.go, trace.go and log.go; vocabulary.go, constants.go and errors.go have what comes from package ib.
// All of it is thin over package internal/device.

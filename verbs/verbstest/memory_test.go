package verbstest_test

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// Each case is a program with a bug, and the corrected program if bug is false. The line whose call the finding is
// about ends in the comment BUG.

func sendBufferChanged(r *rig, bug bool) {
	r.open(settings{})
	must.Do(r.t, r.b.qp.PostRecv(r.receive(0, 64)))
	must.Do(r.t, r.a.qp.PostSend(r.send(64))) // BUG
	if bug {
		r.arrives(r.a.cq)
		r.a.mr.Bytes()[63]++
	}
	r.want(r.a.cq, verbs.WCSuccess)
	r.a.mr.Bytes()[63]++
	r.want(r.b.cq, verbs.WCSuccess)
	r.close()
}

// Memory that is registered by its address is looked at as well. It must not be on the stack, which Go moves.
func foreignBufferChanged(r *rig, bug bool) {
	r.open(settings{})
	r.buf = make([]byte, 64)
	buf := r.buf
	mr, err := r.a.pd.RegMREx(&verbs.MRAttr{Addr: uintptr(unsafe.Pointer(&buf[0])), Length: 64})
	must.Do(r.t, err)
	wr := r.write(64)
	wr.SGList = []verbs.SGE{mr.SGE(0, 64)}
	must.Do(r.t, r.a.qp.PostSend(wr)) // BUG
	if bug {
		buf[5]++
	}
	r.want(r.a.cq, verbs.WCSuccess)
	must.Do(r.t, mr.Dereg())
	r.close()
	runtime.KeepAlive(r)
}

// A signaled request covers the unsignaled ones before it.
func unsignaledBufferChanged(r *rig, bug bool) {
	r.open(settings{})
	first := r.write(8)
	first.Flags = 0
	must.Do(r.t, r.a.qp.PostSend(first)) // BUG
	last := r.write(8)
	last.SGList[0].Addr += 64
	must.Do(r.t, r.a.qp.PostSend(last))
	if bug {
		r.arrives(r.a.cq)
		r.a.mr.Bytes()[0]++
	}
	r.want(r.a.cq, verbs.WCSuccess)
	r.close()
}

// The peer may write to memory that the adapter sends: what arrives is not defined, but the program does not know
// when the peer writes.
func writtenByPeer(r *rig, _ bool) {
	r.open(settings{})
	must.Do(r.t, r.b.qp.PostRecv(r.receive(64, 64)))
	must.Do(r.t, r.a.qp.PostSend(r.send(64)))
	r.want(r.b.cq, verbs.WCSuccess)
	r.b.mr.Bytes()[0] = 7
	must.Do(r.t, r.b.qp.PostSend(verbs.SendWR{
		Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, SGList: []verbs.SGE{r.b.mr.SGE(0, 8)}, RemoteAddr: r.a.mr.Addr(), RKey: r.a.mr.RKey(),
	}))
	r.want(r.b.cq, verbs.WCSuccess)
	r.want(r.a.cq, verbs.WCSuccess)
	r.close()
}

// A datagram may be reused as soon as the peer has answered.
func datagramReused(r *rig, _ bool) {
	r.open(settings{typ: verbs.UD})
	ah := r.address()
	must.Do(r.t, r.b.qp.PostRecv(r.receive(0, 128)))
	wr := r.send(64)
	wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, r.b.qp.QPN(), qkey
	must.Do(r.t, r.a.qp.PostSend(wr))
	r.want(r.b.cq, verbs.WCSuccess)
	r.a.mr.Bytes()[0]++
	r.want(r.a.cq, verbs.WCSuccess)
	must.Do(r.t, ah.Destroy())
	r.close()
}

// Without a receive of the peer, the adapter repeats the message.
func regionDeregisteredInUse(r *rig, bug bool) {
	r.open(settings{})
	mr, err := r.a.pd.RegMR(make([]byte, 64), 0)
	must.Do(r.t, err)
	must.Do(r.t, r.a.qp.PostSend(verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{mr.SGE(0, 64)}}))
	if bug {
		must.Do(r.t, mr.Dereg()) // BUG
	}
	must.Do(r.t, r.b.qp.PostRecv(r.receive(0, 64)))
	if bug {
		r.completes(r.a.cq) // with an error or not: that depends on whether the adapter reads the memory again
	} else {
		r.want(r.a.cq, verbs.WCSuccess)
		r.want(r.b.cq, verbs.WCSuccess)
		must.Do(r.t, mr.Dereg())
	}
	r.close()
}

// In SQD a request waits, so the adapter reads its memory after the region is gone. The completion with an error is no
// second finding.
func regionDeregisteredInSQD(r *rig, bug bool) {
	r.open(settings{})
	mr, err := r.a.pd.RegMR(make([]byte, 64), 0)
	must.Do(r.t, err)
	must.Do(r.t, r.a.qp.Modify(&verbs.QPAttr{State: verbs.SQD}, verbs.AttrState))
	wr := r.write(64)
	wr.SGList = []verbs.SGE{mr.SGE(0, 64)}
	must.Do(r.t, r.a.qp.PostSend(wr))
	status := verbs.WCSuccess
	if bug {
		must.Do(r.t, mr.Dereg()) // BUG
		status = verbs.WCLocProtErr
	}
	must.Do(r.t, r.a.qp.Modify(&verbs.QPAttr{State: verbs.RTS}, verbs.AttrState))
	r.want(r.a.cq, status)
	if !bug {
		must.Do(r.t, mr.Dereg())
	}
	r.close()
}

func regionReregisteredInUse(r *rig, bug bool) {
	r.open(settings{})
	must.Do(r.t, r.a.qp.PostSend(r.send(64)))
	if bug {
		must.Do(r.t, r.a.mr.ReregMemory(make([]byte, 64))) // BUG
	}
	must.Do(r.t, r.b.qp.PostRecv(r.receive(0, 64)))
	if bug {
		r.completes(r.a.cq) // with an error or not: that depends on whether the adapter reads the memory again
	} else {
		r.want(r.a.cq, verbs.WCSuccess)
		r.want(r.b.cq, verbs.WCSuccess)
		must.Do(r.t, r.a.mr.ReregMemory(make([]byte, 64)))
	}
	r.close()
}

func keyUnknown(r *rig, bug bool) {
	r.open(settings{})
	wr := r.send(64)
	status := verbs.WCSuccess
	if bug {
		wr.SGList[0].LKey, status = 0x1234, verbs.WCLocProtErr
	}
	must.Do(r.t, r.b.qp.PostRecv(r.receive(0, 64)))
	must.Do(r.t, r.a.qp.PostSend(wr)) // BUG
	r.want(r.a.cq, status)
	r.close()
}

func keyUnknownOfReceive(r *rig, bug bool) {
	r.open(settings{shared: true})
	wr := r.receive(0, 64)
	if bug {
		wr.SGList[0].LKey = 0x1234
	}
	must.Do(r.t, r.b.srq.PostRecv(wr)) // BUG
	r.close()
}

func keyDeregistered(r *rig, bug bool) {
	r.open(settings{})
	old := r.receive(0, 64)
	must.Do(r.t, r.b.mr.Dereg())
	var err error
	r.b.mr, err = r.b.pd.RegMR(make([]byte, 64), verbs.AccessLocalWrite)
	must.Do(r.t, err)
	if !bug {
		old = r.receive(0, 64)
	}
	must.Do(r.t, r.b.qp.PostRecv(old)) // BUG
	r.close()
}

func regionOfAnotherDomain(r *rig, bug bool) {
	r.open(settings{})
	pd, err := r.b.ctx.AllocPD()
	must.Do(r.t, err)
	if bug {
		must.Do(r.t, r.b.mr.ReregPD(pd))
	}
	must.Do(r.t, r.b.qp.PostRecv(r.receive(0, 64))) // BUG
	must.Do(r.t, r.b.mr.ReregPD(r.b.pd))
	must.Do(r.t, pd.Dealloc())
	r.close()
}

func noLocalWrite(r *rig, bug bool) {
	r.open(settings{})
	if bug {
		must.Do(r.t, r.b.mr.ReregAccess(verbs.AccessRemoteRead))
	}
	must.Do(r.t, r.b.qp.PostRecv(r.receive(0, 64))) // BUG
	r.close()
}

func readWithoutLocalWrite(r *rig, bug bool) {
	r.open(settings{})
	status := verbs.WCSuccess
	if bug {
		must.Do(r.t, r.a.mr.ReregAccess(0))
		status = verbs.WCLocProtErr
	}
	must.Do(r.t, r.a.qp.PostSend(r.read(64))) // BUG
	r.want(r.a.cq, status)
	r.close()
}

func beyondRegion(r *rig, bug bool) {
	r.open(settings{})
	off := r.b.mr.Len() - 64
	if bug {
		off++
	}
	must.Do(r.t, r.b.qp.PostRecv(r.receive(off, 64))) // BUG
	r.close()
}

// The addresses of a zero-based region count from 0, and a null region has any address.
func otherAddresses(r *rig, _ bool) {
	r.open(settings{})
	zero, err := r.b.pd.RegMR(make([]byte, 64), verbs.AccessLocalWrite|verbs.AccessZeroBased)
	must.Do(r.t, err)
	null, err := r.b.pd.AllocNullMR()
	must.Do(r.t, err)
	must.Do(r.t, r.b.qp.PostRecv(verbs.RecvWR{SGList: []verbs.SGE{{Addr: 0, Length: 64, LKey: zero.LKey()}, {Addr: 5, Length: 64, LKey: null.LKey()}}}))
	r.drain(r.b)
	must.Do(r.t, r.b.qp.Destroy())
	r.b.qp = nil
	must.Do(r.t, zero.Dereg())
	must.Do(r.t, null.Dereg())
	r.close()
}

// UC sends a message once, so the program may use the buffer as soon as the peer has the message.
func changedAfterArrival(r *rig, _ bool) {
	r.open(settings{typ: verbs.UC})
	must.Do(r.t, r.b.qp.PostRecv(r.receive(0, 64)))
	must.Do(r.t, r.a.qp.PostSend(r.send(64)))
	r.want(r.b.cq, verbs.WCSuccess)
	r.a.mr.Bytes()[0]++
	r.want(r.a.cq, verbs.WCSuccess)
	r.close()
}

// The adapter is done with the memory as soon as the completion has arrived.
func deregisteredAfterArrival(r *rig, _ bool) {
	r.open(settings{})
	mr, err := r.a.pd.RegMR(make([]byte, 64), 0)
	must.Do(r.t, err)
	wr := r.write(64)
	wr.SGList = []verbs.SGE{mr.SGE(0, 64)}
	must.Do(r.t, r.a.qp.PostSend(wr))
	r.arrives(r.a.cq)
	must.Do(r.t, mr.Dereg())
	r.want(r.a.cq, verbs.WCSuccess)
	r.close()
}

// A queue pair in ERR sends nothing more.
func deregisteredInError(r *rig, _ bool) {
	r.open(settings{})
	mr, err := r.a.pd.RegMR(make([]byte, 64), 0)
	must.Do(r.t, err)
	wr := r.send(64)
	wr.SGList = []verbs.SGE{mr.SGE(0, 64)}
	must.Do(r.t, r.a.qp.PostSend(wr))
	must.Do(r.t, r.a.qp.Modify(&verbs.QPAttr{State: verbs.ERR}, verbs.AttrState))
	must.Do(r.t, mr.Dereg())
	r.want(r.a.cq, verbs.WCWRFlushErr)
	r.close()
}

// A region with a window is not deregistered.
func deregistrationRefused(r *rig, _ bool) {
	r.open(settings{})
	mr, err := r.a.pd.RegMR(make([]byte, 64), verbs.AccessLocalWrite|verbs.AccessMWBind)
	must.Do(r.t, err)
	mw, err := r.a.pd.AllocMW(verbs.MWType1)
	must.Do(r.t, err)
	must.Do(r.t, r.a.qp.BindMW(1, verbs.SendSignaled, verbs.MWBind{MW: mw, MR: mr, Addr: mr.Addr(), Length: 64, Access: verbs.AccessRemoteRead}))
	r.want(r.a.cq, verbs.WCSuccess)
	wr := r.send(64)
	wr.SGList = []verbs.SGE{mr.SGE(0, 64)}
	must.Do(r.t, r.a.qp.PostSend(wr))
	r.refused(mr.Dereg(), true)
	must.Do(r.t, r.b.qp.PostRecv(r.receive(0, 64)))
	r.want(r.a.cq, verbs.WCSuccess)
	r.want(r.b.cq, verbs.WCSuccess)
	must.Do(r.t, mw.Dealloc())
	must.Do(r.t, mr.Dereg())
	r.close()
}

// A message takes a receive whose region is gone.
func receiveDeregistered(r *rig, bug bool) {
	r.open(settings{})
	mr, err := r.b.pd.RegMR(make([]byte, 64), verbs.AccessLocalWrite)
	must.Do(r.t, err)
	must.Do(r.t, r.b.qp.PostRecv(verbs.RecvWR{SGList: []verbs.SGE{mr.SGE(0, 64)}})) // BUG
	if bug {
		must.Do(r.t, mr.Dereg())
	}
	must.Do(r.t, r.a.qp.PostSend(r.send(64)))
	status := verbs.WCSuccess
	if bug {
		status = verbs.WCLocProtErr
	}
	r.want(r.b.cq, status)
	r.completes(r.a.cq)
	if !bug {
		must.Do(r.t, mr.Dereg())
	}
	r.close()
}

// The region has its new key in findings.
func keyOfMovedRegion(r *rig, bug bool) {
	r.open(settings{})
	old := r.receive(0, 64)
	must.Do(r.t, r.b.mr.ReregMemory(make([]byte, 64)))
	r.called(uint64(r.b.mr.LKey()), "NEW LKEY")
	if !bug {
		old = r.receive(0, 64)
	}
	must.Do(r.t, r.b.qp.PostRecv(old)) // BUG
	r.close()
}

func movedRegionUsed(r *rig, bug bool) {
	r.open(settings{})
	must.Do(r.t, r.a.mr.ReregMemory(make([]byte, 64)))
	r.called(uint64(r.a.mr.LKey()), "NEW LKEY")
	mr := r.a.mr
	if bug {
		must.Do(r.t, mr.Dereg())
		var err error
		r.a.mr, err = r.a.pd.RegMR(make([]byte, 64), verbs.AccessLocalWrite)
		must.Do(r.t, err)
	}
	r.refused(mr.ReregAccess(verbs.AccessLocalWrite), bug) // BUG
	r.close()
}

// The region is the last user of its second domain, and no longer one of the first.
func domainOfMovedRegion(r *rig, bug bool) {
	r.open(settings{})
	first, err := r.a.ctx.AllocPD()
	must.Do(r.t, err)
	second, err := r.a.ctx.AllocPD()
	must.Do(r.t, err)
	mr, err := first.RegMR(make([]byte, 64), 0)
	must.Do(r.t, err)
	must.Do(r.t, mr.ReregMemory(make([]byte, 64)))
	r.called(uint64(mr.LKey()), "NEW LKEY")
	must.Do(r.t, mr.ReregPD(second))
	must.Do(r.t, first.Dealloc())
	if !bug {
		must.Do(r.t, mr.Dereg())
	}
	r.refused(second.Dealloc(), bug) // BUG
	if bug {
		must.Do(r.t, mr.Dereg())
		must.Do(r.t, second.Dealloc())
	}
	r.close()
}

// The signaled request itself is covered, too, and so are all elements of it.
func laterElementChanged(r *rig, bug bool) {
	r.open(settings{})
	first := r.write(8)
	first.Flags = 0
	must.Do(r.t, r.a.qp.PostSend(first))
	last := r.write(8)
	last.SGList = []verbs.SGE{r.a.mr.SGE(64, 8), r.a.mr.SGE(128, 8)}
	must.Do(r.t, r.a.qp.PostSend(last)) // BUG
	if bug {
		r.arrives(r.a.cq)
		r.a.mr.Bytes()[128+7]++
	}
	r.want(r.a.cq, verbs.WCSuccess)
	r.close()
}

func earlierElementChanged(r *rig, bug bool) {
	r.open(settings{})
	wr := r.write(8)
	wr.SGList = []verbs.SGE{r.a.mr.SGE(64, 8), r.a.mr.SGE(128, 8)}
	must.Do(r.t, r.a.qp.PostSend(wr)) // BUG
	if bug {
		r.arrives(r.a.cq)
		r.a.mr.Bytes()[64]++
	}
	r.want(r.a.cq, verbs.WCSuccess)
	r.close()
}

// Inline data is copied by the post. An element without length needs no key.
func noMemoryNeeded(r *rig, _ bool) {
	r.open(settings{})
	wr := r.write(0)
	wr.SGList, wr.InlineData, wr.Flags = nil, []byte("inline"), wr.Flags|verbs.SendInline
	must.Do(r.t, r.a.qp.PostSend(wr))
	wr.InlineData[0]++
	r.want(r.a.cq, verbs.WCSuccess)
	wr = r.write(0)
	wr.SGList[0].LKey = 0x1234
	must.Do(r.t, r.a.qp.PostSend(wr))
	r.want(r.a.cq, verbs.WCSuccess)
	r.close()
}

// One goroutine posts, another one polls.
func changedInAnotherGoroutine(r *rig, bug bool) {
	r.open(settings{})
	posted := make(chan error)
	go func() {
		posted <- r.a.qp.PostSend(r.write(8)) // BUG
	}()
	must.Do(r.t, <-posted)
	if bug {
		r.arrives(r.a.cq)
		r.a.mr.Bytes()[0]++
	}
	r.want(r.a.cq, verbs.WCSuccess)
	r.close()
}

// The same bug at two places has two findings, and at one place one.
func sameBugTwice(r *rig, bug bool) {
	r.open(settings{})
	wr := r.receive(0, 64)
	if bug {
		wr.SGList[0].LKey = 0x1234
	}
	for i := range uint64(2) {
		wr.SGList[0].Addr += i * 64
		must.Do(r.t, r.b.qp.PostRecv(wr)) // BUG
	}
	wr.SGList[0].Addr += 64
	must.Do(r.t, r.b.qp.PostRecv(wr)) // BUG
	r.close()
}

func TestK1_GoMemory(t *testing.T) { runCases(t, memoryCases(), "memory", newRig) }

// memoryCases returns the cases of this file.
func memoryCases() []bugCase {
	return []bugCase{
		{"send-buffer-changed", sendBufferChanged},
		{"send-buffer-changed", foreignBufferChanged},
		{"send-buffer-changed", unsignaledBufferChanged},
		{"", datagramReused},
		{"", changedAfterArrival},
		{"", writtenByPeer},
		{"region-deregistered-in-use", regionDeregisteredInUse},
		{"region-deregistered-in-use", regionDeregisteredInSQD},
		{"region-deregistered-in-use", regionReregisteredInUse},
		{"key-unknown", keyUnknown},
		{"key-unknown", keyUnknownOfReceive},
		{"key-deregistered", keyDeregistered},
		{"region-of-another-domain", regionOfAnotherDomain},
		{"no-local-write", noLocalWrite},
		{"no-local-write", readWithoutLocalWrite},
		{"beyond-region", beyondRegion},
		{"", otherAddresses},
		{"", deregisteredAfterArrival},
		{"", deregisteredInError},
		{"", deregistrationRefused},
		{"local-operation-error", receiveDeregistered},
		{"key-deregistered", keyOfMovedRegion},
		{"used-after-destroy", movedRegionUsed},
		{"destroy-refused", domainOfMovedRegion},
		{"send-buffer-changed", laterElementChanged},
		{"send-buffer-changed", earlierElementChanged},
		{"", noMemoryNeeded},
		{"send-buffer-changed", changedInAnotherGoroutine},
		{"key-unknown key-unknown", sameBugTwice},
	}
}

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

// Memory that is registered by its address is looked at as well.
func foreignBufferChanged(r *rig, bug bool) {
	r.open(settings{})
	buf := make([]byte, 64)
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
	runtime.KeepAlive(buf)
	r.close()
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

func TestK1_GoMemory(t *testing.T) {
	runCases(t, []bugCase{
		{"send-buffer-changed", sendBufferChanged},
		{"send-buffer-changed", foreignBufferChanged},
		{"send-buffer-changed", unsignaledBufferChanged},
		{"", datagramReused},
		{"", changedAfterArrival},
		{"", writtenByPeer},
		{"region-deregistered-in-use", regionDeregisteredInUse},
		{"region-deregistered-in-use", regionReregisteredInUse},
		{"key-unknown", keyUnknown},
		{"key-unknown", keyUnknownOfReceive},
		{"key-deregistered", keyDeregistered},
		{"region-of-another-domain", regionOfAnotherDomain},
		{"no-local-write", noLocalWrite},
		{"no-local-write", readWithoutLocalWrite},
		{"beyond-region", beyondRegion},
		{"", otherAddresses},
	})
}

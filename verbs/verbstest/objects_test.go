package verbstest_test

import (
	"errors"
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// refused requires that a call fails if there is a bug.
func (r *rig) refused(err error, bug bool) {
	r.t.Helper()
	if (err != nil) != bug {
		r.t.Fatalf("the call returns %v", err)
	}
}

func destroyRefused(r *rig, bug bool) {
	r.open(settings{})
	if !bug {
		must.Do(r.t, r.a.qp.Destroy())
		r.a.qp = nil
		must.Do(r.t, r.a.mr.Dereg())
	}
	r.refused(r.a.pd.Dealloc(), bug) // BUG
	if !bug {
		var err error
		r.a.pd, err = r.a.ctx.AllocPD()
		must.Do(r.t, err)
		r.a.mr, err = r.a.pd.RegMR(nil, 0)
		must.Do(r.t, err)
	}
	r.close()
}

func cqStillUsed(r *rig, bug bool) {
	r.open(settings{})
	if !bug {
		must.Do(r.t, r.a.qp.Destroy())
		r.a.qp = nil
	}
	r.refused(r.a.cq.Destroy(), bug) // BUG
	if !bug {
		var err error
		r.a.cq, err = r.a.ctx.CreateCQ(1, nil)
		must.Do(r.t, err)
	}
	r.close()
}

// A deferred call destroys the objects again, and returns an error.
func destroyedTwice(r *rig, _ bool) {
	r.open(settings{shared: true})
	defer func() {
		for _, end := range []func() error{r.b.qp.Destroy, r.b.srq.Destroy, r.b.cq.Destroy, r.b.mr.Dereg, r.b.pd.Dealloc} {
			r.refused(end(), true)
		}
	}()
	must.Do(r.t, r.b.qp.Destroy())
	must.Do(r.t, r.b.srq.Destroy())
	must.Do(r.t, r.b.cq.Destroy())
	must.Do(r.t, r.b.mr.Dereg())
	must.Do(r.t, r.b.pd.Dealloc())
}

func usedAfterDestroy(r *rig, bug bool) {
	r.open(settings{})
	if bug {
		must.Do(r.t, r.b.qp.Destroy())
	}
	_, err := r.b.qp.Query() // BUG
	r.refused(err, bug)
	if !bug {
		must.Do(r.t, r.b.qp.Destroy())
	}
	r.b.qp = nil
	r.close()
}

// Goroutines may post until an error says that another one has destroyed the queue.
func postUntilDestroyed(r *rig, _ bool) {
	r.open(settings{shared: true})
	must.Do(r.t, r.a.qp.Destroy())
	r.refused(r.a.qp.PostSend(r.send(8)), true)
	r.refused(r.a.qp.PostRecv(r.receive(0, 8)), true)
	must.Do(r.t, r.b.qp.Destroy())
	must.Do(r.t, r.b.srq.Destroy())
	r.refused(r.b.srq.PostRecv(r.receive(0, 8)), true)
	must.Do(r.t, r.b.cq.Destroy())
	r.refused(r.b.cq.ReqNotify(false), true)
}

func destroyedHandle(r *rig, bug bool) {
	r.open(settings{typ: verbs.UD})
	ah, status := r.address(), verbs.WCSuccess
	if bug {
		must.Do(r.t, ah.Destroy())
		status = verbs.WCLocQPOpErr
	}
	wr := r.send(8)
	wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, r.b.qp.QPN(), qkey
	must.Do(r.t, r.a.qp.PostSend(wr)) // BUG
	r.want(r.a.cq, status)
	if !bug {
		must.Do(r.t, ah.Destroy())
	}
	r.close()
}

func createdFromDestroyed(r *rig, bug bool) {
	r.open(settings{})
	pd, err := r.a.ctx.AllocPD()
	must.Do(r.t, err)
	if bug {
		must.Do(r.t, pd.Dealloc())
	}
	mr, err := pd.RegMR(make([]byte, 8), 0) // BUG
	r.refused(err, bug)
	if !bug {
		must.Do(r.t, mr.Dereg())
		must.Do(r.t, pd.Dealloc())
	}
	r.close()
}

// pollUntilDestroyed ends a loop by destroying its queue, as Poll documents.
func pollUntilDestroyed(r *rig, _ bool) {
	r.open(settings{})
	cq, err := r.a.ctx.CreateCQ(1, nil)
	must.Do(r.t, err)
	end := make(chan error)
	go func() {
		wcs := make([]verbs.WC, 1)
		for {
			if _, err := cq.Poll(wcs); err != nil {
				end <- err
				return
			}
		}
	}()
	must.Do(r.t, cq.Destroy())
	if err := <-end; !errors.Is(err, verbs.ErrInvalidCQ) {
		r.t.Error(err)
	}
	r.close()
}

func eventNotAcknowledged(r *rig, bug bool) {
	r.open(settings{})
	must.Do(r.t, r.a.qp.Modify(&verbs.QPAttr{State: verbs.SQD, EnSQDAsyncNotify: true}, verbs.AttrState|verbs.AttrEnSQDAsyncNotify))
	ev, err := r.a.ctx.GetAsyncEvent(r.t.Context())
	must.Do(r.t, err)
	if !bug {
		ev.Ack()
	}
	r.refused(r.a.qp.Destroy(), bug) // BUG
	must.Do(r.t, r.a.ctx.Close())
	must.Do(r.t, r.b.ctx.Close())
}

// The goroutine that takes events acknowledges one after the first attempt to destroy the queue pair.
func eventAcknowledgedLater(r *rig, _ bool) {
	r.open(settings{})
	must.Do(r.t, r.a.qp.Modify(&verbs.QPAttr{State: verbs.SQD, EnSQDAsyncNotify: true}, verbs.AttrState|verbs.AttrEnSQDAsyncNotify))
	ev, err := r.a.ctx.GetAsyncEvent(r.t.Context())
	must.Do(r.t, err)
	r.refused(r.a.qp.Destroy(), true)
	ev.Ack()
	must.Do(r.t, r.a.qp.Destroy())
	r.a.qp = nil
	r.close()
}

// The program acknowledges the event after the attempt, and lets Close release the queue pair.
func eventAcknowledgedBeforeClose(r *rig, _ bool) {
	r.open(settings{})
	must.Do(r.t, r.a.qp.Modify(&verbs.QPAttr{State: verbs.SQD, EnSQDAsyncNotify: true}, verbs.AttrState|verbs.AttrEnSQDAsyncNotify))
	ev, err := r.a.ctx.GetAsyncEvent(r.t.Context())
	must.Do(r.t, err)
	r.refused(r.a.qp.Destroy(), true)
	ev.Ack()
	must.Do(r.t, r.a.ctx.Close())
	must.Do(r.t, r.b.ctx.Close())
}

func leftAtClose(r *rig, bug bool) {
	r.open(settings{})
	pd, err := r.a.ctx.AllocPD() // BUG
	must.Do(r.t, err)
	if !bug {
		must.Do(r.t, pd.Dealloc())
	}
	r.close()
}

func receivesOverlap(r *rig, bug bool) {
	r.open(settings{})
	distance := uint64(64)
	if bug {
		distance--
	}
	must.Do(r.t, r.b.qp.PostRecv(r.receive(0, 64)))
	must.Do(r.t, r.b.qp.PostRecv(r.receive(distance, 64))) // BUG
	r.close()
}

func readsOverlap(r *rig, bug bool) {
	r.open(settings{})
	must.Do(r.t, r.a.qp.PostSend(r.read(64)))
	if !bug {
		r.want(r.a.cq, verbs.WCSuccess)
	}
	must.Do(r.t, r.a.qp.PostSend(r.read(64))) // BUG
	r.want(r.a.cq, verbs.WCSuccess)
	if bug {
		r.want(r.a.cq, verbs.WCSuccess)
	}
	r.close()
}

// A peer without receives fails a request.
func postedAfterError(r *rig, bug bool) {
	r.open(settings{attr: func(a *verbs.QPAttr) { a.RNRRetry = 0 }})
	must.Do(r.t, r.a.qp.PostSend(r.send(8)))
	r.want(r.a.cq, verbs.WCRNRRetryExcErr)
	if !bug {
		r.reset()
	}
	must.Do(r.t, r.a.qp.PostSend(r.write(8))) // BUG
	if bug {
		r.want(r.a.cq, verbs.WCWRFlushErr)
	} else {
		r.want(r.a.cq, verbs.WCSuccess)
	}
	r.close()
}

// The program moves the queue pair to ERR. A request that is posted later completes with an error, and another one
// shows that all have completed.
func drainedInError(r *rig, _ bool) {
	r.open(settings{attr: func(a *verbs.QPAttr) { a.RNRRetry = 0 }})
	must.Do(r.t, r.a.qp.PostSend(r.send(8)))
	must.Do(r.t, r.a.cq.Wait(r.t.Context()))
	must.Do(r.t, r.a.qp.Modify(&verbs.QPAttr{State: verbs.ERR}, verbs.AttrState))
	r.want(r.a.cq, verbs.WCRNRRetryExcErr)
	must.Do(r.t, r.a.qp.PostSend(r.write(8)))
	r.want(r.a.cq, verbs.WCWRFlushErr)
	r.reset()
	r.close()
}

// The peer arms the path of an XRC target.
func pathOfTarget(r *rig, _ bool) {
	r.open(settings{})
	x, err := r.a.ctx.OpenXRCDomain()
	must.Do(r.t, err)
	q, err := x.CreateQP()
	must.Do(r.t, err)
	attr := r.attr()
	attr.AV = verbs.AHAttr{DGID: r.b.ctx.QueryGID(0), HopLimit: 64, Port: 1}
	attr.Port, attr.DestQPN = 1, r.b.qp.QPN()
	must.Do(r.t, q.ModifyToRTS(attr))
	alt := verbs.QPAttr{AltAV: attr.AV, AltPort: 1, AltTimeout: 14}
	must.Do(r.t, q.Modify(&alt, verbs.AttrAltPath))
	must.Do(r.t, q.Destroy())
	must.Do(r.t, x.Close())
	r.close()
}

// setting returns a case whose queue pairs have a setting.
func setting(change func(*verbs.QPAttr)) func(*rig, bool) {
	return func(r *rig, bug bool) {
		if bug {
			r.open(settings{attr: change}) // BUG
		} else {
			r.open(settings{})
		}
		r.close()
	}
}

// There is no advice about the values of ConnectionAttr.
func usualAttributes(r *rig, _ bool) {
	r.open(settings{attr: func(a *verbs.QPAttr) { *a = verbs.ConnectionAttr() }})
	r.close()
}

// The corrected program arms the path when it sets it.
func pathNotLoaded(r *rig, bug bool) {
	r.open(settings{})
	attr := verbs.QPAttr{AltAV: verbs.AHAttr{DGID: r.b.ctx.QueryGID(0), HopLimit: 64, Port: 1}, AltPort: 1, AltTimeout: 14}
	mask := verbs.AttrAltPath
	if !bug {
		attr.PathMigState, mask = verbs.REARM, mask|verbs.AttrPathMigState
	}
	must.Do(r.t, r.a.qp.Modify(&attr, mask)) // BUG
	r.close()
}

// The other queue pair of the completion queue has completions that the program polls later.
func destroyedBeforeOtherIsPolled(r *rig, _ bool) {
	r.open(settings{})
	must.Do(r.t, r.a.qp.PostSend(r.write(8)))
	r.arrives(r.a.cq)
	must.Do(r.t, r.a.newQP(r, r.a.pd).Destroy())
	r.want(r.a.cq, verbs.WCSuccess)
	r.close()
}

// The adapter refuses requests in RESET, and says so.
func refusedPosts(r *rig, _ bool) {
	r.open(settings{})
	q := r.a.newQP(r, r.a.pd)
	send, recv := r.send(8), r.receive(0, 8)
	send.SGList[0].LKey, recv.SGList[0].LKey = 0x1234, 0x1234
	r.refused(q.PostSend(send), true)
	r.refused(q.PostRecv(recv), true)
	must.Do(r.t, q.Destroy())
	r.close()
}

func TestK1_GoObjects(t *testing.T) { runCases(t, objectsCases(), "objects", newRig) }

// objectsCases returns the cases of this file.
func objectsCases() []bugCase {
	return []bugCase{
		{"destroy-refused", destroyRefused},
		{"destroy-refused", cqStillUsed},
		{"", destroyedTwice},
		{"", postUntilDestroyed},
		{"used-after-destroy", usedAfterDestroy},
		{"used-after-destroy", destroyedHandle},
		{"used-after-destroy", createdFromDestroyed},
		{"", pollUntilDestroyed},
		{"async-events-not-acknowledged", eventNotAcknowledged},
		{"", eventAcknowledgedLater},
		{"", eventAcknowledgedBeforeClose},
		{"objects-left-at-close", leftAtClose},
		{"", destroyedBeforeOtherIsPolled},
		{"", refusedPosts},
		{"receives-overlap", receivesOverlap},
		{"reads-overlap", readsOverlap},
		{"posted-after-error", postedAfterError},
		{"", drainedInError},
		{"", pathOfTarget},
		{"timeout-forever", setting(func(a *verbs.QPAttr) { a.Timeout = 0 })},
		{"rnr-retry-forever", setting(func(a *verbs.QPAttr) { a.RNRRetry = 7 })},
		{"rnr-timer-longest", setting(func(a *verbs.QPAttr) { a.MinRNRTimer = 0 })},
		{"path-mtu-below-port", setting(func(a *verbs.QPAttr) { a.PathMTU = verbs.MTU2048 })},
		{"path-not-loaded", pathNotLoaded},
		{"", usualAttributes},
		{"no-read-resources", setting(func(a *verbs.QPAttr) { a.MaxDestRDAtomic = 0 })},
	}
}

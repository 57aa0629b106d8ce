package live

import (
	"github.com/softhca/softhca/ib"
)

// Modified looks at attributes that the program has set.
func (q *QP) Modified(a *ib.QPAttr, mask ib.AttrMask) {
	if q == nil {
		return
	}
	at := q.c.sink.here()
	var all []finding
	advise := func(name, format string, args ...any) {
		all = append(all, found(name, []call{{"set here", at}}, format, append([]any{q.name}, args...)...))
	}
	if mask&ib.AttrTimeout != 0 && a.Timeout == 0 {
		advise("timeout-forever", "the timeout of %s is 0: it waits for a lost acknowledgement without end")
	}
	if mask&ib.AttrRNRRetry != 0 && a.RNRRetry == ib.RNRInfiniteRetry {
		advise("rnr-retry-forever", "rnr_retry of %s is 7: it waits without end for a peer that posts no receives")
	}
	if mask&ib.AttrMinRNRTimer != 0 && a.MinRNRTimer == 0 {
		advise("rnr-timer-longest", "min_rnr_timer of %s is 0, which is 655 ms, the longest")
	}
	if port := q.c.mtu(); mask&ib.AttrPathMTU != 0 && a.PathMTU.Bytes() < port {
		advise("path-mtu-below-port", "the path MTU of %s is %d, and the MTU of the port is %d", a.PathMTU.Bytes(), port)
	}
	q.c.mu.Lock()
	defer q.c.mu.Unlock()
	if mask&ib.AttrAccessFlags != 0 {
		q.access = a.AccessFlags
	}
	if mask&ib.AttrMaxDestRDAtomic != 0 && a.MaxDestRDAtomic == 0 && q.access&(ib.AccessRemoteRead|ib.AccessRemoteAtomic) != 0 {
		advise("no-read-resources", "max_dest_rd_atomic of %s is 0: it refuses each READ and atomic of the peer, which has the right")
	}
	if mask&ib.AttrAltPath != 0 && q.qp.Type() != ib.XRCTgt { // the peer may arm it
		q.pathSet = at
	}
	if mask&ib.AttrPathMigState != 0 && a.PathMigState == ib.REARM {
		q.pathSet = nil
	}
	q.c.sink.add(all...)
	if mask&ib.AttrState == 0 {
		return
	}
	q.errorPolled, q.stopped = nil, a.State == ib.ERR
	if a.State == ib.RESET {
		q.forget()
	}
}

// pathUnused returns a finding if the queue pair has an alternate path that was never armed. The lock is held.
func (q *QP) pathUnused() []finding {
	if q.pathSet == nil {
		return nil
	}
	return []finding{found("path-not-loaded", []call{{"set here", q.pathSet}, {"created here", q.made}},
		"%s ends, and its alternate path was never armed by the migration state REARM", q.name)}
}

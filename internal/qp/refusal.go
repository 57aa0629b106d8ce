package qp

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/trace"
)

// badKey returns the fault of a peer's access, which the memory has just refused. what names its key.
func (e *Env) badKey(what string, f memory.Fault) fault {
	bad := remoteAccess(what + ": " + f.String())
	if e.Trace != nil {
		bad.access, bad.key = f != memory.FaultInjected, e.Mem.Denied()
		bad.why = what + ": " + e.Mem.Why(f)
	}
	return bad
}

// badLength returns the fault of a packet whose length does not fit; why says what it does not fit.
func (e *Env) badLength(cause, why string, args ...any) fault {
	bad := invalidRequest(ib.WCLocLenErr, cause)
	if e.Trace != nil {
		bad.why = cause + ": " + fmt.Sprintf(why, args...)
	}
	return bad
}

// traceRefusal records that a request of the peer is refused.
func traceRefusal(e *endpoint, psn ib.PSN, f fault) {
	if e.env.Trace == nil {
		return
	}
	r := trace.Record{Kind: trace.Refusal, PSN: psn, Cause: f.why, Access: f.access, Key: f.key}
	if r.Cause == "" {
		r.Cause = f.cause
	}
	e.record(r)
}

// denied records that a work request may not use its memory, and returns false.
func denied(e *endpoint, what string, f memory.Fault) bool {
	if e.env.Trace != nil {
		e.record(trace.Record{Kind: trace.MemoryError, Cause: what + ": " + e.env.Mem.Why(f)})
	}
	return false
}

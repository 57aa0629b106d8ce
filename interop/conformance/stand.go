package conformance

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/testagent"
	"github.com/softhca/softhca/interop/ends"
)

const (
	// caseTime is how long a case waits for something that must come. It only
	// bounds the time of a failure.
	caseTime = 20 * time.Second

	// arena is the size of the two regions: a message of 1 MiB, at any place, and
	// its margins.
	arena = 1<<20 + 1<<16
)

// Pair are two adapters, in the roles that they have in a case.
type Pair struct {
	Requester, Responder ends.End
	MTU                  ib.MTU
}

// stand is a connection between two ends with a region on each.
type stand struct {
	Pair
	req, resp  ends.QP
	local, far ends.Memory // the requester's and the responder's region
	ud         *ends.Send  // the address of UD messages, else nil
	srq        ends.SRQ    // of the responder; nil unless the plan has one
	seed       uint64      // of the last message
}

// plan configures a stand.
type plan struct {
	typ       ib.QPType
	attr      ends.Attributes
	farSize   uint64
	farAccess ib.Access
	// atomicWrite creates the requester's queue pair so that it can post ATOMIC WRITE.
	atomicWrite bool
	srq         *testagent.SRQConfig
}

func (p Pair) plan(typ ib.QPType) plan {
	return plan{typ: typ, attr: ends.Defaults(p.MTU), farSize: arena, farAccess: ib.AccessLocalWrite | ib.AccessRemote | ib.AccessMWBind}
}

// named gives the connection its own first PSN, so that in a capture it differs
// from other connections of the case with the same queue pair numbers.
func (pl *plan) named(name string) {
	h := fnv.New32a()
	_, _ = io.WriteString(h, name)
	pl.attr.RequesterPSN = ib.NewPSN(h.Sum32() & 0xffffff)
}

var queueSizes = ib.QPCap{MaxSendWR: 256, MaxRecvWR: 256, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 64}

// build makes the objects of a plan on two empty ends.
func (p Pair) build(ctx context.Context, pl plan) (s *stand, err error) {
	s = &stand{Pair: p, seed: 1}
	for _, e := range []ends.End{p.Requester, p.Responder} {
		if err := e.Clear(ctx); err != nil {
			return nil, fmt.Errorf("clear %s: %w", e.Name(), err)
		}
	}
	if s.local, err = p.Requester.RegMR(ctx, arena, ib.AccessLocalWrite|ib.AccessRemote); err != nil {
		return nil, err
	}
	if s.far, err = p.Responder.RegMR(ctx, pl.farSize, pl.farAccess); err != nil {
		return nil, err
	}
	if pl.srq != nil {
		if s.srq, err = p.Responder.CreateSRQ(ctx, *pl.srq); err != nil {
			return nil, err
		}
	}
	if s.req, err = p.Requester.CreateQP(ctx, ends.QPConfig{Type: pl.typ, Cap: queueSizes, AtomicWrite: pl.atomicWrite}); err != nil {
		return nil, err
	}
	if s.resp, err = p.Responder.CreateQP(ctx, ends.QPConfig{Type: pl.typ, Cap: queueSizes, SRQ: s.srq}); err != nil {
		return nil, err
	}
	if pl.typ == ib.UD {
		ah, err := p.Requester.CreateAH(ctx, p.Responder.Path())
		if err != nil {
			return nil, err
		}
		s.ud = &ends.Send{AH: ah, RemoteQPN: s.resp.QPN(), RemoteQKey: ends.QKey}
	}
	return s, ends.Connect(ctx, ends.Side{End: p.Requester, QP: s.req}, ends.Side{End: p.Responder, QP: s.resp}, pl.typ, pl.attr)
}

// statuses are those of completions, in order.
func statuses(wcs []ib.WC) []ib.WCStatus {
	all := make([]ib.WCStatus, len(wcs))
	for i, w := range wcs {
		all[i] = w.Status
	}
	return all
}

// ids are the IDs of the work requests of completions, in order.
func ids(wcs []ib.WC) []uint64 {
	all := make([]uint64, len(wcs))
	for i, w := range wcs {
		all[i] = w.WRID
	}
	return all
}

// isOurs reports whether an end is our adapter.
func isOurs(e ends.End) bool {
	_, ok := e.(*ends.Ours)
	return ok
}

// evidence adds the last packets of our side to what failed.
func (p Pair) evidence(r Result) Result {
	if r.Verdict != Fail {
		return r
	}
	for _, e := range []ends.End{p.Requester, p.Responder} {
		if o, ok := e.(*ends.Ours); ok {
			r.Details = append(r.Details, o.Records()...)
		}
	}
	return r
}

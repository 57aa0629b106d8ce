package conformance

import (
	"context"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/interop/ends"
)

// Cut are the rules of faults that lose the primary path of the side that
// writes, once it writes messages of several packets.
const Cut = "drop path=primary op=RDMA_WRITE_FIRST,RDMA_WRITE_MIDDLE,RDMA_WRITE_LAST"

// Timeout and retries of the queue pairs whose path is lost.
const (
	migrateTimeout = 14 // 67 ms
	migrateRetries = 3
)

// Migration loads an alternate path into our queue pair, from its adapter's second
// address to the peer's only one, and migrates it: because the first path is cut,
// or by software. A peer without path migration clears MigReq in all its packets,
// which arms our queue pair, and drops packets from any address but the primary
// path's: then the writing side must fail with RETRY_EXC_ERR within its configured
// time.
func Migration(ctx context.Context, p Pair, cut bool) Result {
	j := &judge{}
	pl := p.plan(ib.RC)
	pl.attr.Timeout, pl.attr.RetryCnt = migrateTimeout, migrateRetries
	s, _, err := p.build(ctx, pl)
	if err == nil {
		err = s.migrate(ctx, j, cut)
	}
	return p.evidence(j.result("RC path migration", err))
}

// migrate plays it.
func (s *stand) migrate(ctx context.Context, j *judge, cut bool) error {
	own, qp, peer := s.Requester, s.req, s.Responder
	if !isOurs(own) {
		own, qp, peer = s.Responder, s.resp, s.Requester
	}
	alt := ib.QPAttr{
		State: ib.RTS, PathMigState: ib.REARM, AltPort: 1, AltTimeout: migrateTimeout,
		AltAV: ib.AHAttr{DGID: peer.Path().GID, SGIDIndex: own.Path().Index + 1, HopLimit: 64, Port: 1},
	}
	if err := qp.Modify(ctx, &alt, ib.AttrState|ib.AttrAltPath|ib.AttrPathMigState); err != nil {
		return err
	}
	if _, err := s.write(ctx, 1); err != nil {
		return err
	}
	if _, err := succeeded(ctx, j, s.Requester, 1); err != nil {
		return err
	}
	a, err := qp.Query(ctx)
	if err != nil {
		return err
	}
	if a.PathMigState != ib.ARMED {
		j.wrong("after a packet of a peer that does not migrate the queue pair is %v", a.PathMigState)
		return nil
	}
	if !cut {
		moved := ib.QPAttr{State: ib.RTS, PathMigState: ib.MIGRATED}
		if err := qp.Modify(ctx, &moved, ib.AttrState|ib.AttrPathMigState); err != nil {
			return err
		}
	}
	begin, err := s.write(ctx, 3*uint32(s.MTU.Bytes()))
	if err != nil {
		return err
	}
	wcs, err := s.Requester.Poll(ctx, 1, patience)
	if err != nil {
		return err
	}
	took := time.Since(begin)
	if len(wcs) != 1 || wcs[0].Status != ib.WCRetryExcErr {
		j.wrong("the WRITE over the new path completes with %v, not %v", statuses(wcs), ib.WCRetryExcErr)
		return nil
	}
	if err := checkEvents(ctx, j, own, []ib.EventType{ib.EventPathMig}); err != nil {
		return err
	}
	j.inTime(took, cut)
	j.isKnown("the peer takes packets from the address of its path only: RETRY_EXC_ERR in the time of the timeout and the retries")
	return nil
}

// write posts a WRITE of n bytes and returns when.
func (s *stand) write(ctx context.Context, n uint32) (time.Time, error) {
	return time.Now(), s.req.PostSend(ctx, ends.Send{
		Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ends.SGE{{Memory: s.local, Length: n}},
		RemoteAddr: s.far.Addr(), RKey: s.far.RKey(),
	})
}

// inTime checks the time until RETRY_EXC_ERR against the configuration: each path
// has the timeout and the retries once.
func (j *judge) inTime(took time.Duration, cut bool) {
	least := migrateRetries * ib.AckTimeout(migrateTimeout) // a peer's clock may be coarse
	most := (migrateRetries + 1) * ib.AckTimeout(migrateTimeout)
	if cut {
		least, most = 2*least, 2*most
	}
	j.expect(took >= least && took <= most+patience/4, "RETRY_EXC_ERR after %v; the timeout and the retries make %v", took, most)
	j.measure("RETRY_EXC_ERR after %d ms of %d", took.Milliseconds(), most.Milliseconds())
}

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
	pl := p.plan(ib.RC)
	pl.attr.Timeout, pl.attr.RetryCnt = migrateTimeout, migrateRetries
	return p.play(ctx, "RC path migration", pl, func(t *steps) { t.migrate(cut) })
}

// migrate plays it.
func (t *steps) migrate(cut bool) {
	own, qp, peer := t.Requester, t.req, t.Responder
	if !isOurs(own) {
		own, qp, peer = t.Responder, t.resp, t.Requester
	}
	t.modify(qp, ib.QPAttr{
		State: ib.RTS, PathMigState: ib.REARM, AltPort: 1, AltTimeout: migrateTimeout,
		AltAV: ib.AHAttr{DGID: peer.Path().GID, SGIDIndex: own.Path().Index + 1, HopLimit: 64, Port: 1},
	}, ib.AttrState|ib.AttrAltPath|ib.AttrPathMigState)
	t.write(1)
	t.sent(1)
	if a := t.query(qp); a.PathMigState != ib.ARMED {
		t.wrong("after a packet of a peer that does not migrate the queue pair is %v", a.PathMigState)
		return
	}
	if !cut {
		t.modify(qp, ib.QPAttr{State: ib.RTS, PathMigState: ib.MIGRATED}, ib.AttrState|ib.AttrPathMigState)
	}
	begin := time.Now()
	t.write(3 * uint32(t.MTU.Bytes()))
	wcs := t.poll(t.Requester, 1, caseTime)
	took := time.Since(begin)
	if len(wcs) != 1 || wcs[0].Status != ib.WCRetryExcErr {
		t.wrong("the WRITE over the new path completes with %v, not %v", statuses(wcs), ib.WCRetryExcErr)
		return
	}
	t.events(own, ib.EventPathMig)
	t.inTime(took, cut)
	t.isKnown("the peer takes packets from the address of its path only: RETRY_EXC_ERR in the time of the timeout and the retries")
}

// write posts a WRITE of n bytes.
func (t *steps) write(n uint32) {
	t.post(ends.Send{Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: part(t.local, 0, n), RemoteAddr: t.far.Addr(), RKey: t.far.RKey()})
}

// inTime checks the time until RETRY_EXC_ERR against the configuration: each path
// has the timeout and the retries once.
func (j *judge) inTime(took time.Duration, cut bool) {
	least := migrateRetries * ib.AckTimeout(migrateTimeout) // a peer's clock may be coarse
	most := (migrateRetries + 1) * ib.AckTimeout(migrateTimeout)
	if cut {
		least, most = 2*least, 2*most
	}
	j.expect(took >= least && took <= most+caseTime/4, "RETRY_EXC_ERR after %v; the timeout and the retries make %v", took, most)
	j.measure("RETRY_EXC_ERR after %d ms of %d", took.Milliseconds(), most.Milliseconds())
}

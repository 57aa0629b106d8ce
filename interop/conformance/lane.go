package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/testagent"
	"github.com/softhca/softhca/interop/ends"
)

// The parts of a region: source and destination of messages, source and
// destination of READs.
const (
	share    = arena / 4 &^ 4095
	outgoing = 0
	incoming = share
	offered  = 2 * share
	fetched  = 3 * share
)

// firstReceive separates the IDs of receives from those of requests.
const firstReceive = 1 << 32

// lane is one direction of a connection.
type lane struct {
	from, to         ends.Side
	source, far      ends.Memory // regions of from and of to
	seed             uint64
	posted, received int // in the current batch
}

// batch is a number of messages of one kind and size.
type batch struct {
	opcode ib.WROpcode
	size   uint32
	count  uint32
}

func (b batch) String() string { return fmt.Sprintf("%d %s of %d bytes", b.count, b.opcode, b.size) }

func (b batch) bytes() uint64 { return uint64(b.size) * uint64(b.count) }

func (b batch) operation() operation { return operation{opcode: b.opcode, size: uint64(b.size)} }

// target returns where the bytes of a batch arrive.
func (l *lane) target(b batch) (ends.Memory, uint64) {
	if b.opcode == ib.WRRDMARead {
		return l.source, fetched
	}
	return l.far, incoming
}

// prepare fills the source of a batch, wipes the destination, and posts the receives.
func (t *steps) prepare(l *lane, b batch, seed uint64) {
	l.seed, l.posted, l.received = seed, int(b.count), 0
	m, off := l.source, uint64(outgoing)
	if b.opcode == ib.WRRDMARead {
		m, off = l.far, offered
	}
	t.fill(m, testagent.Span{Off: off, Len: b.bytes(), Seed: seed})
	m, off = l.target(b)
	t.do(func() error { return m.Set(t.ctx, off, b.bytes(), blank) })
	if !b.operation().takesReceive() {
		return
	}
	l.received = int(b.count)
	wr := ends.Recv{WRID: firstReceive, Copies: testagent.Copies{Count: b.count, Stride: b.size}}
	if b.operation().sends() {
		wr.SGList = part(l.far, incoming, b.size)
	}
	t.do(func() error { return l.to.QP.PostRecv(t.ctx, wr) })
}

// start posts the requests.
func (t *steps) start(l *lane, b batch) {
	wr := ends.Send{
		Opcode: b.opcode, Flags: ib.SendSignaled, Copies: testagent.Copies{Count: b.count, Stride: b.size}, RemoteStride: b.size, RKey: l.far.RKey(), ImmData: imm(l.seed),
		SGList: part(l.source, outgoing, b.size), RemoteAddr: l.far.Addr() + incoming,
	}
	if b.opcode == ib.WRRDMARead {
		wr.SGList[0].Off, wr.RemoteAddr = fetched, l.far.Addr()+offered
	}
	t.do(func() error { return l.from.QP.PostSend(t.ctx, wr) })
}

// verifyBatch checks the bytes at the destination, and the guards of both regions.
func (t *steps) verifyBatch(l *lane, b batch) {
	m, off := l.target(b)
	t.verify(m, testagent.Span{Off: off, Len: b.bytes(), Seed: l.seed}, "%s, seed %d", b, l.seed)
	t.guards(l.source, l.far)
}

// collect takes the completions of an end: of its requests, and of its receives
// for the other end's requests. Each kind completes in the order of posting.
func (t *steps) collect(e ends.End, posted, received int) {
	var sent, got []uint64
	for total := posted + received; len(sent)+len(got) < total && t.err == nil; {
		wcs := t.poll(e, min(total-len(sent)-len(got), ends.MaxPoll), caseTime)
		t.do(func() error {
			if len(wcs) == 0 {
				return fmt.Errorf("%s has %d of %d completions after %s", e.Name(), len(sent)+len(got), total, caseTime)
			}
			for _, w := range wcs {
				switch {
				case w.Status != ib.WCSuccess:
					return fmt.Errorf("%s completed request %#x with %w", e.Name(), w.WRID, statusError(w.Status))
				case w.WRID >= firstReceive:
					got = append(got, w.WRID-firstReceive)
				default:
					sent = append(sent, w.WRID)
				}
			}
			return nil
		})
	}
	for _, list := range [][]uint64{sent, got} {
		t.expect(slices.IsSorted(list) && len(slices.Compact(slices.Clone(list))) == len(list), "%s: completions are not in order, or some are there twice: %v", e.Name(), list)
	}
	t.expect(len(sent) == posted && len(got) == received, "%s: %d completions of requests and %d of receives instead of %d and %d", e.Name(), len(sent), len(got), posted, received)
}

// statusError is the status of an unsuccessful completion.
type statusError ib.WCStatus

func (s statusError) Error() string { return ib.WCStatus(s).String() }

// transfer plays a batch and returns how long its transfer took.
func (t *steps) transfer(l *lane, b batch, seed uint64) time.Duration {
	t.prepare(l, b, seed)
	at := time.Now()
	t.start(l, b)
	t.collect(l.from.End, l.posted, 0)
	took := time.Since(at)
	t.collect(l.to.End, 0, l.received)
	t.verifyBatch(l, b)
	return took
}

// lanes are the two directions of a stand.
func (s *stand) lanes() [2]*lane {
	a, b := ends.Side{End: s.Requester, QP: s.req}, ends.Side{End: s.Responder, QP: s.resp}
	return [2]*lane{{from: a, to: b, source: s.local, far: s.far}, {from: b, to: a, source: s.far, far: s.local}}
}

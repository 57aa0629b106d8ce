package conformance

import (
	"context"
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

// prepare fills the source, wipes the destination, and posts the receives.
func (l *lane) prepare(ctx context.Context, b batch, seed uint64) error {
	l.seed, l.posted, l.received = seed, int(b.count), 0
	m, off := l.source, uint64(outgoing)
	if b.opcode == ib.WRRDMARead {
		m, off = l.far, offered
	}
	if err := m.Fill(ctx, testagent.Span{Off: off, Len: b.bytes(), Seed: seed}); err != nil {
		return err
	}
	m, off = l.target(b)
	if err := m.Set(ctx, off, b.bytes(), blank); err != nil {
		return err
	}
	if !b.operation().takesReceive() {
		return nil
	}
	l.received = int(b.count)
	wr := ends.Recv{WRID: firstReceive, Copies: testagent.Copies{Count: b.count, Stride: b.size}}
	if b.operation().sends() {
		wr.SGList = []ends.SGE{{Memory: l.far, Off: incoming, Length: b.size}}
	}
	return l.to.QP.PostRecv(ctx, wr)
}

// start posts the requests.
func (l *lane) start(ctx context.Context, b batch) error {
	wr := ends.Send{
		Opcode: b.opcode, Flags: ib.SendSignaled, Copies: testagent.Copies{Count: b.count, Stride: b.size}, RemoteStride: b.size, RKey: l.far.RKey(), ImmData: imm(l.seed),
		SGList: []ends.SGE{{Memory: l.source, Off: outgoing, Length: b.size}}, RemoteAddr: l.far.Addr() + incoming,
	}
	if b.opcode == ib.WRRDMARead {
		wr.SGList[0].Off, wr.RemoteAddr = fetched, l.far.Addr()+offered
	}
	return l.from.QP.PostSend(ctx, wr)
}

// verify checks the bytes at the destination.
func (l *lane) verify(ctx context.Context, j *judge, b batch) error {
	m, off := l.target(b)
	mm, err := m.Verify(ctx, testagent.Span{Off: off, Len: b.bytes(), Seed: l.seed})
	if err != nil {
		return err
	}
	j.expect(mm.Bytes == 0, "%s, seed %d: %d bytes are wrong, the first at %d: %#02x instead of %#02x", b, l.seed, mm.Bytes, mm.First, mm.Got, mm.Want)
	for _, m := range []ends.Memory{l.source, l.far} {
		changed, err := m.Guard(ctx)
		if err != nil {
			return err
		}
		j.expect(changed == 0, "%s, seed %d: %d bytes outside of the region were written", b, l.seed, changed)
	}
	return nil
}

// collect takes the completions of an end: of its requests, and of its receives
// for the other end's requests. Each kind completes in the order of posting.
func collect(ctx context.Context, j *judge, e ends.End, posted, received int) error {
	var sent, got []uint64
	for total := posted + received; len(sent)+len(got) < total; {
		wcs, err := e.Poll(ctx, min(total-len(sent)-len(got), ends.MaxPoll), patience)
		if err != nil {
			return err
		}
		if len(wcs) == 0 {
			return fmt.Errorf("%s has %d of %d completions after %s", e.Name(), len(sent)+len(got), total, patience)
		}
		for _, w := range wcs {
			if w.Status != ib.WCSuccess {
				return fmt.Errorf("%s completed request %#x with %w", e.Name(), w.WRID, statusError(w.Status))
			}
			if w.WRID >= firstReceive {
				got = append(got, w.WRID-firstReceive)
			} else {
				sent = append(sent, w.WRID)
			}
		}
	}
	for _, list := range [][]uint64{sent, got} {
		j.expect(slices.IsSorted(list) && len(slices.Compact(slices.Clone(list))) == len(list), "%s: completions are not in order, or some are there twice: %v", e.Name(), list)
	}
	j.expect(len(sent) == posted && len(got) == received, "%s: %d completions of requests and %d of receives instead of %d and %d", e.Name(), len(sent), len(got), posted, received)
	return nil
}

// statusError is the status of an unsuccessful completion.
type statusError ib.WCStatus

func (s statusError) Error() string { return ib.WCStatus(s).String() }

// run plays a batch and returns how long its transfer took.
func (l *lane) run(ctx context.Context, j *judge, b batch, seed uint64) (time.Duration, error) {
	if err := l.prepare(ctx, b, seed); err != nil {
		return 0, err
	}
	at := time.Now()
	if err := l.start(ctx, b); err != nil {
		return 0, err
	}
	if err := collect(ctx, j, l.from.End, l.posted, 0); err != nil {
		return 0, err
	}
	took := time.Since(at)
	if err := collect(ctx, j, l.to.End, 0, l.received); err != nil {
		return 0, err
	}
	return took, l.verify(ctx, j, b)
}

// lanes are the two directions of a stand.
func (s *stand) lanes() [2]*lane {
	a, b := ends.Side{End: s.Requester, QP: s.req}, ends.Side{End: s.Responder, QP: s.resp}
	return [2]*lane{{from: a, to: b, source: s.local, far: s.far}, {from: b, to: a, source: s.far, far: s.local}}
}

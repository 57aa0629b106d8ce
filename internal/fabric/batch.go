package fabric

import (
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// Path is the source and destination of a run's segments.
type Path struct {
	Src       netip.Addr // a local address of the port, without zone
	Dst       netip.Addr // without zone, never v4-mapped
	SrcPort   uint16     // UDP source port; ignored by a port with Caps.SrcPort set
	TClass    uint8      // IPv4 TOS or IPv6 traffic class
	HopLimit  uint8      // IPv4 TTL or IPv6 hop limit
	FlowLabel uint32     // IPv6; sent as 0 by ports that cannot set it
}

// Run is a number of consecutive segments with one path: all have Size bytes
// except the last, which may be shorter. A port sends a run as one unit if the
// system supports segmentation offload. Segment i of an IPv4 run leaves with DF
// set and identification i.
type Run struct {
	Path  Path
	Bytes []byte // the segments, end to end
	Size  int    // bytes of the first segment
	Count int    // segments, at least 1
	Slot  uint8  // of the destination queue pairs; NoSlot for QP1 and for multicast groups
	Bare  bool   // the segments have no ICRC: their last four bytes are zero
	Lent  bool   // Bytes is memory of the port (Caps.Lend)
	Place uint64 // for the port: where the lent memory is
	home  int    // offset of the run in the batch's own memory
}

// NoSlot is the slot of no process.
const NoSlot = uint8(ib.QPNMulticast >> 16)

// Segment returns segment i of the run.
func (r *Run) Segment(i int) []byte {
	lo := i * r.Size
	return r.Bytes[lo:min(lo+r.Size, len(r.Bytes))]
}

// Batch collects outgoing segments for one port. It is reused: nothing in it
// is allocated after NewBatch. Not safe for concurrent use.
type Batch struct {
	Now clock.Instant // when segments were appended last; a port that needs the time may use it instead of a clock

	buf     []byte
	used    int
	runs    []Run
	sent    int // runs already sent by the port
	hidden  int // runs at the end that Pending does not return
	closed  bool
	slot    uint8
	maxSegs int
	maxRun  int
	lend    func(*Batch, int) []byte
	bare    bool // the last run is
}

// batchRuns bounds the runs of a batch.
const batchRuns = 128

// NewBatch returns an empty batch of size bytes for a port with the given
// capabilities. The size must hold at least one segment.
func NewBatch(size int, c Caps) *Batch {
	return &Batch{
		buf:     make([]byte, size),
		runs:    make([]Run, 0, batchRuns),
		maxSegs: max(c.MaxSegments, 1),
		maxRun:  max(c.MaxRunBytes, 1),
		lend:    c.Lend,
	}
}

// Aim sets the destination queue pair of the segments appended from now on. A
// network delivers a run to one process, and processes that share an address have a
// slot each, the upper byte of a QPN, so a run contains only segments for one slot.
// A segment for QP1 may be for any of them.
func (b *Batch) Aim(to ib.QPN) {
	slot := uint8(to >> 16)
	if to == ib.QPNGSI {
		slot = NoSlot
	}
	if b.slot != slot {
		b.slot, b.closed = slot, true
	}
}

// Append makes room for a segment of n bytes on the path p and returns it with
// its index in its run, which is its IPv4 identification. The caller fills all
// of it before the next call of the batch or the port, except Unappend. It
// returns nil when the batch is full. The path is copied. Does not allocate.
func (b *Batch) Append(p *Path, n int) (seg []byte, index int) {
	if b.used+n > len(b.buf) {
		return nil, 0
	}
	if r := b.open(p, n); r != nil {
		b.used += n
		lo, hi := len(r.Bytes), len(r.Bytes)+n
		r.Bytes = r.Bytes[:hi]
		r.Count++
		b.closed = n < r.Size
		return r.Bytes[lo:hi:hi], r.Count - 1
	}
	if len(b.runs) == cap(b.runs) {
		return nil, 0
	}
	lo := b.used
	b.used += n
	b.runs = append(b.runs, Run{Path: *p, Bytes: b.buf[lo:b.used], Size: n, Count: 1, Slot: b.slot, home: lo})
	b.closed = false
	if b.lend != nil {
		return b.borrow(), 0
	}
	return b.buf[lo:b.used:b.used], 0
}

// borrow asks the port for memory for the last run, which is new, and returns its segment. A lent
// run has room in the batch's own memory, too: Own needs it, and Room does not depend on what is lent.
func (b *Batch) borrow() []byte {
	r := &b.runs[len(b.runs)-1]
	if room := b.lend(b, min(max(b.maxRun, r.Size), len(b.buf)-r.home)); room != nil {
		r.Bytes, r.Lent = room[:r.Size:len(room)], true
	}
	b.bare = r.Bare
	return r.Bytes[:r.Size:r.Size]
}

// Own moves a pending run from lent memory to the batch's own. A port calls it before that memory
// ends, or is used for something else.
func (b *Batch) Own(r *Run) {
	r.Bytes = append(b.buf[r.home:r.home], r.Bytes...)
	r.Lent = false
}

// Bare reports whether the segment that the last Append returned needs no ICRC.
func (b *Batch) Bare() bool { return b.bare }

// Unappend removes the segment that the last Append returned. It must be called
// before the next Append, at most once.
func (b *Batch) Unappend() {
	r := &b.runs[len(b.runs)-1]
	n := len(r.Bytes) - (r.Count-1)*r.Size
	b.used -= n
	b.closed = false
	if r.Count--; r.Count == 0 {
		b.runs = b.runs[:len(b.runs)-1]
		b.closed = true // it is unknown whether the previous run was closed
		return
	}
	r.Bytes = r.Bytes[:len(r.Bytes)-n]
}

// open returns the last run if a segment of n bytes for p can join it.
func (b *Batch) open(p *Path, n int) *Run {
	if b.closed || len(b.runs) <= b.sent {
		return nil
	}
	r := &b.runs[len(b.runs)-1]
	if n > r.Size || r.Count == b.maxSegs || len(r.Bytes)+n > min(b.maxRun, cap(r.Bytes)) || r.Path != *p {
		return nil
	}
	return r
}

// Room returns the free bytes.
func (b *Batch) Room() int {
	if len(b.runs) == cap(b.runs) {
		return 0
	}
	return len(b.buf) - b.used
}

// Finish makes the batch full until it has been sent, unless it is empty.
func (b *Batch) Finish() {
	if len(b.runs) > 0 {
		b.used = len(b.buf)
	}
}

// Pending returns the runs that are not sent yet. The runs and their bytes are
// valid until Reset; a port may patch the bytes.
func (b *Batch) Pending() []Run { return b.runs[b.sent : len(b.runs)-b.hidden] }

// SendFirst calls send with a batch whose only pending runs are the first n. A port uses it to
// pass some of its runs to another port.
func (b *Batch) SendFirst(n int, send func(*Batch) error) error {
	b.hidden = len(b.runs) - b.sent - n
	err := send(b)
	b.hidden = 0
	return err
}

// Sent marks the first n pending runs as sent.
func (b *Batch) Sent(n int) {
	b.sent += n
	if b.sent == len(b.runs) {
		b.Reset()
	}
}

// Reset empties the batch.
func (b *Batch) Reset() {
	b.runs = b.runs[:0]
	b.used, b.sent = 0, 0
	b.closed = false
}

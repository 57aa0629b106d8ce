package perf

import (
	"cmp"
	"fmt"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/ib"
)

// Op is the measured operation.
type Op uint8

// The operations.
const (
	Write Op = iota
	WriteImm
	Send
	Read
	CmpSwap
	FetchAdd
	AtomicWrite
	Flush
	Bind
	numOps
)

// opInfo has the properties of an operation.
type opInfo struct {
	name     string
	wr       ib.WROpcode
	receives bool // the server posts receives
	answered bool // the latency is the time to the completion, since no message comes back
	fetches  bool // the answer has data
	atomic   bool // it counts the messages in the peer's memory
	word     bool // 8 bytes
	// right is the right that a window needs for the operation; 0 if the operation uses no window.
	right ib.Access
}

var ops = [numOps]opInfo{
	Write:    {name: "write", wr: ib.WRRDMAWrite, right: ib.AccessRemoteWrite},
	WriteImm: {name: "write-imm", wr: ib.WRRDMAWriteWithImm, receives: true, right: ib.AccessRemoteWrite},
	Send:     {name: "send", wr: ib.WRSend, receives: true},
	Read:     {name: "read", wr: ib.WRRDMARead, answered: true, fetches: true, right: ib.AccessRemoteRead},
	CmpSwap:  {name: "cmp-swap", wr: ib.WRAtomicCmpAndSwp, answered: true, fetches: true, atomic: true, word: true, right: ib.AccessRemoteAtomic},
	FetchAdd: {name: "fetch-add", wr: ib.WRAtomicFetchAdd, answered: true, fetches: true, atomic: true, word: true, right: ib.AccessRemoteAtomic},

	AtomicWrite: {name: "atomic-write", wr: ib.WRAtomicWrite, answered: true, word: true, right: ib.AccessRemoteWrite},
	Flush:       {name: "flush", wr: ib.WRFlush, answered: true},
	Bind:        {name: "bind", wr: ib.WRBindMW, answered: true, right: ib.AccessRemote},
}

// String returns the name that ParseOp accepts.
func (o Op) String() string {
	if o < numOps {
		return ops[o].name
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// info returns the row of an operation that ParseOp returned.
func (o Op) info() *opInfo { return &ops[o] }

// OpNames returns the names of all operations.
func OpNames() []string {
	names := make([]string, 0, numOps)
	for _, o := range ops {
		names = append(names, o.name)
	}
	return names
}

// ParseOp returns the operation with a name. The error names them all.
func ParseOp(name string) (Op, error) {
	for o := range numOps {
		if ops[o].name == name {
			return o, nil
		}
	}
	return 0, fmt.Errorf("operation %q: %s", name, text.Want(name, OpNames()))
}

// Limits of a plan. They also limit the memory that a client can make a server allocate.
const (
	maxQPs         = 1024
	maxDepth       = 16384
	maxOutstanding = 1 << 17   // work requests of all queue pairs
	maxBuffer      = 128 << 20 // bytes of messages, all queue pairs together
	maxTimeout     = 31        // code
	maxRetry       = 7
)

// Defaults of a plan.
const (
	DefaultSize        = 64 << 10 // bytes of a message when bandwidth is measured
	DefaultLatencySize = 8        // bytes of a message when latency is
	DefaultDatagram    = 1024     // bytes of a message of UD, which is a packet
	DefaultDepth       = 128
	DefaultTimeout     = 14 // 67 ms
	DefaultRetry       = 7
)

// cacheLine keeps the messages of queue pairs apart.
const cacheLine = 64

// Plan describes a measurement. The zero value of a field with a default means the
// default.
type Plan struct {
	Op       Op
	Type     ib.QPType // of the queue pairs; 0: RC
	Size     int       // bytes of a message; atomics have 8
	Depth    int       // messages outstanding on each queue pair; 1 for latency
	PostList int       // requests per post, the last of them signalled; 1 for latency
	QPs      int
	MTU      ib.MTU        // 0: the largest that both ports have
	Duration time.Duration // how long the client measures
	Latency  bool          // one message at a time, and percentiles
	Events   bool          // with Latency: both sides sleep until a completion
	Timeout  uint8         // code of the local ACK timeout, 4.096 µs · 2^code
	Retry    int           // retries before RETRY_EXC_ERR, 1 to 7; negative: none
	Rate     ib.Rate       // static rate of the paths
	Limit    uint32        // of each queue pair, in kb/s; 0: none
	Alt      bool          // an alternate path, between the second addresses of both adapters
	Window   bool          // the client's requests use keys of memory windows on the server's queue pairs
}

// Check fills defaults in and returns an error that names the field which is
// out of bounds.
func (p *Plan) Check() error {
	p.fill()
	switch {
	case p.Op >= numOps:
		return fmt.Errorf("unknown operation %v", p.Op)
	case p.Op.info().word && p.Size != 8:
		return fmt.Errorf("size %d: %v is always 8 bytes", p.Size, p.Op)
	case p.Size < 1 || p.Size > maxBuffer:
		return fmt.Errorf("size %d: want 1 to %d bytes", p.Size, maxBuffer)
	case p.QPs < 1 || p.QPs > maxQPs:
		return fmt.Errorf("%d queue pairs: want 1 to %d", p.QPs, maxQPs)
	case p.QPs*p.stride() > maxBuffer:
		return fmt.Errorf("%d queue pairs with messages of %d bytes need more than %d bytes of buffer", p.QPs, p.Size, maxBuffer)
	case p.Depth < 1 || p.Depth > maxDepth:
		return fmt.Errorf("depth %d: want 1 to %d", p.Depth, maxDepth)
	case p.QPs*p.Depth > maxOutstanding:
		return fmt.Errorf("%d queue pairs of depth %d: want at most %d messages outstanding", p.QPs, p.Depth, maxOutstanding)
	case p.PostList < 1 || p.PostList > p.Depth:
		return fmt.Errorf("%d requests a post: want 1 to the depth, which is %d", p.PostList, p.Depth)
	case p.MTU != 0 && !p.MTU.Valid():
		return fmt.Errorf("path MTU code %d is not one of 1 to 5", p.MTU)
	case p.Timeout > maxTimeout:
		return fmt.Errorf("local ACK timeout code %d: want 1 to %d", p.Timeout, maxTimeout)
	case p.Retry > maxRetry:
		return fmt.Errorf("%d retries: want at most %d", p.Retry, maxRetry)
	case !p.Rate.Valid():
		return fmt.Errorf("no static rate has the code %d", uint8(p.Rate))
	case p.Latency && (p.QPs != 1 || p.Depth != 1):
		return fmt.Errorf("latency is measured with one queue pair and one message at a time, not %d and %d", p.QPs, p.Depth)
	case p.Events && (!p.Latency || !p.Op.info().receives):
		return fmt.Errorf("sleeping until a completion works only for the latency of send and write-imm")
	}
	return p.checkService()
}

func (p *Plan) fill() {
	p.Type = cmp.Or(p.Type, ib.RC)
	if p.Size == 0 {
		switch {
		case p.Op < numOps && p.Op.info().word, p.Latency:
			p.Size = DefaultLatencySize
		case p.Type == ib.UD:
			p.Size = DefaultDatagram
		default:
			p.Size = DefaultSize
		}
	}
	p.Timeout = cmp.Or(p.Timeout, DefaultTimeout)
	p.Retry = cmp.Or(p.Retry, DefaultRetry)
	p.QPs = cmp.Or(p.QPs, 1)
	if p.Depth == 0 && p.Latency {
		p.Depth = 1
	}
	p.Depth = cmp.Or(p.Depth, DefaultDepth)
	p.PostList = cmp.Or(p.PostList, p.usualList())
}

// echoed reports whether messages go back and forth.
func (p *Plan) echoed() bool { return p.Latency && !p.Op.info().answered }

// retryCount returns the retries as an attribute.
func (p *Plan) retryCount() uint8 { return uint8(max(p.Retry, 0)) }

// stride returns the bytes from the message of one queue pair to the next, with
// room in front for what a datagram brings along.
func (p *Plan) stride() int {
	n := p.Size
	if s := p.service(); s != nil {
		n += s.header
	}
	return (n + cacheLine - 1) &^ (cacheLine - 1)
}

// usualList returns how many requests a post carries by default: a completion
// for each small message would cost as much as the message.
func (p *Plan) usualList() int {
	const small, most = 16 << 10, 32
	if p.Size >= small {
		return 1
	}
	return max(1, min(p.Depth/4, most))
}

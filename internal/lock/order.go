package lock

// Rank is the place of a lock in the order.
type Rank interface {
	// above returns the rank just above this one; nil if it is the outermost.
	above() Rank
}

// outermost is embedded in the rank of the lock that is taken first.
type outermost struct{}

func (outermost) above() Rank { return nil }

// under is embedded in a rank: its lock may be taken while locks of R, and of the ranks above
// R, are held.
type under[R Rank] struct{}

func (under[R]) above() Rank { return rank[R]() }

func rank[R Rank]() Rank {
	var r R
	return r
}

// below reports whether a lock of rank r may be taken while one of rank held is held.
func below(r, held Rank) bool {
	for r = r.above(); r != nil; r = r.above() {
		if r == held {
			return true
		}
	}
	return false
}

// The ranks, outermost first. A goroutine that holds a lock may wait only for locks whose
// rank is under its rank, directly or not: neither for another lock of the same rank, nor
// for one of another branch.
//
// capi/libibverbs/lock.h has the locks in C, which are taken before these or after them.
// Locks of files (of the broker's address and slots, of the images of sysfs) are only tried,
// so no process waits for one while it holds a mutex, and they have no rank.
type (
	// UCMManager guards the files and IDs of the kernel's interface for librdmacm (capi/ucm).
	UCMManager struct{ outermost }
	// UCMFile guards the pipe of such a file, from which the program reads that events wait.
	UCMFile struct{ under[UCMManager] }

	// ConnTurn makes the calls of Read, or of Write, of a connection take turns (rdmacm/stream).
	ConnTurn struct{ under[UCMFile] }
	// Deadline guards the timer of a deadline of a connection.
	Deadline struct{ under[ConnTurn] }
	// Stream guards the byte stream of a connection. Its holder posts and polls, and so may
	// become the shard's thread.
	Stream struct{ under[ConnTurn] }
	// IDCalls makes the calls of an rdmacm.ID take turns.
	IDCalls struct{ under[Stream] }
	// Domains guards the default domains of an adapter of a connection manager, while they
	// are allocated too.
	Domains struct{ under[IDCalls] }

	// MemberTurn is held to read a message of a member of an address and to process it
	// (internal/broker).
	MemberTurn struct{ under[Domains] }
	// Broker guards the sockets, slots and connections of the broker.
	Broker struct{ under[MemberTurn] }
	// Lease guards what a process has of its broker: connection, slot and claimed services.
	Lease struct{ under[Broker] }

	// EngineEvents is held while events are passed to a program in C, and while an object is
	// destroyed that they could name (capi/engine).
	EngineEvents struct{ under[Broker] }
	// EngineNames guards the names of functions of a program in C, also while they are read (capi/engine).
	EngineNames struct{ under[EngineEvents] }
	// Groups guards the multicast groups of a port, also during the system calls that join and
	// leave (internal/fabric/udp, raw).
	Groups struct{ under[EngineEvents] }
	// Faults guards the rules for calls of verbs; it is not held while they act
	// (internal/device).
	Faults struct{ under[EngineEvents] }

	// Control guards the control plane of an adapter: its objects and their numbers, and the
	// connection manager (internal/driver). The holder enters the shard for single steps. A
	// thread that receives and sends packets only tries this lock.
	Control struct{ under[Groups] }
	// Shard guards a shard; its holder is the shard's thread (internal/driver). What a shard
	// calls may take only the locks below: it must not wait for a program.
	Shard struct{ under[Control] }
	// MemberConns guards the table of members, to which a broker forwards packets
	// (internal/broker).
	MemberConns struct{ under[Shard] }
	// Watchers guards the functions to call when a device is gone; it is not held during the calls.
	Watchers struct{ under[Shard] }
	// Manager guards what adapters share in a connection manager of rdmacm.
	Manager struct{ under[Shard] }
	// CompChannel guards the queues in a completion channel of verbs.
	CompChannel struct{ under[Shard] }
	// Completions guards whether C has destroyed a completion queue (capi/engine). C's lock of
	// the completion channel is taken under it.
	Completions struct{ under[Shard] }

	// Checked makes the calls that post to a queue, or that take completions, take turns if the program
	// is checked (internal/check/live).
	Checked struct{ under[Shard] }
	// SendQueue guards the end of a send queue that programs fill (internal/qp).
	SendQueue struct{ under[Checked] }
	// RecvQueue guards the same of a receive queue, or of a shared one. The readers of a
	// completion queue exclude each other by a word in its memory (internal/ring), also under
	// this lock; a reader that holds the word takes no lock.
	RecvQueue struct{ under[SendQueue] }
	// Check guards what a checker knows of an adapter (internal/check/live).
	Check struct{ under[SendQueue] }
	// CheckSink guards findings that are not reported yet, and the stacks of calls.
	CheckSink struct{ under[Check] }
	// CheckTest guards whether a checked test has ended, also while a finding fails it (verbs/verbstest).
	CheckTest struct{ under[CheckSink] }
	// Events guards a device's events, and the table of objects that they can be about.
	Events struct{ under[RecvQueue] }
	// WriteBacks guards the memory that waits to be written back to its file (internal/device).
	WriteBacks struct{ under[RecvQueue] }
	// MADs guards the management datagrams, and the notices of queue pairs, that wait to pass
	// between the shard and the control plane (internal/gsi, internal/hca).
	MADs struct{ under[RecvQueue] }

	// Capture guards the file of a port that writes captures (internal/fabric/capture).
	Capture struct{ under[Shard] }
	// Near guards a port's peers in shared memory, also while the port reads the port that it wraps
	// (internal/fabric/near).
	Near struct{ under[Shard] }
	// Hearing guards the sockets of a port's groups while they are read (internal/fabric/udp).
	Hearing struct{ under[Near] }
	// Meetings guards the meetings in progress between this process and others of its host
	// (internal/fabric/near/meeting).
	Meetings struct{ under[Near] }
	// PipeNetwork guards the ports and groups of a network within the process
	// (internal/fabric/pipe).
	PipeNetwork struct{ under[Shard] }
	// PipeQueue guards the datagrams that wait at such a port.
	PipeQueue struct{ under[PipeNetwork] }
)

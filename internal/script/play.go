package script

import (
	"time"

	"github.com/softhca/softhca/ib"
)

// Play is a script in the form that is played to another adapter: the actions
// of each step, with all names and defaults resolved, and their outcome on our
// adapter. Addresses, keys and numbers of queue pairs are those of our adapter,
// in virtual memory that begins at 4 GiB with wide gaps between regions.
type Play struct {
	Header
	Name  string
	Local string // the adapter's address
	Peer  string // the peer's address
	Steps []PlayStep
}

// PlayStep is the actions of a step and their outcome.
type PlayStep struct {
	Line  int      // line of the last command
	Text  []string // the commands
	Lines []string // the output, as the script has it
	Acts  []Act

	Packets     []SentPacket
	Completions []Completion
	Events      []RaisedEvent
	Dropped     []string // queue pairs that dropped a packet, once for each
	Retries     []Retry
	States      map[string]ib.QPState // of every queue pair that is alive, after the step
	Memory      map[string][]byte     // whole regions that the step changed, after it
}

// Act is one action of a step, and whether our adapter refused it.
type Act struct {
	Verb    string // the command's first word
	Step    Step
	Refused bool
}

// Step is one of the types below.
type Step any

type (
	// AllocPD allocates a protection domain. One called pd exists.
	AllocPD struct{ Name string }

	// RegMR registers a region.
	RegMR struct {
		Name, PD      string
		Len           int
		IOVA          uint64 // the address of its first byte, for both sides
		Key           uint32 // lkey and rkey
		Access        ib.Access
		Invalidatable bool
		Unseen        bool // its changes are not shown (quiet)
	}

	// DeregMR ends a region.
	DeregMR struct{ Name string }

	// CreateCQ creates a completion queue. One called cq exists.
	CreateCQ struct {
		Name   string
		Size   uint32
		Manual bool // polled only where the script says so
	}

	// CreateSRQ creates a shared receive queue.
	CreateSRQ struct {
		Name, PD       string
		WR, SGE, Limit uint32
	}

	// CreateAH creates an address handle.
	CreateAH struct {
		Name, PD string
		Handle   ib.AHHandle
		Attr     ib.AHAttr
	}

	// CreateQP creates a queue pair.
	CreateQP struct {
		Name, PD, SendCQ, RecvCQ, SRQ string // SRQ may be empty
		Type                          ib.QPType
		SigAll                        bool
		Cap                           ib.QPCap
		Num                           ib.QPN
		PeerQPN                       ib.QPN // default destination, until a modify sets another
	}

	// Destroy ends an object.
	Destroy struct{ Name string }

	// Modify is one modify call.
	Modify struct {
		QP   string
		Attr ib.QPAttr
		Mask ib.AttrMask
	}

	// PostSend posts send requests in one call.
	PostSend struct {
		QP  string
		WRs []ib.SendWR
	}

	// PostRecv posts receive requests.
	PostRecv struct {
		To  string // a queue pair or a shared receive queue
		WRs []ib.RecvWR
	}

	// Fill writes into a region.
	Fill struct {
		Region string
		Offset int
		Bytes  []byte
	}

	// Inject hands the adapter a packet.
	Inject struct{ Injection }

	// Pass lets time go by.
	Pass struct{ For time.Duration }

	// Own is a command that only our adapter in virtual time can carry out.
	Own struct{ Words []string }
)

// SentPacket is a packet that the adapter sent.
type SentPacket struct {
	QP    string
	Bytes []byte // from the BTH to the ICRC
}

// Completion is an entry that was taken out of a completion queue.
type Completion struct {
	QP string
	WC ib.WC
}

// RaisedEvent is an asynchronous event.
type RaisedEvent struct {
	Name string // of a queue pair, a queue, or "adapter"
	Type ib.EventType
}

// Retry is a requester that goes back to an earlier PSN.
type Retry struct{ QP, Cause string }

// Follow runs a script as Run does, and returns it in a form that can be
// played to another adapter. The errors are those of Run.
func Follow(name, text string) (Play, error) {
	f, err := parse(name, text)
	if err != nil {
		return Play{}, err
	}
	rec := &recorder{held: map[*region][]byte{}}
	w := newWorld(rec)
	r, err := run(f, w)
	rec.play.Name, rec.play.Header = name, r.Header
	if w.HCA != nil {
		rec.play.Local, rec.play.Peer = w.local.String(), w.peer.String()
	}
	return rec.play, err
}

package fault

import "github.com/softhca/softhca/ib"

// Object is a kind of object on which rules on verbs act.
type Object uint8

// The objects.
const (
	Device Object = iota
	QueuePair
	CompletionQueue
	SharedReceiveQueue
)

var objectNames = [...]string{"device", "queue pair", "completion queue", "shared receive queue"}

// String returns the name of the object.
func (o Object) String() string { return objectNames[o] }

// Object returns the kind of object that a rule moves, overflows or raises an
// event about.
func (r *Rule) Object() Object {
	switch r.Action {
	case QP:
		return QueuePair
	case FillCQ:
		return CompletionQueue
	case Event:
		return About(r.Event())
	default:
		return Device
	}
}

// About returns the kind of object of an asynchronous event.
func About(t ib.EventType) Object {
	switch t {
	case ib.EventQPFatal, ib.EventQPReqErr, ib.EventQPAccessErr, ib.EventCommEst, ib.EventSQDrained,
		ib.EventPathMig, ib.EventPathMigErr, ib.EventQPLastWQEReached, ib.EventWQFatal:
		return QueuePair
	case ib.EventCQErr:
		return CompletionQueue
	case ib.EventSRQErr, ib.EventSRQLimitReached:
		return SharedReceiveQueue
	default:
		return Device
	}
}

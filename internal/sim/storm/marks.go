package storm

import (
	"github.com/softhca/softhca/internal/cm"
)

// mark is a counted situation: a clean run proves nothing about situations that
// did not occur.
type mark uint8

const (
	markTried mark = iota
	markRetried
	markUp
	markByData
	markRejected
	markStale
	markSuperseded
	markExamined
	markTrusted
	markEnded
	markTimedOut
	markOfferedInVain
	markGivenUp
	markWait
	markPartedByPeer
	markParted
	markBoth
	markLeftInVain
	markQuiet
	markResolved
	markUnresolved
	markLAP
	markLoaded
	markNever
	markRepeated
	markLate
	markForged
	markRestarts
	markReused
	markMessages
	markNoAnswer
	markWidows
	markWidowsByData
	numMarks
)

var markNames = [numMarks]string{
	"connections tried", "tried again", "sides connected", "connected by data", "rejected", "rejected as stale",
	"superseded", "examined", "trusted after all", "ended by an examination", "REQ unanswered", "REP unanswered", "given up for another", "asked to wait", "left by the peer", "left", "left by both at once",
	"DREQ unanswered", "TIMEWAIT over", "services resolved", "services not resolved", "alternate paths asked for",
	"alternate paths loaded", "never answered", "MADs repeated", "MADs very late", "MADs forged",
	"adapters restarted", "queue pairs used again", "messages delivered", "messages to nobody",
	"sides left alone", "found out by data",
}

// MarkNames returns the situations that are counted.
func MarkNames() []string { return markNames[:] }

// mark counts a situation.
func (w *world) mark(m mark) { w.marks[m]++ }

// marksOf are the situations that an event shows.
var marksOf = map[cm.EventType]mark{
	cm.REQError: markTimedOut, cm.REPError: markOfferedInVain, cm.UserEstablished: markByData,
	cm.MRAReceived: markWait, cm.REJReceived: markRejected, cm.DREQReceived: markPartedByPeer, cm.DREPReceived: markParted,
	cm.DREQError: markLeftInVain, cm.TimewaitExit: markQuiet, cm.SIDRREQError: markUnresolved,
}

// markEvent counts the situations that an event shows.
func (w *world) markEvent(e *cm.Event) {
	switch m, ok := marksOf[e.Type]; {
	case ok:
		w.mark(m)
	case e.APR != nil && e.APR.Status == 0:
		w.mark(markLoaded)
	case e.SIDRREP != nil && e.SIDRREP.Status == 0:
		w.mark(markResolved)
	case e.SIDRREP != nil:
		w.mark(markUnresolved)
	}
}

package storm

import (
	"github.com/softhca/softhca/internal/cm"
)

// markNames are the situations that are counted: a clean run proves nothing about
// situations that did not occur.
var markNames = [...]string{
	"connections tried", "tried again", "sides connected", "connected by data", "rejected", "rejected as stale",
	"superseded", "examined", "trusted after all", "ended by an examination", "REQ unanswered", "REP unanswered", "given up for another", "asked to wait", "left by the peer", "left", "left by both at once",
	"DREQ unanswered", "TIMEWAIT over", "services resolved", "services not resolved", "alternate paths asked for",
	"alternate paths loaded", "never answered", "MADs repeated", "MADs very late", "MADs forged",
	"adapters restarted", "queue pairs used again", "messages delivered", "messages without a receiver",
	"sides whose peer was gone", "found out by data",
}

// MarkNames returns the situations that are counted.
func MarkNames() []string { return markNames[:] }

// marksOf are the situations that an event shows.
var marksOf = map[cm.EventType]string{
	cm.REQError: "REQ unanswered", cm.REPError: "REP unanswered", cm.UserEstablished: "connected by data",
	cm.MRAReceived: "asked to wait", cm.REJReceived: "rejected", cm.DREQReceived: "left by the peer", cm.DREPReceived: "left",
	cm.DREQError: "DREQ unanswered", cm.TimewaitExit: "TIMEWAIT over", cm.SIDRREQError: "services not resolved",
}

// markEvent counts the situations that an event shows.
func (w *world) markEvent(e *cm.Event) {
	w.Mark(marksOf[e.Type])
	switch {
	case e.APR != nil && e.APR.Status == 0:
		w.Mark("alternate paths loaded")
	case e.SIDRREP != nil && e.SIDRREP.Status == 0:
		w.Mark("services resolved")
	case e.SIDRREP != nil:
		w.Mark("services not resolved")
	}
}

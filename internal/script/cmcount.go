package script

import (
	"fmt"

	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/gsi"
)

// cmKinds is the number of messages of the communication manager.
const cmKinds = len(cm.Counters{}.Sent)

// managed holds the counters of QP1 and of the communication manager as of the
// last step.
type managed struct {
	gsi   gsi.Counters
	cm    cm.Counters
	shown [cmKinds]uint64 // messages that the output has shown
}

// cmChanges returns the counters of the communication manager and of QP1 that
// changed without another line that shows it. Messages and their repetitions
// have lines of their own; the treatment of arriving messages has none.
func (cs *connections) cmChanges() []string {
	var out []string
	add := func(name string, was, is uint64) {
		if is != was {
			out = append(out, fmt.Sprintf("%s %+d", name, int64(is-was)))
		}
	}
	was, is := cs.managed, managed{gsi: cs.HCA.GSI().Counters(), cm: cs.HCA.CM().Counters()}
	cs.managed.gsi, cs.managed.cm = is.gsi, is.cm
	for k := range cmKinds {
		name := cm.KindName(k)
		shown := &cs.managed.shown[k]
		*shown += cs.seen.cmSent[k]
		if !cs.HCA.GSI().Pending(1) { // a message that waits in QP1 will be shown later
			add("cm_sent("+name+")", *shown, is.cm.Sent[k])
			*shown = is.cm.Sent[k]
		}
		// A message that the consumer sends again is no retry.
		add("cm_retries("+name+")", was.cm.Retries[k]+min(cs.seen.cmAgain[k], is.cm.Retries[k]-was.cm.Retries[k]), is.cm.Retries[k])
	}
	for i := range is.cm.Duplicates {
		add(fmt.Sprintf("cm_duplicate(%v)", cm.Input(i)), was.cm.Duplicates[i], is.cm.Duplicates[i])
		add(fmt.Sprintf("cm_unexpected(%v)", cm.Input(i)), was.cm.Unexpected[i], is.cm.Unexpected[i])
	}
	before := make(map[string]uint64)
	was.cm.EachSingle(func(name string, v uint64) { before[name] = v })
	is.cm.EachSingle(func(name string, v uint64) { add(name, before[name], v) })
	add("mad_unsupported", was.gsi.Unsupported, is.gsi.Unsupported)
	add("mad_class_port_info", was.gsi.Informed, is.gsi.Informed)
	add("mad_queue_full", was.gsi.QueueFull, is.gsi.QueueFull)
	return out
}

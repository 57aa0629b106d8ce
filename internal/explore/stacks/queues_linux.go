package stacks

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/observe"
)

// maxQueuePairs bounds the queue pairs of a process that are described.
const maxQueuePairs = 16

// describeQueues says what the queue pairs of processes wait for, from the tables of their adapters.
func describeQueues(all []Process) {
	set := observe.NewSet()
	defer set.Close()
	adapters, _ := set.Read() // an adapter that cannot be read is left out
	var own unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &own) != nil {
		return
	}
	for i := range all {
		p := &all[i]
		more := 0
		for _, a := range adapters {
			if a.PID != p.PID || a.PIDNS != own.Ino || !a.Running {
				continue
			}
			for j := range a.QPs {
				switch q := &a.QPs[j]; {
				case q.Num == ib.QPNGSI:
				case len(p.QueuePairs) == maxQueuePairs:
					more++
				default:
					p.QueuePairs = append(p.QueuePairs, describe(q, a.CQs))
				}
			}
		}
		if more > 0 {
			p.QueuePairs = append(p.QueuePairs, fmt.Sprintf("and %d more queue pairs", more))
		}
	}
}

// describe says what a queue pair waits for.
func describe(q *observe.QP, cqs []observe.CQ) string {
	var b strings.Builder
	fmt.Fprintf(&b, "qp %v %v %v", q.Num, q.Type, q.State)
	if q.Peer != 0 {
		fmt.Fprintf(&b, ", connected to %v of %v", q.Peer, q.Remote)
	}
	fmt.Fprintf(&b, ": %d of %d send requests not completed", q.Outstanding, q.MaxSend)
	if q.InFlight > 0 {
		fmt.Fprintf(&b, ", %d bytes in flight", q.InFlight)
	}
	if q.Timeouts > 0 {
		fmt.Fprintf(&b, ", retry timer expired %d times", q.Timeouts)
	}
	if q.RNRRcvd > 0 {
		fmt.Fprintf(&b, ", peer not ready %d times", q.RNRRcvd)
	}
	if q.Errors > 0 {
		fmt.Fprintf(&b, ", %d completed with an error, the last with %v", q.Errors, q.LastStatus)
	}
	fmt.Fprintf(&b, "; %d messages received", q.RcvdMessages)
	for i := range cqs {
		c := &cqs[i]
		role := ""
		switch {
		case c.Num == q.SendCQ && c.Num == q.RecvCQ:
			role = "cq"
		case c.Num == q.SendCQ:
			role = "send cq"
		case c.Num == q.RecvCQ:
			role = "receive cq"
		default:
			continue
		}
		armed := "not armed"
		if c.Armed != 0 {
			armed = "armed"
		}
		fmt.Fprintf(&b, "; %s %d: %d completions not polled, %s", role, c.Num, c.Waiting, armed)
	}
	return b.String()
}

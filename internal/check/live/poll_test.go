package live

import (
	"testing"

	"github.com/softhca/softhca/internal/qp"
)

// TestPolledMeanwhile destroys a completion queue, and closes an adapter, while another goroutine polls. Nobody
// knows whether that goroutine has taken the completions, so they are not lost.
func TestPolledMeanwhile(t *testing.T) {
	for _, polls := range []string{"none", "begun before", "in between", "not ended"} {
		c, reported := newChecker()
		q := c.MadeCQ(new(qp.CQ))
		if polls == "begun before" {
			q.Begin()
		}
		u := Unpolled{failed: 1, queues: []counted{{q, q.polls.Load()}}}
		switch polls {
		case "begun before":
			q.End()
		case "in between":
			q.Begin()
			q.End()
		case "not ended":
			q.Begin()
		default:
		}
		c.lost = append(c.lost, &closing{cq: q, count: u})
		c.Closed()
		c.Tell()
		if lost := len(*reported) > 0; lost != (polls == "none") {
			t.Errorf("polls %s: completions are lost: %t", polls, lost)
		}
	}
}

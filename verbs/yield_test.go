package verbs

import (
	"testing"
	"time"
)

// TestYield checks that a program whose polls find nothing yields rarely if no other goroutine
// runs meanwhile, and often if others do.
func TestYield(t *testing.T) {
	var y yielder
	polls := func() (n int) {
		for n = 1; !y.due(); n++ {
			if n > leastIdle<<maxBackoff {
				t.Fatalf("no turn for others in %d polls", n)
			}
		}
		return n
	}
	for want := leastIdle; want < leastIdle<<maxBackoff; want *= 2 {
		if n := polls(); n != want {
			t.Fatalf("a turn after %d polls, not after %d", n, want)
		}
		y.learn(time.Microsecond, 2)
	}
	y.learn(time.Microsecond, 2)
	if n := polls(); n != leastIdle<<maxBackoff {
		t.Errorf("a turn after %d polls, which is not the most", n)
	}
	y.learn(othersRan, 2)
	if n := polls(); n != leastIdle {
		t.Errorf("others ran, yet their next turn is after %d polls", n)
	}
	y.learn(time.Microsecond, 2)
	y.learn(time.Microsecond, 1)
	if n := polls(); n != leastIdle {
		t.Errorf("there is one processor, yet the next turn is after %d polls", n)
	}
}

package storm

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/softhca/softhca/internal/clock"
)

// TestAgenda takes out what was put in, by instant and then by order.
func TestAgenda(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type thing struct {
			at clock.Instant
			n  int
		}
		var g agenda[thing]
		var last thing
		for n, at := range rapid.SliceOf(rapid.Int64Range(0, 20)).Draw(t, "instants") {
			g.add(clock.Instant(at), thing{clock.Instant(at), n})
			if at%3 == 0 { // taking out in between must not break the order of what is left
				g.pop()
			}
		}
		last.at = -1
		for k := g.len(); k > 0; k-- {
			next := g.next()
			got := g.pop()
			if got.at != next || got.at < last.at || got.at == last.at && got.n < last.n {
				t.Fatalf("%+v after %+v, announced for %d", got, last, next)
			}
			last = got
		}
		if g.next() != clock.Never {
			t.Fatal("an empty agenda has something to come")
		}
	})
}

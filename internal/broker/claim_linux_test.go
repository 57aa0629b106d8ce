//go:build !portable

package broker

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// TestD3_FreeAtOnce shows that a service that a member released, or had when it ended, is
// free at once for the next process, even before the broker has read the release.
func TestD3_FreeAtOnce(t *testing.T) {
	b := serve(t, 16)
	x, y := join(t, b), join(t, b)
	take := func(p *process, what string) {
		t.Helper()
		if err := p.Claim(service); err != nil {
			t.Fatalf("a service that %s: %v", what, err)
		}
	}
	for range 300 {
		take(x, "nobody has")
		if err := y.Claim(service); !errors.Is(err, unix.EADDRINUSE) {
			t.Fatalf("a service that another member has: %v", err)
		}
		x.Release(service)
		take(y, "was given back")
		y.Release(service)
	}
	for range 10 {
		z := join(t, b)
		take(z, "nobody has")
		z.die()
		take(x, "was that of a member that has ended")
		x.Release(service)
	}
}

//go:build !portable

package broker

import (
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/must"
)

// TestLook calls Look from two goroutines while processes of this user enter an address and
// leave it. Look takes neither their start, nor their end, nor the other goroutine's check for a
// port that is taken. It reports a socket that stays, and that no broker serves.
func TestLook(t *testing.T) {
	a := freeAddress(t)
	addrs := []netip.Addr{a}
	done := make(chan struct{})
	var lookers sync.WaitGroup
	for range 2 {
		lookers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := Look(addrs, true, rigSecret); err != nil {
					t.Errorf("an address of this user's processes: %v", err)
					return
				}
			}
		})
	}
	for range 20 {
		enter(t, a).die()
	}
	close(done)
	lookers.Wait()
	p := enter(t, a)
	must.Fail(t, Look(addrs, false, rigSecret), unix.EADDRINUSE, "an address for one process alone, when another one has it")
	p.die()
	holder, err := udp.OpenFirst(a)
	must.Do(t, err)
	must.Fail(t, Look(addrs, true, rigSecret), unix.EADDRINUSE, "a port that no broker serves")
	must.Do(t, unix.Close(holder))
	if err := Look(addrs, false, rigSecret); err != nil {
		t.Errorf("an address that is free again: %v", err)
	}
}

package main

import (
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// burn keeps every processor busy until the test ends.
func burn(t *testing.T) {
	t.Helper()
	var done atomic.Bool
	var burners sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		burners.Go(func() {
			for !done.Load() {
			}
		})
	}
	t.Cleanup(func() {
		done.Store(true)
		burners.Wait()
	})
}

// TestDemoUnderLoad shows the same lesson each time, on a busy host too: whatever is drawn and
// counted is equal, but for numbers that are drawn at random and for times.
func TestDemoUnderLoad(t *testing.T) {
	random := regexp.MustCompile(`0x[0-9a-f]+`)
	times := regexp.MustCompile(`[0-9.]+m?s\b`)
	for name, args := range map[string][]string{
		"rc":  {"--measure", "0", "--addr", loopback(110), "--peer", loopback(111)},
		"rd":  {"--type", "rd", "--addr", loopback(112), "--peer", loopback(113)},
		"apm": {"--apm", "--addr", loopback(114) + "," + loopback(115), "--peer", loopback(116) + "," + loopback(117)},
	} {
		t.Run(name, func(t *testing.T) {
			lesson := func() string {
				t.Helper()
				code, out, errs := command(t, append([]string{"demo"}, args...)...)
				if code != exitOK {
					t.Fatalf("exit code %d: %s\n%s", code, errs, out)
				}
				return times.ReplaceAllString(random.ReplaceAllString(out, "0xN"), "Ns")
			}
			burn(t)
			first := strings.Split(lesson(), "\n")
			for range 3 {
				again := strings.Split(lesson(), "\n")
				for i := range min(len(first), len(again)) {
					if first[i] != again[i] {
						t.Fatalf("line %d is %q, and was %q in\n%s", i+1, again[i], first[i], strings.Join(again, "\n"))
					}
				}
				if len(first) != len(again) {
					t.Fatalf("%d lines, and %d before:\n%s", len(again), len(first), strings.Join(again, "\n"))
				}
			}
		})
	}
}

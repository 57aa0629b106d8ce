//go:build !portable

package broker

import (
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/must"
)

// fewDescriptors is a limit of descriptors that programs may have (ulimit -n).
const fewDescriptors = 256

// TestHelperFlood is a stranger who continually connects to all names of a broker, from
// several threads. It keeps some connections open.
func TestHelperFlood(t *testing.T) {
	told(t)
	names := brokerNames()
	var flood sync.WaitGroup
	for i := range 3 {
		flood.Go(func() {
			var kept [128]int
			for n := range kept {
				kept[n] = -1
			}
			for n := i; ; n++ {
				if old := kept[n%len(kept)]; old >= 0 {
					_ = unix.Close(old)
					kept[n%len(kept)] = -1
				}
				fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
				if err != nil {
					continue
				}
				_ = unix.Connect(fd, &unix.SockaddrUnix{Name: names[n%len(names)]}) // or its queue is full
				kept[n%len(kept)] = fd
			}
		})
	}
	fmt.Println("floods")
	flood.Wait()
}

// openFiles returns how many descriptors a process has open.
func openFiles(t *testing.T, pid int) int {
	t.Helper()
	all, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/fd")
	must.Do(t, err)
	return len(all)
}

// joins has processes enter an address and leave it, and returns how long the entries took,
// the shortest first.
func joins(t *testing.T, a netip.Addr) []time.Duration {
	t.Helper()
	took := make([]time.Duration, 30)
	for i := range took {
		began := time.Now()
		x := enter(t, a)
		took[i] = time.Since(began)
		if x.Slot == 0 {
			t.Fatal("the broker does not serve")
		}
		x.die()
	}
	slices.Sort(took)
	return took
}

// runnable returns the number of runnable threads per processor, at least 2: the factor by
// which a process may wait longer than on an idle machine.
func runnable(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile("/proc/loadavg")
	var average, running, all float64
	if err == nil {
		_, err = fmt.Sscanf(string(text), "%f %f %f %f/%f", &average, &average, &average, &running, &all)
	}
	must.Do(t, err)
	return time.Duration(max(2, running/float64(runtime.NumCPU())))
}

// TestFlood has strangers flood the names of a host that may have few descriptors: it spends
// none on them, and processes join within the usual time.
func TestFlood(t *testing.T) {
	t.Setenv(kindVar, "few")
	a := freeAddress(t)
	host, out := helper(t, "TestHelperHost", a)
	says(t, out, "host is here")
	enter(t, a) // the host opens all sockets now
	quiet := joins(t, a)
	before := openFiles(t, host.Process.Pid)
	for range 2 {
		_, floods := helperOf(t, "TestHelperFlood", a, "", asStranger())
		says(t, floods, "floods")
	}
	most := 0
	for range 2 {
		most = max(most, openFiles(t, host.Process.Pid))
		took := joins(t, a)
		t.Logf("in a flood, joins take %v, at most %v; before, %v and %v", took[len(took)/2], took[len(took)-1], quiet[len(quiet)/2], quiet[len(quiet)-1])
		slack := runnable(t)
		if median := took[len(took)/2]; median > slack*50*time.Millisecond {
			t.Errorf("in a flood, a join takes %v, with %d threads for each processor", median, slack)
		}
		if worst := took[len(took)-1]; worst > slack*time.Second {
			t.Errorf("in a flood, a join takes up to %v, with %d threads for each processor", worst, slack)
		}
		most = max(most, openFiles(t, host.Process.Pid))
	}
	if most > before+8 {
		t.Errorf("%d descriptors are open, %d were before", most, before)
	}
}

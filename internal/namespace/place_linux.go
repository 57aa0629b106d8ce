package namespace

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Place is a second network namespace, which acts as another host.
type Place struct {
	do chan func()
	fd int
}

// NewPlace creates a place with its loopback interface up. It lasts until the process ends.
func NewPlace() (*Place, error) {
	p := &Place{do: make(chan func())}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread is in another network
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			p.fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		if err == nil {
			err = Up("lo")
		}
		made <- err
		for f := range p.do {
			f()
		}
	}()
	if err := <-made; err != nil {
		return nil, fmt.Errorf("namespace: make a network: %w", err)
	}
	return p, nil
}

// Do calls f on a thread in the place. Sockets and processes that f creates stay in the place.
func (p *Place) Do(f func() error) error {
	result := make(chan error)
	p.do <- func() { result <- f() }
	return <-result
}

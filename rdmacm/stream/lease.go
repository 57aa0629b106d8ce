package stream

import (
	"sync/atomic"

	"github.com/softhca/softhca/rdmacm"
)

// lease keeps the Manager of Listen and Dial open while a Listener or a Conn uses it. A nil
// lease does nothing: the Manager belongs to the caller.
type lease struct {
	m     *rdmacm.Manager
	users atomic.Int32
}

func newLease(m *rdmacm.Manager) *lease {
	l := &lease{m: m}
	l.users.Store(1)
	return l
}

func (l *lease) take() {
	if l != nil {
		l.users.Add(1)
	}
}

// release ends one use of the lease.
func (l *lease) release() error {
	if l == nil || l.users.Add(-1) > 0 {
		return nil
	}
	return l.m.Close()
}

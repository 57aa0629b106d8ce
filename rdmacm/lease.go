package rdmacm

import "sync/atomic"

// lease keeps the Manager of the package's Listen and Dial open for as long as
// something uses it. A nil one keeps nothing: the Manager is the caller's.
type lease struct {
	m     *Manager
	users atomic.Int32
}

func newLease(m *Manager) *lease {
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

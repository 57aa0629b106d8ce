//go:build lockorder

package lock

import (
	"regexp"
	"testing"
)

// violation returns what the checks say about f. The caller of f holds no lock before and after.
func violation(f func()) (text string) {
	defer func() {
		text, _ = recover().(string)
		table.mu.Lock()
		defer table.mu.Unlock()
		clear(table.of)
		table.broken = ""
	}()
	f()
	return ""
}

// TestViolations shows which orders the checks refuse, and that they name both places.
func TestViolations(t *testing.T) {
	var calls, more Mutex[IDCalls]
	var shard Mutex[Shard]
	var manager Mutex[Manager]
	var network RWMutex[PipeNetwork]
	var queue Mutex[RecvQueue]
	for _, c := range []struct {
		name         string
		wanted, held string // ranks; empty: the checks find nothing
		f            func()
	}{
		{"the right order", "", "", func() { calls.Lock(); shard.Lock(); network.RLock() }},
		{"the wrong order", "IDCalls", "Shard", func() { shard.Lock(); calls.Lock() }},
		{"a double lock", "Shard", "Shard", func() { shard.Lock(); shard.Lock() }},
		{"two locks of a rank", "IDCalls", "IDCalls", func() { calls.Lock(); more.Lock() }},
		{"two branches", "PipeNetwork", "Manager", func() { manager.Lock(); network.RLock() }},
		{"a second reading lock", "PipeNetwork", "PipeNetwork", func() { network.RLock(); network.RLock() }},
		{"TryLock in the wrong order", "", "", func() { shard.Lock(); calls.TryLock() }},
		{"TryLock of a held lock", "", "", func() { shard.Lock(); shard.TryLock() }},
		{"a lock under one of TryLock", "IDCalls", "Shard", func() { shard.TryLock(); calls.Lock() }},
		{"a lock under one of TryLock in the wrong order", "IDCalls", "Shard", func() { shard.Lock(); calls.TryLock(); more.Lock() }},
		{"after all locks are unlocked", "", "", func() {
			shard.Lock()
			network.RLock()
			network.RUnlock()
			queue.Lock()
			queue.Unlock()
			network.Lock()
			network.Unlock()
			shard.Unlock()
			calls.Lock()
		}},
		{"after another goroutine has unlocked", "", "", func() {
			shard.Lock()
			done := make(chan struct{})
			go func() { shard.Unlock(); close(done) }()
			<-done
			calls.Lock()
		}},
		{"a violation that the program recovers from", "IDCalls", "Shard", func() {
			func() {
				defer func() { _ = recover() }()
				shard.Lock()
				calls.Lock()
			}()
			manager.Lock()
		}},
	} {
		calls, more, shard, manager, network = Mutex[IDCalls]{}, Mutex[IDCalls]{}, Mutex[Shard]{}, Mutex[Manager]{}, RWMutex[PipeNetwork]{}
		got := violation(c.f)
		if c.wanted == "" {
			if got != "" {
				t.Errorf("%s: %s", c.name, got)
			}
			continue
		}
		const place = ` at \S*checked_test\.go:\d+`
		want := regexp.MustCompile("wants lock." + c.wanted + place + " and holds lock." + c.held + place + ";")
		if !want.MatchString(got) {
			t.Errorf("%s: the checks say %q, want a match of %v", c.name, got, want)
		}
	}
}

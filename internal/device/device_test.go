package device

import (
	"errors"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/driver"
	"github.com/softhca/softhca/internal/fabric/pipe"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/ring"
)

// open returns a device on a network of its own.
func open(t *testing.T, cfg Config) *Device {
	t.Helper()
	cfg.Addr, cfg.Network = "10.0.0.1", pipe.NewNetwork(pipe.Options{})
	d, err := Open(cfg)
	must.Do(t, err)
	t.Cleanup(func() { _ = d.Close() }) // tests close it too
	return d
}

// TestDo runs code on the device's thread, until it is closed.
func TestDo(t *testing.T) {
	d := open(t, Config{})
	boom := errors.New("boom")
	if err := d.Do(func(clock.Instant) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("Do returns %v, not the error of what it runs", err)
	}
	must.Do(t, d.Close())
	for name, err := range map[string]error{"Do": d.Do(nil), "Control": d.Control(nil), "Call": d.Call("AllocPD", nil), "Close": d.Close(), "Alive": d.Alive()} {
		if !errors.Is(err, ib.ErrInvalidHCA) {
			t.Errorf("%s of a closed device returns %v", name, err)
		}
	}
}

// TestWatch tells once that a device is gone, and why.
func TestWatch(t *testing.T) {
	a, b := open(t, Config{}), open(t, Config{})
	told := 0
	a.Watch(func(now clock.Instant, cause error) {
		if told++; now == 0 || cause != nil {
			t.Errorf("closed at %v: %v", now, cause)
		}
	})
	stop := a.Watch(func(clock.Instant, error) { t.Error("a watch that has ended was told") })
	stop()
	must.Do(t, a.Close())
	a.Watch(func(now clock.Instant, cause error) {
		if told++; now != 0 || cause != nil {
			t.Errorf("a watch that comes late: %v, %v", now, cause)
		}
	})
	if told != 2 {
		t.Errorf("told %d times, want 2", told)
	}

	told = 0
	b.Watch(func(now clock.Instant, cause error) {
		if told++; now != 0 || !errors.Is(cause, driver.ErrDead) {
			t.Errorf("failed at %v: %v", now, cause)
		}
	})
	if err := b.Do(func(clock.Instant) error { panic("an invariant is broken") }); !errors.Is(err, driver.ErrDead) {
		t.Errorf("a call that panics returns %v", err)
	}
	b.Watch(func(now clock.Instant, cause error) {
		if told++; now != 0 || !errors.Is(cause, driver.ErrDead) {
			t.Errorf("a watch that comes after the failure: %v, %v", now, cause)
		}
	})
	if told != 2 {
		t.Errorf("told %d times, want 2", told)
	}
}

// TestQueueMemory has a device take the memory of its queues from an allocator
// and give all of it back, each block once.
func TestQueueMemory(t *testing.T) {
	held := map[*byte]int{} // the size of each block
	d := open(t, Config{Queues: ring.Allocator{
		Alloc: func(n int) []byte {
			b := make([]byte, n)
			held[&b[0]] = n
			return b
		},
		Free: func(b []byte) {
			if held[&b[0]] != len(b) {
				t.Errorf("%d bytes come back that were %d", len(b), held[&b[0]])
			}
			delete(held, &b[0])
		},
	}})
	err := d.Control(func(clock.Instant) error {
		cq, err := d.HCA.CreateCQ(16, nil)
		if err != nil {
			return err
		}
		pd, err := d.HCA.AllocPD()
		if err != nil {
			return err
		}
		want := func(blocks int, after string) {
			if len(held) != blocks {
				t.Errorf("after %s %d blocks are held, want %d", after, len(held), blocks)
			}
		}
		want(2, "CreateCQ") // its header and its entries
		for range 3 {
			q, err := d.HCA.CreateQP(pd, hca.QPConfig{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: ib.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}})
			if err != nil {
				return err
			}
			want(4, "CreateQP") // a send queue and a receive queue
			d.HCA.DestroyQP(pd, q)
			want(2, "DestroyQP")
		}
		err = d.HCA.CQs().Destroy(cq)
		want(0, "DestroyCQ")
		return err
	})
	must.Do(t, err)
}

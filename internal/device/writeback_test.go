package device

import (
	"errors"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/qp"
)

// within returns the next value of a channel, which must come soon.
func within[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(20 * time.Second):
		t.Fatal("nothing happens")
	}
	return v
}

// TestM6_WriteBacks shows that jobs are done one after another, in order, each with its own
// outcome, and that nothing is begun after the end.
func TestM6_WriteBacks(t *testing.T) {
	type end struct {
		job uint64
		ok  bool
	}
	begun, proceed, ends := make(chan byte, 10), make(chan struct{}), make(chan end, 10)
	s := writeBacks{
		write: func(mem []byte) error {
			begun <- mem[0]
			<-proceed
			if mem[0] == 2 {
				return errors.New("the device failed")
			}
			return nil
		},
		ended: func(w qp.WriteBack, ok bool) error {
			ends <- end{w.Job, ok}
			return nil
		},
	}
	for i := range byte(4) {
		s.add(qp.WriteBack{Job: uint64(i), Mem: []byte{i}})
	}
	for i := range byte(3) {
		if got := within(t, begun); got != i {
			t.Fatalf("job %d was begun, want %d", got, i)
		}
		proceed <- struct{}{}
		if got, want := within(t, ends), (end{uint64(i), i != 2}); got != want {
			t.Errorf("the end is %+v, want %+v", got, want)
		}
	}
	within(t, begun)
	s.cancel(3) // has no effect: the job is in progress
	s.add(qp.WriteBack{Job: 4, Mem: []byte{4}})
	s.stop()
	s.add(qp.WriteBack{Job: 5, Mem: []byte{5}})
	proceed <- struct{}{}
	if got := within(t, ends); got.job != 3 {
		t.Errorf("job %d ended, want 3", got.job)
	}
	select {
	case got := <-begun:
		t.Errorf("job %d was begun after the end", got)
	case <-time.After(20 * time.Millisecond):
	}
}

// TestM6_WriteBacksAreCancelled shows that cancelled jobs are not done, and leave no entry.
func TestM6_WriteBacksAreCancelled(t *testing.T) {
	begun, proceed := make(chan byte, 10), make(chan struct{})
	s := writeBacks{
		write: func(mem []byte) error {
			begun <- mem[0]
			<-proceed
			return nil
		},
		ended: func(qp.WriteBack, bool) error { return nil },
	}
	s.add(qp.WriteBack{Job: 1, Mem: []byte{1}})
	within(t, begun)
	for job := uint64(2); job < 1000; job++ {
		s.add(qp.WriteBack{Job: job, Mem: []byte{2}})
		s.cancel(job)
	}
	s.add(qp.WriteBack{Job: 1000, Mem: []byte{3}})
	s.mu.Lock()
	if n := len(s.queue); n != 1 {
		t.Errorf("%d jobs wait, want 1", n)
	}
	s.mu.Unlock()
	proceed <- struct{}{}
	if got := within(t, begun); got != 3 {
		t.Errorf("job %d was begun after the first, want the last", got)
	}
	proceed <- struct{}{}
}

// TestM6_WriteBacksStartAgain shows that a job that comes after all others are done is done too,
// and that a device that is gone ends the work.
func TestM6_WriteBacksStartAgain(t *testing.T) {
	ends := make(chan uint64)
	s := writeBacks{
		write: func([]byte) error { return nil },
		ended: func(w qp.WriteBack, _ bool) error {
			ends <- w.Job
			if w.Job == 3 {
				return errors.New("the device is gone")
			}
			return nil
		},
	}
	for job := range uint64(4) {
		s.add(qp.WriteBack{Job: job})
		if got := within(t, ends); got != job {
			t.Errorf("job %d ended, want %d", got, job)
		}
	}
	for shut := false; !shut; {
		s.mu.Lock()
		shut = s.shut
		s.mu.Unlock()
	}
}

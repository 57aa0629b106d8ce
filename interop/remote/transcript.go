package remote

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"sync"
)

// Result is the output and exit code of a program.
type Result struct {
	Exit           int // exit code, or 128 plus the signal that ended it
	Stdout, Stderr string
}

// OK reports whether the program ended with exit code 0.
func (r Result) OK() bool { return r.Exit == 0 }

// String returns everything that the program printed and its exit code.
func (r Result) String() string {
	return fmt.Sprintf("%s%sexit code %d\n", r.Stdout, r.Stderr, r.Exit)
}

// maxKept bounds the bytes kept of each stream of a program; the rest is
// dropped.
const maxKept = 4 << 20

// Transcript is the output of a running program. It is safe for concurrent use;
// its zero value is empty and ready.
type Transcript struct {
	mu sync.Mutex // guards the fields below

	out, err bytes.Buffer
	all      bytes.Buffer  // both streams, in order of arrival
	ended    bool          // both streams have ended
	changed  chan struct{} // closed at the next change; nil without a waiter
}

// Add takes bytes of the standard output, or of the standard error.
func (t *Transcript) Add(k Kind, b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	stream := &t.out
	if k == Stderr {
		stream = &t.err
	}
	stream.Write(b[:min(len(b), maxKept-stream.Len())])
	t.all.Write(b[:min(len(b), 2*maxKept-t.all.Len())])
	t.wake()
}

// End marks the end of both streams.
func (t *Transcript) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.wake()
}

// wake wakes all waiters, with the lock held.
func (t *Transcript) wake() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// Result returns the output so far, with an exit code.
func (t *Transcript) Result(exit int) Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Result{Exit: exit, Stdout: t.out.String(), Stderr: t.err.String()}
}

// String returns the output of both streams so far.
func (t *Transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.String()
}

// Await blocks until the output matches the expression. It fails when the
// program has ended without a match, and when ctx ends.
func (t *Transcript) Await(ctx context.Context, what *regexp.Regexp) error {
	for {
		t.mu.Lock()
		found, ended := what.Match(t.all.Bytes()), t.ended
		if t.changed == nil {
			t.changed = make(chan struct{})
		}
		changed := t.changed
		t.mu.Unlock()
		switch {
		case found:
			return nil
		case ended:
			return fmt.Errorf("the program ended and never printed %q", what)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %q: %w", what, ctx.Err())
		}
	}
}

// writer is one of the streams of a Transcript.
type writer struct {
	t *Transcript
	k Kind
}

func (w writer) Write(b []byte) (int, error) {
	w.t.Add(w.k, b)
	return len(b), nil
}

// Writer returns a writer for stream k of a program.
func (t *Transcript) Writer(k Kind) io.Writer { return writer{t, k} }

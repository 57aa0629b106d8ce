package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/launch"
	"github.com/softhca/softhca/internal/explain"
	"github.com/softhca/softhca/internal/fabric/capture"
	"github.com/softhca/softhca/internal/pcapfile"
)

const (
	// maxListened is the maximum number of adapters followed. Packets of others are
	// discarded.
	maxListened = 256
	// maxHeld is the maximum size of the packets that wait for earlier ones of other adapters, in bytes. At
	// half of it they wait no longer; at all of it the adapters do.
	maxHeld = 32 << 20
	// reorderDelay is how long a packet waits for earlier ones of other adapters.
	reorderDelay = 100 * time.Millisecond
	// lastWords limits the wait, after the program has ended, for adapters of
	// processes that outlive it.
	lastWords = time.Second
	// exitUnexpected is the exit code of run if the program ended with 0 and the report does not match the
	// expectations.
	exitUnexpected = 86
)

// runExplained runs a program and then reports what went wrong, for all adapters that the program or its
// children opened.
func runExplained(ctx context.Context, cmd *cobra.Command, o *launch.Options, captured string, want *expected) error {
	dir, err := os.MkdirTemp("", "softhca-run-*")
	if err != nil {
		return fmt.Errorf("run: create a directory for packets: %w; set TMPDIR to use another one", err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "capture")
	l, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("run: listen for packets (a shorter TMPDIR may help): %w", err)
	}
	e := newEars(l, &newsroom{w: cmd.ErrOrStderr()})
	if captured != "" {
		f, err := os.Create(captured)
		if err == nil {
			e.file = f
			e.copy, err = pcapfile.NewWriter(f)
		}
		if err != nil {
			_ = l.Close()
			return fmt.Errorf("run --capture: %w", err)
		}
	}
	go e.listen()
	go e.follow()
	o.Set = append(o.Set, launch.Var{Name: launch.CaptureEnv, Value: launch.CaptureSocket + path})
	code, err := o.RunBeside(ctx)
	report, failed := e.close()
	if err != nil {
		return err
	}
	if report.Packets == 0 && len(report.Told) == 0 {
		say(cmd.ErrOrStderr(), "softhca: no packet passed: the program opened no adapter, or did not send")
	} else if err := tellLive(cmd.ErrOrStderr(), report); err != nil {
		return err
	}
	if code != 0 {
		return &exitError{code, fmt.Errorf("run: %s ended with exit code %d", o.Program[0], code)}
	}
	if failed != nil {
		return fmt.Errorf("run --capture %s: %w", captured, failed)
	}
	if err := want.met(report); err != nil {
		return &exitError{exitUnexpected, fmt.Errorf("run: %w", err)}
	}
	return nil
}

// ears receives the captures of the adapters of programs, and follows the packets of all of them in the
// order of time.
type ears struct {
	listener net.Listener
	follower *explain.Follower
	copy     *pcapfile.Writer // of all packets; nil for none
	file     io.Closer        // of copy; nil for none
	group    sync.WaitGroup   // of the adapters
	report   chan *explain.Report
	failed   error // the first error of copy; set when report has a value

	mu      sync.Mutex // guards the fields below, and the queues of the adapters
	changed *sync.Cond // one of these has changed, or some time has passed
	join    *pcapfile.Join
	queues  []*growing // of the adapters
	held    int        // bytes in them
	closing bool
	ended   bool // all adapters have ended, and no other one follows
	conns   map[net.Conn]bool
	heard   int // adapters that have connected
}

// newEars returns ears, for which the caller starts listen and follow.
func newEars(l net.Listener, told *newsroom) *ears {
	e := &ears{
		listener: l, follower: explain.New(explain.Config{Tell: told.tell}), report: make(chan *explain.Report, 1),
		join: pcapfile.NewJoin(), conns: make(map[net.Conn]bool),
	}
	e.changed = sync.NewCond(&e.mu)
	return e
}

// growing is the capture of an adapter that may go on. It implements pcapfile.Source.
type growing struct {
	ears  *ears
	queue []held
	ended bool
}

// held is an item that waits.
type held struct {
	pcapfile.Item
	since time.Time // when it came; its own time may be of a clock that was set meanwhile
}

var _ pcapfile.Source = (*growing)(nil)

// Head implements pcapfile.Source. The mutex is held.
func (g *growing) Head() (i pcapfile.Item, wait bool, err error) {
	switch {
	case len(g.queue) > 0:
		return g.queue[0].Item, false, nil
	case g.ended:
		return i, false, io.EOF
	default:
		return i, true, nil
	}
}

// Pop implements pcapfile.Source. The mutex is held.
func (g *growing) Pop() {
	g.ears.held -= g.queue[0].Size()
	g.queue = g.queue[1:]
	g.ears.changed.Broadcast()
}

func (e *ears) listen() {
	for {
		conn, err := e.listener.Accept()
		if err != nil {
			return // closed
		}
		g, ok := e.add(conn)
		if !ok {
			_ = conn.Close()
			continue
		}
		go e.hear(conn, g)
	}
}

// add registers the connection of an adapter. It reports false when e is closing. The growing is nil if too many
// adapters are followed.
func (e *ears) add(conn net.Conn) (g *growing, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return nil, false
	}
	e.conns[conn] = true
	e.group.Add(1)
	if e.heard++; e.heard <= maxListened {
		g = &growing{ears: e}
		e.queues = append(e.queues, g)
		e.join.Add(g)
	}
	return g, true
}

// hear reads the capture of an adapter to its end.
func (e *ears) hear(conn net.Conn, g *growing) {
	defer e.group.Done()
	if g != nil {
		g.fill(conn)
		e.mu.Lock()
		g.ended = true
		e.changed.Broadcast()
		e.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, conn) // otherwise the adapter would wait forever
	_ = conn.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.conns, conn)
}

// fill queues the items of a capture, and at its end that the adapter is gone.
func (g *growing) fill(conn net.Conn) {
	r, err := pcapfile.NewReader(conn)
	if err != nil {
		return // no capture
	}
	var last *pcapfile.Entry
	for {
		i, err := r.NextItem()
		// A killed process may cut off the adapter's last packet; the report covers
		// the packets before it.
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if ended && last != nil {
			g.push(gone(last))
		}
		if err != nil {
			return
		}
		if i.Entry != nil {
			last = i.Entry
		}
		g.push(i.Clone())
	}
}

// gone returns the entry that ends the capture of an adapter; last is an earlier one.
func gone(last *pcapfile.Entry) pcapfile.Item {
	return pcapfile.Item{Entry: &pcapfile.Entry{Time: time.Now().UTC(), Message: capture.Gone, Fields: []pcapfile.Field{
		{Name: capture.FieldMsg, Value: capture.Gone}, {Name: capture.FieldAdapter, Value: last.Get(capture.FieldAdapter)},
		{Name: capture.FieldPID, Value: last.Get(capture.FieldPID)},
	}}}
}

// push adds an item, when there is room.
func (g *growing) push(i pcapfile.Item) {
	e := g.ears
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.held >= maxHeld {
		e.changed.Wait()
	}
	e.held += i.Size()
	g.queue = append(g.queue, held{i, time.Now()})
	e.changed.Broadcast()
}

// follow follows the packets of all adapters, and makes the report when all have ended.
func (e *ears) follow() {
	wake := time.NewTicker(reorderDelay / 4)
	defer wake.Stop()
	stop := make(chan struct{})
	defer close(stop)
	go func() { // the condition has no time limit
		for {
			select {
			case <-wake.C:
				e.changed.Broadcast()
			case <-stop:
				return
			}
		}
	}()
	last := time.Now()
	for {
		i, ok := e.next()
		if ok {
			e.take(&i)
		}
		if now := time.Now(); !ok && now.Sub(last) >= idle {
			e.follower.Idle(now)
			last = now
		}
		if !ok && e.over() {
			break
		}
	}
	if e.copy != nil && e.failed == nil {
		e.failed = e.copy.Flush()
	}
	if e.file != nil {
		e.failed = errors.Join(e.failed, e.file.Close())
	}
	e.report <- e.follower.Report()
}

// take follows an item, and copies it.
func (e *ears) take(i *pcapfile.Item) {
	if e.copy != nil && e.failed == nil {
		e.failed = e.copy.Write(i)
	}
	e.follower.Take(i)
}

// next returns the next item. It reports false if there was none for some time, or all adapters have ended.
func (e *ears) next() (i pcapfile.Item, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i, err := e.join.Next(e.held >= maxHeld/2 || e.overdue(time.Now()))
	if err == nil {
		return i, true
	}
	if !errors.Is(err, io.EOF) || !e.ended {
		e.changed.Wait()
	}
	return i, false
}

// overdue reports whether a packet has waited long enough. The mutex is held.
func (e *ears) overdue(now time.Time) bool {
	return slices.ContainsFunc(e.queues, func(g *growing) bool { return len(g.queue) > 0 && now.Sub(g.queue[0].since) >= reorderDelay })
}

// over reports whether nothing more comes.
func (e *ears) over() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ended && e.join.Over()
}

// close stops listening and returns the report, and the error of writing the copy.
func (e *ears) close() (*explain.Report, error) {
	_ = e.listener.Close()
	e.mu.Lock()
	e.closing = true
	for conn := range e.conns {
		_ = conn.SetReadDeadline(time.Now().Add(lastWords))
	}
	e.mu.Unlock()
	e.group.Wait()
	e.mu.Lock()
	e.ended = true
	e.changed.Broadcast()
	e.mu.Unlock()
	r := <-e.report
	return r, e.failed
}

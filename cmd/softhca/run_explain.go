package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
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
	// maxHeld is the maximum number of packets of an adapter that wait until those of the others have come.
	// When they are that many, the adapter waits.
	maxHeld = 256
	// patience is how long a packet waits for earlier ones of other adapters.
	patience = 100 * time.Millisecond
	// lastWords limits the wait, after the program has ended, for adapters of
	// processes that outlive it.
	lastWords = time.Second
	// exitUnexpected is the exit code of run if the program ended well and the report is not as expected.
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
			defer f.Close()
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
	if failed != nil {
		say(cmd.ErrOrStderr(), "softhca: run --capture: %v", failed)
	}
	if report.Packets == 0 && len(report.Told) == 0 {
		say(cmd.ErrOrStderr(), "softhca: no packet passed: the program opened no adapter, or did not send")
	} else if err := tellLive(cmd.ErrOrStderr(), report); err != nil {
		return err
	}
	if code != 0 {
		return &exitError{code, fmt.Errorf("run: %s ended with exit code %d", o.Program[0], code)}
	}
	err = want.met(report)
	if err == nil {
		err = failed
	}
	if err != nil {
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
	group    sync.WaitGroup   // of the adapters
	report   chan *explain.Report
	failed   error // the first error of copy; set when report has a value

	mu      sync.Mutex // guards the fields below, and the queues of the adapters
	changed *sync.Cond // of them
	join    *pcapfile.Join
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
	queue []pcapfile.Item
	ended bool
}

var _ pcapfile.Source = (*growing)(nil)

// Head implements pcapfile.Source. The mutex is held.
func (g *growing) Head() (i pcapfile.Item, wait bool, err error) {
	switch {
	case len(g.queue) > 0:
		return g.queue[0], false, nil
	case g.ended:
		return i, false, io.EOF
	default:
		return i, true, nil
	}
}

// Pop implements pcapfile.Source. The mutex is held.
func (g *growing) Pop() {
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
		e.join.Add(g)
	}
	return g, true
}

// hear reads the capture of an adapter to its end.
func (e *ears) hear(conn net.Conn, g *growing) {
	defer e.group.Done()
	if g != nil {
		// A killed process may cut off the adapter's last packet; the report covers
		// the packets before it.
		var last *pcapfile.Entry
		if items, err := pcapfile.NewItems(conn); err == nil {
			for {
				i, err := items.Next()
				if err != nil {
					break
				}
				if i.Entry != nil {
					last = i.Entry
				}
				g.push(i)
			}
		}
		if last != nil {
			g.push(gone(last))
		}
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

// gone returns the entry that ends the capture of an adapter; last is an earlier one.
func gone(last *pcapfile.Entry) pcapfile.Item {
	return pcapfile.Item{Entry: &pcapfile.Entry{Time: time.Now().UTC(), Message: capture.Gone, Fields: []pcapfile.Field{
		{Name: capture.FieldMsg, Value: capture.Gone}, {Name: capture.FieldAdapter, Value: last.Get(capture.FieldAdapter)},
		{Name: capture.FieldPID, Value: last.Get(capture.FieldPID)},
	}}}
}

// push adds an item, when there is room.
func (g *growing) push(i pcapfile.Item) {
	g.ears.mu.Lock()
	defer g.ears.mu.Unlock()
	for len(g.queue) >= maxHeld {
		g.ears.changed.Wait()
	}
	g.queue = append(g.queue, i)
	g.ears.changed.Broadcast()
}

// follow follows the packets of all adapters, and makes the report when all have ended.
func (e *ears) follow() {
	wake := time.NewTicker(patience / 4)
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
		if now := time.Now(); now.Sub(last) >= idle {
			e.follower.Idle(now)
			last = now
		}
		if !ok && e.over() {
			break
		}
	}
	if e.copy != nil {
		if err := e.copy.Flush(); e.failed == nil {
			e.failed = err
		}
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
	i, err := e.join.Next(time.Now().Add(-patience))
	if err == nil {
		return i, true
	}
	if !errors.Is(err, io.EOF) || !e.ended {
		e.changed.Wait()
	}
	return i, false
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

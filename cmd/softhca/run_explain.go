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
)

const (
	// maxListened is the maximum number of adapters followed. Packets of others are
	// discarded.
	maxListened = 256
	// maxTold is the maximum number of reports printed in full.
	maxTold = 8
	// lastWords limits the wait, after the program has ended, for adapters of
	// processes that outlive it.
	lastWords = time.Second
)

// runExplained runs a program and then reports what went wrong on the wire, for each
// adapter that the program or its children opened.
func runExplained(ctx context.Context, cmd *cobra.Command, o *launch.Options) error {
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
	e := &ears{listener: l, told: &newsroom{w: cmd.ErrOrStderr()}}
	go e.listen()
	o.Set = append(o.Set, launch.Var{Name: launch.CaptureEnv, Value: launch.CaptureSocket + path})
	code, err := o.RunBeside(ctx)
	reports := e.close()
	if err != nil {
		return err
	}
	if err := tellAll(cmd.ErrOrStderr(), reports); err != nil {
		return err
	}
	if code != 0 {
		return &exitError{code, fmt.Errorf("run: %s ended with exit code %d", o.Program[0], code)}
	}
	return nil
}

// ears receives the captures of the adapters of programs.
type ears struct {
	listener net.Listener
	told     *newsroom
	group    sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	closing bool
	conns   map[net.Conn]bool
	reports []*explain.Report // in the order in which the adapters ended
	heard   int               // adapters that have connected
}

func (e *ears) listen() {
	for {
		conn, err := e.listener.Accept()
		if err != nil {
			return // closed
		}
		if !e.add(conn) {
			_ = conn.Close()
			continue
		}
		go e.follow(conn)
	}
}

// add registers the connection of an adapter. It reports false when e is closing.
func (e *ears) add(conn net.Conn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return false
	}
	if e.conns == nil {
		e.conns = map[net.Conn]bool{}
	}
	e.conns[conn] = true
	e.group.Add(1)
	return true
}

// follow reads the capture of an adapter to its end.
func (e *ears) follow(conn net.Conn) {
	defer e.group.Done()
	e.mu.Lock()
	e.heard++
	follow := e.heard <= maxListened
	e.mu.Unlock()
	var r *explain.Report
	if follow {
		// A killed process may cut off the adapter's last packet; the report covers
		// the packets before it.
		l := explainLive(e.told)
		_, _ = io.Copy(l, conn)
		r = l.end()
	}
	_, _ = io.Copy(io.Discard, conn) // otherwise the adapter would wait forever
	_ = conn.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.conns, conn)
	if r != nil {
		e.reports = append(e.reports, r)
	}
}

// close stops listening and returns the reports.
func (e *ears) close() []*explain.Report {
	_ = e.listener.Close()
	e.mu.Lock()
	e.closing = true
	for conn := range e.conns {
		_ = conn.SetReadDeadline(time.Now().Add(lastWords))
	}
	e.mu.Unlock()
	e.group.Wait()
	return e.reports
}

// tellAll writes the reports. If there are several, those with findings come first.
func tellAll(w io.Writer, reports []*explain.Report) (err error) {
	var bad, good []*explain.Report
	for _, r := range reports {
		switch {
		case r.Packets == 0:
		case len(r.Findings) > 0:
			bad = append(bad, r)
		default:
			good = append(good, r)
		}
	}
	all := append(bad, good...)
	if len(all) == 0 {
		say(w, "softhca: no packet passed: the program opened no adapter, or did not send")
	}
	for i, r := range all[:min(len(all), maxTold)] {
		if len(all) > 1 {
			say(w, "ADAPTER %d of %d", i+1, len(all))
		}
		err = errors.Join(err, tellLive(w, r))
	}
	if more := all[min(len(all), maxTold):]; len(more) > 0 {
		say(w, "and %d adapters more, %d of them with findings", len(more), max(0, len(bad)-maxTold))
	}
	return err
}

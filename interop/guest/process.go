//go:build linux

package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/softhca/softhca/interop/remote"
)

// Guest runs commands in a guest, by its agent. It is safe for concurrent use.
type Guest struct{ Addr netip.Addr }

// Process is a command that runs in a guest.
type Process struct {
	remote.Transcript

	mu   sync.Mutex // guards writes to conn
	conn net.Conn
	done chan struct{} // closed when the fields below are set
	exit int
	err  error
}

// Start starts a script for the shell. When ctx ends, its processes are killed,
// except those in a session of their own.
func (g *Guest) Start(ctx context.Context, script string) (*Process, error) {
	conn, err := g.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("guest: %w", err)
	}
	p := &Process{conn: conn, done: make(chan struct{})}
	if err := p.send(remote.Run, []byte(script)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // the reader reports it
	go func() {
		defer stop()
		p.read(ctx)
	}()
	return p, nil
}

// dialTime is how long dial tries to reach a guest that does not answer ARP: a
// guest without CPU time for seconds is slow.
const dialTime = 30 * time.Second

// dial connects to the guest's agent.
func (g *Guest) dial(ctx context.Context) (conn net.Conn, err error) {
	for end := time.Now().Add(dialTime); ; {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", netip.AddrPortFrom(g.Addr, remote.Port).String())
		if !errors.Is(err, syscall.EHOSTUNREACH) || time.Now().After(end) {
			return conn, err
		}
	}
}

// read takes frames until the command has ended.
func (p *Process) read(ctx context.Context) {
	defer close(p.done)
	defer p.End()
	defer func() { _ = p.conn.Close() }()
	for {
		k, b, err := remote.Read(p.conn)
		switch {
		case err != nil:
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			p.err = fmt.Errorf("guest: the command did not end: %w", err)
			return
		case k == remote.Exit && len(b) == 1:
			p.exit = int(b[0])
			return
		case k == remote.Stdout || k == remote.Stderr:
			p.Add(k, b)
		}
	}
}

func (p *Process) send(k remote.Kind, b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return remote.Write(p.conn, k, b)
}

// Signal sends a signal to the script and its children.
func (p *Process) Signal(s syscall.Signal) error { return p.send(remote.Signal, []byte{byte(s)}) }

// Wait waits for the end of the command. It fails if the guest has ended or ctx
// of Start has; the result has the output so far.
func (p *Process) Wait() (remote.Result, error) {
	<-p.done
	return p.Result(p.exit), p.err
}

// Run runs a script for the shell to its end.
func (g *Guest) Run(ctx context.Context, script string) (remote.Result, error) {
	p, err := g.Start(ctx, script)
	if err != nil {
		return remote.Result{}, err
	}
	return p.Wait()
}

// plain is a path that needs no quotes in a shell.
var plain = regexp.MustCompile(`^[A-Za-z0-9/._-]+$`)

// Put makes a file in the guest, replacing an existing one.
func (g *Guest) Put(ctx context.Context, path string, data []byte, mode uint32) error {
	if !plain.MatchString(path) {
		return fmt.Errorf("guest: put %q: letters, digits and /._- only", path)
	}
	p, err := g.Start(ctx, fmt.Sprintf("cat >%s.new && chmod %o %s.new && mv -f %s.new %s", path, mode, path, path, path))
	if err != nil {
		return err
	}
	r, buf := bytes.NewReader(data), make([]byte, remote.MaxFrame)
	for {
		n, err := r.Read(buf)
		if err == io.EOF {
			break
		}
		if err := p.send(remote.Input, buf[:n]); err != nil {
			return err
		}
	}
	if err := p.send(remote.InputEnd, nil); err != nil {
		return err
	}
	if res, err := p.Wait(); err != nil || !res.OK() {
		return errors.Join(fmt.Errorf("guest: put %s: %v", path, res), err)
	}
	return nil
}

//go:build linux

package lab

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/softhca/softhca/internal/namespace"
	"github.com/softhca/softhca/interop/remote"
)

// Process is a program that runs here or in the guest.
type Process interface {
	// Signal sends a signal to it.
	Signal(s syscall.Signal) error
	// Wait waits for its end. It fails if the context that it was started with
	// ended it.
	Wait() (remote.Result, error)
	// Await waits until its output matches the expression.
	Await(ctx context.Context, what *regexp.Regexp) error
	// String returns its output so far.
	String() string
}

// local is a program that runs here.
type local struct {
	remote.Transcript
	cmd   *exec.Cmd
	group bool          // it leads a process group, which gets its signals
	ended func()        // called when the program has ended, if set
	done  chan struct{} // closed when the fields below are set
	err   error
}

// command returns our command, which is killed when ctx ends.
func (l *Lab) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(l.files, Command), args...)
	cmd.Args[0] = Command
	return cmd
}

// Ours starts our command, with its own capture if it opens an adapter, whose
// counters the case then gets. When ctx ends it is killed.
func (l *Lab) Ours(ctx context.Context, args ...string) (Process, error) {
	capture, own := l.opening()
	args = append(args, "--capture", capture)
	if args[0] != "judge" { // judge has no adapter that logs
		args = append(args, "--log-level", "info")
	}
	p := &local{cmd: l.command(ctx, args...)}
	p.ended = func() {
		t, ok := parseTold(p.Result(0).Stderr)
		l.ended(ctx, own, t, ok)
	}
	return p, l.start(ctx, p)
}

// Broker starts our broker on an address, and returns when programs can join it. It counts
// as an adapter that tells nothing: the messages that it receives are in no counter. When
// ctx ends it is killed.
func (l *Lab) Broker(ctx context.Context, addr netip.Addr) error {
	l.opening()
	p := &local{cmd: l.command(ctx, "broker", "--addr", addr.String())}
	if err := l.start(ctx, p); err != nil {
		return err
	}
	return p.Await(ctx, regexp.MustCompile(`(?m)^broker on `))
}

// opening returns the file for the capture of one more adapter of ours, and where
// what it counted is kept.
func (l *Lab) opening() (capture string, own *Own) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened++
	l.own.Silent++ // until it reports its counters
	return l.captureFile(), l.own
}

// captureFile returns the file for the capture of the last adapter, with the lock
// held.
func (l *Lab) captureFile() string {
	return filepath.Join(l.Dir, fmt.Sprintf("ours-%d.pcapng", l.opened))
}

// Capture returns the file that our last command in this case captured to.
func (l *Lab) Capture() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.captureFile()
}

// start starts a program here.
func (l *Lab) start(ctx context.Context, p *local) error {
	p.done = make(chan struct{})
	p.cmd.Stdout, p.cmd.Stderr = p.Writer(remote.Stdout), p.Writer(remote.Stderr)
	p.cmd.WaitDelay = time.Second
	l.Log("here: %s", strings.Join(p.cmd.Args, " "))
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	go func() {
		defer close(p.done)
		defer p.End()
		// The process state has the exit code.
		_ = p.cmd.Wait()
		if ctx.Err() != nil {
			p.err = fmt.Errorf("lab: %s did not end: %w", p.cmd.Args[0], ctx.Err())
		}
		if p.ended != nil {
			p.ended()
		}
	}()
	return nil
}

// Signal sends a signal to the program.
func (p *local) Signal(s syscall.Signal) error {
	if p.group {
		return syscall.Kill(-p.cmd.Process.Pid, s)
	}
	return p.cmd.Process.Signal(s)
}

// Wait waits for the end of the program.
func (p *local) Wait() (remote.Result, error) {
	<-p.done
	exit := p.cmd.ProcessState.ExitCode()
	if w, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		exit = 128 + int(w.Signal())
	}
	r := p.Result(exit)
	r.Stderr = withoutLog(r.Stderr)
	return r, p.err
}

// Peers starts a script in the guest.
func (l *Lab) Peers(ctx context.Context, script string) (Process, error) {
	l.Log("guest: %s", script)
	return l.Guest.Start(ctx, script)
}

// Succeed runs a script in the guest, which must exit with 0, and returns its
// output.
func (l *Lab) Succeed(ctx context.Context, script string) (string, error) {
	l.Log("guest: %s", script)
	r, err := l.Guest.Run(ctx, script)
	if err == nil && !r.OK() {
		err = fmt.Errorf("lab: %q in the guest: %v", script, r)
	}
	return r.Stdout, err
}

// TCPListener waits until a program in the guest listens on a TCP port.
func (l *Lab) TCPListener(ctx context.Context, port int) error {
	_, err := l.Succeed(ctx, fmt.Sprintf(`while :; do while read a b c d e; do case $b-$d in *:%04X-0A) exit 0;; esac; done </proc/net/tcp; sleep 0.05; done`, port))
	return err
}

// CMListener waits until a program in the guest listens at the connection
// manager.
func (l *Lab) CMListener(ctx context.Context) error {
	_, err := l.Succeed(ctx, `until rdma resource show cm_id | grep -q 'state LISTEN'; do sleep 0.05; done`)
	return err
}

// OwnTCPListener waits until a program here listens on a TCP port.
func (l *Lab) OwnTCPListener(ctx context.Context, port int) error {
	for {
		if is, err := namespace.Listens(port); is || err != nil {
			return err
		}
		if err := l.Pause(ctx); err != nil {
			return err
		}
	}
}

// Pause waits a moment, between two looks at something that tells nobody when
// it changes.
func (l *Lab) Pause(ctx context.Context) error {
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pause is the length of a Pause.
const pause = 5 * time.Millisecond

//go:build linux

package programs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/softhca/softhca/interop/frames"
	"github.com/softhca/softhca/interop/lab"
	"github.com/softhca/softhca/interop/matrix"
	"github.com/softhca/softhca/interop/remote"
	"github.com/softhca/softhca/interop/suite"
)

// listening is what our servers print, or our library logs, when a client may come.
var listening = regexp.MustCompile(`listening on`)

// said waits for what tells that our server listens.
func said(ctx context.Context, p lab.Process) error { return p.Await(ctx, listening) }

// pair is a server and a client, one of them ours and the other in the guest.
type pair struct {
	*lab.Lab
	ours    []string   // a program and its arguments, on our library
	own     netip.Addr // of our adapter
	options []string   // of softhca run
	guest   string     // command line in the guest
	// ready waits until the guest's server listens, ourReady until ours does.
	ready    func(ctx context.Context) error
	ourReady func(ctx context.Context, p lab.Process) error
	// stopServer is sent to the server when the client has exited; 0: it exits
	// by itself.
	stopServer syscall.Signal
}

// more appends flags to both sides.
func (p *pair) more(ours, guest string) {
	p.ours = append(p.ours, strings.Fields(ours)...)
	if guest != "" {
		p.guest += " " + guest
	}
}

// moreOf appends flags to the server and to the client of a cell.
func (p *pair) moreOf(c matrix.Cell, server, client string) {
	if c.Is("dir", "server") {
		p.more(server, client)
	} else {
		p.more(client, server)
	}
}

// fault makes our port apply rules to packets of queue pairs, in the directions of way. The
// messages of the connection manager have cases of their own.
func (p *pair) fault(way string, rules ...string) {
	for _, rule := range rules {
		p.options = append(p.options, "--fault", rule+" dir="+way+" op="+rcOpcodes)
	}
	p.options = append(p.options, "--fault-seed", faultSeed)
}

// side is a program that runs, and how it ended.
type side struct {
	who string
	lab.Process
	end  remote.Result
	err  error
	done chan struct{} // closed when end and err are set
}

// start starts one side.
func (p *pair) start(ctx context.Context, ours bool) (s *side, err error) {
	s = &side{who: "guest", done: make(chan struct{})}
	if ours {
		s.who = "ours"
		s.Process, err = p.OnLibrary(ctx, p.own, p.options, p.ours...)
	} else {
		s.Process, err = p.Peers(ctx, p.guest)
	}
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(s.done)
		s.end, s.err = s.Wait()
	}()
	return s, nil
}

// serve starts the server, and returns when it listens. With an error it still returns the server
// if it has started it.
func (p *pair) serve(ctx context.Context, c matrix.Cell) (*side, error) {
	ours := c.Is("dir", "server")
	server, err := p.start(ctx, ours)
	switch {
	case err != nil:
		return nil, err
	case ours:
		return server, p.ourReady(ctx, server)
	}
	return server, p.ready(ctx)
}

// open starts the server and, when it listens, the client. With an error it
// still returns the side that it has started.
func (p *pair) open(ctx context.Context, c matrix.Cell) (server, client *side, err error) {
	if server, err = p.serve(ctx, c); err == nil {
		client, err = p.start(ctx, !c.Is("dir", "server"))
	}
	return server, client, err
}

// ends are the results of both sides.
type ends struct{ ours, guest remote.Result }

// client returns the result of a cell's client.
func (e *ends) client(c matrix.Cell) remote.Result {
	if c.Is("dir", "server") {
		return e.guest
	}
	return e.ours
}

// grace is how long a side may go on after the other one has failed.
const grace = 20 * time.Second

// run starts the server and then the client, and waits for the end of both.
// When one has failed, it ends the other after grace.
func (p *pair) run(ctx context.Context, c matrix.Cell) (e ends, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server, client, err := p.open(ctx, c)
	if err != nil {
		cancel()
	}
	var serverDone, clientDone <-chan struct{}
	left := 0
	if server != nil {
		serverDone = server.done
		left++
	}
	if client != nil {
		clientDone = client.done
		left++
	}
	for ; left > 0; left-- {
		var s *side
		select {
		case <-clientDone:
			s, clientDone = client, nil
			if p.stopServer != 0 {
				err = errors.Join(err, server.Signal(p.stopServer))
			}
		case <-serverDone:
			s, serverDone = server, nil
		}
		p.Log("%s:\n%v", s.who, s.end)
		if err == nil {
			err = s.err
		}
		if !s.end.OK() {
			time.AfterFunc(grace, cancel)
		}
		if s.who == "ours" {
			e.ours = s.end
		} else {
			e.guest = s.end
		}
	}
	return e, err
}

// both is the outcome of a pair whose sides must both end with exit code 0.
func (p *pair) both(ctx context.Context, c matrix.Cell) suite.Outcome {
	e, err := p.run(ctx, c)
	return e.outcome(err)
}

// outcome is that of sides which must both end with exit code 0, if err is nil.
func (e *ends) outcome(err error) suite.Outcome {
	if err != nil {
		return suite.Failed("%v%s", firstLine(err.Error()), e.tell())
	}
	if !e.ours.OK() || !e.guest.OK() {
		return suite.Failed("%s", strings.TrimPrefix(e.tell(), "; "))
	}
	return suite.Passed("")
}

// retryTime is a little less than the time of a pingpong's retries, which are
// eight of 67 ms.
const retryTime = 450 * time.Millisecond

// bothEnd is like both, for programs that exit after their last message, although
// their acknowledgement of the peer's last message may be lost. The peer then
// retransmits to a closed adapter until its retries are used up, but has received
// all messages.
func (p *pair) bothEnd(ctx context.Context, c matrix.Cell) suite.Outcome {
	e, err := p.run(ctx, c)
	o := e.outcome(err)
	if o.Verdict == suite.Pass {
		return o
	}
	if fs, err := p.Frames(ctx); err == nil && e.left(fs) {
		return suite.Passed("").With("one side had ended when an acknowledgement of its was lost")
	}
	return o
}

// left reports whether one side exited with 0 and the other one failed because
// its retries to that side were used up.
func (e *ends) left(fs []frames.Frame) bool {
	switch {
	case e.guest.OK():
		return exhausted.MatchString(e.ours.String()) && frames.Alone(fs, true) > retryTime
	case e.ours.OK():
		return exhausted.MatchString(e.guest.String()) && frames.Alone(fs, false) > retryTime
	}
	return false
}

// exhausted matches that error in rdma-core's programs.
var exhausted = regexp.MustCompile(`transport retry counter exceeded`)

// tell returns the results of both sides in a line.
func (e *ends) tell() string {
	return fmt.Sprintf("; ours: exit code %d %s; guest: exit code %d %s", e.ours.Exit, lastLine(e.ours), e.guest.Exit, lastLine(e.guest))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// lastLine returns the last line that a program printed, on standard error if
// there is one.
func lastLine(r remote.Result) string {
	text := strings.TrimSpace(r.Stderr)
	if text == "" {
		text = strings.TrimSpace(r.Stdout)
	}
	return text[strings.LastIndexByte(text, '\n')+1:]
}

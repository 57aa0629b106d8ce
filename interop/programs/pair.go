//go:build linux

package programs

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"syscall"

	"github.com/softhca/softhca/interop/lab"
	"github.com/softhca/softhca/interop/matrix"
	"github.com/softhca/softhca/interop/remote"
	"github.com/softhca/softhca/interop/suite"
)

// listening is what our servers print when a client may come.
var listening = regexp.MustCompile(`listening on`)

// pair is a server and a client, one of them ours and the other in the guest.
type pair struct {
	*lab.Lab
	ours  []string // arguments of our command
	guest string   // command line in the guest
	// ready waits until the guest's program serves, and ourReady until ours
	// does.
	ready    func(ctx context.Context) error
	ourReady func(ctx context.Context, p lab.Process) error
	// stopServer is sent to the server when the client has ended; 0: it ends
	// by itself.
	stopServer syscall.Signal
}

// ends are the results of both sides.
type ends struct{ ours, guest remote.Result }

// client returns the result of the client in a cell.
func (e *ends) client(c matrix.Cell) remote.Result {
	if c.Is("dir", "server") {
		return e.guest
	}
	return e.ours
}

// said waits for what our servers print.
func said(ctx context.Context, p lab.Process) error { return p.Await(ctx, listening) }

// run starts the server and then the client, and waits for the end of both.
func (p *pair) run(ctx context.Context, c matrix.Cell) (ends, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var ours, guest lab.Process
	begin := func(our bool) (err error) {
		if our {
			ours, err = p.Ours(ctx, p.ours...)
		} else {
			guest, err = p.Peers(ctx, p.guest)
		}
		return err
	}
	server := c.Is("dir", "server") // ours
	if err := begin(server); err != nil {
		return ends{}, err
	}
	var err error
	if server {
		err = p.ourReady(ctx, ours)
	} else {
		err = p.ready(ctx)
	}
	if err == nil {
		err = begin(!server)
	}
	if err != nil {
		cancel()
	}
	var e ends
	type side struct {
		p   lab.Process
		res *remote.Result
		who string
	}
	sides := []side{{guest, &e.guest, "guest"}, {ours, &e.ours, "here"}} // the client first
	if !server {
		sides[0], sides[1] = sides[1], sides[0]
	}
	for i, s := range sides {
		if s.p == nil {
			continue
		}
		if i == 1 && p.stopServer != 0 {
			err = errors.Join(err, s.p.Signal(p.stopServer))
		}
		res, waited := s.p.Wait()
		*s.res = res
		p.Log("%s:\n%s", s.who, res)
		err = errors.Join(err, waited)
	}
	return e, err
}

// both is the outcome of a pair whose sides must both end with exit code 0.
func (p *pair) both(ctx context.Context, c matrix.Cell) suite.Outcome {
	e, err := p.run(ctx, c)
	if err != nil {
		return suite.Failed("%v%s", firstLine(err.Error()), e.tell())
	}
	if !e.ours.OK() || !e.guest.OK() {
		return suite.Failed("%s", strings.TrimPrefix(e.tell(), "; "))
	}
	return suite.Passed("")
}

// tell returns how the sides ended, in a line.
func (e *ends) tell() string {
	return fmt.Sprintf("; ours: exit code %d %s; guest: exit code %d %s", e.ours.Exit, lastLine(e.ours), e.guest.Exit, lastLine(e.guest))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// lastLine returns the last line that a program printed, of its errors if
// there are any.
func lastLine(r remote.Result) string {
	text := strings.TrimSpace(r.Stderr)
	if text == "" {
		text = strings.TrimSpace(r.Stdout)
	}
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// more appends flags to both sides.
func (p *pair) more(ours, guest string) {
	p.ours = append(p.ours, strings.Fields(ours)...)
	if guest != "" {
		p.guest += " " + guest
	}
}

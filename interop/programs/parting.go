//go:build linux

package programs

import (
	"context"
	"errors"
	"fmt"
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

// pinging is what both sides print while they work.
var pinging = regexp.MustCompile(`ping data: rdma-ping-[0-9]+`)

// parting are the cases in which one side, or its machine, exits or stops for a
// while in the middle of its work.
func parting() []suite.Family {
	what := matrix.Dim{Name: "what", Values: []string{
		"client-interrupted", "server-interrupted", "client-killed", "server-killed", "slow-server", "guest-off",
	}}
	return []suite.Family{{
		Name: "parting",
		About: "rping without end: client or server interrupted or killed, which our broker tells the peer if it is ours; a server that thinks for long; " +
			"the guest's power cut, and the guest again",
		Dims:  []matrix.Dim{what, matrix.Direction(), matrix.IP()},
		Short: func(c matrix.Cell) bool { return c.Is("what", "client-killed") && c.Is("ip", "ipv4") },
		Cost:  5 * time.Second,
		Limit: time.Minute,
		// rping, parted from in the middle of a ping, hangs now and then.
		Tries: 3,
		Loose: suite.Gone,
		Run:   runParting,
	}}
}

func runParting(ctx context.Context, l *lab.Lab, c matrix.Cell) suite.Outcome {
	switch c.Get("what") {
	case "slow-server":
		return slowServer(ctx, l, c)
	case "guest-off":
		return guestOff(ctx, l, c)
	}
	// The broker tells the peer that ours has ended, as the kernel does in the guest.
	if role, _, _ := strings.Cut(c.Get("what"), "-"); c.Is("dir", role) {
		broker, cancel := context.WithCancel(ctx)
		defer cancel()
		if err := l.Broker(broker, l.Own(c)); err != nil {
			return suite.Failed("%s", firstLine(err.Error()))
		}
	}
	t, err := begin(ctx, rping.pair(l, c, ""), c, "-C 0")
	if err != nil {
		return suite.Failed("%s", firstLine(err.Error()))
	}
	defer t.cancel()
	victim, witness := t.client, t.server
	if c.Is("what", "server-interrupted") || c.Is("what", "server-killed") {
		victim, witness = witness, victim
	}
	signal := syscall.SIGINT
	if c.Is("what", "client-killed") || c.Is("what", "server-killed") {
		signal = syscall.SIGKILL
	}
	if err := victim.Signal(signal); err != nil {
		return suite.Failed("%v", err)
	}
	gone, err := victim.Wait()
	l.Log("ended by a signal:\n%v", gone)
	if err != nil {
		return suite.Failed("the process that got %v: %v", signal, err)
	}
	left, err := witness.Wait()
	l.Log("the other side:\n%v", left)
	switch {
	case err != nil:
		return suite.Failed("the other side: %s", firstLine(err.Error()))
	case !regexp.MustCompile(`DISCONNECT EVENT`).MatchString(left.String()):
		return suite.Failed("the other side does not say DISCONNECT EVENT: %s", lastLine(left))
	}
	return suite.Passed("DISCONNECT EVENT")
}

// talk is a running rping between the sides.
type talk struct {
	client, server *side
	cancel         context.CancelFunc
}

// begin starts a server and a client with more flags, and returns when they
// ping each other.
func begin(ctx context.Context, p *pair, c matrix.Cell, clientFlags string) (*talk, error) {
	ctx, cancel := context.WithCancel(ctx)
	p.moreOf(c, "", clientFlags)
	server, client, err := p.open(ctx, c)
	ours := client
	if c.Is("dir", "server") {
		ours = server
	}
	if err == nil {
		err = ours.Await(ctx, pinging)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return &talk{client, server, cancel}, nil
}

// slowServer stops the server before a client connects, and continues it later.
// The guest's kernel sends an MRA meanwhile; our side, whose communication
// manager is stopped too, is silent, and the client repeats its REQ.
func slowServer(ctx context.Context, l *lab.Lab, c matrix.Cell) suite.Outcome {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := rping.pair(l, c, "")
	p.moreOf(c, "", "-C 3")
	server, err := p.serve(ctx, c)
	if err == nil {
		err = server.Signal(syscall.SIGSTOP)
	}
	if err != nil {
		return suite.Failed("%s", firstLine(err.Error()))
	}
	client, err := p.start(ctx, !c.Is("dir", "server"))
	if err != nil {
		return suite.Failed("%s", firstLine(err.Error()))
	}
	asked := 1
	if c.Is("dir", "server") {
		asked = 2 // the second shows that the first got no answer
	}
	if err := awaitCM(ctx, l, frames.REQ, c.Is("dir", "client"), asked); err != nil {
		return suite.Failed("%v", err)
	}
	if c.Is("dir", "client") {
		if err := awaitCM(ctx, l, frames.MRA, false, 1); err != nil {
			return suite.Failed("no MRA: %v", err)
		}
	}
	if err := server.Signal(syscall.SIGCONT); err != nil {
		return suite.Failed("%v", err)
	}
	var results [2]remote.Result
	for i, side := range []*side{client, server} {
		r, waited := side.Wait()
		results[i], err = r, errors.Join(err, waited)
		l.Log("%v", r)
	}
	switch {
	case err != nil:
		return suite.Failed("%s", firstLine(err.Error()))
	case !results[0].OK() || !results[1].OK():
		return suite.Failed("client: exit code %d %s; server: exit code %d %s", results[0].Exit, lastLine(results[0]), results[1].Exit, lastLine(results[1]))
	case c.Is("dir", "client"):
		return suite.Passed("MRA, then connected")
	}
	return suite.Passed("asked again, then connected")
}

// awaitCM waits until n messages of a kind have been on the wire.
func awaitCM(ctx context.Context, l *lab.Lab, m frames.Message, out bool, n int) error {
	for {
		fs, err := l.Frames(ctx)
		if err != nil {
			return err
		}
		if frames.CMCount(fs, m, out) >= n {
			return nil
		}
		if err := l.Pause(ctx); err != nil {
			return fmt.Errorf("message %#x never came %d times: %w", uint16(m), n, err)
		}
	}
}

// guestOff cuts the guest's power while both ping, boots it anew, and has the
// same server, or another client, ping again.
func guestOff(ctx context.Context, l *lab.Lab, c matrix.Cell) suite.Outcome {
	p := rping.pair(l, c, "")
	if c.Is("dir", "server") {
		p.ours = append(p.ours, "-P")
	}
	t, err := begin(ctx, p, c, "-C 0")
	if err != nil {
		return suite.Failed("%s", firstLine(err.Error()))
	}
	defer t.cancel()
	l.PowerOff()
	if c.Is("dir", "client") {
		left, err := t.client.Wait()
		l.Log("our client:\n%v", left)
		if err != nil || left.OK() {
			return suite.Failed("our client does not see the end of the peer's machine: exit code %d %s", left.Exit, lastLine(left))
		}
	}
	if err := l.PowerOn(ctx); err != nil {
		return suite.Failed("%v", err)
	}
	again := rping.pair(l, c, "-C 5")
	if c.Is("dir", "client") {
		o := again.both(ctx, c)
		if o.Verdict == suite.Pass {
			o.Note = "our client ended by itself, and a new one pings the restarted guest"
		}
		return o
	}
	client, err := l.Peers(ctx, again.guest)
	if err != nil {
		return suite.Failed("%v", err)
	}
	r, err := client.Wait()
	l.Log("the new client:\n%v", r)
	if err != nil || !r.OK() {
		return suite.Failed("a client of the restarted guest: exit code %d %s", r.Exit, lastLine(r))
	}
	if err := t.server.Signal(syscall.SIGINT); err != nil {
		return suite.Failed("%v", err)
	}
	if _, err = t.server.Wait(); err != nil {
		return suite.Failed("our server, interrupted: %v", err)
	}
	return suite.Passed("the same server served the restarted guest")
}

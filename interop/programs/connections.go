//go:build linux

package programs

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/softhca/softhca/interop/lab"
	"github.com/softhca/softhca/interop/matrix"
	"github.com/softhca/softhca/interop/suite"
)

// pace is a program of Debian's that connects as often as it can. In its command lines
// OWN is the address of the server, whichever side that is.
type pace struct {
	server, client string
	took           func(stdout string) (time.Duration, error) // for each connection
	unit           string
}

// runs is how often rping connects, with a new process each time.
const runs = 20

// paces are the programs.
var paces = map[string]pace{
	"cmtime": {server: "cmtime -b OWN", client: "exec cmtime -s OWN -c 100", took: stepsTook, unit: "a connection"},
	"rping": {
		server: "rping -s -a OWN -P",
		client: fmt.Sprintf(`rping -c -a OWN -C 1 || exit 1; read begun rest </proc/uptime; n=0; while [ $n -lt %d ]; do rping -c -a OWN -C 1 || exit 1; n=$((n+1)); done; `+
			`read ended rest </proc/uptime; echo "up $begun $ended"`, runs),
		took: runTook, unit: "a run",
	},
}

// connections are the cases that measure how fast connections are made, by the
// same programs on both adapters.
func connections() []suite.Family {
	return []suite.Family{{
		Name: "connections",
		About: "Debian's cmtime with a hundred connections, all its steps together, and rping -C 1, a process and a connection after the other, to a server of " +
			"their own kind: on rdma_rxe or on our libraries, each alone and with each other; the guest's processor is emulated, ours is not, so only the verdict counts across sides",
		Dims: []matrix.Dim{
			{Name: "program", Values: []string{"cmtime", "rping"}},
			{Name: "client", Values: []string{"rxe", "ours"}},
			{Name: "server", Values: []string{"rxe", "ours"}},
		},
		Always: true,
		Cost:   5 * time.Second,
		Loose:  suite.Gone | suite.Within,
		Run:    runPace,
	}}
}

// stepLine is a line of cmtime's table: a step, and in the last column its time per
// connection in microseconds.
var stepLine = regexp.MustCompile(`(?m)^[a-z ]+:.*\s([0-9.]+)$`)

// steps is the number of lines of its table.
const steps = 7

// stepsTook sums the steps' times in the output of the last cmtime.
func stepsTook(stdout string) (time.Duration, error) {
	lines := stepLine.FindAllStringSubmatch(stdout, -1)
	if len(lines) < steps {
		return 0, fmt.Errorf("cmtime tells of %d steps: %s", len(lines), lastLines(stdout))
	}
	var sum float64
	for _, m := range lines[len(lines)-steps:] {
		us, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return 0, err
		}
		sum += us
	}
	return time.Duration(sum * 1e3), nil
}

// upLine matches the line of the loop around rping: the seconds since boot before and
// after.
var upLine = regexp.MustCompile(`(?m)^up ([0-9.]+) ([0-9.]+)$`)

// runTook returns the time of one rping.
func runTook(stdout string) (time.Duration, error) {
	m := upLine.FindStringSubmatch(stdout)
	if m == nil {
		return 0, fmt.Errorf("the clients do not tell how long they took: %s", lastLines(stdout))
	}
	begun, err := strconv.ParseFloat(m[1], 64)
	ended, err2 := strconv.ParseFloat(m[2], 64)
	return time.Duration((ended - begun) / runs * 1e9), errors.Join(err, err2)
}

// runPace starts a server, and then a client, which must exit with 0.
func runPace(ctx context.Context, l *lab.Lab, c matrix.Cell) suite.Outcome {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pr := paces[c.Get("program")]
	at := l.Peer(c)
	if c.Is("server", "ours") {
		at = l.Own(c)
	}
	start := func(side, script string) (lab.Process, error) {
		script = strings.ReplaceAll(script, "OWN", at.String())
		if c.Is(side, "ours") {
			return l.OnLibrary(ctx, l.Own(c), nil, "sh", "-c", script)
		}
		return l.Peers(ctx, script)
	}
	server, err := start("server", "exec "+pr.server)
	if err == nil && c.Is("server", "ours") {
		err = said(ctx, server)
	} else if err == nil {
		err = l.CMListener(ctx)
	}
	if err != nil {
		return suite.Failed("%v", err)
	}
	client, err := start("client", pr.client)
	if err != nil {
		return suite.Failed("%v", err)
	}
	end, err := client.Wait()
	l.Log("client:\n%v", end)
	if err := errors.Join(err, server.Signal(syscall.SIGINT)); err != nil {
		return suite.Failed("%v", err)
	}
	if _, err := server.Wait(); err != nil {
		return suite.Failed("the server, interrupted: %v", err)
	}
	if !end.OK() {
		return suite.Failed("client: exit code %d %s", end.Exit, lastLine(end))
	}
	took, err := pr.took(end.Stdout)
	if err != nil {
		return suite.Failed("%v", err)
	}
	return suite.Passed("").With("%v %s", took.Round(time.Microsecond), pr.unit)
}

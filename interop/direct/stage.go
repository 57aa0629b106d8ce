//go:build linux

package direct

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/testagent"
	"github.com/softhca/softhca/interop/conformance"
	"github.com/softhca/softhca/interop/ends"
	"github.com/softhca/softhca/interop/lab"
	"github.com/softhca/softhca/interop/matrix"
	"github.com/softhca/softhca/interop/netns"
	"github.com/softhca/softhca/verbs"
)

// file is the program's place in the guest.
const file = "/tmp/agent"

// compile returns the program for the guest.
func compile() ([]byte, error) {
	dir, err := os.MkdirTemp("", "softhca-agent-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	source, program := filepath.Join(dir, "agent.c"), filepath.Join(dir, "agent")
	if err := os.WriteFile(source, []byte(testagent.Source()), 0o600); err != nil {
		return nil, err
	}
	if out, err := exec.Command("gcc", "-O2", "-DWITH_ATOMIC_WRITE", "-o", program, source, "-libverbs").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile the test agent (needs gcc and libibverbs-dev): %w\n%s", err, out)
	}
	return os.ReadFile(program)
}

// stage is where a case is played: the guest's program runs.
type stage struct {
	lab  *lab.Lab
	cell matrix.Cell
	log  io.WriteCloser // log of the test agent's protocol
}

// set starts the program in the guest; it ends with ctx.
func set(ctx context.Context, l *lab.Lab, c matrix.Cell, program func() ([]byte, error)) (*stage, error) {
	binary, err := program()
	if err != nil {
		return nil, err
	}
	if err := l.Guest.Put(ctx, file, binary, 0o755); err != nil {
		return nil, err
	}
	if _, err := l.Peers(ctx, "exec "+file+" -d rxe0 -b 0.0.0.0"); err != nil {
		return nil, err
	}
	if err := l.TCPListener(ctx, testagent.DefaultPort); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(l.Dir, "agent.txt"))
	return &stage{l, c, log}, err
}

// open opens our adapter, with rules of faults, and dials the guest's.
func (s *stage) open(ctx context.Context, rules string) (conformance.Pair, error) {
	return s.openAt(ctx, s.lab.Own(s.cell).String(), rules)
}

// openAt does so with the given addresses for ours.
func (s *stage) openAt(ctx context.Context, addrs, rules string) (conformance.Pair, error) {
	p := conformance.Pair{MTU: s.mtu()}
	cfg := verbs.Config{Addr: addrs, Faults: verbs.Faults{Rules: rules, Seed: seed}}
	if s.cell.Is("transport", "raw") {
		cfg.Transport = verbs.Raw
	}
	ours, err := ends.OpenOurs(cfg)
	if err != nil {
		return p, err
	}
	ours.OnClose(func(last ends.Last) error { return s.lab.Counted(ctx, told(last)) })
	guest := net.JoinHostPort(netns.Peer4.String(), strconv.Itoa(testagent.DefaultPort))
	peer, err := ends.DialPeer(ctx, guest, s.lab.Peer(s.cell), s.log)
	if err != nil {
		return p, errors.Join(err, ours.Close())
	}
	p.Requester, p.Responder = ends.End(ours), ends.End(peer)
	if s.cell.Is("dir", "server") {
		p.Requester, p.Responder = p.Responder, p.Requester
	}
	return p, nil
}

// told converts an adapter's last report for the case.
func told(last ends.Last) lab.Told {
	t := lab.Told{Opened: last.Opened, At: last.At, Counters: lab.Counters{}}
	for _, c := range last.Counters {
		t.Counters[c.Name] = int64(c.Value)
	}
	for _, f := range last.Faults {
		if lab.Arriving(f.Rule) {
			t.Faulty += int64(f.Applied)
		}
	}
	return t
}

// mtu returns the path MTU of the cell, 1024 if the matrix has none.
func (s *stage) mtu() ib.MTU {
	n, err := strconv.Atoi(s.cell.Get("mtu"))
	if mtu, ok := ib.MTUFor(n); ok && err == nil {
		return mtu
	}
	return ib.MTU1024
}

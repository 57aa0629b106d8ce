package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/pingpong"
	"github.com/softhca/softhca/verbs"
)

func newPingpongCommand(g *globals) *cobra.Command {
	f := &pingpongFlags{globals: g}
	cmd := &cobra.Command{
		Use:   "pingpong [HOST]",
		Short: "Send a message to and fro, also with rdma-core's ibv_*_pingpong",
		Long: `pingpong sends a message to and fro. Without HOST it is the server, with HOST the client of the server there. It
uses the TCP exchange of rdma-core's ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong and ibv_srq_pingpong, so that
either side may be the Linux program (which needs its -g option with RoCE). For reliable datagrams (rd) both sides must
be softhca: Linux has none.

Give both sides the same --type, --size, --iters and, with srq, --qps. The client checks that it gets back the data
that it sent. Without --addr the adapter opens on the local address of the TCP connection. A side that fails informs
the other one, which then ends too, unless the other one is a Linux program.`,
		Example: `  softhca pingpong --addr 127.0.0.1                         a server, and in another terminal its client:
  softhca pingpong --addr 127.0.0.2 127.0.0.1
  softhca pingpong --type ud --size 1024 --addr eth0        a server for ibv_ud_pingpong -g 1 -s 1024 HOST
  softhca pingpong --type rd --addr 127.0.0.1               reliable datagrams: a server, and its client:
  softhca pingpong --type rd --addr 127.0.0.2 127.0.0.1
  softhca pingpong --type srq --events 192.0.2.7            a client of ibv_srq_pingpong -g 1 there`,
		Args: maxArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fs := cmd.Flags()
	f.kind = pingpong.KindNames()[0]
	addChoice(fs, &f.kind, "type", "`service`: rc, uc, ud, srq (rc with a shared receive queue), or rd", pingpong.KindNames()...)
	fs.IntVar(&f.GIDIndex, "gid-index", -1, "entry of the GID table, in the order of --addr; -1: the address of the TCP connection, or its family's first")
	fs.Var(byteSize{&f.Size}, "size", "`bytes` of a message, such as 64 or 1M (default 4K, with ud 2K)")
	fs.IntVar(&f.Iters, "iters", 1000, "messages each way")
	fs.IntVar(&f.MTU, "mtu", 1024, "path MTU in `bytes`: 256, 512, 1024, 2048 or 4096")
	fs.IntVar(&f.RxDepth, "rx-depth", 500, "receives to keep posted")
	fs.IntVar(&f.QPs, "qps", 16, "queue pairs, with srq")
	fs.BoolVar(&f.Events, "events", false, "sleep until something completes instead of polling")
	fs.Uint16Var(&f.port, "port", 18515, "TCP `port` of the server")
	fs.BoolVar(&f.asJSON, "json", false, "print the result as one JSON object")
	fs.DurationVar(&f.Idle, "idle", 30*time.Second, "give up after this time without a completion; 0: never")
	return cmd
}

// pingpongFlags are the flags of pingpong.
type pingpongFlags struct {
	*globals
	pingpong.Options
	kind   string
	port   uint16
	asJSON bool
}

func (f *pingpongFlags) run(cmd *cobra.Command, args []string) (err error) {
	if f.Kind, err = pingpong.ParseKind(f.kind); err != nil {
		return usagef("--%v", err)
	}
	if err := refuseZero(cmd, "size"); err != nil {
		return err
	}
	if f.Kind != pingpong.SRQ {
		if err := refuseGiven(cmd, "only --type srq has more queue pairs than one", "qps"); err != nil {
			return err
		}
	}
	if err := f.Check(); err != nil {
		return &usageError{err}
	}
	side := pingpong.Side{Options: f.Options, Open: f.opener(cmd), OpenFirst: strings.TrimSpace(f.addr) != "", Out: cmd.OutOrStdout()}
	if f.asJSON {
		side.Out = cmd.ErrOrStderr()
	}
	port := strconv.Itoa(int(f.port))
	var r pingpong.Result
	if len(args) == 1 {
		r, err = side.Client(cmd.Context(), net.JoinHostPort(args[0], port))
	} else {
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("", port)); err == nil {
			side.Waiting = func() {
				say(cmd.ErrOrStderr(), "waiting on TCP port %s for the other side, with the same options: %s", port, f.client())
			}
			r, err = side.Server(cmd.Context(), l)
		}
	}
	if err != nil {
		err = fmt.Errorf("pingpong: %w", err)
		if cmd.Context().Err() != nil && r.Iters > 0 { // interrupted: print the partial result
			err = errors.Join(err, f.print(cmd.OutOrStdout(), r, true))
		}
		return err
	}
	return f.print(cmd.OutOrStdout(), r, false)
}

// print prints a result, which is partial if the command was interrupted.
func (f *pingpongFlags) print(w io.Writer, r pingpong.Result, interrupted bool) error {
	if !f.asJSON {
		return r.Text(w)
	}
	s := r.Summary(&f.Options)
	s.Interrupted = interrupted
	return json.NewEncoder(w).Encode(s)
}

// client returns the command for the other side of a server.
func (f *pingpongFlags) client() string {
	if f.Kind == pingpong.RD {
		return "softhca pingpong HOST"
	}
	return fmt.Sprintf("softhca pingpong HOST, or ibv_%s_pingpong -g INDEX HOST", f.kind)
}

// opener opens the adapter on --addr, or on the local address of the TCP
// connection.
func (f *pingpongFlags) opener(cmd *cobra.Command) pingpong.Open {
	return func(local netip.Addr) (*verbs.Context, func() error, error) {
		hca, closer, err := f.open(cmd.ErrOrStderr(), func(c *verbs.Config) {
			if strings.TrimSpace(c.Addr) == "" {
				c.Addr = local.String()
			}
		})
		if err != nil && f.addr == "" && local.IsLoopback() {
			err = errors.Join(err, errors.New("two adapters on one host need an address each: use --addr 127.0.0.1 and --addr 127.0.0.2"))
		}
		return hca, closer, err
	}
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/softhca/softhca/internal/namespace"
)

// pathMissing returns why there can be no path on this machine, empty if there
// can.
func pathMissing() string {
	for _, name := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(name); err != nil {
			return "needs the program " + name + " (Debian: iproute2, nftables)"
		}
	}
	cmd := exec.Command("ip", "link", "add", "path0", "type", "veth", "peer", "name", "path1")
	isolate(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Sprintf("needs a network namespace with a veth pair: run it as root, or allow unprivileged user namespaces (%v %s)",
			err, bytes.TrimSpace(out))
	}
	return ""
}

// userMissing returns why root cannot run a program as another user here, empty
// if it can.
func userMissing() string {
	cmd := exec.Command("ip", "-V")
	dropPrivilege(cmd)
	if err := cmd.Run(); err != nil {
		return fmt.Sprintf("needs a user without privilege: run it as one, or allow user namespaces (%v)", err)
	}
	return ""
}

// dropPrivilege has a command run as an unprivileged user, in a user namespace
// if this program has privilege.
func dropPrivilege(cmd *exec.Cmd) {
	if os.Getuid() == 0 {
		cmd.SysProcAttr = namespace.Attr(0)
	}
}

// isolate has a command run in its own network namespace, which ends with it.
// It needs no privilege where user namespaces need none.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = namespace.Attr(syscall.CLONE_NEWNET) }

// listens reports whether a program listens on a TCP port.
func listens(port int) (bool, error) { return namespace.Listens(port) }

// runPath runs two programs over a path that loses a share of the packets each
// way: the arguments are the server's command, "--" and the client's.
func runPath(ctx context.Context, share float64, args []string) error {
	at := slices.Index(args, "--")
	if at < 1 || at == len(args)-1 {
		return errors.New("-path is for internal use: want a server's command, -- and a client's")
	}
	all, err := net.Interfaces()
	if err != nil {
		return err
	}
	if len(all) != 1 || all[0].Flags&net.FlagUp != 0 {
		return errors.New("-path wants a network of its own: this program starts it in one")
	}
	far, err := namespace.NewPlace()
	if err != nil {
		return err
	}
	if err := connect(far, share); err != nil {
		return err
	}
	if err := between(ctx, far, args[:at], args[at+1:]); err != nil {
		return err
	}
	return wholePackets("path0")
}

// connect joins this namespace and the other by a pair of interfaces, each of
// which drops a share of the packets that arrive. The drops hit single packets
// on the wire, of any protocol.
func connect(far *namespace.Place, share float64) error {
	const millionths = 1_000_000
	end := func(name, addr string) namespace.End {
		return namespace.End{Name: name, Addr: netip.PrefixFrom(netip.MustParseAddr(addr), 24), MTU: pathMTU}
	}
	if err := far.Join(end("path0", pathClient), end("path1", pathServer)); err != nil {
		return err
	}
	lose := func(name string) error {
		if err := singly(name); err != nil || share == 0 {
			return err
		}
		return namespace.Filter(fmt.Sprintf(
			"table ip loss { chain in { type filter hook prerouting priority raw; iifname %q numgen random mod %d < %d drop; }; }",
			name, millionths, int(share*millionths)))
	}
	if err := errors.Join(namespace.Up("lo"), lose("path0")); err != nil {
		return err
	}
	return far.Do(func() error { return lose("path1") })
}

// listening is how long a server may take until it can be reached.
const listening = 10 * time.Second

// between runs a server at the far end and a client at the near one, whose
// output is this program's.
func between(ctx context.Context, at *namespace.Place, server, client []string) error {
	far := exec.CommandContext(ctx, server[0], server[1:]...)
	var log bytes.Buffer
	far.Stdout, far.Stderr = &log, &log
	if err := at.Do(far.Start); err != nil {
		return err
	}
	var out, told bytes.Buffer
	var err error
	for start := time.Now(); ; {
		out.Reset()
		told.Reset()
		near := exec.CommandContext(ctx, client[0], client[1:]...)
		near.Stdout, near.Stderr = &out, &told
		if err = near.Run(); err == nil || !bytes.Contains(told.Bytes(), []byte("connection refused")) || time.Since(start) > listening {
			break
		}
	}
	if err != nil {
		_ = far.Process.Kill() // it waits for another client, or has failed too
	}
	if err = errors.Join(err, far.Wait()); err != nil {
		return fmt.Errorf("%w\nclient: %s\nserver: %s", err, told.Bytes(), log.Bytes())
	}
	_, err = os.Stdout.Write(out.Bytes())
	return err
}

// wholePackets returns an error if an interface of the calling thread's network counted several
// packets as one.
func wholePackets(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return meanSize(link.Attrs().Statistics)
}

// ethernet is the Ethernet header, which an interface counts in addition to the
// MTU.
const ethernet = 14

// meanSize checks the mean size of packets both ways.
func meanSize(n *netlink.LinkStatistics) error {
	for _, way := range [][2]uint64{{n.RxBytes, n.RxPackets}, {n.TxBytes, n.TxPackets}} {
		if bytes, packets := way[0], way[1]; bytes > packets*(pathMTU+ethernet) {
			return fmt.Errorf("%d packets have %d bytes: segments were dropped together, so the loss differs from the configured one", packets, bytes)
		}
	}
	return nil
}

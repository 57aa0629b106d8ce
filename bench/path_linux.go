package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
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
		cmd.SysProcAttr = namespaces(0)
	}
}

// isolate has a command run in its own network namespace, which ends with it.
// It needs no privilege where user namespaces need none.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = namespaces(syscall.CLONE_NEWNET) }

// namespaces returns the attributes of a process in new namespaces, including a
// user namespace in which it is root without privilege outside.
func namespaces(others uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | others,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
}

// runPath runs two programs over a path that loses a share of the packets each
// way: the arguments are the server's command, "--" and the client's.
func runPath(ctx context.Context, share float64, args []string) error {
	at := slices.Index(args, "--")
	if at < 1 || at == len(args)-1 {
		return errors.New("-path is what this program calls itself with: want a server's command, -- and a client's")
	}
	all, err := net.Interfaces()
	if err != nil {
		return err
	}
	if len(all) != 1 || all[0].Flags&net.FlagUp != 0 {
		return errors.New("-path wants a network of its own: this program starts it in one")
	}
	far, err := newPlace()
	if err != nil {
		return err
	}
	if err := far.connect(share); err != nil {
		return err
	}
	if err := far.between(ctx, args[:at], args[at+1:]); err != nil {
		return err
	}
	return wholePackets("path0")
}

// place is a network namespace in addition to this process's own.
type place struct {
	do chan func() // functions to run in the namespace
	fd int
}

// newPlace makes a network namespace, which ends with this process.
func newPlace() (*place, error) {
	p := &place{do: make(chan func())}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the thread is in another network namespace
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			p.fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY, 0)
		}
		made <- err
		for f := range p.do {
			f()
		}
	}()
	if err := <-made; err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	return p, nil
}

// call calls f in the namespace if there is set, else in this process's own.
func (p *place) call(there bool, f func() error) error {
	if !there {
		return f()
	}
	err := make(chan error)
	p.do <- func() { err <- f() }
	return <-err
}

// run runs a program with its input, in the namespace if there is set.
func (p *place) run(there bool, input, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &out
	err := p.call(there, cmd.Start) // the program inherits the namespace of the thread that starts it
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}

// connect joins this namespace and the other by a pair of interfaces, each of
// which drops a share of the packets that arrive. The drops hit single packets
// on the wire, of any protocol.
func (p *place) connect(share float64) error {
	const millionths = 1_000_000
	other := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), p.fd)
	mtu := fmt.Sprint(pathMTU)
	if err := p.run(false, "", "ip", "link", "add", "path0", "mtu", mtu, "type", "veth",
		"peer", "name", "path1", "mtu", mtu, "netns", other); err != nil {
		return err
	}
	for _, end := range []struct {
		there      bool
		name, addr string
	}{{false, "path0", pathClient}, {true, "path1", pathServer}} {
		rules := fmt.Sprintf("table ip loss { chain in { type filter hook prerouting priority raw; iifname %q numgen random mod %d < %d drop; }; }",
			end.name, millionths, int(share*millionths))
		for _, step := range [][]string{
			{"ip", "link", "set", "lo", "up"},
			{"ip", "addr", "add", end.addr + "/24", "dev", end.name},
			{"ip", "link", "set", end.name, "up"},
		} {
			if err := p.run(end.there, "", step[0], step[1:]...); err != nil {
				return err
			}
		}
		if err := p.call(end.there, func() error { return singly(end.name) }); err != nil {
			return err
		}
		if share > 0 {
			if err := p.run(end.there, rules, "nft", "-f", "-"); err != nil {
				return err
			}
		}
	}
	return nil
}

// listening is how long a server may take until it can be reached.
const listening = 10 * time.Second

// between runs a server at the far end and a client at the near one, whose
// output is this program's.
func (p *place) between(ctx context.Context, server, client []string) error {
	far := exec.CommandContext(ctx, server[0], server[1:]...)
	var log bytes.Buffer
	far.Stdout, far.Stderr = &log, &log
	if err := p.call(true, far.Start); err != nil {
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

// wholePackets returns an error if an interface counted several packets as one.
func wholePackets(name string) error {
	b, err := os.ReadFile("/proc/thread-self/net/dev") // the process's first thread may be in the other namespace
	if err != nil {
		return err
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		key, counts, ok := strings.Cut(s.Text(), ":")
		if !ok || strings.TrimSpace(key) != name {
			continue
		}
		return meanSize(counts)
	}
	return fmt.Errorf("nothing is known of the interface %s", name)
}

// ethernet is the Ethernet header, which an interface counts in addition to the
// MTU.
const ethernet = 14

// meanSize checks the mean size of packets both ways in the counts of an
// interface, as /proc/net/dev has them.
func meanSize(counts string) error {
	var n [16]uint64
	fields := strings.Fields(counts)
	if len(fields) != len(n) {
		return fmt.Errorf("%q are no counts of an interface", counts)
	}
	for i, f := range fields {
		if _, err := fmt.Sscan(f, &n[i]); err != nil {
			return fmt.Errorf("%q are no counts of an interface", counts)
		}
	}
	for _, way := range [][2]uint64{{n[0], n[1]}, {n[8], n[9]}} {
		if bytes, packets := way[0], way[1]; bytes > packets*(pathMTU+ethernet) {
			return fmt.Errorf("%d packets have %d bytes: segments were dropped together, the loss is not what it says", packets, bytes)
		}
	}
	return nil
}

package namespace

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
)

// inside marks the process that TestJoin starts in a network of its own.
const inside = "SOFTHCA_TEST_NAMESPACE"

// TestJoin has a process in a new network make a second one, and reach it over a pair of
// interfaces, in both families. Without a pair it cannot.
func TestJoin(t *testing.T) {
	if os.Getenv(inside) != "" {
		for family, ends := range map[string][2]string{"tcp4": {"10.7.0.1/24", "10.7.0.2/24"}, "tcp6": {"fd00::1/64", "fd00::2/64"}} {
			if err := reach(family, netip.MustParsePrefix(ends[0]), netip.MustParsePrefix(ends[1])); err != nil {
				t.Errorf("%s: %v", family, err)
			}
		}
		return
	}
	cmd := Again(t.Context(), syscall.CLONE_NEWNET, "-test.run=^TestJoin$")
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	err := Run(cmd)
	if errors.Is(err, ErrForbidden) {
		// Containers and hardened kernels forbid user namespaces.
		t.Skip(err)
	}
	if err != nil {
		t.Error(err)
	}
}

// reach connects to a listener in a new place, before and after it is joined.
func reach(family string, near, far netip.Prefix) error {
	p, err := NewPlace()
	if err != nil {
		return err
	}
	to := netip.AddrPortFrom(far.Addr(), 7000).String()
	if c, err := net.Dial(family, to); err == nil {
		return fmt.Errorf("%v answers before there is a pair: %w", to, c.Close())
	}
	if err := p.Join(End{Name: family, Addr: near, MTU: 4200}, End{Name: "far", Addr: far}); err != nil {
		return err
	}
	if nif, err := net.InterfaceByName(family); err != nil || nif.MTU != 4200 {
		return fmt.Errorf("the near end is %+v: %w", nif, err)
	}
	var l net.Listener
	if err := p.Do(func() (err error) { l, err = net.Listen(family, to); return err }); err != nil {
		return err
	}
	c, err := net.Dial(family, to)
	if err != nil {
		return err
	}
	return errors.Join(c.Close(), l.Close())
}

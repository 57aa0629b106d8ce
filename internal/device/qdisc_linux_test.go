//go:build !portable

package device

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric/near/meeting"
	"github.com/softhca/softhca/internal/fabric/sandbox"
	"github.com/softhca/softhca/internal/must"
)

// TestShaped gives the loopback interface a queueing discipline.
func TestShaped(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	at := netip.MustParseAddr("127.0.0.1")
	lo, err := netlink.LinkByName("lo")
	must.Do(t, err)
	must.Do(t, unshaped(at))
	must.Do(t, unshaped(netip.IPv6Loopback()))
	must.Do(t, netlink.QdiscAdd(&netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: lo.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}, QdiscType: "pfifo",
	}))
	must.Fail(t, unshaped(at), errShaped, "an interface with a queueing discipline")
	w, err := WireOf(Config{Addr: "127.0.0.1", Wire: WireAuto})
	must.Fail(t, err, errShaped, "an interface with a queueing discipline")
	if w != WireUDP {
		t.Errorf("packets take %d, want UDP", w)
	}
}

// TestWireOf asks for shared memory, and gives reasons against it.
func TestWireOf(t *testing.T) {
	for _, c := range []struct {
		why  string
		cfg  Config
		wire Wire
		err  error
	}{
		{"it is asked for", Config{Wire: WireAuto}, WireAuto, nil},
		{"the environment asks for it", Config{Env: Environment{Wire: "auto"}}, WireAuto, nil},
		{"it is the default", Config{}, WireAuto, nil},
		{"UDP is asked for", Config{Wire: WireUDP}, WireUDP, nil},
		{"the environment asks for UDP", Config{Env: Environment{Wire: "udp"}}, WireUDP, nil},
		{"the configuration overrides the environment, for shared memory", Config{Wire: WireAuto, Env: Environment{Wire: "udp"}}, WireAuto, nil},
		{"it is the default, and packets leave whole", Config{Raw: true}, WireUDP, nil},
		{"the configuration overrides the environment", Config{Wire: WireUDP, Env: Environment{Wire: "auto"}}, WireUDP, nil},
		{"the environment is wrong", Config{Env: Environment{Wire: "tcp"}}, WireUDP, ib.EINVAL},
		{"packets leave whole", Config{Wire: WireAuto, Raw: true}, WireUDP, errNotUDP},
	} {
		c.cfg.Addr = "127.0.0.1"
		if w, err := WireOf(c.cfg); w != c.wire || !errors.Is(err, c.err) {
			t.Errorf("%s: %d, %v; want %d, %v", c.why, w, err, c.wire, c.err)
		}
	}
	must.Do(t, unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
	defer func() { must.Do(t, unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)) }()
	_, err := WireOf(Config{Addr: "127.0.0.1", Wire: WireAuto})
	must.Fail(t, err, meeting.ErrNotAllowed, "a process that is not dumpable")
}

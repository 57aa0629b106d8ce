//go:build !portable

package campaign

import (
	"net/netip"
	"os"
	"testing"

	"github.com/softhca/softhca/internal/fabric/sandbox"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/namespace"
)

// between returns a stage of this process at one address, and another at another address.
func between(t *testing.T, own, other string, p *process) *stage {
	t.Helper()
	s, err := openSide(own)
	must.Do(t, err)
	t.Cleanup(func() { must.Do(t, s.ctx.Close()) })
	p.tell(t, order{Do: "open", Addr: other})
	return &stage{&pair{t: t, own: s, other: p}, draw(t), 0, other}
}

// byNetwork checks that messages arrive, and none of them through shared memory.
func (s *stage) byNetwork() {
	s.t.Helper()
	for range 5 {
		s.begin(patient, s.job(500))
		s.finish()
	}
	for _, pid := range []int{os.Getpid(), s.other.cmd.Process.Pid} {
		if r := look(pid); r.Mappings+r.Memory > 0 {
			s.t.Errorf("process %d has %+v", pid, r)
		}
	}
	s.other.close(s.t)
}

// TestAnotherUser connects processes of two users. They use the network.
func TestAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of other users") // the test needs one
	}
	p := launch(t, here)
	p.tell(t, order{Do: "user"})
	between(t, loopback(), loopback(), p).byNetwork()
}

// TestAnotherNamespace connects processes of one user in two network namespaces, which act as two
// hosts. They use the network.
func TestAnotherNamespace(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	const own, other = "10.99.0.1", "10.99.0.2"
	place := sandbox.NewPlace(t)
	place.Join(t, "own", "other", netip.MustParsePrefix(own+"/24"), netip.MustParsePrefix(other+"/24"))
	p := launch(t, func(f func() error) error {
		place.Do(t, "start a process", f)
		return nil
	})
	between(t, own, other, p).byNetwork()
}

// TestIPv6 connects processes at IPv6 addresses: two on ::1, and one on each of two unique local
// addresses. They use shared memory.
func TestIPv6(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	const one, two = "fd00:6::1", "fd00:6::2"
	for _, a := range []string{one, two} {
		must.Do(t, namespace.AddAddress("lo", netip.MustParsePrefix(a+"/128")))
	}
	for _, c := range [][2]string{{"::1", "::1"}, {one, two}, {two, two}} {
		t.Run(c[0]+" to "+c[1], func(t *testing.T) {
			s := between(t, c[0], c[1], launch(t, here))
			s.meet()
			s.other.close(t)
		})
	}
}

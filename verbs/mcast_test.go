package verbs

import (
	"errors"
	"net/netip"
	"sync"
	"syscall"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// testGroup is a group on networks that only the test uses.
var testGroup = ib.GIDFromAddr(netip.MustParseAddr("239.77.0.1"))

// newMembers returns UD endpoints in RTS, each on its own adapter on one network.
func newMembers(t testing.TB, cfgs ...Config) []*endpoint {
	t.Helper()
	all := make([]*endpoint, len(cfgs))
	for i, cfg := range cfgs {
		all[i] = newEndpoint(t, cfg, ib.UD)
		all[i].walk(t, all[i].attrs(all[i]), ib.RTS)
	}
	return all
}

// onNetwork returns the configurations of n adapters on a network in memory.
func onNetwork(n int) []Config {
	net := NewNetwork()
	cfgs := make([]Config, n)
	for i := range cfgs {
		cfgs[i] = Config{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}).String(), Network: net}
	}
	return cfgs
}

// announce sends 8 bytes to a group, from the address with a GID index.
func (e *endpoint) announce(t testing.TB, g ib.GID, sgid uint8) {
	t.Helper()
	ah, err := e.pd.CreateAH(AHAttr{DGID: g, SGIDIndex: sgid, HopLimit: 64, Port: 1})
	must.Do(t, err)
	wr := e.send(77, 8)
	wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, ib.QPNMulticast, testQKey
	must.Do(t, e.qp.PostSend(wr))
}

// completes takes the given numbers of completions of sends and of receives, which
// must be copies of announcements. No further completion may follow.
func (e *endpoint) completes(t testing.TB, sends, recvs int) {
	t.Helper()
	for _, wc := range e.wait(t, sends+recvs) {
		switch {
		case wc.Opcode == ib.WCSend:
			sends--
		case wc.ByteLen == 48 && wc.Flags == ib.WCGRH:
			recvs--
		default:
			t.Errorf("completion %+v is of neither a send nor a copy", wc)
		}
	}
	if sends != 0 || recvs != 0 {
		t.Errorf("%d sends and %d receives too few", sends, recvs)
	}
	e.quiet(t, "more than was sent")
}

// provide posts n receives.
func (e *endpoint) provide(t testing.TB, n int) {
	t.Helper()
	for i := range n {
		must.Do(t, e.qp.PostRecv(e.recv(uint64(i), uint64(i)*64, 64)))
	}
}

func TestMulticast(t *testing.T) { testMulticast(t, newMembers(t, onNetwork(3)...), testGroup) }

// testMulticast sends to a group from a member and from a non-member. It needs three
// adapters that can reach each other.
func testMulticast(t *testing.T, all []*endpoint, g ib.GID) {
	t.Helper()
	a, b, c := all[0], all[1], all[2]
	second := b.sibling(t, ib.UD) // on b's adapter
	second.walk(t, second.attrs(second), ib.RTS)
	all = append(all, second)
	for _, e := range all {
		e.provide(t, 8)
		must.Do(t, e.qp.AttachMcast(g, 0))
		must.Do(t, e.qp.AttachMcast(g, 0xc001))
	}
	must.Do(t, a.qp.DetachMcast(g, 0))
	copy(a.mr.Bytes(), "to all!!") // a's receives are not used
	a.announce(t, g, 0)
	a.completes(t, 1, 0)
	for _, e := range all[1:] {
		e.completes(t, 0, 1)
		if got := e.mr.Bytes()[40:48]; string(got) != "to all!!" {
			t.Errorf("a copy reads %q", got)
		}
	}
	b.announce(t, g, 0)
	a.quiet(t, "a is not attached")
	b.completes(t, 1, 1) // its own copy
	second.completes(t, 0, 1)
	c.completes(t, 0, 1)
	must.Do(t, b.qp.DetachMcast(g, 0))
	must.Do(t, second.qp.Destroy())
	c.announce(t, g, 0)
	c.completes(t, 1, 1)
	must.Fail(t, b.qp.DetachMcast(g, 0), syscall.EINVAL, "detach again")
	for _, e := range all[:2] {
		e.receivesNothing(t, c, g)
	}
}

// receivesNothing fails the test if messages of peer to a group still reach e's
// adapter: no queue pair is attached, so the adapter must have left the group. It
// consumes two receives of e.
func (e *endpoint) receivesNothing(t testing.TB, peer *endpoint, g ib.GID) {
	t.Helper()
	e.hears(t, peer, 0)
	before := e.counter(t, "drop_address")
	peer.announce(t, g, 0)
	e.hears(t, peer, 1)
	if n := e.counter(t, "drop_address") - before; n != 0 {
		t.Errorf("%d messages to a group that was left reach the adapter", n)
	}
}

// hears waits for a message from peer to e itself, which shows that earlier messages of peer
// have passed, and for the completions of this SEND and of the n SENDs before it.
func (e *endpoint) hears(t testing.TB, peer *endpoint, n int) {
	t.Helper()
	must.Do(t, peer.qp.PostSend(peer.datagram(78, peer.ah(t, e), e)))
	e.wait(t, 1)
	for sent := 0; sent < 1+n; { // peer may receive its own messages
		if peer.wait(t, 1)[0].Opcode == ib.WCSend {
			sent++
		}
	}
}

func TestAttachMcastRefuses(t *testing.T) {
	e := newMembers(t, onNetwork(1)...)[0]
	for what, gid := range map[string]ib.GID{"an address": e.ctx.QueryGID(0), "no GID": {}} {
		must.Fail(t, e.qp.AttachMcast(gid, 0), syscall.EINVAL, "attach to "+what)
		must.Fail(t, e.qp.DetachMcast(gid, 0), syscall.EINVAL, "detach from "+what)
	}
	six := ib.GIDFromAddr(netip.MustParseAddr("ff0e::77:1"))
	must.Fail(t, e.qp.AttachMcast(six, 0), syscall.EADDRNOTAVAIL, "attach to a group of a family that the adapter has no address of")
	must.Fail(t, e.qp.DetachMcast(testGroup, 0), syscall.EINVAL, "detach what is not attached")
	rc := e.sibling(t, ib.RC)
	must.Fail(t, rc.qp.AttachMcast(testGroup, 0), syscall.EINVAL, "attach an RC queue pair")
	must.Do(t, rc.qp.Destroy())
	must.Fail(t, rc.qp.AttachMcast(testGroup, 0), syscall.EINVAL, "attach a queue pair that is gone")
	must.Fail(t, rc.qp.DetachMcast(testGroup, 0), syscall.EINVAL, "detach a queue pair that is gone")
	var none *QP
	must.Fail(t, none.AttachMcast(testGroup, 0), syscall.EINVAL, "attach nothing")
	must.Fail(t, none.DetachMcast(testGroup, 0), syscall.EINVAL, "detach nothing")
	must.Do(t, e.qp.AttachMcast(testGroup, 0))
	must.Do(t, e.ctx.Close())
	must.Fail(t, e.qp.AttachMcast(testGroup, 0), syscall.ENODEV, "attach on an adapter that is closed")
	must.Fail(t, e.qp.DetachMcast(testGroup, 0), syscall.ENODEV, "detach on an adapter that is closed")
}

// TestMulticastLimits reaches the limits that QueryDevice returns.
func TestMulticastLimits(t *testing.T) {
	all := newMembers(t, onNetwork(2)...)
	e, peer := all[0], all[1]
	d, err := e.ctx.QueryDevice()
	must.Do(t, err)
	group := func(i int) ib.GID { return ib.GIDFromAddr(netip.AddrFrom4([4]byte{239, 1, byte(i >> 8), byte(i)})) }
	for i := range d.MaxMcastGrp {
		must.Do(t, e.qp.AttachMcast(group(i), 0))
	}
	must.Fail(t, e.qp.AttachMcast(group(d.MaxMcastGrp), 0), syscall.ENOMEM, "attach to a group too many")
	var others []*QP
	for range d.MaxMcastQPAttach - 1 {
		q, err := e.pd.CreateQP(e.init(ib.UD))
		must.Do(t, err)
		must.Do(t, q.AttachMcast(group(0), 0))
		others = append(others, q)
	}
	q, err := e.pd.CreateQP(e.init(ib.UD))
	must.Do(t, err)
	must.Fail(t, q.AttachMcast(group(0), 0), syscall.ENOMEM, "attach a queue pair too many to a group")
	for _, q := range append(others, q) {
		must.Do(t, q.Destroy())
	}
	must.Do(t, e.qp.Destroy())
	e.qp, err = e.pd.CreateQP(e.init(ib.UD))
	must.Do(t, err)
	e.walk(t, e.attrs(e), ib.RTS)
	e.provide(t, 4)
	e.receivesNothing(t, peer, group(0))
	e.receivesNothing(t, peer, group(d.MaxMcastGrp-1))
}

// TestMulticastComesAndGoes attaches, detaches and destroys queue pairs in several
// goroutines while messages arrive. At the end no object may be left.
func TestMulticastComesAndGoes(t *testing.T) {
	all := newMembers(t, onNetwork(2)...)
	e, peer := all[0], all[1]
	other := ib.GIDFromAddr(netip.MustParseAddr("239.77.0.2"))
	shared, err := e.pd.CreateQP(e.init(ib.UD))
	must.Do(t, err)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 50 {
				q, err := e.pd.CreateQP(e.init(ib.UD))
				if err != nil {
					t.Error(err)
					return
				}
				err = errors.Join(q.AttachMcast(testGroup, 0), q.AttachMcast(other, 0))
				if i%2 == 0 {
					err = errors.Join(err, q.DetachMcast(testGroup, 0))
				}
				// Another goroutine may have done the same to this queue pair.
				err = errors.Join(err, shared.AttachMcast(testGroup, 0))
				if e := shared.DetachMcast(testGroup, 0); e != nil && !errors.Is(e, syscall.EINVAL) {
					err = errors.Join(err, e)
				}
				if err = errors.Join(err, q.Destroy()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 50 {
		peer.announce(t, testGroup, 0)
		peer.completes(t, 1, 0)
	}
	wg.Wait()
	must.Do(t, shared.Destroy())
	e.provide(t, 4)
	for _, g := range [...]ib.GID{testGroup, other} {
		e.receivesNothing(t, peer, g)
	}
}

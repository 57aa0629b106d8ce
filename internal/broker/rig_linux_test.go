//go:build !portable

package broker

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/identity"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// waitLimit is how long a test waits for what happens at once.
const waitLimit = 10 * time.Second

// toldLimit is the time within which peers of an ended process must be disconnected:
// a second, or more on a busy machine.
const toldLimit = 3 * time.Second

// rigGUID is the node GUID of the tests' brokers.
const rigGUID = 0x0200_0000_0000_0042

// rigSecret is the secret of the tests' user.
var rigSecret = &identity.Secret{42}

// on returns the configuration of a process that enters an address.
func on(a netip.Addr) Config {
	return Config{Addrs: []netip.Addr{a}, GUID: rigGUID, Secret: rigSecret}
}

// serve starts a broker on a loopback address that no other test has.
func serve(t *testing.T, slots int) *Broker {
	t.Helper()
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, t.Name(), os.Getpid())
	for salt := range uint32(64) {
		v := h.Sum32() + salt
		a := netip.AddrFrom4([4]byte{127, byte(v>>16) | 1, byte(v >> 8), byte(v)})
		b, err := Open(Config{Addrs: []netip.Addr{a}, Slots: slots, GUID: rigGUID, Log: t.Logf, Secret: rigSecret})
		if errors.Is(err, unix.EADDRINUSE) {
			continue
		}
		must.Do(t, err)
		begin(t, b)
		return b
	}
	t.Fatal("no loopback address is free")
	return nil
}

// begin has a broker serve until the test ends.
func begin(t *testing.T, b *Broker) {
	ended := make(chan error, 1)
	go func() { ended <- b.Serve(context.Background()) }()
	t.Cleanup(func() {
		_ = b.Close() // the test may have
		if err := <-ended; err != nil {
			t.Errorf("the broker ended: %v", err)
		}
	})
}

// process is a member with its port, as a process has it.
type process struct {
	t *testing.T
	*Lease
	port *udp.Port
}

// join returns a member.
func join(t *testing.T, b *Broker) *process {
	t.Helper()
	lease, sockets, err := Join(b.cfg)
	must.Do(t, err)
	port, err := udp.Open(udp.Config{Addrs: b.cfg.Addrs, Lease: sockets})
	must.Do(t, err)
	p := &process{t: t, Lease: lease, port: port}
	t.Cleanup(p.die)
	return p
}

// die closes what a process that dies leaves to the kernel.
func (p *process) die() {
	if p.port.Close() == nil {
		p.Close()
	}
}

// peer is a host that sends MADs.
type peer struct {
	t    *testing.T
	port *udp.Port
	to   netip.Addr
	tid  uint64
}

// newPeer returns a peer of the broker's address.
func newPeer(t *testing.T, b *Broker) *peer {
	t.Helper()
	to := b.cfg.Addrs[0]
	for a := to.Next(); ; a = a.Next() {
		port, err := udp.Open(udp.Config{Addrs: []netip.Addr{a}, DisableGRO: true})
		if errors.Is(err, unix.EADDRINUSE) {
			continue
		}
		must.Do(t, err)
		t.Cleanup(func() { _ = port.Close() })
		return &peer{t: t, port: port, to: to}
	}
}

// send sends a MAD to QP1.
func (p *peer) send(attr mad.AttrID, msg interface{ Put(*mad.MAD) }) {
	p.t.Helper()
	p.tid++
	var m mad.MAD
	m.PutHeader(mad.CMHeader(attr, p.tid))
	msg.Put(&m)
	p.packet(1, m[:], func([]byte) {})
}

// packet sends a datagram to a queue pair, after spoiling it.
func (p *peer) packet(qpn uint32, payload []byte, spoil func(seg []byte)) {
	p.t.Helper()
	b := fabric.NewBatch(4096, p.port.Caps())
	path := fabric.Path{Src: p.port.Caps().Addrs[0], Dst: p.to, HopLimit: 64}
	var h roce.Packet
	h.BTH = roce.BTH{Opcode: roce.UDSendOnly, PKey: 0xffff, DestQP: 1}
	h.DETH = roce.DETH{QKey: 0x80010000, SrcQP: 1}
	seg, index := b.Append(&path, roce.Size(h.BTH.Opcode, len(payload)))
	n := h.PutHeaders(seg)
	copy(seg[n:], payload)
	seg[5], seg[6], seg[7] = byte(qpn>>16), byte(qpn>>8), byte(qpn)
	roce.Seal(seg, roce.NewPrefix(path.Src, path.Dst, fabric.RoCEPort, fabric.RoCEPort, len(seg)).WithID(uint16(index)))
	spoil(seg)
	must.Do(p.t, p.port.Send(b))
}

// receive returns the next MAD that comes to a port, and where from.
func receive(t *testing.T, port *udp.Port) (*mad.MAD, gsi.Address) {
	t.Helper()
	ds := make([]fabric.Datagram, 1)
	for end := time.Now().Add(waitLimit); ; {
		n, err := port.Receive(ds)
		must.Do(t, err)
		if n == 1 {
			var p roce.Packet
			if f := p.Parse(ds[0].Bytes); f != roce.FaultNone || len(p.Payload) != mad.Size {
				t.Fatalf("no MAD came: %v", f)
			}
			m := mad.MAD(p.Payload)
			return &m, gsi.Address{Local: ds[0].Dst, Remote: ds[0].Src}
		}
		left := time.Until(end)
		if left <= 0 {
			t.Fatal("no MAD comes")
		}
		must.Do(t, port.Wait(left, true, false))
	}
}

// expect receives a MAD of a kind.
func expect[M interface{ Decode(*mad.MAD) }](t *testing.T, port *udp.Port, attr mad.AttrID, msg M) M {
	t.Helper()
	m, _ := receive(t, port)
	if h := m.Header(); h.AttrID != attr {
		t.Fatalf("%s came instead of %v", mad.Describe(m), attr)
	}
	msg.Decode(m)
	return msg
}

// settle waits until a condition holds.
func settle(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(waitLimit); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

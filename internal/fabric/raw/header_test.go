//go:build linux

package raw_test

import (
	"encoding/binary"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/fabric/raw"
	"github.com/softhca/softhca/internal/fabric/sandbox"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/roce"
)

// crafted is the header of a packet from and to the first address of a port.
func crafted(p *raw.Port) *ipudp.Header {
	a := p.Caps().Addrs[0]
	return &ipudp.Header{Src: a, Dst: a, SrcPort: 0xC123, DstPort: fabric.RoCEPort, ID: 0x1234, HopLimit: 64}
}

// inject makes a packet leave as it stands.
func inject(t *testing.T, h *ipudp.Header, packet []byte) {
	t.Helper()
	family, to := unix.AF_INET6, unix.Sockaddr(nil)
	if h.Dst.Is4() {
		family, to = unix.AF_INET, &unix.SockaddrInet4{Addr: h.Dst.As4()}
	} else {
		to = &unix.SockaddrInet6{Addr: h.Dst.As16()}
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW, unix.IPPROTO_RAW)
	must.Do(t, err)
	defer func() { must.Do(t, unix.Close(fd)) }()
	must.Do(t, unix.Sendto(fd, packet, 0, to))
}

// sealed returns a packet with the ICRC that covers its very header.
func sealed(t *testing.T, h *ipudp.Header) []byte {
	t.Helper()
	b := make([]byte, h.Len()+64)
	h.Put(b, 64)
	ip, udp, pkt := b[:h.Len()-ipudp.UDPLen], b[h.Len()-ipudp.UDPLen:h.Len()], b[h.Len():]
	icrc, ok := roce.HeaderICRC(ip, udp, pkt)
	if !ok {
		t.Fatal("no ICRC")
	}
	binary.LittleEndian.PutUint32(pkt[60:], icrc)
	return b
}

// The ICRC covers "don't fragment" as it was sent, so the port must say.
func TestDontFragmentIsHandedOn(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	p := openRaw(t, "127.1.0.1")
	for _, no := range []bool{false, true} {
		h := crafted(p)
		h.NoDF = no
		inject(t, h, sealed(t, h))
		d := next(t, p)
		pre := roce.NewPrefix(d.Src, d.Dst, d.SrcPort, d.DstPort, len(d.Bytes)).WithID(d.ID)
		if no {
			pre = pre.WithoutDF()
		}
		if d.NoDF != no || !roce.Check(d.Bytes, pre) {
			t.Errorf("NoDF %t arrives as %t, ICRC right %t", no, d.NoDF, roce.Check(d.Bytes, pre))
		}
	}
}

// next returns the next datagram.
func next(t *testing.T, p *raw.Port) fabric.Datagram {
	t.Helper()
	ds := make([]fabric.Datagram, 1)
	for end := time.Now().Add(waitLimit); time.Now().Before(end); {
		n, err := p.Receive(ds)
		must.Do(t, err)
		if n == 1 {
			return ds[0]
		}
		must.Do(t, p.Wait(time.Until(end), true, false))
	}
	t.Fatal("nothing arrived")
	return ds[0]
}

// A UDP checksum that is there must be right; a sender may do without.
func TestUDPChecksum(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	for _, addr := range []string{"127.1.0.1", "::1"} {
		p := openRaw(t, addr)
		h := crafted(p)
		none := sealed(t, h)
		right := append([]byte(nil), none...)
		h.SetChecksum(right)
		wrong := append([]byte(nil), right...)
		wrong[h.Len()-1] ^= 1
		inject(t, h, none)
		inject(t, h, wrong)
		inject(t, h, right)
		for range 2 {
			next(t, p)
		}
		silent(t, p, "a wrong checksum")
		if s := p.Stats(); s.BadChecksums != 1 || s.ReceivedPackets != 2 {
			t.Errorf("%s: of 3 packets %d arrived and %d had a wrong checksum; want 2 and 1", addr, s.ReceivedPackets, s.BadChecksums)
		}
	}
}

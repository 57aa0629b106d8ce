package udp_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/roce"
)

// waitLimit is how long a test waits for packets that loopback delivers at once.
const waitLimit = 5 * time.Second

// open opens a port on a loopback address that no other test has, by trying.
func open(t testing.TB, c udp.Config) *udp.Port {
	t.Helper()
	for salt := range uint32(64) {
		h := fnv.New32a()
		_, _ = h.Write([]byte(t.Name()))
		v := (h.Sum32() ^ uint32(os.Getpid())*2654435761) + salt
		a := netip.AddrFrom4([4]byte{127, byte(v>>16) | 1, byte(v >> 8), byte(v)})
		c.Addrs = []netip.Addr{a}
		p, err := udp.Open(c)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		must.Do(t, err)
		t.Cleanup(func() { _ = p.Close() })
		return p
	}
	t.Fatal("no loopback address is free")
	return nil
}

// path is the common way from one port to another.
func path(from, to *udp.Port) fabric.Path {
	return fabric.Path{Src: from.Caps().Addrs[0], Dst: to.Caps().Addrs[0], HopLimit: 64}
}

// group describes packets of a test: count segments of size bytes and, if last
// is set, one more of that many.
type group struct {
	path  fabric.Path
	size  int
	count int
	last  int
}

// want is a segment that must arrive.
type want struct {
	bytes []byte // with the ICRC of the identification it was built with
	path  fabric.Path
	index int // in its run
}

// fill appends sealed segments to b and returns them. Each has its number
// after the BTH, so that no two are alike.
func fill(t testing.TB, b *fabric.Batch, groups ...group) []want {
	t.Helper()
	var ws []want
	for _, g := range groups {
		sizes := make([]int, g.count, g.count+1)
		for i := range sizes {
			sizes[i] = g.size
		}
		if g.last > 0 {
			sizes = append(sizes, g.last)
		}
		for _, n := range sizes {
			seg, index := b.Append(&g.path, n)
			if seg == nil {
				t.Fatal("the batch is too small for the test")
			}
			seal(seg, &g.path, index, len(ws))
			ws = append(ws, want{bytes.Clone(seg), g.path, index})
		}
	}
	return ws
}

// seal makes a packet of seg.
func seal(seg []byte, p *fabric.Path, index, number int) {
	for i := range seg {
		seg[i] = byte(i * 7)
	}
	if len(seg) >= roce.MinSize+4 {
		binary.BigEndian.PutUint32(seg[roce.BTHLen:], uint32(number))
	}
	roce.Seal(seg, prefix(p, len(seg)).WithID(uint16(index)))
}

func prefix(p *fabric.Path, n int) roce.Prefix {
	return roce.NewPrefix(p.Src, p.Dst, fabric.RoCEPort, fabric.RoCEPort, n)
}

// got is a segment that arrived. Its datagram's bytes are gone.
type got struct {
	bytes []byte
	d     fabric.Datagram
}

// collect receives n segments.
func collect(t testing.TB, p fabric.Port, n int) []got {
	t.Helper()
	var gs []got
	ds := make([]fabric.Datagram, 32)
	for end := time.Now().Add(waitLimit); len(gs) < n; {
		k, err := p.Receive(ds)
		if err != nil {
			t.Fatalf("receive: %v", err)
		}
		for i := range ds[:k] {
			for off := 0; off < len(ds[i].Bytes); {
				var seg []byte
				seg, off = ds[i].Segment(off)
				gs = append(gs, got{bytes.Clone(seg), ds[i]})
			}
		}
		if k > 0 {
			continue
		}
		left := time.Until(end)
		if left <= 0 {
			t.Fatalf("%d of %d segments arrived", len(gs), n)
		}
		if err := p.Wait(left, true, false); err != nil {
			t.Fatalf("wait: %v", err)
		}
	}
	return gs
}

// sendAll sends all of b, waiting where there is no room.
func sendAll(t testing.TB, p fabric.Port, b *fabric.Batch) {
	t.Helper()
	for end := time.Now().Add(waitLimit); ; {
		err := p.Send(b)
		if err == nil {
			return
		}
		if !errors.Is(err, fabric.ErrBlocked) || time.Now().After(end) {
			t.Fatalf("send: %v", err)
		}
		if err := p.Wait(time.Until(end), false, true); err != nil {
			t.Fatalf("wait for room: %v", err)
		}
	}
}

// segments returns how many packets d is made of.
func segments(d *fabric.Datagram) int {
	n := 0
	for off := 0; off < len(d.Bytes); n++ {
		_, off = d.Segment(off)
	}
	return n
}

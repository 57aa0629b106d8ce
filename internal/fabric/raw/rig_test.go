//go:build linux

package raw_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/raw"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/roce"
)

const waitLimit = 5 * time.Second

func openRaw(t testing.TB, addrs ...string) *raw.Port {
	t.Helper()
	p, err := raw.Open(raw.Config{Addrs: parse(addrs)})
	must.Do(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func openUDP(t testing.TB, addrs ...string) *udp.Port {
	t.Helper()
	p, err := udp.Open(udp.Config{Addrs: parse(addrs), GSO: udp.GSOOn})
	must.Do(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func parse(addrs []string) []netip.Addr {
	var list []netip.Addr
	for _, s := range addrs {
		list = append(list, netip.MustParseAddr(s))
	}
	return list
}

// runs returns a batch with sealed runs of the given sizes and counts.
func runs(t testing.TB, p fabric.Path, sizes ...[2]int) (*fabric.Batch, [][]byte) {
	t.Helper()
	b := fabric.NewBatch(1<<19, fabric.Caps{MaxSegments: 64, MaxRunBytes: 65507})
	var segs [][]byte
	for _, s := range sizes {
		for range s[1] {
			seg, index := b.Append(&p, s[0])
			for i := range seg {
				seg[i] = byte(i*5 + len(segs))
			}
			binary.BigEndian.PutUint32(seg[roce.BTHLen:], uint32(len(segs)))
			roce.Seal(seg, prefix(&p, len(seg)).WithID(uint16(index)))
			segs = append(segs, bytes.Clone(seg))
		}
	}
	return b, segs
}

func prefix(p *fabric.Path, n int) roce.Prefix {
	return roce.NewPrefix(p.Src, p.Dst, p.SrcPort, fabric.RoCEPort, n)
}

// got is a segment that arrived, with the identification it had.
type got struct {
	bytes []byte
	id    uint16
	d     fabric.Datagram
}

// transfer sends b and receives n segments.
func transfer(t testing.TB, from, to fabric.Port, b *fabric.Batch, n int) []got {
	t.Helper()
	must.Do(t, from.Send(b))
	var gs []got
	ds := make([]fabric.Datagram, 16)
	for end := time.Now().Add(waitLimit); len(gs) < n; {
		k, err := to.Receive(ds)
		must.Do(t, err)
		for i := range ds[:k] {
			id := ds[i].ID
			for off := 0; off < len(ds[i].Bytes); id++ {
				var seg []byte
				seg, off = ds[i].Segment(off)
				gs = append(gs, got{bytes.Clone(seg), id, ds[i]})
			}
		}
		if k > 0 {
			continue
		}
		left := time.Until(end)
		if left <= 0 {
			t.Fatalf("%d of %d segments arrived", len(gs), n)
		}
		must.Do(t, to.Wait(left, true, false))
	}
	return gs
}

//go:build !portable

package near

import (
	"testing"
	"time"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/packet"
	"github.com/softhca/softhca/roce"
)

// see receives a datagram and reports whether it has no ICRC. It fails if an ICRC is wrong.
func (e *end) see(t *testing.T) (bare bool) {
	t.Helper()
	ds := make([]fabric.Datagram, inboxLen)
	d := &e.next(t, ds)[0]
	var v packet.Verifier
	v.Begin(d)
	for k, off := 0, 0; off < len(d.Bytes); k++ {
		var seg []byte
		seg, off = d.Segment(off)
		if _, ok := v.Verify(d, seg, k); !ok {
			t.Fatalf("packet %d has a wrong ICRC", k)
		}
		if zero := [roce.ICRCLen]byte(seg[len(seg)-roce.ICRCLen:]) == [roce.ICRCLen]byte{}; zero != d.Bare {
			t.Fatalf("packet %d without ICRC: %v, ends with zeros: %v", k, d.Bare, zero)
		}
	}
	return d.Bare
}

// seal adds an ICRC to the packets of the batch that are not bare, as the engine does.
func (e *end) seal() {
	runs := e.batch.Pending()
	for i := range runs {
		if !runs[i].Bare {
			packet.SealRun(&runs[i])
		}
	}
}

// newSealer sets the source port of e, so that the ICRC of its packets is right on the network, too.
func newSealer(e *end) *end {
	e.path.SrcPort = e.caps.SrcPort
	return e
}

// Packets through memory have no ICRC, unless one of the two sides needs it.
func TestBare(t *testing.T) {
	for _, c := range []struct {
		what             string
		sender, receiver Config
		bare             bool
	}{
		{"neither side needs an ICRC", Config{}, Config{}, true},
		{"the sender writes a capture", Config{Sealed: true}, Config{}, false},
		{"the receiver writes a capture", Config{}, Config{Sealed: true}, false},
		{"both write one", Config{Sealed: true}, Config{Sealed: true}, false},
	} {
		a, b := open(t, c.sender), open(t, c.receiver)
		x, y := met(t, a, b)
		newSealer(x)
		x.add(t, 0, 256, 0, 3)
		x.add(t, 0, 64, 3, 1)
		x.seal()
		x.flush(t)
		if got := y.see(t); got != c.bare {
			t.Errorf("%s: without ICRC: %v", c.what, got)
		}
	}
}

// If the peer leaves after a packet was built and before Send, the packet takes the network, with
// an ICRC.
func TestBareAfterTheEnd(t *testing.T) {
	a, b := open(t, Config{}), open(t, Config{})
	x, y := met(t, a, b)
	newSealer(x)
	x.add(t, 0, 256, 0, 3)
	x.seal()
	if !x.batch.Pending()[0].Bare {
		t.Fatal("the packets have an ICRC")
	}
	a.unroute(x.routed())
	x.flush(t)
	if y.see(t) {
		t.Error("packets came through memory")
	}
	x.add(t, 0, 256, 3, 1)
	if x.batch.Pending()[0].Bare {
		t.Error("later packets have no ICRC although they take the network")
	}
	x.seal()
	x.flush(t)
	y.see(t)
}

// Packets that the peer writes may be shorter than any header.
func TestTinyPackets(t *testing.T) {
	a, b := open(t, Config{}), open(t, Config{Sealed: true})
	x, y := met(t, a, b)
	r := x.routed()
	for n := 1; n <= roce.MinSize; n++ {
		copy(r.Out.Reserve(n, n), make([]byte, n))
		r.Out.Commit(n, n, 1, tagBare)
	}
	if r.Out.Publish() {
		r.wake()
	}
	ds := make([]fabric.Datagram, inboxLen)
	for got, end := 0, time.Now().Add(waitLimit); got < roce.MinSize; {
		for _, d := range y.next(t, ds) {
			got++
			if len(d.Bytes) != got {
				t.Fatalf("packet %d has %d bytes", got, len(d.Bytes))
			}
		}
		if time.Now().After(end) {
			t.Fatal("not all arrive")
		}
	}
	must.Do(t, b.Close())
}

package conformance

import (
	"github.com/softhca/softhca/internal/testagent"
	"github.com/softhca/softhca/interop/ends"
)

// layout says where the bytes of a message lie in the regions.
type layout uint8

const (
	aligned   layout = iota // from the beginning of a page
	unaligned               // from an odd address, another one on each side
	gathered                // in four pieces on each side, of odd sizes, with gaps
)

const (
	margin = 64   // bytes before and after each piece, which must not change
	blank  = 0x5a // value of the margin's bytes
)

// piece is a part of a message at its place in a region.
type piece struct{ off, n uint64 }

// pieces lays out n bytes; shift makes the two sides differ.
func (l layout) pieces(n, shift uint64) []piece {
	switch {
	case n == 0:
		return nil
	case l == aligned:
		return []piece{{4096, n}}
	case l == unaligned || n < 4:
		return []piece{{4096 + 2*shift + 3, n}}
	}
	sizes := [4]uint64{1, (n - 1) / 3, (n - 1) / 2, 0}
	if shift%2 == 1 {
		sizes = [4]uint64{(n - 1) / 2, 1, (n - 1) / 3, 0}
	}
	sizes[3] = n - sizes[0] - sizes[1] - sizes[2]
	var all []piece
	at := 4096 + shift
	for _, k := range sizes {
		if k > 0 {
			all = append(all, piece{at, k})
		}
		at += k + 2*margin + 1
	}
	return all
}

func sges(m ends.Memory, ps []piece) []ends.SGE {
	all := make([]ends.SGE, len(ps))
	for i, p := range ps {
		all[i] = ends.SGE{Memory: m, Off: p.off, Length: uint32(p.n)}
	}
	return all
}

// span returns the bytes of a message in a piece, from the given one on.
func (p piece) span(seed, at uint64) testagent.Span {
	return testagent.Span{Off: p.off, Len: p.n, Seed: seed, At: at}
}

// fillPieces writes the message of a seed into its pieces.
func (t *steps) fillPieces(m ends.Memory, ps []piece, seed uint64) {
	var at uint64
	for _, p := range ps {
		t.fill(m, p.span(seed, at))
		at += p.n
	}
}

// wipe fills the pieces and their margins with blanks.
func (t *steps) wipe(m ends.Memory, ps []piece) {
	if len(ps) == 0 {
		return
	}
	last := ps[len(ps)-1]
	from := ps[0].off - margin
	t.do(func() error { return m.Set(t.ctx, from, last.off+last.n+margin-from, blank) })
}

// verifyPieces checks the message of a seed in its pieces, that their margins are blank, and the
// region's guard. The margin before a datagram has its GRH.
func (t *steps) verifyPieces(m ends.Memory, ps []piece, seed uint64, datagram bool) {
	var at uint64
	for i, p := range ps {
		t.verify(m, p.span(seed, at), "piece %d, at %d", i, p.off)
		at += p.n
		t.blank(m, p.off+p.n, i)
		if !datagram {
			t.blank(m, p.off-margin, i)
		}
	}
	t.guards(m)
}

// blank checks a margin of piece i.
func (t *steps) blank(m ends.Memory, off uint64, i int) {
	mm := take(t, func() (testagent.Mismatch, error) { return m.VerifySet(t.ctx, off, margin, blank) })
	t.expect(mm.Bytes == 0, "%d bytes outside of piece %d were written, at %d: %#02x", mm.Bytes, i, off+mm.First, mm.Got)
}

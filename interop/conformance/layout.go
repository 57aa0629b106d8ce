package conformance

import (
	"context"

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

// fill writes the message of a seed into its pieces.
func fill(ctx context.Context, m ends.Memory, ps []piece, seed uint64) error {
	var at uint64
	for _, p := range ps {
		if err := m.Fill(ctx, testagent.Span{Off: p.off, Len: p.n, Seed: seed, At: at}); err != nil {
			return err
		}
		at += p.n
	}
	return nil
}

// wipe fills the pieces and their margins with blanks.
func wipe(ctx context.Context, m ends.Memory, ps []piece) error {
	if len(ps) == 0 {
		return nil
	}
	last := ps[len(ps)-1]
	from := ps[0].off - margin
	return m.Set(ctx, from, last.off+last.n+margin-from, blank)
}

// verify checks the first n bytes of the message of a seed in its pieces, that
// the rest and the margins are blank, and the region's guard.
func verify(ctx context.Context, j *judge, m ends.Memory, ps []piece, seed uint64) error {
	var at uint64
	for i, p := range ps {
		mm, err := m.Verify(ctx, testagent.Span{Off: p.off, Len: p.n, Seed: seed, At: at})
		if err != nil {
			return err
		}
		j.expect(mm.Bytes == 0, "piece %d, %d bytes at %d: %d bytes are wrong, the first at %d: %#02x instead of %#02x", i, p.n, p.off, mm.Bytes, mm.First, mm.Got, mm.Want)
		at += p.n
		for _, off := range []uint64{p.off - margin, p.off + p.n} {
			around, err := m.VerifySet(ctx, off, margin, blank)
			if err != nil {
				return err
			}
			j.expect(around.Bytes == 0, "%d bytes beside piece %d were written, at %d: %#02x", around.Bytes, i, off+around.First, around.Got)
		}
	}
	changed, err := m.Guard(ctx)
	j.expect(changed == 0, "%d bytes outside of the region were written", changed)
	return err
}

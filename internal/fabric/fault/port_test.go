package fault

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/pipe"
)

// carry sends packets of one byte count each through faults and returns the
// first bytes of those that arrive.
func carry(t *testing.T, c Config, runs, perRun int) []byte {
	t.Helper()
	n := pipe.NewNetwork(pipe.Options{})
	src, dst := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	a, err := n.Port(src)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := n.Port(dst)
	if err != nil {
		t.Fatal(err)
	}
	b := Wrap(inner, c)
	batch := fabric.NewBatch(1<<16, a.Caps())
	path := fabric.Path{Src: src, Dst: dst}
	ds := make([]fabric.Datagram, 16)
	var got []byte
	mark := byte(0)
	for range runs {
		for range perRun {
			seg, _ := batch.Append(&path, 64)
			for i := range seg {
				seg[i] = mark
			}
			mark++
		}
		if err := a.Send(batch); err != nil {
			t.Fatal(err)
		}
		for {
			k, err := b.Receive(ds)
			if err != nil {
				t.Fatal(err)
			}
			if k == 0 {
				break
			}
			for _, d := range ds[:k] {
				if len(d.Bytes) != 64 || bytes.Count(d.Bytes, d.Bytes[:1]) != 64 {
					t.Fatalf("packet arrived changed: %x", d.Bytes)
				}
				got = append(got, d.Bytes[0])
			}
		}
	}
	return got
}

func TestNoFaultsPassEverythingInOrder(t *testing.T) {
	got := carry(t, Config{}, 20, 10)
	for i, m := range got {
		if m != byte(i) {
			t.Fatalf("packet %d is number %d", i, m)
		}
	}
	if len(got) != 200 {
		t.Fatalf("%d of 200 packets arrived", len(got))
	}
}

func TestLossLosesItsShareRepeatably(t *testing.T) {
	c := Config{Seed: 7, Loss: 0.2}
	one, two := carry(t, c, 100, 20), carry(t, c, 100, 20)
	if !bytes.Equal(one, two) {
		t.Fatal("the same seed lost other packets")
	}
	if n := len(one); n < 1500 || n > 1700 {
		t.Fatalf("%d of 2000 packets arrived with a loss of 20 %%", n)
	}
	if bytes.Equal(one, carry(t, Config{Seed: 8, Loss: 0.2}, 100, 20)) {
		t.Fatal("another seed lost the same packets")
	}
}

func TestReorderSwapsNeighboursAndLosesNone(t *testing.T) {
	got := carry(t, Config{Seed: 3, Reorder: 0.3}, 20, 10)
	swapped := 0
	seen := map[byte]bool{}
	for i, m := range got {
		seen[m] = true
		if i > 0 && m == got[i-1]-1 {
			swapped++
		}
	}
	if len(got) < 199 || len(seen) != len(got) { // the last may still wait
		t.Fatalf("%d packets arrived, %d different, of 200", len(got), len(seen))
	}
	if swapped < 20 {
		t.Fatalf("%d of 200 packets were overtaken with a share of 30 %%", swapped)
	}
}

func TestCheckRefusesSharesThatAreNone(t *testing.T) {
	for _, bad := range []Config{{Loss: -0.1}, {Loss: 1.1}, {Reorder: 2}} {
		if bad.Check() == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	if err := (Config{Loss: 1, Reorder: 0.5}).Check(); err != nil {
		t.Error(err)
	}
}

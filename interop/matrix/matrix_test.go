package matrix_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/softhca/softhca/interop/matrix"
)

func dims() []matrix.Dim {
	return []matrix.Dim{
		matrix.Kernel("6.1", "6.12"), {Name: "type", Values: []string{"rc", "uc", "ud", "srq"}},
		matrix.Direction(), matrix.IP(), matrix.MTU(), matrix.Transport(),
	}
}

func TestAllIsTheProduct(t *testing.T) {
	cells := matrix.All(dims(), nil)
	if len(cells) != 2*4*2*2*2*2 {
		t.Fatalf("%d cells, not the product of all values", len(cells))
	}
	if got := cells[1].String(); got != "6.1/rc/server/ipv4/1024/raw" {
		t.Errorf("the second cell is %s: the last dimension does not change fastest", got)
	}
	if c := cells[1]; c.Get("transport") != "raw" || !c.Is("ip", "ipv4") || c.Get("nothing") != "" {
		t.Errorf("cell %v is read wrong", c)
	}
	if n := len(slices.CompactFunc(cells, func(a, b matrix.Cell) bool { return a.String() == b.String() })); n != 128 {
		t.Errorf("%d different cells", n)
	}
}

// Every two values that may meet do, in far fewer cells than the product.
func TestPairsMeetAll(t *testing.T) {
	skip := func(c matrix.Cell) bool { return c.Is("type", "ud") && c.Is("mtu", "4096") }
	cells := matrix.Pairs(dims(), skip)
	met := map[string]bool{}
	for _, c := range cells {
		if skip(c) {
			t.Errorf("cell %v should be left out", c)
		}
		for _, a := range dims() {
			for _, b := range dims() {
				met[fmt.Sprint(a.Name, c.Get(a.Name), b.Name, c.Get(b.Name))] = true
			}
		}
	}
	for _, a := range dims() {
		for _, b := range dims() {
			for _, va := range a.Values {
				for _, vb := range b.Values {
					together := a.Name != b.Name || va == vb
					allowed := (va != "ud" || vb != "4096") && (va != "4096" || vb != "ud")
					if key := fmt.Sprint(a.Name, va, b.Name, vb); met[key] != (together && allowed) {
						t.Errorf("%s=%s and %s=%s meet: %v", a.Name, va, b.Name, vb, met[key])
					}
				}
			}
		}
	}
	if len(cells) > 14 {
		t.Errorf("%d cells for pairs of at most 4 × 2 values", len(cells))
	}
}

func TestPairsAreTheSameEachTime(t *testing.T) {
	want := fmt.Sprint(matrix.Pairs(dims(), nil))
	for range 5 {
		if got := fmt.Sprint(matrix.Pairs(dims(), nil)); got != want {
			t.Fatalf("the pairs differ:\n%s\n%s", want, got)
		}
	}
}

func TestPairsOfOneDimension(t *testing.T) {
	if cells := matrix.Pairs([]matrix.Dim{matrix.IP()}, nil); len(cells) != 2 {
		t.Errorf("%v", cells)
	}
	if cells := matrix.Pairs(nil, nil); len(cells) != 1 {
		t.Errorf("a matrix without dimensions has %d cells, not one", len(cells))
	}
}

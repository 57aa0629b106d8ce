package hca_test

import (
	"net/netip"
	"reflect"
	"testing"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/qp"
)

// footprint returns the bytes that h holds in slices and maps, however deep,
// and in what they point to.
func footprint(h *hca.HCA) int {
	c := census{seen: map[unsafe.Pointer]bool{}, leaf: map[reflect.Type]bool{}}
	return c.measure(reflect.ValueOf(h))
}

// census adds up what values refer to.
type census struct {
	seen map[unsafe.Pointer]bool
	leaf map[reflect.Type]bool // types whose values refer to nothing
}

// measure adds up what v refers to and has not been seen before. Functions
// and channels count for nothing.
func (c *census) measure(v reflect.Value) (n int) {
	if c.isLeaf(v.Type()) {
		return 0
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice:
		if v.IsNil() || c.seen[v.UnsafePointer()] {
			return 0
		}
		c.seen[v.UnsafePointer()] = true
		size := int(v.Type().Elem().Size())
		if v.Kind() == reflect.Pointer {
			return size + c.measure(v.Elem())
		}
		return v.Cap()*size + c.measureAll(v)
	case reflect.Array:
		return c.measureAll(v)
	case reflect.Interface:
		if !v.IsNil() {
			n = c.measure(v.Elem())
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			n += int(v.Type().Key().Size()+v.Type().Elem().Size()) + c.measure(it.Value())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += c.measure(v.Field(i))
		}
	}
	return n
}

// measureAll adds up the elements of a slice or an array.
func (c *census) measureAll(v reflect.Value) (n int) {
	if c.isLeaf(v.Type().Elem()) {
		return 0
	}
	for i := range v.Len() {
		n += c.measure(v.Index(i))
	}
	return n
}

// isLeaf reports whether values of a type refer to nothing of the adapter's.
// Addresses refer to the names of zones, which are not.
func (c *census) isLeaf(t reflect.Type) bool {
	leaf, known := c.leaf[t]
	if known {
		return leaf
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
	case reflect.Array:
		leaf = c.isLeaf(t.Elem())
	case reflect.Struct:
		leaf = true
		for f := range t.Fields() {
			leaf = leaf && c.isLeaf(f.Type)
		}
		leaf = leaf || t == reflect.TypeFor[netip.Addr]()
	default:
		leaf = true
	}
	c.leaf[t] = leaf
	return leaf
}

// TestFootprint shows that growth is seen wherever it hides, and that cycles
// are no trap.
func TestFootprint(t *testing.T) {
	r := rig.New(t, ib.RC, rig.Cap)
	h := r.Sides[0].HCA
	before := footprint(h)
	if again := footprint(h); again != before || before < 1<<10 {
		t.Fatalf("the footprint is %d bytes, then %d", before, again)
	}
	for _, c := range []struct {
		what string
		grow func()
	}{
		{"an address handle", func() { h.Env().AHs.Add(qp.AH{}) }},
		{"a flow", func() { r.Connect(ib.MTU1024) }},
		{"a domain", func() { _, err := h.AllocPD(); rig.Must(t, err) }},
	} {
		c.grow()
		after := footprint(h)
		if after <= before {
			t.Errorf("%s more, and the footprint goes from %d to %d bytes", c.what, before, after)
		}
		before = after
	}
}

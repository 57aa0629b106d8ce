package ring

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// TestLayout compares every field with what the comments promise to programs
// in other languages.
func TestLayout(t *testing.T) {
	type field struct {
		name   string
		offset uintptr
		size   uintptr
	}
	for _, c := range []struct {
		entry  any
		size   uintptr
		fields []field
	}{
		{Header{}, 64, []field{
			{"Prod", 0, 4}, {"Cons", 4, 4}, {"Lock", 8, 4}, {"Armed", 12, 4}, {"Flags", 16, 4},
			{"Mask", 20, 4}, {"Stride", 24, 4}, {"Entries", 32, 8}, {"Mirror", 40, 8},
		}},
		{SendWQE{}, 48, []field{
			{"WRID", 0, 8}, {"RemoteAddr", 8, 8}, {"CompareAdd", 16, 8}, {"Swap", 24, 8}, {"Length", 32, 4},
			{"RKey", 36, 4}, {"Imm", 40, 4}, {"Opcode", 44, 1}, {"Flags", 45, 1}, {"NumSGE", 46, 1},
		}},
		{SendTo{}, 16, []field{{"AH", 0, 8}, {"QPN", 8, 4}, {"QKey", 12, 4}}},
		{RecvWQE{}, 16, []field{{"WRID", 0, 8}, {"Length", 8, 4}, {"NumSGE", 12, 4}}},
		{ib.SGE{}, 16, []field{{"Addr", 0, 8}, {"Length", 8, 4}, {"LKey", 12, 4}}},
		{CQE{}, 48, []field{
			{"WRID", 0, 8}, {"ByteLen", 8, 4}, {"QPN", 12, 4}, {"SrcQP", 16, 4}, {"ImmData", 20, 4},
			{"InvRKey", 24, 4}, {"VendorErr", 28, 4}, {"PKeyIndex", 32, 2}, {"SLID", 34, 2}, {"Status", 36, 1},
			{"Opcode", 37, 1}, {"Flags", 38, 1}, {"SL", 39, 1}, {"DLIDPathBits", 40, 1}, {"EEC", 41, 3}, {"Valid", 44, 4},
		}},
		{TimedCQE{}, 56, []field{{"CQE", 0, 48}, {"Time", 48, 8}}},
	} {
		typ := reflect.TypeOf(c.entry)
		if typ.Size() != c.size {
			t.Errorf("%v has %d bytes, want %d", typ, typ.Size(), c.size)
		}
		if 8%typ.Align() != 0 {
			t.Errorf("%v must stand at a multiple of %d, queues promise 8", typ, typ.Align())
		}
		i := 0
		for f := range typ.NumField() {
			f := typ.Field(f)
			if f.Name == "_" {
				continue
			}
			if got := (field{f.Name, f.Offset, f.Type.Size()}); i >= len(c.fields) || got != c.fields[i] {
				t.Errorf("field %d of %v is %+v, want those of %+v", i, typ, got, c.fields)
			}
			i++
		}
		if i != len(c.fields) {
			t.Errorf("%v has %d fields, want %d", typ, i, len(c.fields))
		}
	}
	if HeaderSize != unsafe.Sizeof(Header{}) {
		t.Errorf("a header has %d bytes, the entries begin after %d", unsafe.Sizeof(Header{}), HeaderSize)
	}
}

// TestEntriesHoldNoPointers shows that C can map the queues: their entries have
// a fixed size and hold no Go pointers.
func TestEntriesHoldNoPointers(t *testing.T) {
	for _, e := range []any{Header{}, SendWQE{}, SendTo{}, RecvWQE{}, ib.SGE{}, CQE{}, TimedCQE{}} {
		if at, ok := flat(reflect.TypeOf(e)); !ok {
			t.Errorf("%T holds a pointer in %s", e, at)
		}
	}
	if _, ok := flat(reflect.TypeFor[struct{ inner struct{ p *int } }]()); ok {
		t.Error("a pointer in a nested struct is not found")
	}
}

// flat reports whether t holds no pointer, else the field that does.
func flat(t reflect.Type) (field string, ok bool) {
	switch t.Kind() {
	case reflect.Struct:
		for f := range t.NumField() {
			if at, ok := flat(t.Field(f).Type); !ok {
				return t.Field(f).Name + " " + at, false
			}
		}
		return "", true
	case reflect.Array:
		return flat(t.Elem())
	case reflect.Bool, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "", true
	default: // int and uintptr too: their size depends on the system
		return "", false
	}
}

// TestHeaderDescribesEntries shows that a program finds the entries from the
// header alone.
func TestHeaderDescribesEntries(t *testing.T) {
	var r Ring[SendWQE]
	must.Do(t, r.Init(Allocator{}, 5, SGERoom(2)+SendToSize))
	h := r.hdr
	if h.Mask != 7 || h.Stride != 48+32+16 || h.Entries != uint64(uintptr(unsafe.Pointer(h)))+HeaderSize {
		t.Errorf("a queue for 5 entries with room for 2 elements says mask %d, stride %d, entries %#x behind itself",
			h.Mask, h.Stride, h.Entries-uint64(uintptr(unsafe.Pointer(h))))
	}
	for i := range uint32(16) {
		entry := h.Entries + uint64(i&h.Mask)*uint64(h.Stride)
		if uint64(uintptr(unsafe.Pointer(r.At(i)))) != entry ||
			uint64(uintptr(unsafe.Pointer(&r.SGEs(i, 2)[1]))) != entry+48+16 ||
			uint64(uintptr(unsafe.Pointer(&r.Inline(i, 9)[8]))) != entry+48+8 ||
			uint64(uintptr(unsafe.Pointer(r.To(i)))) != entry+uint64(h.Stride)-16 {
			t.Errorf("index %d is not where its header says", i)
		}
	}
	if r.SGEs(0, 0) != nil || r.Inline(0, 0) != nil {
		t.Error("no elements are some")
	}
	c, err := NewCQ(Allocator{}, 3, false)
	must.Do(t, err)
	h = c.Header()
	if h.Mask != 3 || h.Stride != 48 || h.Entries != uint64(uintptr(unsafe.Pointer(c.entry(0)))) {
		t.Errorf("a completion queue for 3 entries says mask %d, stride %d, entries at %#x", h.Mask, h.Stride, h.Entries)
	}
	must.Do(t, c.Resize(17))
	if h.Mask != 31 || c.Cap() != 31 || h.Entries != uint64(uintptr(unsafe.Pointer(c.entry(0)))) {
		t.Errorf("resized for 17 entries it says mask %d, entries at %#x", h.Mask, h.Entries)
	}
}

package ring

import (
	"reflect"
	"testing"
)

// TestEntriesHoldNoPointers shows that C could map the entries: they are of
// fixed size and hold nothing that the collector would have to see.
func TestEntriesHoldNoPointers(t *testing.T) {
	for _, e := range []any{SendWQE{}, RecvWQE{}} {
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

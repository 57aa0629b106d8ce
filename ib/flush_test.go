package ib

import "testing"

// TestM6_FlushRights shows which rights each type of FLUSH needs.
func TestM6_FlushRights(t *testing.T) {
	for typ, want := range map[FlushType]Access{
		FlushGlobal: AccessFlushGlobal, FlushPersistent: AccessFlushPersistent, FlushGlobal | FlushPersistent: AccessFlush,
	} {
		if a, ok := FlushRights(typ); a != want || !ok {
			t.Errorf("type %d needs %v, exists: %t; want %v", typ, a, ok, want)
		}
	}
	for _, typ := range []FlushType{0, 4, 5, 7, 0x80} {
		if _, ok := FlushRights(typ); ok {
			t.Errorf("type %d exists", typ)
		}
	}
}

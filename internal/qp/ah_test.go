package qp

import "testing"

// TestAHNeverNamesAnother creates and destroys address handles, one at a time
// so that each takes the slot of the previous one: no stale handle ever names a
// new address handle.
func TestAHNeverNamesAnother(t *testing.T) {
	table := NewAHTable(4)
	old, _ := table.Add(AH{PD: 1})
	if table.Get(old) == nil || !table.Remove(old) {
		t.Fatal("the table does not know the handle that it gave")
	}
	for i := range 1 << 17 {
		h, ok := table.Add(AH{PD: 2})
		if !ok || table.Get(h) == nil {
			t.Fatalf("no handle in cycle %d", i)
		}
		if table.Get(old) != nil || table.Remove(old) {
			t.Fatalf("after %d cycles the first handle, %#x, names another's address", i+1, old)
		}
		table.Remove(h)
	}
}

package counters

import "testing"

// TestNames shows that every counter, and every reason for a drop, has a name
// of its own.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	new(Set).Each(func(name string, _ uint64) {
		if name == "" || seen[name] || name == "drop_" {
			t.Errorf("two counters are called %q", name)
		}
		seen[name] = true
	})
	for d := range NumDrops {
		if n := d.String(); n == NumDrops.String() || !seen["drop_"+n] {
			t.Errorf("reason %d is called %q", d, n)
		}
	}
}

//go:build mutation

package mutation

import (
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// TestSites lists the edits of a small package.
func TestSites(t *testing.T) {
	list, err := newModule("testdata").declarations("edited")
	must.Do(t, err)
	var have []string
	for _, d := range list {
		for _, s := range sites(d) {
			e, err := s.edit()
			if err != nil || e == nil {
				t.Errorf("%v: no edit (%v)", &s, err)
				continue
			}
			have = append(have, s.String())
			diff, err := e.diff()
			if err != nil || !strings.Contains(diff, "\n-") && !strings.Contains(diff, "\n+") {
				t.Errorf("%v: no difference (%v):\n%s", &s, err, diff)
			}
		}
	}
	want := strings.Split(strings.TrimSpace(editedSites), "\n")
	for _, w := range want {
		if !slices.Contains(have, w) {
			t.Errorf("there is no edit %s", w)
		}
	}
	for _, h := range have {
		if !slices.Contains(want, h) {
			t.Errorf("there is an edit %s", h)
		}
	}
}

const editedSites = `
edited.limit: 7 → 8
edited.limit: 7 → 6
edited.name: "a" + "b" → "a" - "b"
edited.t.f: x.mu.Lock() → nothing
edited.t.f: defer x.mu.Unlock() → nothing
edited.t.f: if a < b && !ok { x.n += 2 } → nothing
edited.t.f: if a < b && !ok { x.n += 2 } → if !(a < b && !ok) { x.n += 2 }
edited.t.f: a < b && !ok → a < b || !ok
edited.t.f: a < b → a <= b
edited.t.f: a < b → a >= b
edited.t.f: !ok → ok
edited.t.f: x.n += 2 → nothing
edited.t.f: x.n += 2 → x.n -= 2
edited.t.f: 2 → 3
edited.t.f: 2 → 1
edited.t.f: switch { case a == b: n++ default: return true } → nothing
edited.t.f: case a == b: n++; default: return true → case a == b: return true; default: n++
edited.t.f: a == b → a != b
edited.t.f: n++ → nothing
edited.t.f: n++ → n--
edited.t.f: return true → nothing
edited.t.f: true → false
edited.t.f: return n > limit → nothing
edited.t.f: n > limit → n >= limit
edited.t.f: n > limit → n <= limit
`

// TestSearchPage shows that a survivor is on the page with its difference, and
// with the reason if it is called equivalent.
func TestSearchPage(t *testing.T) {
	list, err := newModule("testdata").declarations("edited")
	must.Do(t, err)
	s := &search{t: t, by: []string{"script x", "", ""}}
	for _, i := range []int{0, 1, 2} {
		at := sites(list[len(list)-1])[i]
		e, err := at.edit()
		must.Do(t, err)
		s.sites, s.edits = append(s.sites, at), append(s.edits, e)
	}
	page := s.page(map[string]string{s.sites[2].String(): "for a reason."})
	for _, want := range []string{
		"**1 of 3 were noticed.**", "| `edited` | 3 | 1 |", "script 1, none 2",
		"## `" + s.sites[1].String() + "`\n\nNo test fails.\n\n```diff\n@@", "Equivalent: for a reason.",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, s.sites[0].String()) {
		t.Errorf("an edit that was noticed is among the survivors:\n%s", page)
	}
}

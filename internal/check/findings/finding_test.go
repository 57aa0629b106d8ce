package findings

import (
	"regexp"
	"strings"
	"testing"
)

// TestTable checks that each finding has all fields, that names are unique, and that errors come
// first.
func TestTable(t *testing.T) {
	all := All()
	if len(all) != len(errors)+len(advice) || len(all) < 40 {
		t.Fatalf("%d findings", len(all))
	}
	name := regexp.MustCompile(`^[a-z]+(-[a-z]+)+$`)
	known := map[string]bool{}
	for i, f := range all {
		if !name.MatchString(f.Name) || known[f.Name] {
			t.Errorf("the name %q is not one, or not unique", f.Name)
		}
		known[f.Name] = true
		if want := i < len(errors); (f.Level == Error) != want || f.Level != Error && f.Level != Advice {
			t.Errorf("%s has the level %q", f.Name, f.Level)
		}
		for field, text := range map[string]string{"title": f.Title, "rule": f.Rule, "fix": f.Fix} {
			if len(text) < 20 || !strings.HasSuffix(text, ".") || strings.Contains(text, "\n") {
				t.Errorf("the %s of %s is no sentence: %q", field, f.Name, text)
			}
		}
		if strings.Count(strings.TrimSuffix(f.Title, "."), ". ") > 0 {
			t.Errorf("the title of %s is more than one sentence: %q", f.Name, f.Title)
		}
		if f.Source == "" || strings.HasSuffix(f.Source, ".") {
			t.Errorf("%s has the source %q", f.Name, f.Source)
		}
		if found, ok := Find(f.Name); !ok || found != f {
			t.Errorf("%s is not found by its name", f.Name)
		}
	}
	if _, ok := Find("no-such-finding"); ok {
		t.Error("an unknown name is found")
	}
	if got := all[0].Constant(); got != "SEND_BUFFER_CHANGED" {
		t.Errorf("the constant of %s is %s", all[0].Name, got)
	}
}

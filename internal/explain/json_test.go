package explain

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// TestJSONFields compares the fields of the reports on all captures, as JSON, with those
// that docs/json.md describes: each that is printed is described, and each that is
// described is printed of some capture.
func TestJSONFields(t *testing.T) {
	printed, described := map[string]bool{}, describedFields(t)
	for name, r := range everyReport(t) {
		b, err := json.Marshal(r)
		must.Do(t, err)
		var value any
		if err := json.Unmarshal(b, &value); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		fields(printed, value, reflect.TypeFor[Report]())
	}
	for _, field := range slices.Sorted(maps.Keys(printed)) {
		if !described[field] {
			t.Errorf("docs/json.md does not describe %s", field)
		}
	}
	for _, field := range slices.Sorted(maps.Keys(described)) {
		if !printed[field] {
			t.Errorf("docs/json.md describes %s, which the report on no capture has", field)
		}
	}
}

// describedFields returns the fields of the page's tables of this package, such as
// "Report.version".
func describedFields(t *testing.T) map[string]bool {
	t.Helper()
	b, err := os.ReadFile("../../docs/json.md")
	must.Do(t, err)
	known, object, ours := map[string]bool{}, "", false
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if head, ok := strings.CutPrefix(line, "### "); ok {
			object, ours = strings.CutPrefix(head, "explain.")
		}
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "`"); ok && ours && strings.HasPrefix(line, "| `") {
			known[object+"."+name] = true
		}
	}
	return known
}

// fields adds the names of the fields of a value of a type.
func fields(names map[string]bool, value any, typ reflect.Type) {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			fields(names, v, typ)
		}
	case map[string]any:
		for name, v := range value {
			names[typ.Name()+"."+name] = true
			for i := range typ.NumField() {
				if tag, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ","); tag == name {
					fields(names, v, typ.Field(i).Type)
				}
			}
		}
	}
}

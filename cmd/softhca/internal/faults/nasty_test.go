package faults

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/nasty"
)

// TestListNasty checks that both lists have every behaviour, in lines that fit a terminal.
func TestListNasty(t *testing.T) {
	var text, object strings.Builder
	must.Do(t, ListNasty(&text))
	must.Do(t, ListNastyJSON(&object))
	var all []behaviour
	must.Do(t, json.Unmarshal([]byte(object.String()), &all))
	if len(all) != int(nasty.NumParts) {
		t.Errorf("%d behaviours", len(all))
	}
	for _, b := range all {
		if !strings.Contains(text.String(), "\n  "+b.Name+"\n") || b.Text == "" || b.Permission == "" || b.Source == "" || b.Bug == "" {
			t.Errorf("a list does not describe %+v", b)
		}
	}
	for line := range strings.Lines(text.String()) {
		if n := utf8.RuneCountInString(line); n > width+1 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

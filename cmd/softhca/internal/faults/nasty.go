package faults

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/softhca/softhca/internal/nasty"
)

// behaviour is one behaviour of run --nasty, in the form of --json.
type behaviour struct {
	Name       string `json:"name"`       // its name, as in without=NAME
	Text       string `json:"text"`       // what the adapter does
	Permission string `json:"permission"` // why it may
	Source     string `json:"source"`     // where that is written
	Bug        string `json:"bug"`        // bug of programs that it shows
}

// behaviours returns every behaviour.
func behaviours() (all []behaviour) {
	for p := range nasty.NumParts {
		why, source := p.Permission()
		all = append(all, behaviour{p.String(), p.Title(), why, source, p.Bug()})
	}
	return all
}

// ListNastyJSON writes the behaviours of run --nasty as a JSON array.
func ListNastyJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(behaviours())
}

// ListNasty writes the behaviours of run --nasty as text.
func ListNasty(w io.Writer) error {
	const column = 14
	var b strings.Builder
	paragraph(&b, 0, "softhca run --nasty makes the adapter behave as badly as the specification permits, and never makes an operation fail. "+
		"Its values are "+nasty.Syntax+". Each behaviour has its permission, and the bug of programs that it shows.")
	for _, e := range behaviours() {
		fmt.Fprintf(&b, "\n  %s\n      ", e.Name)
		paragraph(&b, 6, e.Text)
		for _, part := range []struct{ title, text string }{
			{"May:", e.Permission}, {"See:", e.Source + "."}, {"Finds:", e.Bug},
		} {
			fmt.Fprintf(&b, "      %-*s", column-6, part.title)
			paragraph(&b, column, part.text)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

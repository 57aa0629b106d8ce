package play

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/internal/printable"
	"github.com/softhca/softhca/internal/script"
)

// maxText is the maximum length of a script: several times the longest built-in one.
const maxText = 1 << 20

// Script is a script that can be played.
type Script struct{ Name, Text string }

// Find returns the built-in script with a name, with or without .qp, or else the
// script in the file with that name, with escapes for its control characters.
func Find(name string, readFile func(string) ([]byte, error)) (Script, error) {
	if text, err := script.Text(strings.TrimSuffix(name, ".qp")); err == nil {
		return Script{name, text}, nil
	}
	b, err := readFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Script{}, fmt.Errorf("there is neither a script nor a file %q%s; softhca play --list lists the scripts", name, text.DidYouMean(name, "", script.Names()))
	case err != nil:
		return Script{}, err
	case len(b) > maxText:
		return Script{}, fmt.Errorf("%s has %d bytes: a script has at most %d", name, len(b), maxText)
	}
	return Script{printable.Line(name, 0), printable.Lines(strings.ReplaceAll(string(b), "\r\n", "\n"))}, nil
}

// outcome is the result of a script in JSON.
type outcome struct {
	Script    string   `json:"script"`              // its name, or that of the file
	Title     string   `json:"title"`               // its first line
	Statuses  []string `json:"statuses"`            // completion statuses that the script provokes
	Events    []string `json:"events"`              // asynchronous events that the script provokes
	Provoked  string   `json:"provoked,omitempty"`  // how the script provokes them
	Requester string   `json:"requester,omitempty"` // effect at the requester
	Responder string   `json:"responder,omitempty"` // effect at the responder
	Text      string   `json:"text,omitempty"`      // the script with its output
	Error     string   `json:"error,omitempty"`     // how the output differs from the script
}

// played runs a script.
func played(s Script) (outcome, error) {
	r, err := script.Run(s.Name, s.Text)
	o := outcome{
		Script: s.Name, Title: r.Title, Statuses: []string{}, Events: []string{},
		Provoked: r.Provoked, Requester: r.Requester, Responder: r.Responder, Text: r.Text,
	}
	for _, v := range r.Statuses {
		o.Statuses = append(o.Statuses, v.String())
	}
	for _, v := range r.Events {
		o.Events = append(o.Events, v.String())
	}
	if err != nil {
		o.Error = err.Error()
	}
	return o, err
}

// Run plays scripts and writes what happened. It returns an error for each script
// from which the adapter deviated.
func Run(w io.Writer, scripts []Script, asJSON bool) error {
	all := []outcome{}
	var errs []error
	for i, s := range scripts {
		o, err := played(s)
		errs = append(errs, err)
		all = append(all, o)
		if asJSON {
			continue
		}
		if strings.TrimSpace(o.Text) == "" {
			continue // the script was not played; the error has the reason
		}
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprint(w, o.Text)
		o.summary(w)
	}
	if asJSON {
		errs = append(errs, write(w, all))
	}
	return errors.Join(errs...)
}

// summary writes what the script provoked.
func (o *outcome) summary(w io.Writer) {
	line := func(name, what string) {
		if what != "" {
			fmt.Fprintf(w, "%-10s %s\n", name, what)
		}
	}
	fmt.Fprintln(w)
	line("statuses", strings.Join(o.Statuses, ", "))
	line("events", strings.Join(o.Events, ", "))
	line("provoked", o.Provoked)
	line("requester", o.Requester)
	line("responder", o.Responder)
}

// List writes the names of the built-in scripts, their titles, and the statuses and
// events that they provoke.
func List(w io.Writer, asJSON bool) error {
	all := []outcome{}
	for _, name := range script.Names() {
		text, err := script.Text(name)
		if err != nil {
			return err
		}
		o, err := played(Script{name, text})
		if err != nil {
			return err
		}
		o.Text = ""
		all = append(all, o)
	}
	if asJSON {
		return write(w, all)
	}
	for _, o := range all {
		provokes := strings.Join(slices.Concat(o.Statuses, o.Events), ", ")
		if provokes != "" {
			provokes = " (" + provokes + ")"
		}
		fmt.Fprintf(w, "%-32s %s%s\n", o.Script, o.Title, provokes)
	}
	return nil
}

func write(w io.Writer, all []outcome) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(all)
}

package script

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Header is the information about a script in the comments at its top.
type Header struct {
	Title     string   // in one line
	Covers    []string // requirements, such as "E8"
	Status    []string // completion statuses that the script provokes
	Event     []string // asynchronous events that it provokes
	Provoked  string   // how it provokes them, in a sentence
	Requester string   // what the requester sees
	Responder string
}

// ReadHeader returns the header of a script.
func ReadHeader(name, text string) (Header, error) {
	f, err := parse(name, text)
	if err != nil {
		return Header{}, err
	}
	return f.header, nil
}

// read takes in a comment line, if it belongs to the header.
func (h *Header) read(f *file, n int, line string) error {
	key, text, ok := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "#")), ":")
	if !ok || len(f.steps) > 0 {
		return nil
	}
	text = strings.TrimSpace(text)
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' })
	switch key {
	case "title":
		h.Title = text
	case "covers":
		h.Covers = append(h.Covers, words...)
	case "status":
		h.Status = append(h.Status, words...)
	case "event":
		h.Event = append(h.Event, words...)
	case "provoked":
		h.Provoked = text
	case "requester":
		h.Requester = text
	case "responder":
		h.Responder = text
	default:
		return nil
	}
	if text == "" {
		return f.fail(n, "", fmt.Errorf("%s: no text follows", key))
	}
	return nil
}

// check compares the header with what happened.
func (h *Header) check(f *file, r *Report) error {
	fail := func(format string, args ...any) error { return f.fail(1, "", fmt.Errorf(format, args...)) }
	switch {
	case h.Title == "":
		return f.fail(1, "", errors.New(`the script has no "# title:" line`))
	case len(h.Covers) == 0:
		return f.fail(1, "", errors.New(`the script has no "# covers:" line`))
	case len(h.Status)+len(h.Event) > 0 && h.Provoked == "":
		return f.fail(1, "", errors.New(`a script that provokes a status or an event says how in a "# provoked:" line`))
	}
	for _, s := range h.Status {
		if !contains(r.Statuses, s) {
			return fail("status: no work request completed with %s; there were %v", s, r.Statuses)
		}
	}
	for _, e := range h.Event {
		if !contains(r.Events, e) {
			return fail("event: there was no %s; there were %v", e, r.Events)
		}
	}
	return nil
}

// contains reports whether one of the values has the name.
func contains[T fmt.Stringer](vs []T, name string) bool {
	return slices.ContainsFunc(vs, func(v T) bool { return v.String() == name })
}

// set is a set of enum values.
type set[T cmp.Ordered] map[T]bool

func (s set[T]) sorted() []T { return slices.Sorted(maps.Keys(s)) }

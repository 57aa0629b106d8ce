package main

import (
	"fmt"
	"slices"
	"strings"
)

// object is a structure that is printed.
type object struct{ dir, name string }

// page writes the page.
type page struct {
	strings.Builder
	source   *source
	known    map[string]bool // titles of objects that have a table
	queue    []object        // objects that still need one
	problems []error
}

// problem records an error in the source.
func (p *page) problem(format string, args ...any) {
	p.problems = append(p.problems, fmt.Errorf(format, args...))
}

const head = `<!-- Written by "make generate" from the source. Do not edit. -->
# JSON output

Each command that has ` + "`--json`" + ` (or ` + "`--format json`" + `), with its output and every field. Standard output contains only the JSON; progress and errors go to
standard error. New fields can be added at any time: ignore unknown fields. The formats of %s have a version; those of the other commands belong
to the version of softhca, and [the changes](../CHANGELOG.md) describe how they change.

Each kind of value has the same type everywhere:

| kind | type | |
|---|---|---|
`

// write returns the page.
func (p *page) write(outputs []output) string {
	var versioned []string
	for _, o := range outputs {
		if o.version != "" {
			versioned = append(versioned, "`"+strings.Join(strings.Fields(o.command)[:2], " ")+"`")
		}
	}
	fmt.Fprintf(p, head, strings.Join(versioned, " and "))
	for _, k := range kinds {
		fmt.Fprintf(p, "| %s | %s | %s |\n", k.name, k.json, k.meaning)
	}
	p.WriteString("\n\"Or missing\" means that the field is omitted if it has no value; \"or null\" means that it is null. An object that several commands print is described\nwhere it first occurs.\n")
	for _, o := range outputs {
		fmt.Fprintf(p, "\n## %s\n\n%s", o.command, fmt.Sprintf(o.form, link(title(o.pkg, o.object))))
		if o.version != "" {
			fmt.Fprintf(p, " Its version is in %s", o.version)
		}
		p.WriteString("\n")
		p.queue = append(p.queue, object{o.pkg, o.object})
		for len(p.queue) > 0 {
			next := p.queue[0]
			p.queue = p.queue[1:]
			p.describe(next)
		}
	}
	return p.String()
}

// describe writes the table of an object, unless it has one.
func (p *page) describe(o object) {
	name := title(o.dir, o.name)
	if p.known[name] {
		return
	}
	p.known[name] = true
	fmt.Fprintf(p, "\n### %s\n\n| field | type | kind | meaning |\n|---|---|---|---|\n", name)
	for _, f := range p.members(o) {
		fmt.Fprintf(p, "| `%s` | %s | %s | %s |\n", f.name, f.json, f.kind, f.meaning)
	}
}

// members returns the fields of an object.
func (p *page) members(o object) []field {
	if o.dir == madDir {
		return p.messageFields(o.name)
	}
	in, err := p.source.load(o.dir)
	if err != nil {
		p.problem("%w", err)
		return nil
	}
	all := p.fields(in, o.name)
	if o == datagram {
		for _, m := range messages {
			p.queue = append(p.queue, object{madDir, m})
			name := strings.ToLower(strings.Replace(m, "SIDR", "SIDR_", 1))
			all = append(all, field{name, link(title(madDir, m)) + ", or missing", "", "the message, if it is this"})
		}
	}
	return slices.Clip(all)
}

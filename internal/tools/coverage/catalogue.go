package main

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/softhca/softhca/ib"
)

// unprovableFile gives the reason for each status and event that no script
// provokes.
const unprovableFile = "docs/unprovable.tsv"

// exception is a completion status or an asynchronous event.
type exception struct {
	kind    string // "status" or "event"
	name    string
	scripts []*scriptFile
	why     string // there is no script
}

// exceptions returns every status and every event of the verbs, and the errors
// in the scripts and in the file of reasons about them.
func exceptions(fsys fs.FS, e *evidence) (list []exception, ps []string, err error) {
	why, err := readReasons(fsys)
	if err != nil {
		return nil, nil, err
	}
	known := map[string]bool{}
	for _, x := range allExceptions() {
		of := func(s *scriptFile) []string { return s.Status }
		if x.kind == "event" {
			of = func(s *scriptFile) []string { return s.Event }
		}
		key := x.kind + " " + x.name
		known[key] = true
		x.scripts, x.why = e.provoking(of, x.name), why[key]
		switch {
		case len(x.scripts) == 0 && x.why == "":
			ps = append(ps, fmt.Sprintf("no script provokes %s, and %s does not say why", key, unprovableFile))
		case len(x.scripts) > 0 && x.why != "":
			ps = append(ps, fmt.Sprintf("%s provokes %s, and %s says that nothing does", x.scripts[0].file, key, unprovableFile))
		}
		list = append(list, x)
	}
	for key := range why {
		if !known[key] {
			ps = append(ps, fmt.Sprintf("%s: there is no %s", unprovableFile, key))
		}
	}
	for _, s := range e.scripts {
		ps = append(ps, s.unknown(known)...)
	}
	return list, ps, nil
}

// unknown lists the statuses and events that a script names and that do not
// exist, and a script that does not say how it provokes them.
func (s *scriptFile) unknown(known map[string]bool) (ps []string) {
	for kind, names := range map[string][]string{"status": s.Status, "event": s.Event} {
		for _, name := range names {
			if !known[kind+" "+name] {
				ps = append(ps, fmt.Sprintf("%s: there is no %s %s", s.file, kind, name))
			}
		}
	}
	if len(s.Status)+len(s.Event) > 0 && s.Provoked == "" {
		ps = append(ps, s.file+": the header does not say how it is provoked")
	}
	return ps
}

// allExceptions walks the enums until a value has no name.
func allExceptions() (list []exception) {
	for s := ib.WCSuccess; !strings.Contains(s.String(), "("); s++ {
		list = append(list, exception{kind: "status", name: s.String()})
	}
	for v := ib.EventCQErr; !strings.Contains(v.String(), "("); v++ {
		list = append(list, exception{kind: "event", name: v.String()})
		if e := v.OfEEC(); !strings.Contains(e.String(), "(") {
			list = append(list, exception{kind: "event", name: e.String()})
		}
	}
	return list
}

func readReasons(fsys fs.FS) (map[string]string, error) {
	rows, err := readTable(fsys, unprovableFile, 3)
	if err != nil {
		return nil, err
	}
	why := map[string]string{}
	for i, row := range rows {
		key := row[0] + " " + row[1]
		if why[key] != "" {
			return nil, fmt.Errorf("%s:%d: %s is there twice", unprovableFile, i+1, key)
		}
		why[key] = row[2]
	}
	return why, nil
}

// writeExceptions prints the table of the statuses or of the events: a row for
// each script, or the reason why there is none.
func writeExceptions(w io.Writer, kind string, list []exception) {
	fmt.Fprintf(w, "\n| %s | provoked by | the requester sees | the responder sees | script |\n|---|---|---|---|---|\n", kind)
	for _, x := range list {
		if x.kind != kind {
			continue
		}
		if len(x.scripts) == 0 {
			fmt.Fprintf(w, "| %s | %s | | | none |\n", x.name, cell(x.why))
		}
		for _, s := range x.scripts {
			fmt.Fprintf(w, "| %s | %s | %s | %s | [`%s`](../%s) |\n",
				x.name, cell(s.Provoked), cell(s.Requester), cell(s.Responder), path.Base(s.file), s.file)
		}
	}
}

// cell makes text fit for a cell of a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

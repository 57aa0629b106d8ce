package main

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// script is the header of a protocol script, the comments at its top.
type script struct {
	file      string
	covers    []string
	status    []string // completion statuses that it provokes
	event     []string // asynchronous events that it provokes
	provoked  string   // how it provokes them
	requester string   // what the requester sees
	responder string
}

// scriptTest is the test that runs the scripts beside it, each as a subtest.
const scriptTest = "TestScripts"

// readScript reads the header of a script: lines "# key: words" before the
// first that is neither empty nor a comment.
func (e *evidence) readScript(fsys fs.FS, name string) error {
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	s := &script{file: name}
	for _, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		comment, ok := strings.CutPrefix(line, "#")
		if line != "" && !ok {
			break
		}
		key, words, _ := strings.Cut(strings.TrimSpace(comment), ":")
		s.set(key, strings.TrimSpace(words))
	}
	if len(s.covers) == 0 {
		return fmt.Errorf("%s: the header has no \"# covers:\" line", name)
	}
	for _, id := range s.covers {
		if !idPattern.MatchString(id) {
			return fmt.Errorf("%s: %q is not a requirement", name, id)
		}
	}
	e.scripts = append(e.scripts, s)
	e.proofs = append(e.proofs, &proof{
		dir: path.Dir(path.Dir(name)), test: scriptTest + "/" + strings.TrimSuffix(path.Base(name), path.Ext(name)),
		script: name, ids: s.covers,
	})
	return nil
}

// set takes one line of the header; keys that it does not know are prose.
func (s *script) set(key, text string) {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' })
	switch key {
	case "covers":
		s.covers = append(s.covers, words...)
	case "status":
		s.status = append(s.status, words...)
	case "event":
		s.event = append(s.event, words...)
	case "provoked":
		s.provoked = text
	case "requester":
		s.requester = text
	case "responder":
		s.responder = text
	}
}

// provoking returns the scripts that provoke a status or an event.
func (e *evidence) provoking(of func(*script) []string, name string) []*script {
	var ss []*script
	for _, s := range e.scripts {
		if slices.Contains(of(s), name) {
			ss = append(ss, s)
		}
	}
	return ss
}

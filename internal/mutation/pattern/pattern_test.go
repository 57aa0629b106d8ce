package pattern_test

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/mutation/pattern"
)

// source is searched by the cases of TestReplace.
const source = `package p

func f(now int) {
	// A comment inside.
	r := &q.req
	r.retries-- // is not compared
	q.timers.stop()
	if q.State() == ERR {
		return
	}
	q.raise(Event)
	q.flush(now, (x))
	if a && (b || c) {
		q.drop(1)
	} else if q.late() {
		g(1, 2, 3)
	}
	switch d := q.diff(); {
	case d > 0:
		q.ahead()
	case d < 0:
		q.behind()
	default:
	}
	log(list...)
}

var table = [...]row{
	A: {in(1, 2), true, func() { q.x = 1 }},
	B: {in(2), false, nil},
}
`

// TestReplace finds a pattern in the source and compares what it becomes.
func TestReplace(t *testing.T) {
	for _, c := range []struct{ why, find, replace, old, new string }{
		{"a variable is any path", "$r.retries--", "", "r.retries--", ""},
		{"an expression in a condition", "$q.State() == ERR", "false", "q.State() == ERR", "false"},
		{"a statement is found by its call", "$q.raise(Event)", "", "\tq.raise(Event)\n", ""},
		{"parentheses do not matter", "$q.flush($now, x)", "$q.flush($now, y)", "(x)", "y"},
		{"nor do they in the source", "(a) && $rest", "a || $rest", "a && (b", "a || (b"},
		{"a run of statements", "$q.raise(Event)\n$q.flush($*args)", "$q.flush($*args)\n$q.raise(Event)",
			"\tq.raise(Event)\n\tq.flush(now, (x))\n", "\tq.flush(now, (x))\n\tq.raise(Event)\n"},
		{"a run with a gap", "$_.retries--; $*gap; $q.raise(Event)", "$*gap; $q.raise(Event)", "r.retries--", ""},
		{"any statements in a body", "if $a && $b { $*body }  else if $_ { $*_ }", "if $b { $*body }", "a && (b || c) {\n\t\tq.drop(1)\n\t} else if q.late() {\n\t\tg(1, 2, 3)\n\t}", "(b || c) {\n\t\tq.drop(1)\n\t}"},
		{"the else of an if", "if $q.late() { $*body }", "if true { $*body }", "q.late()", "true"},
		{"arguments before and after", "g($*a, 2, $*b)", "g($*b, $*a)", "1, 2, 3", "3, 1"},
		{"a clause", "case $d > 0:\n$*body", "", "\tcase d > 0:\n\t\tq.ahead()\n", ""},
		{"clauses swapped", "case $d > 0:\n$*x\ncase $d < 0:\n$*y", "case $d > 0:\n$*y\ncase $d < 0:\n$*x",
			"q.ahead()\n\tcase d < 0:\n\t\tq.behind()", "q.behind()\n\tcase d < 0:\n\t\tq.ahead()"},
		{"the dots after an argument", "log(list...)", "log()", "list...", ""},
		{"a row of a table", "A: {$in, true, $*rest}", "A: {$in, false, $*rest}", "2), true", "2), false"},
		{"a row that goes", "B: {$*_}", "", "\tB: {in(2), false, nil},\n", ""},
		{"a row that comes", "B: $row", "B: $row, C: $row", "B: {in(2), false, nil},", "B: {in(2), false, nil}, C: {in(2), false, nil},"},
		{"a statement in a table", "$q.x = 1", "$q.x = 2", "q.x = 1", "q.x = 2"},
	} {
		p, err := pattern.Parse(c.find, c.replace)
		if err != nil {
			t.Errorf("%s: %v", c.why, err)
			continue
		}
		have, n := replaced(t, p)
		if want := file(t, strings.Replace(source, c.old, c.new, 1)); n != 1 || !pattern.Equal(have, want) {
			var b bytes.Buffer
			err := format.Node(&b, token.NewFileSet(), have)
			t.Errorf("%s: %s is found %d times and makes\n%s %v", c.why, c.find, n, b.Bytes(), err)
		}
	}
}

// TestFind counts how often patterns are found.
func TestFind(t *testing.T) {
	for _, c := range []struct {
		find, replace string
		want          int
	}{
		{"$_.nothing()", "", 0},
		{"$q.drop(2)", "", 0},
		{"$x && $x", "true", 0},
		{"log(list)", "", 0},
		{"$x.x", "1", 1},
		{"in($*a)", "0", 2},
		{"in($a)", "0", 1},
		{"if $x { $*a }", "{}", 2},
		{"$q.stop()", "", 1},
		{"return", "", 1},
	} {
		p, err := pattern.Parse(c.find, c.replace)
		if err != nil {
			t.Errorf("%s: %v", c.find, err)
			continue
		}
		if _, n := replaced(t, p); n != c.want {
			t.Errorf("%s is found %d times, want %d", c.find, n, c.want)
		}
	}
}

// TestRefused shows patterns that mean nothing.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ find, replace, want string }{
		{"", "", "empty"},
		{"$x", "1", "anything"},
		{"f(); $*rest", "g()", "anything"},
		{"$*rest; f()", "g()", "anything"},
		{"f($x)", "f($y)", "variable y"},
		{"f($_)", "f($_)", "variable _"},
		{"if {", "", "alike"},
		{"$x == 1", "A: {1, 2}", "alike"},
	} {
		if _, err := pattern.Parse(c.find, c.replace); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q with %q in its place: %v, want an error about %q", c.find, c.replace, err, c.want)
		}
	}
}

// TestMisplaced shows a replacement that is no name where one is needed.
func TestMisplaced(t *testing.T) {
	p, err := pattern.Parse("g($x, $y, $z)", "g.$z")
	must.Do(t, err)
	root := file(t, source)
	if _, err := p.Find(root)[0].Replaced(); err == nil {
		t.Error("the field of g is called 3")
	}
}

func file(t *testing.T, text string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", text, parser.SkipObjectResolution)
	must.Do(t, err)
	return f
}

// replaced returns the source after the first place that was found, printed
// and read again, and how many there are.
func replaced(t *testing.T, p *pattern.Pattern) (*ast.File, int) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "p.go", source, parser.SkipObjectResolution)
	must.Do(t, err)
	found := p.Find(f)
	if len(found) == 0 {
		return f, 0
	}
	root, err := found[0].Replaced()
	must.Do(t, err)
	var b bytes.Buffer
	must.Do(t, format.Node(&b, fset, root))
	return file(t, b.String()), len(found)
}

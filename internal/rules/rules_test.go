package rules

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/internal/must"
)

// TestModule applies every rule to this module.
func TestModule(t *testing.T) {
	m, err := Load(os.DirFS("../.."))
	must.Do(t, err)
	if len(m.Packages) < 5 {
		t.Fatalf("only %d packages found: the rules were not applied to the module", len(m.Packages))
	}
	for _, r := range All() {
		for _, v := range r.Check(m) {
			t.Error(v)
		}
	}
}

// source is a module of one or two files.
type source map[string]string

// load parses src as the module example.com/m.
func load(t *testing.T, src source) *Module {
	t.Helper()
	fsys := fstest.MapFS{"go.mod": {Data: []byte("module example.com/m\n\ngo 1.26\n")}}
	for name, text := range src {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	m, err := Load(fsys)
	must.Do(t, err)
	return m
}

// parts are the structures of a package whose parts know each other.
const parts = `package qp
type end struct { comp comp; env *Env }
type comp struct { early early }
type early struct { n int }
type Env struct { n int }
type req struct { end *end; comp *comp }
func (c *comp) g() {}
`

// rejected are sources that break one rule at one place each.
var rejected = []struct {
	rule string
	why  string
	src  source
}{
	{"table", "a package that the table does not name", source{"internal/stray/a.go": "package stray"}},
	{"imports", "an import of the same level", source{
		"roce/a.go":              "package roce\nimport _ \"example.com/m/internal/ring\"",
		"internal/ring/doc.go":   "package ring",
		"internal/clock/a.go":    "package clock",
		"internal/fabric/doc.go": "package fabric\nimport _ \"example.com/m/internal/clock\"",
	}},
	{"imports", "a footing on what stands on it", source{
		"internal/fabric/udp/a.go":  "package udp\nimport _ \"example.com/m/internal/fabric/poll\"",
		"internal/fabric/poll/a.go": "package poll\nimport _ \"example.com/m/internal/fabric/udp\"",
	}},
	{"imports", "a footing of a higher level", source{"roce/a.go": "package roce\nimport _ \"example.com/m/internal/fabric/poll\""}},
	{"imports", "an import of a higher level", source{"ib/a.go": "package ib\nimport _ \"example.com/m/verbs\""}},
	{"imports", "a command that imports a tool", source{"cmd/softhca/a.go": "package main\nimport _ \"example.com/m/internal/rules\""}},
	{"imports", "a child that is higher than its parent", source{
		"internal/fabric/a.go": "package fabric\nimport _ \"example.com/m/roce\"",
	}},
	{"dependencies", "a module that is not on the list", source{"verbs/a.go": "package verbs\nimport _ \"github.com/stranger/thing\""}},
	{"dependencies", "an engine with a shell's module", source{"roce/a.go": "package roce\nimport _ \"github.com/spf13/cobra\""}},
	{"dependencies", "a test module in a source", source{"roce/a.go": "package roce\nimport _ \"pgregory.net/rapid\""}},
	{"engine-imports", "os", source{"internal/qp/a.go": "package qp\nimport _ \"os\""}},
	{"engine-imports", "a package below os", source{"internal/qp/a.go": "package qp\nimport _ \"os/exec\""}},
	{"engine-imports", "net", source{"internal/hca/a.go": "package hca\nimport _ \"net\""}},
	{"engine-imports", "a logger", source{"internal/hca/a.go": "package hca\nimport _ \"log/slog\""}},
	{"engine-imports", "syscall outside ib", source{"roce/a.go": "package roce\nimport _ \"syscall\""}},
	{"engine-imports", "a random source of its own", source{"internal/memory/a.go": "package memory\nimport _ \"crypto/rand\""}},
	{"engine-imports", "cgo in an engine", source{"internal/ring/a.go": "package ring\nimport \"C\""}},
	{"engine-imports", "cgo in a package without a row", source{"internal/stray/a.go": "package stray\nimport \"C\""}},
	{"engine-imports", "cgo in a shell", source{"verbs/a.go": "package verbs\nimport \"C\""}},
	{"engine-imports", "I/O in the port that lives in the process", source{"internal/fabric/pipe/a.go": "package pipe\nimport _ \"net\""}},
	{"engine-calls", "a clock", source{"internal/qp/a.go": "package qp\nimport \"time\"\nfunc f() { _ = time.Now() }"}},
	{"engine-calls", "a clock under another name", source{"internal/qp/a.go": "package qp\nimport x \"time\"\nfunc f() { g(x.Since) }"}},
	{"engine-calls", "a timer", source{"internal/qp/a.go": "package qp\nimport \"time\"\nfunc f() { time.NewTimer(1) }"}},
	{"engine-calls", "a clock in the port that may wait", source{"internal/fabric/pipe/a.go": "package pipe\nimport \"time\"\nfunc f() { time.Now() }"}},
	{"engine-calls", "a goroutine", source{"internal/hca/a.go": "package hca\nfunc f() { go f() }"}},
	{"engine-calls", "the global random source", source{"ib/a.go": "package ib\nimport \"math/rand/v2\"\nfunc f() { rand.IntN(3) }"}},
	{"engine-calls", "printing", source{"ib/a.go": "package ib\nimport \"fmt\"\nfunc f() { fmt.Println() }"}},
	{"engine-calls", "printing by the builtin", source{"ib/a.go": "package ib\nfunc f() { println() }"}},
	{"environment", "a variable in a library", source{"verbs/a.go": "package verbs\nimport \"os\"\nfunc f() { os.Getenv(\"SOFTHCA_X\") }"}},
	{"environment", "a directory that a variable names", source{"internal/sysfs/a.go": "package sysfs\nimport \"os\"\nfunc f() { g(os.TempDir) }"}},
	{"environment", "a variable in the engine of programs in C", source{"capi/engine/a.go": "package main\nimport \"syscall\"\nfunc f() { syscall.Getenv(\"HOME\") }"}},
	{"init", "an init function", source{"verbs/a.go": "package verbs\nfunc init() {}"}},
	{"globals", "a variable without value", source{"verbs/a.go": "package verbs\nvar n int"}},
	{"globals", "a write to an embedded file", source{"verbs/a.go": "package verbs\nimport _ \"embed\"\n//go:embed a.txt\nvar s string\nfunc f() { s = \"\" }"}},
	{"globals", "a lock", source{"verbs/a.go": "package verbs\nimport \"sync\"\nvar mu = sync.Mutex{}"}},
	{"globals", "an atomic", source{"verbs/a.go": "package verbs\nimport \"sync/atomic\"\nvar n = atomic.Int64{}"}},
	{"globals", "a map to be filled", source{"verbs/a.go": "package verbs\nvar reg = make(map[string]int)"}},
	{"globals", "a pointer", source{"verbs/a.go": "package verbs\nvar p = &struct{}{}"}},
	{"globals", "an assignment in another file", source{
		"verbs/a.go": "package verbs\nvar n = 1",
		"verbs/b.go": "package verbs\nfunc f() { n = 2 }",
	}},
	{"globals", "an increment", source{"ib/a.go": "package ib\nvar n = 1\nfunc f() { n++ }"}},
	{"globals", "a write into a table", source{"ib/a.go": "package ib\nvar t = [...]int{1}\nfunc f(i int) { t[i] = 2 }"}},
	{"globals", "a write into a field", source{"ib/a.go": "package ib\nvar t = struct{ n int }{1}\nfunc f() { t.n = 2 }"}},
	{"globals", "a write by range", source{"ib/a.go": "package ib\nvar n = 1\nfunc f() { for n = range 3 { } }"}},
	{"globals", "an address", source{"ib/a.go": "package ib\nvar n = 1\nfunc f() *int { return &n }"}},
	{"globals", "a copy onto a table", source{"ib/a.go": "package ib\nvar t = [...]int{1}\nfunc f(s []int) { copy(t[:], s) }"}},
	{"globals", "a deletion", source{"ib/a.go": "package ib\nvar t = map[int]int{1: 1}\nfunc f() { delete(t, 1) }"}},
	{"globals", "a method that writes", source{"ib/a.go": "package ib\ntype T struct{ n int }\nfunc (t *T) inc() { t.n++ }\nvar v = T{1}\nfunc f() { v.inc() }"}},
	{"globals", "a method that calls one that writes", source{"ib/a.go": "package ib\ntype T struct{ n int }\nfunc (t *T) a() { t.b() }\nfunc (t *T) b() { *t = T{} }\nvar v = T{1}\nfunc f() { v.a() }"}},
	{"globals", "a write through a local pointer", source{"ib/a.go": "package ib\nvar t = [...]int{1}\nfunc f() { p := &t[0]; *p = 2 }"}},
	{"globals", "an address that is handed on", source{"ib/a.go": "package ib\nvar t = [...]int{1}\nfunc f() { g(&t) }\nfunc g(*[1]int) {}"}},
	{"reach", "a part of a neighbour", source{"internal/qp/a.go": parts + "func (r *req) f() { r.end.comp.g() }"}},
	{"reach", "a part of a part of a neighbour", source{"internal/qp/a.go": parts + "func (r *req) f() { _ = (r.comp.early).n }"}},
	{"file-lines", "801 lines", source{"ib/a.go": "package ib\n" + strings.Repeat("\n", maxFileLines)}},
	{"function-lines", "71 lines", source{"ib/a.go": "package ib\nfunc f() {" + strings.Repeat("\n", maxFunctionLines) + "}"}},
	{"function-lines", "71 lines of a test", source{"ib/a_test.go": "package ib\nfunc f() {" + strings.Repeat("\n", maxFunctionLines) + "}"}},
	{"methods", "41 methods in the engine", source{"ib/a.go": "package ib\ntype t struct{}\n" + strings.Repeat("func (*t) f() {}\n", 41)}},
	{"methods", "61 methods", source{"verbs/a.go": "package verbs\ntype t struct{}\n" + strings.Repeat("func (*t) f() {}\n", 61)}},
	{"parameters", "six parameters", source{"ib/a.go": "package ib\nfunc f(a, b, c int, d, e, f string) {}"}},
	{"parameters", "six parameters of a method of an interface", source{"ib/a.go": "package ib\ntype i interface{ f(int, int, int, int, int, int) }"}},
	{"package-name", "a drawer", source{"internal/util/a.go": "package util"}},
	{"package-name", "a directory that says nothing", source{"bench/common/a.go": "package stats"}},
	{"doc-file", "no doc.go", source{"ib/a.go": "package ib"}},
	{"doc-file", "a doc.go that does not say which package", source{"ib/doc.go": "// This is it.\npackage ib"}},
	{"doc-file", "a second package comment", source{
		"ib/doc.go": "// Package ib is it.\npackage ib",
		"ib/a.go":   "// Package ib is more.\npackage ib",
	}},
	{"documented", "a bare function", source{"ib/a.go": "package ib\nfunc F() {}"}},
	{"documented", "a comment on something else", source{"ib/a.go": "package ib\n// Returns one.\nfunc F() {}"}},
	{"documented", "a bare method", source{"ib/a.go": "package ib\ntype t struct{}\n// T is t.\ntype T[A any] struct{}\nfunc (*T[A]) M() {}\nfunc (t) M() {}"}},
	{"documented", "a bare type", source{"ib/a.go": "package ib\ntype T int"}},
	{"documented", "a type in a group", source{"ib/a.go": "package ib\n// These are types.\ntype (\nT int\n)"}},
	{"documented", "a bare method of an interface", source{"ib/a.go": "package ib\n// I is it.\ntype I interface{ M() }"}},
	{"documented", "a bare constant", source{"ib/a.go": "package ib\nconst C = 1"}},
	{"public-types", "a parameter of an internal type", source{"verbs/a.go": imports("clock") + "func F(func(clock.Instant)) {}"}},
	{"public-types", "a result of a method", source{"verbs/a.go": imports("clock") + "type T struct{}\nfunc (T) M() []*clock.Instant { return nil }"}},
	{"public-types", "a type under another name", source{"mad/a.go": "package mad\nimport x \"example.com/m/internal/clock\"\nfunc F() x.Instant { return 0 }"}},
	{"public-types", "a field", source{"rdmacm/a.go": imports("clock") + "type T struct{ At clock.Instant; at clock.Instant }"}},
	{"public-types", "a field that is embedded", source{"rdmacm/a.go": imports("clock") + "type T struct{ *clock.Instant }"}},
	{"public-types", "an alias", source{"verbs/a.go": imports("clock") + "type T = clock.Instant"}},
	{"public-types", "a type made of one", source{"verbs/a.go": imports("clock") + "type T map[string]clock.Instant"}},
	{"public-types", "a method of an interface", source{"verbs/a.go": imports("clock") + "type T interface{ M(clock.Instant) }"}},
	{"public-types", "a variable", source{"verbs/a.go": imports("clock") + "var V = clock.Never"}},
	{"public-types", "a variable with its type", source{"verbs/a.go": imports("clock") + "var V clock.Instant = 1"}},
	{"public-types", "a value of the type error", source{"verbs/a.go": imports("clock") + "var V error = clock.Err"}},
	{"public-types", "a value of a type of its own", source{"verbs/a.go": imports("clock") + "const V, W T = 1, T(clock.Never)"}},
	{"public-types", "a constant", source{"verbs/a.go": imports("clock") + "const V = clock.Instant(1)"}},
	{"public-types", "a literal", source{"verbs/a.go": imports("clock") + "var V = []clock.Instant{1}"}},
	{"public-types", "an unexported alias", source{"verbs/a.go": imports("clock") + "type instant = clock.Instant\nfunc F(instant) {}"}},
	{"public-types", "a method that comes with what is embedded", source{
		"verbs/a.go":          imports("clock") + "type hidden = clock.Watch\ntype T struct{ hidden }",
		"internal/clock/a.go": "package clock\ntype Watch struct{ n int }\nfunc (*Watch) Now() int { return 0 }",
	}},
	{"public-types", "a field that comes with what is embedded", source{
		"verbs/a.go":          imports("clock") + "type hidden = clock.Watch\ntype T struct{ hidden }",
		"internal/clock/a.go": "package clock\ntype Watch struct{ N int }",
	}},
	{"public-docs", "the number of a requirement", source{"roce/a.go": "package roce\n// F is F (E8).\nfunc F() {}"}},
	{"public-docs", "the number of a requirement at a constant", source{"roce/a.go": "package roce\nconst F = 1 // as V5 says"}},
	{"public-docs", "the number of a requirement at a field", source{"roce/a.go": "package roce\n// T is T.\ntype T struct{\n// A is Q12.\nA int }"}},
	{"public-docs", "an order in which to read files", source{"roce/doc.go": "// Package roce is it.\n//\n// Reading order: a.go.\npackage roce"}},
	{"public-aliases", "a method that the comment on an alias does not show", source{
		"verbs/a.go": "package verbs\nimport \"example.com/m/ib\"\ntype (\n// T is it.\n//\n//\tfunc (T) A()\nT = ib.T\n)",
		"ib/a.go":    "package ib\ntype T int\nfunc (T) A() {}\nfunc (t *T) B(n int) error { return nil }\nfunc (T) c() {}",
	}},
	{"public-aliases", "methods that the comment on a lone alias does not show", source{
		"rdmacm/a.go": "package rdmacm\nimport \"example.com/m/mad\"\n// T is it, and has a method func (T) A().\ntype T = mad.T",
		"mad/a.go":    "package mad\ntype T int\nfunc (T) A() {}",
	}},
	{"file-lines", "801 lines in C", source{"ib/a.c": strings.Repeat("\n", maxFileLines+1)}},
	{"function-lines", "71 lines in C", source{"capi/a.c": "static void f(int a,\n\tint b)\n{" + strings.Repeat("\n", maxFunctionLines-2) + "}\n"}},
	{"c-layout", "a carriage return", source{"capi/a.c": "int a;\r\n"}},
	{"c-layout", "a blank at the end", source{"capi/a.h": "int a; \n"}},
	{"c-layout", "indentation by blanks", source{"capi/testdata/a.c": "struct a {\n  int b;\n};\n"}},
	{"c-layout", "blanks before a tab", source{"capi/a.c": "struct a {\n\t  \tint b;\n};\n"}},
	{"c-layout", "a comment of the other dialect", source{"capi/a.c": "int a; /* b */\n"}},
	{"c-layout", "a brace in the head of a function", source{"capi/a.c": "int f(void) {\n\treturn 1;\n}\n"}},
	{"c-includes", "a header of the system first", source{"capi/a.c": "#include <a.h>\n\n#include \"b.h\"\n"}},
	{"c-dialect", "another dialect", source{"capi/a_test.go": "package capi\nvar args = []string{\"-O1\", \"-std=c99\"}"}},
	{"c-dialect", "a copy of the dialect, in a command line", source{"bench/a.go": "package main\nconst cc = `gcc " + libraries.Dialect + " -O2`"}},
	{"c-dialect", "cgo in the compiler's dialect", source{
		"capi/engine/a.go":    "package main\n// #cgo LDFLAGS: -lm\nimport \"C\"",
		"capi/engine/table.c": "int a;\n",
	}},
	{"c-locks", "a lock without a rank", source{"capi/libibverbs/a.c": "void f(void)\n{\n\tpthread_mutex_lock(&m);\n}\n"}},
	{"c-locks", "a lock for writing without a rank", source{"capi/libibverbs/a.c": "void f(void)\n{\n\tpthread_rwlock_trywrlock(&m);\n}\n"}},
	{"c-sleep", "a sleep", source{"capi/test/program/a.c": "void f(void)\n{\n\tif (a)\n\t\tusleep(1000);\n}\n"}},
	{"c-sleep", "a loop that counts", source{"capi/test/cm/a.c": "void f(void)\n{\n\tfor (int i = 0; i < 50; i++) {\n\t\tsleep(1);\n\t}\n}\n"}},
	{"c-sleep", "a loop without an end", source{"internal/ring/cpeer/a.c": "void f(void)\n{\n\twhile (true)\n\t\tnanosleep(&t, NULL);\n}\n"}},
	{"c-sleep", "a sleep after a loop", source{"capi/test/a.c": "void f(void)\n{\n\twhile (!done)\n\t\tsched_yield();\n\tclock_nanosleep(0, 0, &t, NULL);\n}\n"}},
	{"c-sleep", "a poll without descriptors", source{"capi/preload/check/testdata/a.c": "void f(void)\n{\n\tmust(poll(NULL, 0, 100) == 0);\n}\n"}},
	{"test-sleep", "a sleeping test", source{"ib/a_test.go": "package ib\nimport \"time\"\nfunc f() { time.Sleep(1) }"}},
	{"bounds", "a bound that no test reaches", source{"internal/ring/a.go": "package ring\nconst maxThings = 7"}},
	{"bounds", "a bound whose test has gone", source{"internal/device/a.go": "package device\nconst MaxEvents = 4096"}},
	{"bounds", "rows for bounds that have gone", source{"internal/rules/bounds.go": "package rules"}},
	{"locks", "a mutex without a rank", source{"internal/qp/a.go": "package qp\nimport \"sync\"\ntype q struct{ mu sync.Mutex }"}},
	{"locks", "a local mutex without a rank, in the engine of programs in C", source{"capi/engine/a.go": "package main\nimport s \"sync\"\nfunc f() { var mu s.RWMutex }"}},
	{"test-skip", "a skipped test", source{"ib/a_test.go": "package ib\nimport \"testing\"\nfunc TestX(t *testing.T) {\n\n\tt.Skip()\n}"}},
}

// imports returns the head of a source of package verbs that imports an internal
// package.
func imports(pkg string) string {
	return "package verbs\nimport \"example.com/m/internal/" + pkg + "\"\n"
}

// TestRejects shows for every rule sources that it rejects, once each.
func TestRejects(t *testing.T) {
	rules := map[string]Rule{}
	cases := map[string]int{}
	for _, r := range All() {
		rules[r.Name] = r
	}
	for _, c := range rejected {
		cases[c.rule]++
		t.Run(fmt.Sprintf("%s: %s", c.rule, c.why), func(t *testing.T) {
			if vs := rules[c.rule].Check(load(t, c.src)); len(vs) != 1 || vs[0].Rule != c.rule {
				t.Errorf("want one violation of %s, got %v", c.rule, vs)
			}
		})
	}
	for name := range rules {
		if cases[name] == 0 {
			t.Errorf("rule %s has no source that it rejects", name)
		}
	}
}

// accepted are sources near the border that break no rule.
var accepted = []struct {
	why string
	src source
}{
	{"a neighbour's field, and what all share", source{
		"internal/qp/doc.go": "// Package qp is it.\npackage qp",
		"internal/qp/a.go":   strings.Replace(parts, "type Env", "// Env is it.\ntype Env", 1) + "func (r *req) f() { _, _ = r.comp.early, r.end.env.n }",
	}},
	{"a table with look-ups, a sentinel and an interface check", source{
		"ib/doc.go": "// Package ib is it.\npackage ib",
		"ib/a.go": `package ib
import ("errors"; "fmt")
var errGone = errors.New("gone")
var table = [...]struct{ n int }{{1}}
var squares = build()
var _ fmt.Stringer = (*t)(nil)
type t struct{}
func (t) String() string { n := table[0].n; n++; return names(table[:]) }
func names(x any) string { return "" }
func look(i int) any { return &table[i] }
func build() (s [4]int) { for i := range s { s[i] = i * i }; return s }
type tab [4]int
func (t *tab) at(i int) int { return t[i] }
var squared = tab{0, 1}
func last() int { return squared.at(3) }
func local() int { p := &squared[1]; p = &squared[2]; return *p }
func whole() int { p := &squared; return p[1] }
func shadow() { var table [1]int; table[0] = 2; table := &table; table[0]++ }
`}},
	{"files that the compiler embeds", source{
		"verbs/doc.go": "// Package verbs is it.\npackage verbs",
		"verbs/a.go": `package verbs
import _ "embed"
// one is a file.
//
//go:embed one.txt
var one string
var (
	//go:embed two.txt
	two []byte
)
func f() string { return one + string(two) }
`,
	}},
	{"mutexes with a rank, in a program and in a test", source{
		"verbs/doc.go":      "// Package verbs is it.\npackage verbs",
		"verbs/a.go":        "package verbs\nimport (\"sync\"; \"example.com/m/internal/lock\")\ntype t struct{ mu lock.Mutex[lock.Shard]; all sync.WaitGroup }",
		"verbs/a_test.go":   "package verbs\nimport \"sync\"\nfunc f() { var mu sync.Mutex }",
		"capi/check/doc.go": "// Command check is it.\npackage main",
		"capi/check/a.go":   "package main\nimport \"sync\"\ntype t struct{ mu sync.Mutex }",
	}},
	{"cgo in a tool", source{
		"internal/ring/cpeer/doc.go": "// Package cpeer is it.\npackage cpeer",
		"internal/ring/cpeer/a.go":   "package cpeer\nimport \"C\"",
	}},
	{"durations and seeded sources in the engine", source{
		"roce/doc.go": "// Package roce is it.\npackage roce",
		"roce/a.go": `package roce
import ("math/rand/v2"; "net/netip"; "time")
const wait = 3 * time.Second
func f(a netip.Addr) *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }
`}},
	{"timers in the port that lives in the process", source{
		"internal/fabric/pipe/doc.go": "// Package pipe is it.\npackage pipe",
		"internal/fabric/pipe/a.go":   "package pipe\nimport \"time\"\nfunc f() { time.NewTimer(1).Stop() }",
	}},
	{"a command with parts, and a skip that says why", source{
		"cmd/softhca/doc.go":      "// Command softhca is it.\npackage main",
		"cmd/softhca/a.go":        "package main\nimport _ \"example.com/m/cmd/softhca/demo\"\nimport _ \"github.com/spf13/cobra\"",
		"cmd/softhca/demo/doc.go": "// Package demo is it.\npackage demo",
		"cmd/softhca/a_test.go":   "package main\nimport \"testing\"\nfunc TestX(t *testing.T) {\n\t// Needs a second machine.\n\tt.Skip()\n}",
	}},
	{"a door that nobody sees, and errors that say what they are", source{
		"verbs/doc.go": "// Package verbs is it, by IBA C9-105.\npackage verbs\n// Reading order: a.go.",
		"verbs/a.go": imports("clock") + `
type door = clock.Door
// T is it.
type T struct { door; at clock.Instant }
// Err is it.
const Err Failure = 1
// Failure is it.
type Failure int
func (*T) hidden(clock.Instant) {}
// F is it.
func F() error { return clock.Err } // E8
`,
		"internal/clock/doc.go": "// Package clock is it.\npackage clock",
		"internal/clock/a.go":   "package clock\nimport \"errors\"\n// Err is it.\nvar Err = errors.New(\"gone\")\n// Door is it.\ntype Door struct{ at Instant }\nfunc (Door) open() {}\n// Instant is it (E8).\ntype Instant int",
	}},
	{"C in the style of the house", source{
		"capi/test/a.c": "// Comments, \"strings\" and sleep(1).\n#include \"a.h\"\n\n#include <b.h>\n\nstatic const char *all[] = {\"/*\", \"sleep(\"};\n\n" +
			"void f(void)\n{\n\twhile (!a(0) &&\n\t       !b)\n\t\tusleep(1000);\n\tdo {\n\t\tpoll(NULL, 0, 1);\n\t} while (!c);\n" +
			"\tfor (int d = 0; !d;) {\n\n\t\td = e->sleep(1);\n\t\tnanosleep(&t, NULL);\n\t}\n" + strings.Repeat("\tg();\n", maxFunctionLines-14) + "}\n",
		"capi/libibverbs/a.c": "void f(void)\n{\n\tsleep(1);\n}\n",
	}},
	{"cgo in the one dialect", source{
		"capi/engine/doc.go":  "// Command engine is it.\npackage main",
		"capi/engine/a.go":    "package main\n// #cgo CFLAGS: " + libraries.Dialect + "\n// #include \"a.h\"\nimport \"C\"",
		"capi/engine/table.c": "int a;\n",
	}},
	{"generated code of any size", source{
		"ib/doc.go":        "// Package ib is it.\npackage ib",
		"ib/gen.go":        "// Code generated by hand. DO NOT EDIT.\n\npackage ib\nfunc F() {}\n" + strings.Repeat("\n", 900),
		"ib/testdata/x.go": "not Go at all",
	}},
}

func TestAccepts(t *testing.T) {
	for _, c := range accepted {
		t.Run(c.why, func(t *testing.T) {
			m := load(t, c.src)
			for _, r := range All() {
				for _, v := range r.Check(m) {
					t.Error(v)
				}
			}
		})
	}
}

func TestEnginePackages(t *testing.T) {
	m := load(t, source{
		"ib/a.go":                   "package ib",
		"internal/fabric/udp/a.go":  "package udp",
		"internal/fabric/pipe/a.go": "package pipe",
		"verbs/a.go":                "package verbs",
		"mad/a_test.go":             "package mad",
	})
	got := strings.Join(m.EnginePackages(), " ")
	if want := "example.com/m/ib example.com/m/internal/fabric/pipe"; got != want {
		t.Errorf("packages that must build everywhere: got %q, want %q", got, want)
	}
}

func TestLoadErrors(t *testing.T) {
	for name, fsys := range map[string]fstest.MapFS{
		"no go.mod":      {},
		"no module line": {"go.mod": {Data: []byte("go 1.26\n")}},
		"bad source":     {"go.mod": {Data: []byte("module m\n")}, "a.go": {Data: []byte("pack age")}},
	} {
		if _, err := Load(fsys); err == nil {
			t.Errorf("%s: loaded without an error", name)
		}
	}
}

package rules

import (
	"go/ast"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/softhca/softhca/internal/libraries"
)

// CFile is one source or header in C.
type CFile struct {
	Name  string   // slash-separated path below the module
	Lines []string // without line feeds; the first is Lines[0]
	file  *token.File
}

// readC reads a file in C.
func (m *Module) readC(fsys fs.FS, name string) error {
	src, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	f := &CFile{Name: name, Lines: strings.Split(strings.TrimSuffix(string(src), "\n"), "\n"), file: m.Fset.AddFile(name, -1, len(src))}
	f.file.SetLinesForContent(src)
	m.C = append(m.C, f)
	return nil
}

// pos returns the position of a line, counted from 0.
func (f *CFile) pos(line int) token.Pos { return f.file.LineStart(line + 1) }

// literal matches strings and characters, with escapes, and comments to the end of the line.
var literal = regexp.MustCompile(`"(\\.|[^"\\])*"|'(\\.|[^'\\])*'|//.*`)

// code returns a line without comments and without the text of strings.
func (f *CFile) code(line int) string { return literal.ReplaceAllString(f.Lines[line], "") }

// eachFunc calls do with the first and the last line of each function, whose braces are in
// column 0.
func (f *CFile) eachFunc(do func(from, to int)) {
	from := -1
	for i, l := range f.Lines {
		switch {
		case l == "{":
			for from = i; from > 0 && head.MatchString(f.Lines[from-1]); from-- {
			}
		case strings.HasPrefix(l, "}") && from >= 0:
			do(from, i)
			from = -1
		}
	}
}

// head matches the lines of which the head of a function consists.
var head = regexp.MustCompile(`^\s*[^\s/#}]`)

// layout are patterns that no line matches.
var layout = []struct {
	code bool // without comments and strings
	bad  *regexp.Regexp
	why  string
}{
	{false, regexp.MustCompile(`[ \t\r]$`), "blanks at the end of the line"},
	{false, regexp.MustCompile(`^\t* +\t|^ `), "indentation by blanks instead of tabs"},
	{true, regexp.MustCompile(`/\*`), "a comment in /* */ instead of //"},
	{true, regexp.MustCompile(`^[^\s#].*\) \{$`), "the brace of a function outside column 0"},
}

func checkCLayout(m *Module, report reporter) {
	for _, f := range m.C {
		for i, text := range f.Lines {
			for _, l := range layout {
				if l.code && l.bad.MatchString(f.code(i)) || !l.code && l.bad.MatchString(text) {
					report(f.pos(i), "%s", l.why)
				}
			}
		}
	}
}

// checkCIncludes requires that a file includes the headers of this module before those of the
// system: then each of them includes what it needs.
func checkCIncludes(m *Module, report reporter) {
	for _, f := range m.C {
		system := false
		for i, l := range f.Lines {
			system = system || strings.HasPrefix(l, "#include <")
			if system && strings.HasPrefix(l, "#include \"") {
				report(f.pos(i), "a header of this module after those of the system")
			}
		}
	}
}

// dialect matches a compiler's option that chooses the dialect of C.
var dialect = regexp.MustCompile(`(^|\s)-std=\S*`)

// checkCDialect requires that all files in C are compiled in one dialect: tests and tools use
// the constant of internal/libraries, and packages with cgo have a directive with its value.
func checkCDialect(m *Module, report reporter) {
	for _, p := range m.Packages {
		inC := slices.ContainsFunc(m.C, func(f *CFile) bool { return path.Dir(f.Name) == p.Path })
		var cgo *ast.ImportSpec
		for _, f := range p.Files {
			if i := slices.IndexFunc(f.AST.Imports, func(s *ast.ImportSpec) bool { return importPath(s) == "C" }); i >= 0 {
				cgo = f.AST.Imports[i]
			}
			ast.Inspect(f.AST, func(n ast.Node) bool {
				if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING && p.Path != "internal/libraries" && dialect.MatchString(strings.Trim(text.Value, "\"`")) {
					report(text.Pos(), "a dialect of C instead of libraries.Dialect")
				}
				return true
			})
		}
		if inC && cgo != nil && !p.hasDirective("#cgo CFLAGS: "+libraries.Dialect) {
			report(cgo.Pos(), "package %s has no directive #cgo CFLAGS: %s", p.Path, libraries.Dialect)
		}
	}
}

// hasDirective reports whether a comment of a package has a line.
func (p *Package) hasDirective(line string) bool {
	for _, f := range p.Files {
		for _, g := range f.AST.Comments {
			if slices.Contains(strings.Split(g.Text(), "\n"), line) {
				return true
			}
		}
	}
	return false
}

// cTests are the trees with C programs and threads that test something.
var cTests = []string{"capi/test", "capi/preload/check", "internal/ring/cpeer"}

// cSleeps matches calls that let time pass.
var cSleeps = regexp.MustCompile(`(^|[^\w.>])(u|nano|clock_nano)?sleep\(|\bp?poll\(NULL,|\bp?select\(0,`)

// checkCSleep rejects calls of test programs in C that let time pass, unless they repeat until a
// condition holds: a loaded machine may need longer for what the program waits for.
func checkCSleep(m *Module, report reporter) {
	for _, f := range m.C {
		for _, tree := range cTests {
			for i := range f.Lines {
				if inTree(path.Dir(f.Name), tree) && cSleeps.MatchString(f.code(i)) && !f.repeats(i) {
					report(f.pos(i), "a sleep in a test that no condition ends")
				}
			}
		}
	}
}

// repeats reports whether a line is in a loop with a condition. A loop that counts has none.
func (f *CFile) repeats(line int) bool {
	indent := len(f.Lines[line])
	for ; line >= 0 && indent > 0; line-- {
		l := f.code(line)
		text := strings.TrimLeft(l, "\t ")
		if text == "" || len(l)-len(text) >= indent {
			continue
		}
		indent = len(l) - len(text)
		if loop.MatchString(text) && !forever.MatchString(text) {
			return true
		}
	}
	return false
}

var (
	loop    = regexp.MustCompile(`^(while \(|do \{|for \([^;]*; *[^; ][^;]*; *\))`)
	forever = regexp.MustCompile(`^while \((1|true)\)`)
)

// The calls that take locks of the system, and the files that may call them because they give locks
// ranks.
var (
	cLocks  = regexp.MustCompile(`\bpthread_(mutex_(try)?lock|spin_(try)?lock|rwlock_(try)?(rd|wr)lock)\(`)
	cRanked = []string{"capi/libibverbs/lock.h", "capi/libibverbs/ucm.c"}
)

// checkCLocks requires that the locks of libibverbs have a rank.
func checkCLocks(m *Module, report reporter) {
	for _, f := range m.C {
		for i := range f.Lines {
			if path.Dir(f.Name) == "capi/libibverbs" && !slices.Contains(cRanked, f.Name) && cLocks.MatchString(f.code(i)) {
				report(f.pos(i), "a lock without a rank; use mutex_lock or spin_lock of lock.h")
			}
		}
	}
}

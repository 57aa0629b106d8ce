//go:build mutation

package mutation

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cUnit is a function of a C file, a variable with its initial value, or a macro.
type cUnit struct {
	name     string
	from, to int // in the text of the file: of a body with its braces, of what follows the name of a macro
}

// cUnits finds the units of a C file. It knows comments, strings, directives and braces,
// and nothing else of C: a brace at the outermost level begins a body after a closing
// parenthesis, an initial value after an equals sign, and anything else otherwise.
func cUnits(text []byte) (all []cUnit) {
	code := bytes.Clone(text) // with blanks for what is no code
	depth, from := 0, 0
	for i := 0; i < len(code); {
		end := i + 1
		switch {
		case code[i] == '#' && isBlank(lineBefore(code, i)):
			end = directiveEnd(code, i)
			all = append(all, macroOf(code[i:end], i)...)
			blank(code[i:end])
		case bytes.HasPrefix(code[i:], []byte("//")):
			end = lineEnd(code, i)
			blank(code[i:end])
		case code[i] == '"' || code[i] == '\'':
			end = literalEnd(code, i)
			blank(code[i:end])
		case code[i] == '{':
			if depth++; depth == 1 {
				from = i
			}
		case code[i] == '}':
			if depth--; depth == 0 {
				if name := nameBefore(code[:from]); name != "" {
					all = append(all, cUnit{name, from, end})
				}
			}
		}
		i = end
	}
	return all
}

func isBlank(b []byte) bool { return len(bytes.TrimSpace(b)) == 0 }

func lineBefore(code []byte, i int) []byte { return code[bytes.LastIndexByte(code[:i], '\n')+1 : i] }

// lineEnd returns where the line after that of i begins.
func lineEnd(code []byte, i int) int {
	if n := bytes.IndexByte(code[i:], '\n'); n >= 0 {
		return i + n + 1
	}
	return len(code)
}

func blank(b []byte) {
	for i := range b {
		if b[i] != '\n' {
			b[i] = ' '
		}
	}
}

// directiveEnd returns where the directive at i ends: at a line that no backslash continues.
func directiveEnd(code []byte, i int) int {
	for {
		if i = lineEnd(code, i); i == len(code) || !bytes.HasSuffix(code[:i-1], []byte(`\`)) {
			return i
		}
	}
}

func literalEnd(code []byte, i int) int {
	quote := code[i]
	for i++; i < len(code); i++ {
		switch code[i] {
		case '\\':
			i++
		case quote:
			return i + 1
		}
	}
	return len(code)
}

func isName(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// macroOf returns the macro that a directive at an offset defines.
func macroOf(directive []byte, at int) []cUnit {
	rest, ok := bytes.CutPrefix(directive, []byte("#define "))
	n := bytes.IndexFunc(rest, func(r rune) bool { return r > 127 || !isName(byte(r)) })
	if !ok || n <= 0 {
		return nil
	}
	end := at + len(directive)
	return []cUnit{{string(rest[:n]), end - len(rest) + n, end}}
}

// nameBefore returns the name of the function or variable whose declaration ends the
// code, empty if it ends otherwise. A function that a macro declares, whose name is in
// capitals, has the name that is the second argument: VERB(int, ibv_modify_qp, ...).
func nameBefore(code []byte) string {
	code = bytes.TrimSpace(code)
	var arguments []byte
	switch {
	case bytes.HasSuffix(code, []byte(")")):
		before := beforePair(code, '(', ')')
		code, arguments = before, code[len(before):]
	case bytes.HasSuffix(code, []byte("=")):
		for code = bytes.TrimSpace(code[:len(code)-1]); bytes.HasSuffix(code, []byte("]")); {
			code = beforePair(code, '[', ']')
		}
	default:
		return ""
	}
	n := len(code)
	for n > 0 && isName(code[n-1]) {
		n--
	}
	name := string(code[n:])
	if parts := bytes.Split(arguments, []byte(",")); len(parts) > 2 && name == strings.ToUpper(name) {
		return string(bytes.TrimSpace(parts[1]))
	}
	return name
}

// beforePair returns what is in front of the pair of brackets that ends the code.
func beforePair(code []byte, open, closing byte) []byte {
	depth := 0
	for i := len(code) - 1; i >= 0; i-- {
		switch code[i] {
		case closing:
			depth++
		case open:
			if depth--; depth == 0 {
				return bytes.TrimSpace(code[:i])
			}
		}
	}
	return nil
}

// unitsOf finds the units of a file in C or Go.
func unitsOf(file string, text []byte) []cUnit {
	if filepath.Ext(file) != ".go" {
		return cUnits(text)
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	var all []cUnit
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			all = append(all, cUnit{fn.Name.Name, fset.Position(fn.Body.Pos()).Offset, fset.Position(fn.Body.End()).Offset})
		}
	}
	return all
}

// cMutant is a bug in C, or in the engine, on one line.
type cMutant struct {
	name string // what is wrong, in a few words with hyphens
	in   string // the file and its function, variable or macro: capi/libibverbs/post.c:put_inline
	old  string // text that is found there once
	new  string // and is replaced by this; if empty, it is deleted
	sees string // what a program sees of it
}

// cBugsIn returns mutants of a file that were given without it: it completes their places.
func cBugsIn(file string, bugs []cMutant) []cMutant {
	for i := range bugs {
		bugs[i].in = file + ":" + bugs[i].in
	}
	return bugs
}

// file returns the path of the file that the mutant changes.
func (m *cMutant) file() string {
	file, _, _ := strings.Cut(m.in, ":")
	return file
}

// edit returns the changed text of the mutant's file in the tree below root.
func (m *cMutant) edit(root string) ([]byte, error) {
	file, name, ok := strings.Cut(m.in, ":")
	if !ok || m.old == "" || strings.Contains(m.old+m.new, "\n") {
		return nil, fmt.Errorf("%s: want FILE:NAME, and one line to change", m.in)
	}
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return nil, err
	}
	var here, elsewhere []cUnit
	for _, u := range unitsOf(file, text) {
		switch {
		case u.name == name:
			here = append(here, u)
		case bytes.Contains(text[u.from:u.to], []byte(m.old)):
			elsewhere = append(elsewhere, u)
		}
	}
	if len(here) != 1 {
		return nil, fmt.Errorf("%s has %d definitions of %s, want one; %s", file, len(here), name, namesOf(elsewhere))
	}
	u := here[0]
	if n := bytes.Count(text[u.from:u.to], []byte(m.old)); n != 1 {
		return nil, fmt.Errorf("%s has what the mutant changes %d times, want once: %s\n%s; or find what does this now and bring the mutant up to date",
			m.in, n, m.old, namesOf(elsewhere))
	}
	if m.old == m.new {
		return nil, fmt.Errorf("%s: nothing changes", m.in)
	}
	at := u.from + bytes.Index(text[u.from:u.to], []byte(m.old))
	return slices.Concat(text[:at], []byte(m.new), text[at+len(m.old):]), nil
}

// namesOf returns the other places of a mutant's text in a file.
func namesOf(units []cUnit) string {
	if len(units) == 0 {
		return "it is nowhere else in the file"
	}
	var names []string
	for _, u := range units {
		names = append(names, u.name)
	}
	return "it is in " + strings.Join(names, ", ") + ": name that"
}

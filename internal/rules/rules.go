package rules

import (
	"cmp"
	"fmt"
	"go/token"
	"slices"
	"strings"
)

// Violation is one place that breaks a rule.
type Violation struct {
	Rule string // name of the rule
	Pos  token.Position
	Text string // what is wrong there
}

// String returns the violation as "file:line: rule: text".
func (v Violation) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", v.Pos.Filename, v.Pos.Line, v.Rule, v.Text)
}

// Rule is a check of a whole module.
type Rule struct {
	Name  string
	check func(m *Module, report reporter)
}

// reporter takes a violation at a position; the text is formatted as by
// fmt.Sprintf.
type reporter func(pos token.Pos, format string, args ...any)

var all = [...]Rule{
	{"table", checkTable},
	{"imports", checkImports},
	{"dependencies", checkDependencies},
	{"engine-imports", checkEngineImports},
	{"engine-calls", checkEngineCalls},
	{"environment", checkEnvironment},
	{"init", checkInit},
	{"globals", checkGlobals},
	{"reach", checkReach},
	{"file-lines", checkFileLines},
	{"function-lines", checkFunctionLines},
	{"parameters", checkParameters},
	{"methods", checkMethods},
	{"package-name", checkPackageName},
	{"doc-file", checkDocFile},
	{"documented", checkDocumented},
	{"public-types", checkPublicTypes},
	{"public-docs", checkPublicDocs},
	{"public-aliases", checkPublicAliases},
	{"c-layout", checkCLayout},
	{"c-includes", checkCIncludes},
	{"c-dialect", checkCDialect},
	{"c-sleep", checkCSleep},
	{"c-locks", checkCLocks},
	{"test-sleep", checkTestSleep},
	{"test-skip", checkTestSkip},
	{"bounds", checkBounds},
	{"locks", checkLocks},
}

// All returns every rule.
func All() []Rule { return all[:] }

// Check applies the rule to m and returns its violations by position.
func (r Rule) Check(m *Module) []Violation {
	var vs []Violation
	r.check(m, func(pos token.Pos, format string, args ...any) {
		vs = append(vs, Violation{r.Name, m.Fset.Position(pos), fmt.Sprintf(format, args...)})
	})
	slices.SortStableFunc(vs, func(a, b Violation) int {
		return cmp.Or(strings.Compare(a.Pos.Filename, b.Pos.Filename), a.Pos.Line-b.Pos.Line)
	})
	return vs
}

// Package pattern finds a piece of Go code by the shape of its syntax tree and
// replaces it.
//
// A pattern is Go with variables. $x stands for any expression or statement,
// the same at every occurrence; $_ stands for anything each time; $*xs stands
// for any run of statements, arguments or elements. Formatting, comments and
// parentheses do not matter. So
//
//	$r.retries--
//
// is found in r.retries-- and in q.req.retries-- alike. A pattern is an
// expression, a run of statements (or of the clauses of a switch), or a run of
// the elements of a composite literal, such as the row of a table. The
// replacement has the same form, may use the variables, and may be empty unless
// the pattern is an expression that is not a statement or an element.
//
// Read pattern.go (forms and parsing), match.go (finding), copy.go (replacing).
// The package changes no tree that it is given.
package pattern

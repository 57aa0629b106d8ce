// Package pattern finds a piece of Go by the shape of its syntax tree and
// puts another in its place.
//
// A pattern is Go with variables. $x stands for any expression or statement
// and is the same wherever it stands again; $_ stands for anything each time;
// $*xs stands for any run of statements, arguments or elements. Formatting,
// comments and parentheses do not matter. So
//
//	$r.retries--
//
// is found in r.retries-- and in q.req.retries-- alike. A pattern is an
// expression, a run of statements (or of the clauses of a switch), or a run of
// the elements of a composite literal, such as the row of a table. What stands
// in its place is of the same form, may use the variables, and may be empty
// unless the pattern is an expression that is not a statement or an element.
//
// Read pattern.go (forms and parsing), match.go (finding), copy.go (replacing).
// The package changes no tree that it is given.
package pattern

// Package findings has the table of the bugs of RDMA programs that "softhca run --check"
// finds: for each finding its name, level, title, rule, the source of the rule, and the fix.
//
// The library in C, the reports and the page docs/checks.md use this table; "go generate"
// writes the header and the page from it. The order of the table is that of the enum in C.
//
// Reading order: finding.go, errors.go, advice.go. The package does no I/O.
package findings

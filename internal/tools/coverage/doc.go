// Command coverage writes docs/coverage.md: for each requirement of
// docs/requirements.tsv the tests and scripts that prove it. A test proves
// what its name begins with, TestE8_E9_OneNAKPerGap proves E8 and E9; a
// script under a testdata directory (*.qp) proves what its "covers:" line
// names. A name that is not a requirement is an error, so that a slip of the
// pen does not count as missing proof.
//
// Usage:
//
//	go run ./internal/tools/coverage [-root DIR] [-check]
//
// With -check nothing is written; the exit code is 1 if the file is out of
// date.
package main

//go:generate go run . -root ../../..

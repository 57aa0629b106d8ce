// Command coverage writes docs/coverage.md: for each requirement of
// docs/requirements.tsv the tests and scripts that prove it, and for each
// completion status and asynchronous event of the verbs how it is provoked and
// what both sides see.
//
// A test proves what its name begins with: TestE8_E9_OneNAKPerGap proves E8
// and E9. A script under a testdata directory (*.qp) proves what the
// "# covers:" line of its header names; "# status:", "# event:",
// "# provoked:", "# requester:" and "# responder:" fill the other tables. What
// no script provokes is in docs/unprovable.tsv with the reason: kind, name,
// reason, with tabs between.
//
// The third column of the requirements is "done", "open", or "done with" what a
// machine must have for the proofs to run. It is an error
// when something done has no proof, when E1 to E30 or Q1 to Q24 have no
// script, when something open has a proof, when a name is no requirement, no
// status or no event, and when a status or an event has neither a script nor
// a reason.
//
// Usage:
//
//	go run ./internal/tools/coverage [-root DIR] [-check]
//	go run ./internal/tools/coverage [-root DIR] -results FILE
//
// With -check nothing is written; the exit code is 1 if the file is out of
// date. The file says nothing about passing: it is the same on every machine,
// so that a check can compare it. With -results, which takes the output of
// "go test -json ./...", the page is printed with pass or fail in place of
// "done", and the exit code is 1 unless every proof ran and passed, or was skipped
// because of what it needs; the gate does that after the tests, so what is
// committed as done did pass.
//
// Reading order: main.go, requirements.go, proofs.go and script.go (what is
// read), catalogue.go (statuses and events), results.go, table.go.
package main

//go:generate go run . -root ../../..

// Command coverage writes docs/coverage.md: for each requirement of
// docs/requirements.tsv the tests and scripts that prove it, and for each
// completion status and asynchronous event of the verbs how it is provoked and
// what both sides see.
//
// A test proves the requirements that its name begins with:
// TestE8_E9_OneNAKPerGap proves E8 and E9. A script under a testdata directory
// (*.qp) proves the requirements in the "# covers:" line of its header; "#
// status:", "# event:", "# provoked:", "# requester:" and "# responder:" fill
// the other tables. A status or event that no script provokes is in
// docs/unprovable.tsv with the reason: kind, name and reason, separated by
// tabs.
//
// The third column of the requirements is "done", "open", or "done with" and a
// feature that a machine must have for the proofs to run. It is an error when a
// done requirement has no proof, when E1 to E30 or Q1 to Q24 have no script,
// when an open requirement has a proof, when a name is no requirement, no
// status or no event, and when a status or an event has neither a script nor a
// reason.
//
// Usage:
//
//	go run ./internal/tools/coverage [-root DIR]
//	go run ./internal/tools/coverage [-root DIR] -results FILE
//
// The file says nothing about passing: it is the same on every machine, so that a
// check can compare it. With -results, which takes the output of "go test -json
// ./...", the page is printed with pass or fail in place of "done", and the exit
// code is 1 unless every proof ran and passed, or was skipped because the machine
// lacks its feature; the gate does that after the tests, so every requirement
// committed as done has passed.
//
// Reading order: main.go, requirements.go, proofs.go and script.go (input),
// catalogue.go (statuses and events), results.go, table.go.
package main

//go:generate go run . -root ../../..

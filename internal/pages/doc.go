// Package pages tests the hand-written documentation: its commands, links,
// programs and tables. It has no code but tests.
//
// The pages of completion statuses, asynchronous events and reasons of rejected
// connections (docs/statuses.md, events.md, rejects.md) have a section for each of
// them. The text between marks comes from tables, and is rewritten by
//
//	go test ./internal/pages -run TestFrames -rewrite
//
// The rest is hand-written. Pictures in it are drawn from scripts by
// internal/tools/ladder.
//
// The test runs blocks of the language "console" in the hand-written pages. A line
// that begins with "$ " is a shell command; with "&" at its end it runs in the
// background and is stopped after the last command. The lines below it must occur in
// its output, in that order, perhaps with others in between; … is any text. A line
// "(exit code N)" gives its exit code, if not 0. Each block gets its own loopback
// addresses in place of 127.0.0.1 and so on. A skipped block reports what the machine
// lacks.
//
// Programs of examples/ are shown completely in a page between marks, written by
// -rewrite, and the page's commands compile and run them.
//
// Reading order: section_test.go (a page in parts), frame_test.go (text from tables),
// listing_test.go (programs), link_test.go, console_test.go (a block, and what it
// must print), run_test.go.
package pages

// Package pages holds the documentation for people to what is true. It has no
// code but tests.
//
// The pages of completion statuses, asynchronous events and reasons of rejected
// connections (docs/statuses.md, events.md, rejects.md) have a section for each that
// there is. What tables know stands between marks, and is written anew by
//
//	go test ./internal/pages -run TestFrames -rewrite
//
// The rest is prose. Pictures in it are drawn from scripts by internal/tools/ladder.
//
// Blocks of the language "console" are run: in all pages that docs are for people.
// A line that begins with "$ " is a command of a shell; with "&" at its end it goes on
// beside the others and is stopped after the last. The lines below it must occur
// in what it prints, in that order, perhaps with others in between; … is any text. A
// line "(exit code N)" says how it ends, if not with 0. Each block has loopback
// addresses of its own in place of 127.0.0.1 and so on. What it needs and the
// machine lacks is told when it is skipped.
//
// Programs of examples/ stand whole in a page between marks, written by -rewrite, and
// the page's commands compile and run them.
//
// Reading order: section_test.go (a page in parts), frame_test.go (what tables know),
// listing_test.go (programs), link_test.go,
// console_test.go (a block, and what it must print), run_test.go.
package pages

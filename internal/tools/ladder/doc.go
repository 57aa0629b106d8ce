// Command ladder draws the diagrams in docs/*.md that come from protocol scripts:
// packets as arrows between the adapter and its peer, and between the arrows the
// adapter's other actions. So the diagrams show what the scripts prove.
//
// A page marks the place of a diagram and names the script of
// internal/script/testdata and its first and last line, each by its beginning:
//
//	<!-- ladder v18_suspension.qp "post a SEND id=1" "wc a 1 SUCCESS" -->
//	<!-- end of ladder -->
//
// The command rewrites the text between the two marks. It leaves out the
// script's counters and queries, and packet fields that are the same in all
// packets.
//
// Usage:
//
//	go run ./internal/tools/ladder [-root DIR]
//
// Reading order: main.go, page.go (marks and excerpts), diagram.go.
package main

//go:generate go run . -root ../../..

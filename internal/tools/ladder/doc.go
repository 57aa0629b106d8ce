// Command ladder draws the pictures in docs/*.md that come from protocol scripts:
// packets as arrows between the adapter and its peer, and between them what the
// adapter did. So they show what the scripts prove.
//
// A page says where a picture goes, and from which lines of which script of
// internal/script/testdata it is drawn, each named by its beginning:
//
//	<!-- ladder v18_suspension.qp "post a SEND id=1" "wc a 1 SUCCESS" -->
//	<!-- end of ladder -->
//
// What is between the two marks is written anew. Counters and queries of the
// script are left out, and of a packet's fields those that are the same in all.
//
// Usage:
//
//	go run ./internal/tools/ladder [-root DIR]
//
// Reading order: main.go, page.go (marks and excerpts), picture.go.
package main

//go:generate go run . -root ../../..

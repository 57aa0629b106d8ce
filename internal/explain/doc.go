// Package explain follows the packets of RoCEv2 connections and says what
// happened to them: which packets were lost, refused, late or damaged, what broke
// first, on which side to look, and which status each program will have seen.
//
// Reading order: follower.go (a packet in, a report out), keep.go
// (packets that the report keeps), copies.go (packets that were captured twice), conversation.go (which
// packets belong together), half.go (the requests of one side), answers.go (what
// the other side says to them), repeat.go (why a request comes again), span.go
// (which responses to a READ came), deferred.go (datagrams of RD that were put off), keys.go (what became of R_Keys), message.go
// (the messages one by one), ending.go (what is left at the end), news.go (what is told at once), datagram.go (UC and UD), connect.go (the connection
// manager), damage.go (wrong ICRCs and malformed packets), rule.go and rules.go
// (what can be found, as a table), report.go, verdict.go and text.go.
//
// The package never reports as lost what a capture merely does not show, never
// keeps payload, and needs memory for the connections alive only. What it is
// given may be damaged in any way.
package explain

// Package explain follows the packets of RoCEv2 connections and says what
// happened to them: which packets were lost, refused, late or damaged, what broke
// first, on which side to look, and which status each program will have seen.
//
// Reading order: follower.go (a packet in, a report out), keep.go (packets in the
// report), copies.go (packets captured twice), conversation.go and merge.go (which packets
// belong together), half.go (the requests of one side), answers.go (the answers of the other
// side), refusal.go (NAKs that end a connection, unless an answer refutes them), repeat.go (why
// a request is repeated), span.go (the responses to a READ), deferred.go (RD messages that were
// put off), keys.go (the use of R_Keys), message.go (the messages one by one), ending.go
// (requests that are open at the end), told.go and inside.go (the logs of adapters), news.go (reports while packets pass), several.go (several
// captures and their clocks), datagram.go (UC and UD), connect.go (the connection manager), damage.go (wrong ICRCs and malformed packets),
// rule.go and rules.go (the table of findings), report.go, verdict.go and text.go.
//
// The package never counts a packet as lost that is merely missing from the capture,
// never keeps payload, and needs memory only for open connections. Its input may be
// damaged in any way.
package explain

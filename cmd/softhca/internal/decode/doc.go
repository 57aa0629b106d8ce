// Package decode prints what is in captured RoCEv2 packets: a line of text or
// a JSON object for each, and counts at the end.
//
// Reading order: decode.go (a file, its packets, the counts), packet.go (what
// is told of one packet), message.go (of management datagrams and CM messages),
// line.go (its text), dump.go (its payload), filter.go (which packets).
//
// The package never keeps packets, and input of any kind gives counts or an
// error.
package decode

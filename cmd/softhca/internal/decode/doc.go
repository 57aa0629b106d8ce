// Package decode prints captured RoCEv2 packets: a line of text or a JSON object for
// each, and counts at the end.
//
// Reading order: decode.go (a file, its packets, the counts), packet.go (a packet in
// JSON), message.go (management datagrams and CM messages), line.go (a packet as
// text), dump.go (the payload), filter.go (the selection of packets).
//
// The package never keeps packets. For any input it returns counts or an error.
package decode

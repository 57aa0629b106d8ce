// Package packet is the last part of a packet's way out, which packets of queue
// pairs and management datagrams share: a place in the batch, headers, ICRC, the
// count and the record. What the headers say is the caller's.
//
// Everything is in writer.go.
package packet

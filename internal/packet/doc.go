// Package packet is the part of sending and receiving that packets of queue pairs
// and management datagrams share. The Writer gives a packet its place in the batch,
// headers and ICRC, and counts and traces it; its caller sets the header fields. The
// Verifier checks the ICRC of received packets. Packets that do not leave the memory of this host
// are bare: they have no ICRC, unless a port needs it, such as one that captures.
//
// Reading order: writer.go, verifier.go, seal.go.
package packet

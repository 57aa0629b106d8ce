// Package packet is the last step of sending, which packets of queue pairs and
// management datagrams share: a place in the batch, headers, ICRC, counting and
// tracing. The caller sets the header fields.
//
// Everything is in writer.go.
package packet

// Package headers reads the headers of a packet of which only the beginning
// is at hand: a trace record or a capture with a snap length. headers.go is
// all of it. It never judges the rest of the packet.
package headers

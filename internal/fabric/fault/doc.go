// Package fault makes the network behind a port worse: it loses and reorders
// arriving packets at random, repeatably from a seed.
//
// It wraps any port and works packet by packet, also where the system merged
// several into one datagram. It never changes a packet.
package fault

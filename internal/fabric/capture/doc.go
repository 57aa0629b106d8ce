// Package capture wraps a fabric.Port and writes every packet that passes it
// to a pcapng file, which Wireshark opens without settings.
//
// Reading order: port.go (the wrapper), frame.go (rebuilding packets), note.go (comments of
// packets), journal.go (the adapter's log between the packets).
//
// A port provides no link layer and usually no IP header, so both are rebuilt,
// with Ethernet addresses 02:00 and the last four bytes of the IP address
// (IPv4) or a hash of it (IPv6). The IPv4 identification is the one that fits
// the ICRC, so that programs that check ICRCs accept the packets: for a sent
// packet its index in its run, for a received one that which the port saw or
// derived from the ICRC.
//
// The package never changes a packet and never fails the port it wraps: an
// error of the file ends the capture only.
package capture

// Package capture wraps a fabric.Port and writes every packet that passes it
// to a pcapng file, which Wireshark opens without settings.
//
// Reading order: port.go (the wrapper), frame.go (the packets rebuilt).
//
// A port gives no link layer and, mostly, no IP header: both are rebuilt, with
// Ethernet addresses 02:00 and the last four bytes of the IP address (IPv4) or
// a hash of it (IPv6). The IPv4 identification is the one that the ICRC is
// right for: of a sent packet its index in its run, of a received one what the
// port saw or what the ICRC tells. So programs that check ICRCs agree.
//
// The package never changes a packet and never fails the port it wraps: an
// error of the file ends the capture only.
package capture

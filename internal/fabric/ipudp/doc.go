// Package ipudp writes and reads the IPv4, IPv6 and UDP headers around a
// packet: for the ports that see them, the privileged one and the capture, for
// the ICRC, which covers them, and for receivers of UD, who get the IP header.
//
// Reading order: header.go, checksum.go.
//
// The package knows no IPv4 options, no IPv6 extension headers and no
// fragments: RoCE packets have none (IBA annex A17).
package ipudp

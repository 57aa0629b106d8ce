// Package ipudp writes and reads the IPv4, IPv6 and UDP headers around a
// packet: for the privileged port and the capture, for the ICRC, which covers
// them, and for UD receives, which contain the IP header.
//
// Reading order: header.go, checksum.go.
//
// The package does not support IPv4 options, IPv6 extension headers and
// fragments, which RoCE packets do not have (IBA annex A17).
package ipudp

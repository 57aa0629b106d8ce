// Package sniff captures the RoCEv2 packets that a network interface sends and
// receives.
//
// Reading order: sniff_linux.go (the socket), cut.go (the unsegmented packets of an
// offloading sender), sniff_other.go.
//
// The package never sends, and reads only the IP and UDP headers of a packet. It is for
// Linux, and needs CAP_NET_RAW.
package sniff

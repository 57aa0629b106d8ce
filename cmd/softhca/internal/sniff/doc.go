// Package sniff hears the RoCEv2 packets that pass a network interface, sent and
// received, without being one of their ends.
//
// Reading order: sniff_linux.go (the socket), cut.go (what an offloading sender left
// whole), sniff_other.go.
//
// The package never sends, and looks at no more of a packet than IP and UDP. It is for
// Linux, and needs CAP_NET_RAW.
package sniff

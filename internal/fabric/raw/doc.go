// Package raw is the fabric.Port for privileged use on Linux (CAP_NET_RAW): it
// sees and writes IP headers. So the whole ICRC of IPv4 packets from any peer
// can be checked, and each path has its own UDP source port and IPv6 flow
// label.
//
// Reading order: config.go, port_linux.go, sockets_linux.go, filter_linux.go,
// group_linux.go, send_linux.go, receive_linux.go; port_other.go for other
// systems.
//
// Packets arrive through packet sockets on the interfaces that own the
// addresses, and on loopback for packets of the host to itself. They leave
// through raw IP sockets, so the kernel routes them and resolves neighbours.
// The kernel replaces identification 0, so packets are numbered from 1, as
// Linux does, and their ICRCs are updated. A UDP socket that receives nothing
// reserves port 4791; otherwise the kernel would answer every packet with "port
// unreachable".
//
// The package never starts a goroutine.
package raw

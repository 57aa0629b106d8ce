// Package raw is the fabric.Port for privileged use on Linux (CAP_NET_RAW): it
// sees and writes IP headers. So it checks the whole ICRC of IPv4 packets from
// any peer, and sends each path's own UDP source port and IPv6 flow label.
//
// Reading order: config.go, port_linux.go, sockets_linux.go, filter_linux.go,
// group_linux.go, send_linux.go, receive_linux.go; port_other.go for other
// systems.
//
// Packets arrive through packet sockets on the interfaces that own the
// addresses, and on loopback for what the host sends to itself. They leave
// through raw IP sockets, so the kernel routes them and resolves neighbours.
// The kernel puts an identification of its own where there is 0, so packets
// are numbered from 1, as Linux numbers them, and their ICRCs moved there. A
// UDP socket that hears nothing reserves port 4791, or the kernel would answer
// every packet with "port unreachable".
//
// The package never starts a goroutine.
package raw

// Package udp is the fabric.Port over the UDP sockets of the system. It needs
// no privilege.
//
// Reading order: config.go; on Linux port_linux.go,
// socket_linux.go, group_linux.go, send_linux.go, segments_linux.go,
// receive_linux.go, message_linux.go, control_linux.go, backlog_linux.go; on other systems
// port_other.go. steer_linux.go, lease_linux.go and forward.go are for addresses
// that processes share.
//
// On Linux every address has one nonblocking socket that is never connected:
// with path MTU discovery on, such a socket sends IPv4 identification 0, and 0,
// 1, 2 … in the segments of one offloaded send. The ICRC covers the
// identification, so the sender relies on that. Runs leave with sendmmsg and
// UDP_SEGMENT, datagrams arrive with recvmmsg and UDP_GRO, and neither
// direction allocates. Without segmentation offload in the kernel, runs are
// sent segment by segment.
//
// A multicast group has sockets of its own, bound to the group. Packets to a
// group leave by the interface of the source address; over IPv6, Linux sends no
// multicast on its loopback interface.
//
// A UDP socket does not report the identification of received packets, so an
// IPv4 port verifies with fabric.VerifyDerivedID: the identification is derived
// from the ICRC, and a damaged packet passes one time in 65536.
//
// Processes that share an address have one socket each, in a group (OpenGroup)
// with a BPF program that selects the socket by the destination QPN. Package
// internal/broker opens the group, gives each process its socket, and forwards
// packets for QP1, which all of them share.
//
// The package never connects a socket and never starts a goroutine on Linux.
package udp

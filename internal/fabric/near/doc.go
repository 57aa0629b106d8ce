// Package near carries packets between adapters of one user on one host through shared memory.
// A Port wraps the port of a network, usually UDP. Packets for a process that it has met go through
// a ring in shared memory (package ring), all others through the wrapped port. Nothing above the
// port notices: packets and their order are the same. Packets in a ring are bare, that is, without
// an ICRC, unless something above the port of either side needs it, such as a capture.
//
// # Copies
//
// Large packets are copied twice: the sender gathers them from its memory into the ring, the receiver
// copies them from there into its own. For that the port lends a batch room in the ring when a run
// begins, after the records and runs that go there before; Send only commits and publishes the
// record. Small packets, and those for which the ring has no room at that time, are built in the
// batch's own memory, and Send copies them. It then also copies later packets of the batch to this peer.
//
// # Meeting
//
// A process is known by an address and a slot, the upper byte of its QPNs. A port that sends to an
// address for the first time invites the process there (package meeting), in a goroutine of its own.
// Until the two have met, and if nobody answers, packets take the wrapped port; a process that does not
// answer is invited again after a pause, which doubles. The port refuses a process
// whose address is not one of this host, or that its owner does not permit, before it offers a ring.
//
// The source address, the slot and the UDP ports of arriving packets are those of the meeting,
// never those of a record.
//
// # Order
//
// Receive reads the wrapped port before the rings, but returns what is in the rings first. So a
// packet in a ring goes before each packet that its sender sends later by the network, such as a
// message of the connection manager. When two processes have met, the packets in the network go
// first: a new ring is read once the wrapped port was found empty. What the kernel still holds
// back at that time arrives out of order, as on a network with several paths.
//
// # Forged packets
//
// Any process of the host can send packets from its addresses to the network. So a process announces
// in its ring that it switches to it; from then on, and until it ends the ring, it sends to the network only
// packets for QP1 and multicast groups. Datagrams that arrive from the network meanwhile carry the
// slots at their source address that have switched (Datagram.Barred), and the queue pair that knows
// the slot of the sender refuses them. This begins settleTime after the switch, and once the wrapped
// port was found empty, since what was sent before it may still be on its way.
//
// # Waiting
//
// A thread that waits first arms all rings. A sender that finds a ring armed sends one byte on the
// Unix socket of the pair, which ends the wait; a sender to a polling process makes no system
// call.
//
// # What ends a meeting
//
// The socket of the two ends, since the peer has ended or left; the peer writes garbage into its
// memory; or another process needs the place, and to this one nothing was sent for the longest
// time. What is in the ring is still received, and later packets take the network. A full ring
// makes the port wait, for fullTime at most, and then loses packets, as the buffer of a socket does.
//
// # Systems
//
// A Port knows the operating system only as a System. Wrap gives it that of this process; the
// simulator gives it one in virtual time.
//
// Reading order: port.go, lend.go, send.go, receive.go, peer.go, meet.go, forged.go, count.go, system.go,
// kernel_linux.go, watch_linux.go, pairs_linux.go.
package near

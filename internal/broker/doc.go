// Package broker lets processes of one user share an address. One process, the
// broker, opens the sockets and hands them out; data never passes through it.
//
// # Sockets and slots
//
// The broker opens a group of sockets for each address (udp.OpenGroup): one for QP1,
// and one for each slot, which is the upper byte of a QPN. Slot 0 belongs to the first
// process, if that is the broker itself; no other process gets it. The kernel steers
// packets by the position of a socket in its group, and closing a socket would change
// the positions of others. So no socket of a group is ever closed: in addition to the
// socket of its slot, each member has the store, a Unix socket in whose queue lies an
// unread message with all sockets of the groups. The groups exist as long as one member
// does. The message also contains the ledger: memory with the connections of all
// members, and with locks that show which slots are held by a process.
//
// The broker receives the packets for QP1. It checks them like any adapter, and forwards
// a message of the connection manager to the member that listens to the service, or
// whose slot is the upper byte of the communication ID. It answers other messages like an
// adapter without listeners and connections; a request for a service without a listener
// first waits for a moment (early.go). Members send their own MADs from their own
// sockets.
//
// # Which process is the broker
//
// The broker is either a separate process (Open), or one of the members, the host. A
// process that opens an address (Enter) asks the broker there for a slot. Without a
// broker, it takes the broker's name and the address for itself, alone: it has only the
// first socket of a group, and no store. When another process joins, the host creates the
// group around this socket, registers its own services and connections, and becomes a
// member. When the host ends, the first member to take the name is the next host, with
// the store that it has.
//
// # The protocol
//
// The protocol runs over Unix sockets that preserve message boundaries (SOCK_SEQPACKET).
// Their names are in the abstract name space: one for each address and network namespace,
// independent of directories. A message is a JSON object of at most maxMessage bytes. Each
// side gets the user of the other from the kernel, and refuses other users.
//
//	join     version, addresses, program; with the descriptor of the process's
//	         queue. A returning member adds its slot, and the store
//	welcome  version, slot, node GUID; with the sockets of the slot in the order
//	         of the addresses, the store, and the lock of the slot, unless the
//	         member has them
//	refused  the reason
//	claim    a sequence number, 0 for no answer, and the service ID to listen to
//	claimed  the sequence number, and an errno; 0: the member has the service
//	release  the service ID
//	ready    a returning member has claimed its services again
//	leave    the member ends, and has answered all DREQs of its peers
//	who      a process that is not a member asks for the members
//	members  the answer
//
// # Failures
//
// A member ends: the kernel closes its connection or, if a child still has it open,
// reports that the process has ended. The broker releases the services, and disconnects
// the peers (DREQ; REJ to those whose request was not answered; DREP to those that have
// sent a DREQ). It drains the sockets and appends the slot to the free slots. No process
// gets the slot while a child holds it.
//
// The broker ends: the members' packets still flow. Packets for QP1 wait in its socket,
// which is in the store. If the broker was a host, a member becomes the next one.
// Otherwise members look for the next broker several times a second, and claims wait for
// it.
//
// A broker starts on an address that is in use: for recoverTime it waits for a member
// that brings the store. If none does, another program has the address. Otherwise the
// broker takes over the groups, lets members rejoin for settleTime, and then starts to
// read QP1. Connections are in the ledger: the broker disconnects the peers of members
// that have ended meanwhile. A stopped member, which cannot rejoin, keeps its slot and
// connections while it lives; other members may claim its services until it continues.
//
// The broker is stopped (SIGSTOP): members cannot know whether it will continue, so none
// takes its place. A process that waits for an answer gets an error with the broker's
// process ID.
//
// A process sends garbage, nothing, or wrong descriptors: the broker refuses it, at the
// latest after helloTime. At most maxStrangers such connections wait at a time. The
// broker checks descriptors before it uses them, and never blocks on one.
//
// Reading order: message.go, router.go (routing messages to members), ending.go and
// disconnect.go (disconnecting peers of members that have ended), record.go, config.go,
// engine.go and early.go (QP1), broker_linux.go with store_linux.go, ledger_linux.go,
// watch_linux.go and part_linux.go, seat_linux.go (the member's side), host_linux.go with
// known.go (both in one process); wire_linux.go is shared by all.
//
// The package never starts a process.
package broker

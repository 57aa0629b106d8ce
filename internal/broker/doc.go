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
// does. The message also contains the listeners, at which the broker accepts
// connections, and the connection table: memory with the connections of all members, and with
// locks that show which slots are held by a process, and whether one is the broker.
//
// The broker receives the packets for QP1, as an adapter without queue pairs. It forwards
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
// broker, it takes the UDP port of the address for itself, alone: it has only the first
// socket of a group, the listeners, and no store. When another process joins, the host
// creates the group around this socket, registers its own services and connections, and
// becomes a member. When the host ends, the first member to take the broker's lock in the
// connTable is the next host, with the store that it has. When a separate broker ends, that
// member is its deputy: it gives the next broker the store and the lock, and tells other
// processes that the broker is away.
//
// # Names and users
//
// The listeners have names in the abstract name space: for each address a public one, which
// every user of the network namespace can compute, and a private one, which is derived from
// the user's secret. As the listeners are in the store, no other process can bind the names
// while a member lives. If another user has the public name before the first process, the
// processes that have the secret find each other by the private one. If both are taken, the
// process opens the address alone.
//
// Each side gets the user of the other from the kernel. The accept loop closes connections
// of other users before it spends a buffer or a goroutine. A process whose user ID is the
// overflow ID of its user namespace shares nothing: the kernel reports this ID for every
// user that the namespace does not map.
//
// # The protocol
//
// The protocol runs over Unix sockets that preserve message boundaries (SOCK_SEQPACKET).
// A message is a JSON object of at most maxMessage bytes.
//
//	join     version, addresses, program; with the descriptor of the process's
//	         queue. A returning member adds its slot
//	welcome  version, slot, node GUID; with the sockets of the slot in the order
//	         of the addresses, the store, and the lock of the slot, unless the
//	         member has them
//	refused  the reason
//	claim    a sequence number, 0 for no answer, and the service ID to listen to, or the
//	         ID of the XRC domain of a file (domain.go)
//	claimed  the sequence number, and an errno; 0: the member has the service
//	release  the service ID
//	ready    a returning member has claimed its services again
//	leave    the member ends, and has answered all DREQs of its peers
//	who      a process that is not a member asks for the members
//	members  the answer
//	succeed  a separate broker asks for the store, for the same addresses
//	store    the answer of a deputy, with the store and the broker's lock
//	away     the answer of a deputy to all others
//
// # Failures
//
// A member ends: the kernel closes its connection or, if a child still has it open,
// reports that the process has ended. If only the connection has ended, the member keeps its
// slot and connections, and returns. The broker releases the services, and disconnects
// the peers (DREQ; REJ to those whose request was not answered; DREP to those that have
// sent a DREQ). It drains the sockets and appends the slot to the free slots. No process
// gets the slot while a child holds it.
//
// The broker ends: the members' packets still flow. Packets for QP1 wait in its socket,
// which is in the store. If the broker was a host, a member becomes the next one.
// Otherwise a member is the deputy; the others look for the next broker several times a
// second, and claims wait for it.
//
// A broker starts on an address that is in use: it asks for the store, for recoverTime at
// most. If no deputy answers, another program has the address. The next broker takes over
// the groups and listens again, by which the kernel names the new process to those that
// connect. It lets members rejoin for settleTime, and then starts to read QP1. Connections
// are in the connection table: the broker disconnects the peers of members that have ended meanwhile. A
// stopped member, which cannot rejoin, keeps its slot and connections while it lives; other
// members may claim its services until it continues.
//
// The broker is stopped (SIGSTOP): members cannot know whether it will continue, so none
// takes its place. A process that waits for an answer gets an error with the broker's
// process ID.
//
// A process sends garbage, nothing, or wrong descriptors: the broker refuses it, at the
// latest after helloTime. At most maxStrangers such connections wait at a time, and
// backlog connections to be accepted. Both sides check descriptors before they use them,
// and never block on one.
//
// Reading order: message.go, router.go (routing messages to members), ending.go and
// disconnect.go (disconnecting peers of members that have ended), domain.go, record.go, config.go,
// engine.go and early.go (QP1), broker_linux.go with listener_linux.go, store_linux.go,
// conntable_linux.go, watch_linux.go and shutdown_linux.go, lease_linux.go (the member's side),
// host_linux.go with known.go (both in one process), deputy_linux.go; wire_linux.go,
// name_linux.go and user_linux.go are shared by all.
//
// The package never starts a process.
package broker

// Package broker lets processes of one user share an address: one of them, the
// broker, opens the sockets and hands them out; data never passes through it.
//
// # Who owns what
//
// The broker makes a group of sockets for each address (udp.OpenGroup): one for
// QP1, and one for each slot, which is the upper byte of a QPN. Slot 0 is that of
// the first process, if that is the broker itself; no other process gets it. The
// kernel steers
// by the place of a socket in its group, and a socket that is closed changes the
// places of others. So none is ever closed: beside the socket of its slot, each
// member has the descriptor store, a Unix socket in whose queue a message with all sockets of
// the groups lies, unread. As long as one member lives the groups stay as they are.
// In the store is the ledger, too: memory with the connections of all members, and with
// locks that tell which slots are held by somebody who lives.
//
// What comes for QP1 comes to the broker. It checks it as every adapter does, and
// forwards a message of the connection manager to the member that listens to the
// service, or whose slot is the upper byte of the communication ID. All else it
// answers as an adapter without listeners and connections does; a request for a service
// waits a moment for somebody to listen (early.go). Members send their
// own MADs from their own sockets.
//
// # Who is the broker
//
// It is either a process that does nothing else (Open), or one of the members, the
// host. Who enters an address (Enter) asks the broker there for a seat. If there is
// none, it takes the broker's name and the address for itself, alone: it has no group
// yet, just the first socket of one, and no store. When somebody joins, the host makes
// the group around this socket, tells itself its services and connections, and
// becomes a member. When the host ends, whichever of the members takes the name first
// is the next one, with the store that it has.
//
// # The protocol
//
// It is spoken over a Unix socket that keeps the bounds of messages
// (SOCK_SEQPACKET), whose name is in the abstract name space: one for each address
// and network namespace, whatever directories are shared. A message is a JSON
// object of at most maxMessage bytes. Both sides have the kernel tell the user of
// the other and refuse any user but their own.
//
//	join     version, addresses, program; with the descriptor of the mail. One
//	         who was a member before adds its slot, and the store
//	welcome  version, slot, node GUID; with the sockets of the slot in the order
//	         of the addresses, the store, and the lock of the slot, unless the
//	         member has them
//	refused  why
//	claim    a number, 0 for no answer, and the service ID to listen to
//	claimed  the number, and an errno, 0 if the member has the service now
//	release  the service ID
//	ready    one who came back has said what it listens to
//	leave    it ends, and has answered its peers
//	who      asks, of one who is no member, for who is
//	members  the answer
//
// # What can go wrong
//
// A member dies: the kernel closes its connection, or tells that the process has
// ended, if a child of it goes on. The broker releases its
// services, tells its peers (DREQ; REJ to those whose request it had not
// answered; DREP to those that have asked to end a connection), empties its
// sockets and puts the slot at the end of the line. Nobody gets the slot while a
// child has the sockets.
//
// The broker dies: the members' packets come and go as before. What comes for QP1
// waits in its socket, which is in the store. If it was a host, a member becomes
// the next one. Otherwise members look for the next broker several times a second,
// and claims wait for it.
//
// A broker begins where the address is in use: for recoverTime it takes members
// that bring the store. If none comes, the address is somebody else's. Otherwise it
// takes over the groups, lets members come for settleTime and then begins to read
// what waited. Connections are in the ledger: peers of members that have died in
// between are told. A member that has been stopped, and so does not come, keeps its
// slot and connections for as long as it lives; what its services were is
// everybody's until it goes on.
//
// The broker is stopped (SIGSTOP): nothing tells that it will not go on, so nobody
// takes its place. Who waits for an answer gets an error with its process ID.
//
// Somebody sends garbage, nothing, or wrong descriptors: he is refused, at the
// latest after helloTime; no more than maxStrangers wait at a time. Descriptors are
// looked at before they are used, and none is ever waited for.
//
// Reading order: message.go, router.go (who gets a message), ending.go and disconnect.go (what
// peers of the dead are told), record.go, config.go, engine.go and early.go (QP1),
// broker_linux.go with store_linux.go, ledger_linux.go, watch_linux.go and
// part_linux.go, seat_linux.go (the other side), host_linux.go with known.go (both in
// one process); wire_linux.go is what all have.
//
// The package never starts a process.
package broker

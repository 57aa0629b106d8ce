// Package meeting makes processes of one user on one host share rings (package ring): each finds
// the other by the name of a socket, proves who it is, and passes its memory.
//
// # Names
//
// A process listens at a name in the abstract name space for each address and slot that it holds.
// The name exists in one network namespace, only one socket can have it, and it is free when the
// process has ended. If the user has a secret, no other user can compute it.
//
// # The meeting
//
// The inviter connects to the name of the process that it wants to meet, and sends an invitation
// with a random number. The process that is invited does not know who has sent it, so it connects
// to the name that the invitation gives, and sends an offer: that number, and its memory. The
// inviter answers with a welcome, and its own memory. Now both know that the other has its name:
// the inviter because the number came back, which only the holder of the invited name has
// received, and the invited because the holder of the inviting name has welcomed it.
//
//	inviter                                      invited
//	   │  invitation (number) ─────────────────▶    │   to the name of the invited
//	   │   ◀──────────────── offer (number), memory │   to the name of the inviter
//	   │  welcome, memory ─────────────────────▶    │
//
// The second connection stays: its datagrams of one byte are the wake-ups of the rings, and its end
// tells that the peer has ended.
//
// If two processes invite each other at once, the one with the higher identity accepts, and the
// other waits for that. Invitations are refused while a meeting with the inviter is in progress, so
// successive meetings of two processes have the same order on both sides.
//
// # Inquiries
//
// Any process of the user may ask a host how many peers it has, for "softhca devices".
//
// # Trust
//
// Each side gets the user of the other from the kernel and refuses other users, before it spends a
// goroutine. A process does not take part at all if the kernel gives it more rights than its user
// (Allowed). A connection has helloTime for its message; at most maxStrangers connections are
// served at a time. A message has one length, so it cannot ask for memory.
//
// An identity contains the generation of the lease of the slot, which the process draws at random.
// A process with another generation is another process.
//
// Reading order: message.go, allowed_linux.go, conn_linux.go, peer_linux.go, host_linux.go, ask_linux.go.
package meeting

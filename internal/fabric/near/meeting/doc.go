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
// with a random number. The invited process does not know who sent the invitation, so it connects
// to the name in it, and sends an offer: the number, and its memory. The inviter answers with a
// welcome, and its own memory. Now each knows that the other holds its name: the inviter because
// only the holder of the invited name received the number that came back, and the invited process
// because the holder of the inviter's name has welcomed it.
//
//	inviter                                      invited
//	   │  invitation (number) ─────────────────▶    │   to the name of the invited
//	   │   ◀──────────────── offer (number), memory │   to the name of the inviter
//	   │  welcome, memory ─────────────────────▶    │
//
// The second connection stays: its datagrams of one byte are the wake-ups of the rings, and its end
// shows that the peer has ended.
//
// If two processes invite each other at once, the one with the higher key accepts, and the other
// waits until its own invitation is answered. A process refuses an invitation while it is already
// meeting the inviter, so successive meetings of two processes have the same order on both sides.
//
// # Inquiries
//
// Any process of the user may ask a host how many peers it has, for "softhca devices".
//
// # Trust
//
// Each side asks the kernel for the user of the other and refuses other users, before it spends a
// goroutine. A process does not take part at all if the kernel gives it more rights than its user
// (Allowed). A connection has helloTime for its messages; at most maxStrangers connections are
// served at a time. All messages have the same length, so none makes its receiver allocate more.
//
// An identity contains a random number, the generation, which differs between two processes that
// hold the same address and slot one after the other.
//
// Reading order: message.go, allowed_linux.go, conn_linux.go, peer_linux.go, host_linux.go, ask_linux.go.
package meeting

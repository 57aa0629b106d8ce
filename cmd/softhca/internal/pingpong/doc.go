// Package pingpong sends a message to and fro between two adapters, in the way
// of rdma-core's ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong and
// ibv_srq_pingpong: either side may be the Linux program. Reliable datagrams, for
// which Linux has no program, work the same way; the sides exchange their EE contexts
// like queue pairs.
//
// The client sends first; each side sends after it has received. The server
// sends back the bytes that it got, and the client checks them.
//
// Reading order: options.go, pingpong.go (Client and Server), exchange.go (the
// exchange of queue pairs over TCP) and peer.go (the exchange of outcomes),
// session.go (the objects of a side and their moves to RTS), loop.go (the messages).
//
// The package opens no adapter: the caller does, once the address is known.
package pingpong

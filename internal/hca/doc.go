// Package hca is the adapter: the objects that the verbs create, and the
// shard that moves packets between a port and the queue pairs.
//
// Reading order: config.go (what an adapter is made of and may hold), hca.go
// and pd.go (objects), createqp.go, shard.go (what arrives, what leaves, timers,
// QP1), qpn.go and doorbell.go (how the shard finds a QP and its work),
// connect.go and alternate.go (the connection manager's place), gid.go (addresses), mcast.go
// (groups).
//
// It reads no clock and does no I/O. Unless a comment says otherwise, every
// call is made by the thread that holds the shard.
package hca

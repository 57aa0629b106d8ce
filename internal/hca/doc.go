// Package hca is the adapter: the objects that the verbs create, and the
// shard that moves packets between a port and the queue pairs.
//
// Reading order: config.go (what an adapter is made of and may hold), hca.go
// and pd.go (objects), createqp.go, shard.go (the four calls that everything
// hangs on), qpn.go, deadline.go, doorbell.go (how the shard finds a QP, its
// timers and its work), gsi.go (QP1), connect.go
// (the connection manager's place), gid.go (addresses), mcast.go (groups),
// inject.go (failing on demand).
//
// It reads no clock and does no I/O. Unless a comment says otherwise, every
// call is made by the thread that holds the shard.
package hca

// Package hca is the adapter: the objects that the verbs create, and the
// shard that moves packets between a port and the queue pairs.
//
// Reading order: config.go (configuration and limits), hca.go and pd.go (objects),
// createqp.go, shard.go (receive, transmit, timers, QP1), qpn.go and doorbell.go (how the
// shard finds a QP and its work), connect.go and alternate.go (calls of the connection
// manager), gid.go (addresses), mcast.go (groups).
//
// It reads no clock and does no I/O. Unless a comment says otherwise, every
// call is made by the thread that holds the shard.
package hca

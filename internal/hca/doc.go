// Package hca is the adapter: the objects that the verbs create, their numbers and keys,
// the tables of the port, and the connection manager. Packets do not pass through it:
// package shard, which each adapter creates, moves them.
//
// Reading order: config.go (configuration and limits), hca.go, pd.go and rd.go (objects),
// createqp.go, connect.go, channel.go and alternate.go (calls of the connection
// manager), gid.go (addresses), mcast.go (groups).
//
// It reads no clock and does no I/O. Unless a comment says otherwise, every
// call is made by the thread that holds the shard.
package hca

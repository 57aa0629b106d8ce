// Package hca is the adapter: the objects that the verbs create, their numbers and keys,
// the tables of the port, and the connection manager. Packets do not pass through it:
// package shard, which each adapter creates, moves them.
//
// Reading order: config.go (configuration and limits), hca.go, control.go and handover.go
// (between the planes), pd.go, cq.go and rd.go (objects), createqp.go, connect.go, channel.go and
// alternate.go (calls of the connection manager), gid.go (addresses), mcast.go (groups).
//
// It reads no clock and does no I/O. Unless a comment says otherwise, every call is made by
// the thread that runs the control plane. It enters the shard for single steps: to add or
// remove an object that packets name, or to move a queue pair. The shard hands arrived MADs
// over, and notices: that a queue pair has migrated, that a challenge has ended. It never
// waits for the control plane.
package hca

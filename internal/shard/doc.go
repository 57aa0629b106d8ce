// Package shard moves packets between ports and the queue pairs: it finds the queue
// pair, the EE context or the multicast group of a packet, fires timers, and gives the
// queue pairs their turns to send.
//
// Reading order: shard.go (the four calls; adding and removing queue pairs), doorbell.go
// (posted work), groups.go (multicast). The tables of numbers, the timers and the ports, with
// their lists of active ends, are fields of qp.Env, because queue pairs use them too.
//
// It knows nothing of how objects are created, of keys and of connections: that is
// package hca. It reads no clock and does no I/O. Unless a comment says
// otherwise, every call is made by the thread that holds the shard.
package shard

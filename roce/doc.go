// Package roce is the bytes of RoCEv2: the payload of a UDP datagram to port
// 4791, from the base transport header to the invariant CRC. It parses,
// builds and checks packets of every InfiniBand transport service and knows
// nothing of queue pairs, sockets or time.
//
// The package never allocates on the packet path, never keeps a reference to
// the caller's bytes except in Packet.Payload, and never panics on bytes that
// came from a network. Nothing in it blocks. Every function is safe for
// concurrent use on different packets; the tables are constant.
package roce

// For readers of the source: opinfo.go and optable.go (the one opcode table that the
// parser, the builder, the names and the protocol rules read), opcode.go,
// packet.go (Parse, PutHeaders, Build), bth.go and the extended headers
// (rdeth.go, deth.go, xrceth.go, feth.go, reth.go, atomiceth.go, aeth.go with
// syndrome.go), icrc.go (Prefix, Seal, Check), ident.go (what the IPv4
// identification does to the ICRC), headericrc.go, entropy.go; crc.go and
// polynomial.go are the arithmetic below.

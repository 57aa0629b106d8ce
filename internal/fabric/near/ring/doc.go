// Package ring is a ring buffer between two processes of one host: a producer writes packets
// into shared memory, a consumer reads them there. A record is a packet, or a run of packets of
// equal size, as with segmentation offload.
//
// # Memory
//
// Each process creates a Memory, a memfd that only it can write, and passes the descriptor to
// its peer, which maps it read-only as a View. Two such memories make two rings, one for each
// direction: the records and the head of a ring are in the memory of its producer, the tail is
// in the memory of its consumer. So every page has one writer.
//
// The records are mapped twice, one copy after the other. A record that begins near the end of
// the ring continues in the second copy, so every record is contiguous and none needs padding
// at the end of the ring.
//
// A page fault in the peer's memory cannot end the process with SIGBUS: Attach requires a memfd
// whose size is sealed and whose pages are all allocated, and F_SEAL_FUTURE_WRITE prevents its
// owner from freeing pages (fallocate, MADV_REMOVE). Only a hardware error still can.
//
// # Positions
//
// Head and tail are positions: counts of bytes since the ring was created, of which the low bits
// are an offset in the ring. A position is a multiple of a cache line. The producer writes records
// and publishes them with one store of the head; the consumer reads records and releases
// their room with one store of the tail. Each end reads the other's position again only when the
// records, or the room, up to the position that it read last do not suffice.
//
// A caller may write several records ahead of the last committed one, where Lend returns room. It
// commits them in order, and may give up the last ones.
//
// # Waking
//
// A consumer that is about to sleep arms: it stores an odd number in a word, and then looks at
// the head once more. A producer stores the head, and then looks at that word. Both are
// sequentially consistent, so at least one of them sees the other's store: either the consumer
// does not sleep, or the producer wakes it. The number is new each time, so the producer wakes
// the consumer once each time it sleeps, and never while it polls. A producer that waits for
// room arms in the same way.
//
// The package never sleeps and never wakes a process: Publish, End and Release report that the
// peer has to be woken, and the caller does it.
//
// # Trust
//
// The peer may write anything into its memory at any time. Every word of it is loaded once and
// then checked; a word that no correct peer writes ends this end of the ring with ErrGarbage.
// Each call takes a bounded number of steps. The bytes of a record may change while the caller
// reads them, so the caller must read each header only once, too.
//
// Reading order: layout.go (words and records), words.go (loads and stores), memory.go and
// memory_linux.go, plain.go (memory of one process), producer.go, consumer.go.
//
// With the build tag ringmodel, tests replace the memory by a model and explore all interleavings
// of a producer and a consumer: model_test.go.
package ring

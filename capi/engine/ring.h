// The queues as they are in memory, the same that package ring describes: the
// engine and the library in C read and write them, neither calls the other.
#ifndef SOFTHCA_RING_H
#define SOFTHCA_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct ring {
	_Atomic uint32_t prod, cons, lock, armed, flags;
	uint32_t mask, stride, unused;
	uint64_t entries;
	uint8_t rest[24];
};

enum {
	RING_OVERFLOW = 1, // completion queue: it takes no more
	RING_DOORBELL = 2, // receive queue: who publishes rings the doorbell
};

enum { RING_ARMED = 2 }; // in armed: any entry raises an event

struct ring_sge {
	uint64_t addr;
	uint32_t length, lkey;
};

struct ring_send {
	uint64_t wr_id, remote_addr, compare_add, swap;
	uint32_t length, rkey, imm;
	uint8_t opcode, flags, num_sge, unused;
};

// The last bytes of an entry of a send queue of datagrams.
struct ring_to {
	uint64_t ah;
	uint32_t qpn, qkey;
};

struct ring_recv {
	uint64_t wr_id;
	uint32_t length, num_sge;
};

struct ring_cqe {
	uint64_t wr_id;
	uint32_t byte_len, qp_num, src_qp, imm_data, inv_rkey, vendor_err;
	uint16_t pkey_index, slid;
	uint8_t status, opcode, wc_flags, sl, dlid_path_bits, unused[3];
	_Atomic uint32_t valid; // the entry's index plus 1, written last
};

_Static_assert(sizeof(struct ring) == 64 && offsetof(struct ring, entries) == 32, "ring");
_Static_assert(sizeof(struct ring_sge) == 16, "ring_sge");
_Static_assert(sizeof(struct ring_send) == 48 && offsetof(struct ring_send, opcode) == 44, "ring_send");
_Static_assert(sizeof(struct ring_to) == 16, "ring_to");
_Static_assert(sizeof(struct ring_recv) == 16, "ring_recv");
_Static_assert(sizeof(struct ring_cqe) == 48 && offsetof(struct ring_cqe, valid) == 44, "ring_cqe");
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "atomics that are free of hidden locks");

#endif

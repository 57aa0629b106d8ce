// The queues as they are in memory, declared a second time for programs in C:
// package ring has the first declaration, and is not read here. libibverbs and
// the threads of this package read and write the queues by it, while the engine
// does so by the other one.
#ifndef SOFTHCA_RING_H
#define SOFTHCA_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct ring {
	_Atomic uint32_t prod, cons, lock, armed, flags;
	uint32_t mask, stride, unused;
	uint64_t entries;
	_Atomic uint64_t mirror; // completion queue: address of a word to which readers copy cons; 0: none
	uint8_t rest[16];
};

enum {
	RING_OVERFLOW = 1, // completion queue: it takes no more
	RING_DOORBELL = 2, // receive queue: who publishes rings the doorbell
	RING_SUPPRESS = 4, // send queue: producers ring no doorbell for a few requests
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
	uint8_t status, opcode, wc_flags, sl, dlid_path_bits, eec[3];
	_Atomic uint32_t valid; // the entry's index plus 1, written last
};

// An entry of a completion queue with times.
struct ring_timed_cqe {
	struct ring_cqe cqe;
	int64_t time; // in ns, on the adapter's clock
};

#define AT(type, field, offset) _Static_assert(offsetof(struct type, field) == offset, #type "." #field)

AT(ring, prod, 0); AT(ring, cons, 4); AT(ring, lock, 8); AT(ring, armed, 12);
AT(ring, flags, 16); AT(ring, mask, 20); AT(ring, stride, 24); AT(ring, entries, 32);
AT(ring_sge, addr, 0); AT(ring_sge, length, 8); AT(ring_sge, lkey, 12);
AT(ring_send, wr_id, 0); AT(ring_send, remote_addr, 8); AT(ring_send, compare_add, 16); AT(ring_send, swap, 24);
AT(ring_send, length, 32); AT(ring_send, rkey, 36); AT(ring_send, imm, 40); AT(ring_send, opcode, 44);
AT(ring_send, flags, 45); AT(ring_send, num_sge, 46);
AT(ring_to, ah, 0); AT(ring_to, qpn, 8); AT(ring_to, qkey, 12);
AT(ring_recv, wr_id, 0); AT(ring_recv, length, 8); AT(ring_recv, num_sge, 12);
AT(ring_cqe, wr_id, 0); AT(ring_cqe, byte_len, 8); AT(ring_cqe, qp_num, 12); AT(ring_cqe, src_qp, 16);
AT(ring_cqe, imm_data, 20); AT(ring_cqe, inv_rkey, 24); AT(ring_cqe, vendor_err, 28); AT(ring_cqe, pkey_index, 32);
AT(ring_cqe, slid, 34); AT(ring_cqe, status, 36); AT(ring_cqe, opcode, 37); AT(ring_cqe, wc_flags, 38);
AT(ring_cqe, sl, 39); AT(ring_cqe, dlid_path_bits, 40); AT(ring_cqe, eec, 41); AT(ring_cqe, valid, 44);
_Static_assert(sizeof(struct ring) == 64, "ring");
_Static_assert(sizeof(struct ring_sge) == 16, "ring_sge");
_Static_assert(sizeof(struct ring_send) == 48, "ring_send");
_Static_assert(sizeof(struct ring_to) == 16, "ring_to");
_Static_assert(sizeof(struct ring_recv) == 16, "ring_recv");
_Static_assert(sizeof(struct ring_cqe) == 48, "ring_cqe");
AT(ring_timed_cqe, time, 48);
_Static_assert(sizeof(struct ring_timed_cqe) == 56, "ring_timed_cqe");
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "atomics that are free of hidden locks");

#undef AT

#endif

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

// The layout, declared a second time.

struct header {
	_Atomic uint32_t prod, cons, lock, armed, flags;
	uint32_t mask, stride, unused;
	uint64_t entries;
	uint8_t rest[24];
};

struct sge {
	uint64_t addr;
	uint32_t length, lkey;
};

struct send_wqe {
	uint64_t wr_id, remote_addr, compare_add, swap;
	uint32_t length, rkey, imm;
	uint8_t opcode, flags, num_sge, unused;
};

struct recv_wqe {
	uint64_t wr_id;
	uint32_t length, num_sge;
};

struct cqe {
	uint64_t wr_id;
	uint32_t byte_len, qp_num, src_qp, imm_data, inv_rkey, vendor_err;
	uint16_t pkey_index, slid;
	uint8_t status, opcode, wc_flags, sl, dlid_path_bits, eec[3];
	_Atomic uint32_t valid;
};

#define AT(type, field, offset) _Static_assert(offsetof(struct type, field) == offset, #type "." #field)

AT(header, prod, 0); AT(header, cons, 4); AT(header, lock, 8); AT(header, armed, 12);
AT(header, flags, 16); AT(header, mask, 20); AT(header, stride, 24); AT(header, entries, 32);
AT(sge, addr, 0); AT(sge, length, 8); AT(sge, lkey, 12);
AT(send_wqe, wr_id, 0); AT(send_wqe, remote_addr, 8); AT(send_wqe, compare_add, 16); AT(send_wqe, swap, 24);
AT(send_wqe, length, 32); AT(send_wqe, rkey, 36); AT(send_wqe, imm, 40); AT(send_wqe, opcode, 44);
AT(send_wqe, flags, 45); AT(send_wqe, num_sge, 46);
AT(recv_wqe, wr_id, 0); AT(recv_wqe, length, 8); AT(recv_wqe, num_sge, 12);
AT(cqe, wr_id, 0); AT(cqe, byte_len, 8); AT(cqe, qp_num, 12); AT(cqe, src_qp, 16); AT(cqe, imm_data, 20);
AT(cqe, inv_rkey, 24); AT(cqe, vendor_err, 28); AT(cqe, pkey_index, 32); AT(cqe, slid, 34); AT(cqe, status, 36);
AT(cqe, opcode, 37); AT(cqe, wc_flags, 38); AT(cqe, sl, 39); AT(cqe, dlid_path_bits, 40); AT(cqe, eec, 41); AT(cqe, valid, 44);
_Static_assert(sizeof(struct header) == 64, "header");
_Static_assert(sizeof(struct sge) == 16, "sge");
_Static_assert(sizeof(struct send_wqe) == 48, "send_wqe");
_Static_assert(sizeof(struct recv_wqe) == 16, "recv_wqe");
_Static_assert(sizeof(struct cqe) == 48, "cqe");
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "atomics that are free of hidden locks");

// max_qps is how many queue pairs a reader tells apart.
enum { max_qps = 16 };

// board is what readers know of removals: of queue pair n, every entry with a
// wr_id less than removed[n] is gone.
struct board {
	_Atomic uint64_t removed[max_qps];
};

// taken is an entry that a reader took.
struct taken {
	uint64_t wr_id;
	uint32_t qp_num;
	uint8_t late, status, unused[2]; // late: it had been removed
};

struct reader;
struct reader *reader_start(struct header *h, const struct board *b, size_t room);
void reader_stop(struct reader *r);
void reader_free(struct reader *r);
size_t reader_count(const struct reader *r);
const struct taken *reader_taken(const struct reader *r);
int reader_overflow(const struct reader *r);

void locked_add(struct header *h, uint64_t *counter, uint64_t n);

struct producer;
struct producer *producer_start(struct header *h, int receives, uint64_t n);
void producer_join(struct producer *p);

void post_send(struct header *h, const struct send_wqe *w, const struct sge *s);
void post_recv(struct header *h, const struct recv_wqe *w, const struct sge *s);

// Connected queue pairs, and the completions that they are expected to produce.
#ifndef LINK_H
#define LINK_H

#include "model.h"

enum {
	LINKS = 4, DEPTH = 16, MAX_SGE = 4, INLINE = 100, BATCH = 10, GRH = 40,
	// A buffer has four parts: data to send, data that reads and atomics return, memory that
	// the peer accesses, and received data. The second and the last have a slot per request.
	PART = 1 << 14, BUF = 4 * PART, SENT = 0, READ = PART, REACHED = 2 * PART, RECEIVED = 3 * PART,
	SLOT = PART / BATCH, MOST = 1000, MOST_WRITTEN = 5000,
};

// Names of FLUSH, which headers before rdma-core 46 lack.
enum { WR_FLUSH = 14, WC_FLUSH = 8, QP_EX_WITH_FLUSH = 1 << 11, ACCESS_FLUSH_GLOBAL = 1 << 8, FLUSH_GLOBAL = 1 };


// expected is a completion that is expected.
struct expected {
	struct ibv_wc wc;
	bool failed;     // the opcode and the fields that depend on it are undefined
	uint64_t posted; // when it was posted, in ns: the completion is not earlier
};

// line lists the expected completions of one work queue, in order.
struct line {
	struct expected e[4 * DEPTH];
	unsigned head, tail;
};

// rooms counts the memory of queues that the program allocates, for a parent domain.
struct rooms {
	struct ibv_pd *pd;
	unsigned live;   // blocks in use
	unsigned calls;  // for memory so far
	unsigned refuse; // the number of the call that returns NULL, from 1; 0: none
	unsigned before; // blocks in use before that call
};

struct end {
	int adapter;
	struct ibv_context *ctx;
	struct ibv_pd *root, *pd; // pd is root, or a parent domain of it
	bool allocates;           // the parent domain has functions for memory
	struct rooms rooms;
	struct ibv_mr *mr;
	uint8_t *buf, *shadow; // the memory, and its predicted contents
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq; // may be the same queue
	bool ex;                          // the completion queues are extended
	bool single;                      // only one thread at a time polls
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *qpx; // NULL: requests are posted by ibv_post_send
	struct ibv_qp_cap cap;
	struct ibv_ah_attr av; // of the path to the peer
	struct ibv_ah *ah;
	struct line send, recv;
	uint64_t last_ts[2]; // timestamps of the last completions of send_cq and recv_cq; [0] if they are the same
	struct ibv_qp_attr attr;
};

struct link {
	enum ibv_qp_type type; // 0: there is no link
	bool sig_all, self;    // self: the queue pair of end 0 is connected to itself
	enum ibv_mtu mtu;
	struct end end[2];
};

struct links {
	struct link link[LINKS];
};

static inline struct end *peer_of(struct link *l, struct end *e) { return l->self || e == &l->end[1] ? &l->end[0] : &l->end[1]; }

// link.c
struct link *some_link(void);
struct link *own_peer(void); // a link of RC whose queue pair is connected to itself
void connect_link(struct link *l);
void close_link(struct link *l);

// room.c
void open_pd(struct end *e);
void close_pd(struct end *e);

// break.c
void reset_link(struct link *l);

// drain.c
struct expected *expect(struct line *l, uint64_t wr_id, enum ibv_wc_opcode op);
void drain(struct link *l);
bool is_drained(const struct link *l);
void forget_lines(struct link *l);

// request.c
struct request {
	enum ibv_wr_opcode op;
	uint64_t wr_id, remote, compare, swap;
	uint32_t length, rkey, lkey;
	__be32 imm;
	int flags, num_sge;
	uint8_t placement; // of a FLUSH
	bool whole;        // a FLUSH of the whole region
	struct ibv_sge sge[MAX_SGE + 1];
	uint8_t data[2 * INLINE]; // inline data
};

bool is_answered(enum ibv_wr_opcode op);
bool is_received(enum ibv_wr_opcode op);
void draw_request(struct link *l, struct end *e, struct request *r, unsigned i);
void draw_flush(struct link *l, struct end *e, struct request *r);
void spoil_request(struct link *l, struct end *e, struct request *r, bool extended);
void foresee(struct link *l, struct end *e, struct request *r, struct ibv_recv_wr *into);
int post_old(struct link *l, struct end *e, struct request *r, unsigned n, unsigned *bad);
int post_new(struct link *l, struct end *e, struct request *r, unsigned n, unsigned *bad);

// batch.c
void step_batch(void);

#endif

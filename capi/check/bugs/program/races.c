// Bugs that ThreadSanitizer reports: accesses to memory that the adapter reads or writes at the same time. Only a
// program that is compiled with it has these cases. The line of the post ends with the mark FOUND, and that of the
// access with the mark RACES.
#include "bugs.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif

#if defined(__SANITIZE_THREAD__)

enum { LENGTH = 64 };

static _Atomic int sum; // the compiler must not remove reads

static void polled(struct rig *r, int side) { want(r->cq[side], IBV_WC_SUCCESS); }

// send_one sends a message to side 1.
static void send_one(struct rig *r)
{
	must(post(r, 0, IBV_WR_SEND, LENGTH) == 0);
	polled(r, 0);
}

// post_flags posts a write of side 0 with some flags, from a place in its buffer.
static void post_flags(struct rig *r, unsigned flags, size_t at)
{
	struct ibv_sge s = {(uintptr_t)r->buf[0] + at, LENGTH, r->mr[0]->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = at, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = flags};
	wr.wr.rdma.remote_addr = (uintptr_t)r->buf[1] + at, wr.wr.rdma.rkey = r->mr[1]->rkey;
	must(ibv_post_send(r->qp[0], &wr, &bad) == 0); // FOUND
}

static void sent_too_early(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	receive(&r, 1, LENGTH);
	must(post(&r, 0, IBV_WR_SEND, LENGTH) == 0); // FOUND
	if (!bug)
		polled(&r, 0);
	r.buf[0][LENGTH - 1] = 'x'; // RACES
	if (bug)
		polled(&r, 0);
	polled(&r, 1);
	rig_close(&r);
}

static void received_too_early(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	receive(&r, 1, LENGTH); // FOUND
	send_one(&r);
	if (!bug)
		polled(&r, 1);
	sum += r.buf[1][0]; // RACES
	if (bug)
		polled(&r, 1);
	rig_close(&r);
}

static void received_too_early_from_srq(bool bug)
{
	struct rig r = {.shared = true};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_recv_wr *bad, wr = {.wr_id = 1, .sg_list = &(struct ibv_sge){(uintptr_t)r.buf[1] + 8192, 64, r.mr[1]->lkey}, .num_sge = 1};
	receive(&r, 1, LENGTH); // FOUND
	must(ibv_post_srq_recv(r.srq, &wr, &bad) == 0);
	send_one(&r);
	if (!bug)
		polled(&r, 1);
	sum += r.buf[1][LENGTH - 1]; // RACES
	if (bug)
		polled(&r, 1);
	r.buf[1][8192]++; // of the other receive, for which no message comes
	rig_close(&r);
}

// The adapter writes the results of a READ and of an atomic.
static void result_too_early(bool bug, enum ibv_wr_opcode op)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	must(post(&r, 0, op, 8) == 0); // FOUND
	if (!bug)
		polled(&r, 0);
	sum += r.buf[0][7]; // RACES
	if (bug)
		polled(&r, 0);
	rig_close(&r);
}

static void read_too_early(bool bug) { result_too_early(bug, IBV_WR_RDMA_READ); }
static void added_too_early(bool bug) { result_too_early(bug, IBV_WR_ATOMIC_FETCH_AND_ADD); }

// A completion covers the unsignaled requests before it.
static void unsignaled_too_early(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	post_flags(&r, 0, 4096);
	if (bug)
		r.buf[0][4096]++; // RACES
	post_flags(&r, IBV_SEND_SIGNALED, 0);
	polled(&r, 0);
	r.buf[0][4096]++;
	rig_close(&r);
}

static void extended_too_early(bool bug)
{
	struct rig r = {0};
	struct ibv_qp_ex *q = open_extended(&r);
	ibv_wr_start(q);
	q->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(q, r.mr[1]->rkey, (uintptr_t)r.buf[1]);
	ibv_wr_set_sge(q, r.mr[0]->lkey, (uintptr_t)r.buf[0], LENGTH);
	must(ibv_wr_complete(q) == 0); // FOUND
	if (bug)
		r.buf[0][1]++; // RACES
	polled(&r, 0);
	r.buf[0][1]++;
	rig_close(&r);
}

// A payload has several elements, and an element several pages.
static void last_byte_too_early(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_sge s[] = {{(uintptr_t)r.buf[0], 8, r.mr[0]->lkey}, {(uintptr_t)r.buf[0] + 100, BUF - 200, r.mr[0]->lkey}};
	struct ibv_send_wr *bad, wr = {.sg_list = s, .num_sge = 2, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	wr.wr.rdma.remote_addr = (uintptr_t)r.buf[1], wr.wr.rdma.rkey = r.mr[1]->rkey;
	must(ibv_post_send(r.qp[0], &wr, &bad) == 0); // FOUND
	r.buf[0][BUF - 100]++; // not of the payload
	r.buf[0][99]++;
	if (bug)
		r.buf[0][BUF - 101]++; // RACES
	polled(&r, 0);
	r.buf[0][BUF - 101]++;
	rig_close(&r);
}

// The program posts a buffer again before it has read the message in it.
static void posted_again_too_early(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	receive(&r, 1, LENGTH);
	send_one(&r);
	polled(&r, 1);
	if (!bug)
		sum += r.buf[1][0];
	receive(&r, 1, LENGTH); // FOUND
	if (bug)
		sum += r.buf[1][0]; // RACES
	send_one(&r);
	polled(&r, 1);
	rig_close(&r);
}

static void *write_to(void *p)
{
	((char *)p)[3] = 'w'; // RACES
	return NULL;
}

static void written_by_another_thread(bool bug)
{
	struct rig r = {0};
	pthread_t t;
	rig_open(&r, IBV_QPT_RC);
	if (bug)
		must(pthread_create(&t, NULL, write_to, r.buf[0]) == 0);
	must(post(&r, 0, IBV_WR_RDMA_WRITE, LENGTH) == 0); // FOUND
	polled(&r, 0);
	if (!bug)
		must(pthread_create(&t, NULL, write_to, r.buf[0]) == 0);
	must(pthread_join(t, NULL) == 0);
	rig_close(&r);
}

// relay is a completion that one thread polls for another.
struct relay {
	struct rig *r;
	memory_order order;
	_Atomic bool done;
};

static void *poll_for(void *p)
{
	struct relay *y = p;
	polled(y->r, 1);
	atomic_store_explicit(&y->done, true, y->order);
	return NULL;
}

// The thread that polls must order its poll before the read of the other thread.
static void relayed_without_order(bool bug)
{
	struct rig r = {0};
	struct relay y = {&r, bug ? memory_order_relaxed : memory_order_release, false};
	pthread_t t;
	rig_open(&r, IBV_QPT_RC);
	receive(&r, 1, LENGTH); // FOUND
	must(pthread_create(&t, NULL, poll_for, &y) == 0);
	send_one(&r);
	while (!atomic_load_explicit(&y.done, memory_order_acquire)) {
	}
	sum += r.buf[1][0]; // RACES
	must(pthread_join(t, NULL) == 0);
	rig_close(&r);
}

const struct bug race_bugs[] = {
	{"sent-too-early", "adapter_reads_payload", sent_too_early},
	{"received-too-early", "adapter_writes_payload", received_too_early},
	{"received-too-early-from-srq", "adapter_writes_payload", received_too_early_from_srq},
	{"read-too-early", "adapter_writes_payload", read_too_early},
	{"added-too-early", "adapter_writes_payload", added_too_early},
	{"unsignaled-too-early", "adapter_reads_payload", unsignaled_too_early},
	{"extended-too-early", "adapter_reads_payload", extended_too_early},
	{"last-byte-too-early", "adapter_reads_payload", last_byte_too_early},
	{"posted-again-too-early", "adapter_writes_payload", posted_again_too_early},
	{"written-by-another-thread", "adapter_reads_payload", written_by_another_thread},
	{"relayed-without-order", "adapter_writes_payload", relayed_without_order},
	{NULL, NULL, NULL},
};

#else

const struct bug race_bugs[] = {{NULL, NULL, NULL}};

#endif

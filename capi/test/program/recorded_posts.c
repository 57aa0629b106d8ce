// The entries that the library writes into the queues, when it rings the doorbell, and how
// long requests stay unsent.
#include "recorded.h"

#include <sched.h>
#include <time.h>

// The library's bounds on requests without a doorbell, and the maximum wait of a request for
// later ones.
enum { SUPPRESSED_REQUESTS = 32, SUPPRESSED_BYTES = 8 << 10, OVERDUE_NS = 20000 };

static struct ring_send *sent(uint32_t back)
{
	const struct ring *s = rec->qp.send;
	uint32_t i = atomic_load(&s->prod) - back;
	return (struct ring_send *)((uint8_t *)(uintptr_t)s->entries + (size_t)(i & s->mask) * s->stride);
}

// later returns when more time has passed than a request may wait.
static void later(void)
{
	int64_t end = now_ns() + OVERDUE_NS;
	while (now_ns() <= end)
		sched_yield();
}

// complete adds a completion to the newest completion queue.
static void complete(uint64_t wr_id)
{
	struct ring *q = rec->cq.ring;
	uint32_t prod = atomic_load(&q->prod);
	struct ring_cqe *e = (struct ring_cqe *)((uint8_t *)(uintptr_t)q->entries + (size_t)(prod & q->mask) * q->stride);
	*e = (struct ring_cqe){.wr_id = wr_id};
	atomic_store(&e->valid, prod + 1);
	atomic_store(&q->prod, prod + 1);
}

static int post_one(struct recording *r, struct ibv_send_wr wr)
{
	struct ibv_send_wr *bad = NULL;
	int code = ibv_post_send(r->qp, &wr, &bad);
	must((bad == &wr) == (code != 0));
	return code;
}

static int post_writes(struct recording *r, int n, uint32_t size)
{
	static char mem[SUPPRESSED_BYTES];
	struct ibv_sge sge = {(uintptr_t)mem, size, 1};
	struct ibv_send_wr wr[SUPPRESSED_REQUESTS], *bad;
	for (int i = 0; i < n; i++)
		wr[i] = (struct ibv_send_wr){.next = i + 1 < n ? &wr[i + 1] : NULL, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
	return ibv_post_send(r->qp, wr, &bad);
}

static void entries(struct recording *r)
{
	enum { HALF = 1u << 30 };
	struct ibv_sge sge[2] = {{1, HALF, 1}, {2, HALF, 1}};
	struct ibv_send_wr wr = {.sg_list = sge, .num_sge = 2, .opcode = IBV_WR_SEND};
	struct ibv_recv_wr *bad, rwr = {.sg_list = sge, .num_sge = 2};
	must(post_one(r, wr) == 0); // the longest message
	SAME(sent(1)->length, 2u * HALF);
	must(ibv_post_recv(r->qp, &rwr, &bad) == 0);
	sge[1].length++;
	SAME(post_one(r, wr), EINVAL);
	SAME(ibv_post_recv(r->qp, &rwr, &bad), EINVAL);
	SAME(ibv_post_srq_recv(r->srq, &rwr, &bad), EINVAL);
	sge[0].length = 4;
	wr = (struct ibv_send_wr){.sg_list = sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD};
	SAME(post_one(r, wr), EINVAL); // an atomic returns 8 bytes
	sge[0].length = 8;
	SAME(post_one(r, wr), 0);
	wr = (struct ibv_send_wr){.opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = 0x01020304, .send_flags = IBV_SEND_FENCE | IBV_SEND_SIGNALED};
	SAME(post_one(r, wr), 0);
	SAME(sent(1)->imm, 0x01020304);
	SAME(sent(1)->flags, IBV_SEND_FENCE | IBV_SEND_SIGNALED);
	ibv_wr_start(r->ex);
	r->ex->wr_id = 5, r->ex->wr_flags = IBV_SEND_FENCE;
	ibv_wr_send_inv(r->ex, 0x05060708);
	SAME(ibv_wr_complete(r->ex), 0);
	SAME(sent(1)->imm, 0x05060708);
	SAME(sent(1)->length, 0);
	SAME(sent(1)->num_sge, 0);
	SAME(sent(1)->flags, IBV_SEND_FENCE);
}

// says compares what the library said about the refusal of the newest post.
static void says(unsigned *refusals, const char *want)
{
	if (rec->refusals != ++*refusals || strcmp(rec->refused, want) != 0) {
		fprintf(stderr, "%u refusals, the newest \"%s\", want %u and \"%s\"\n", rec->refusals, rec->refused, *refusals, want);
		exit(1);
	}
}

// Each reason for which a post is refused with EINVAL is told once; a full queue is not.
static void reasons(struct recording *r)
{
	static char mem[1024];
	unsigned n = rec->refusals;
	struct ibv_sge sge[9] = {{(uintptr_t)mem, 1024, 1}};
	struct ibv_recv_wr *bad, rwr = {.sg_list = sge, .num_sge = 9};
	struct ibv_send_wr wr = {.sg_list = sge, .num_sge = 9, .opcode = IBV_WR_SEND};
	SAME(post_one(r, wr), EINVAL);
	says(&n, "ibv_post_send 22: num_sge is 9, and max_send_sge of the queue pair is 2");
	wr.num_sge = -1;
	SAME(post_one(r, wr), EINVAL);
	says(&n, "ibv_post_send 22: num_sge is -1, and max_send_sge of the queue pair is 2");
	wr.num_sge = 1, wr.send_flags = IBV_SEND_INLINE;
	SAME(post_one(r, wr), EINVAL);
	says(&n, "ibv_post_send 22: the inline data is longer than max_inline_data of the queue pair, 64");
	wr.num_sge = 1 << 20; // far more than the list has
	SAME(post_one(r, wr), EINVAL);
	says(&n, "ibv_post_send 22: the inline data is longer than max_inline_data of the queue pair, 64");
	wr.opcode = IBV_WR_RDMA_WRITE, wr.send_flags = 0;
	SAME(post_one(r, wr), EINVAL);
	says(&n, "ibv_post_send 22: num_sge is 1048576, and max_send_sge of the queue pair is 2");
	wr.num_sge = 1, wr.opcode = IBV_WR_LOCAL_INV, wr.sg_list = NULL;
	SAME(post_one(r, wr), EINVAL);
	says(&n, "ibv_post_send 22: a request of a window or a key has num_sge 0, no inline data, and to bind, a window of type 2");
	wr.sg_list = sge;
	wr.send_flags = 0, wr.opcode = IBV_WR_TSO;
	SAME(post_one(r, wr), EINVAL);
	says(&n, "ibv_post_send 22: queue pairs of this type have no operation with opcode 10");
	wr.opcode = 77;
	SAME(post_one(r, wr), EINVAL);
	says(&n, "ibv_post_send 22: queue pairs of this type have no operation with opcode 77");
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP, sge[0].length = 4, wr.send_flags = IBV_SEND_INLINE;
	SAME(post_one(r, wr), EINVAL);
	says(&n, "ibv_post_send 22: the operation with opcode 5 takes no inline data");
	wr.send_flags = 0;
	SAME(post_one(r, wr), EINVAL);
	says(&n, "ibv_post_send 22: 4 bytes do not suit the operation with opcode 5");
	SAME(ibv_post_recv(r->qp, &rwr, &bad), EINVAL);
	says(&n, "ibv_post_recv 22: num_sge is 9, and max_recv_sge of the queue pair is 2");
	ibv_wr_start(r->ex);
	ibv_wr_send(r->ex);
	ibv_wr_set_sge_list(r->ex, 9, sge);
	SAME(ibv_wr_complete(r->ex), EINVAL);
	says(&n, "ibv_wr_complete 22: a request of the list is not valid");
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	must(ibv_modify_qp(r->qp, &attr, IBV_QP_STATE) == 0);
	wr = (struct ibv_send_wr){.opcode = IBV_WR_SEND};
	SAME(post_one(r, wr), EINVAL);
	says(&n, "ibv_post_send 22: the queue pair is in RESET, and takes send requests from RTS on");
	rwr.num_sge = 0;
	SAME(ibv_post_recv(r->qp, &rwr, &bad), EINVAL);
	says(&n, "ibv_post_recv 22: the queue pair is in RESET, and takes receives from INIT on");
	ibv_wr_start(r->ex);
	SAME(ibv_wr_complete(r->ex), EINVAL);
	says(&n, "ibv_wr_complete 22: the queue pair is in RESET, and takes send requests from RTS on");
	attr.qp_state = IBV_QPS_RTS;
	must(ibv_modify_qp(r->qp, &attr, IBV_QP_STATE) == 0);
	static struct ibv_send_wr many[4096]; // more than the queue holds
	struct ibv_send_wr *worse;
	for (int i = 0; i < 4096; i++)
		many[i] = (struct ibv_send_wr){.opcode = IBV_WR_SEND, .next = i < 4095 ? &many[i + 1] : NULL};
	SAME(ibv_post_send(r->qp, many, &worse), ENOMEM);
	SAME(rec->refusals, n);
}

static void local_fields(uint64_t addr, uint64_t length, uint64_t swap, uint32_t rkey, uint32_t imm)
{
	const struct ring_send *e = sent(1);
	SAME(e->remote_addr, addr);
	SAME(e->compare_add, length);
	SAME(e->swap, swap);
	SAME(e->rkey, rkey);
	SAME(e->imm, imm);
	SAME(e->length, 0);
	SAME(e->num_sge, 0);
}

// Requests of memory windows. A bind of type 1 gives the window another tag, and only if it is posted.
static void windows(struct recording *r)
{
	static char mem[64];
	struct ibv_mr *m = ibv_reg_mr(r->pd, mem, sizeof mem, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *w = ibv_alloc_mw(r->pd, IBV_MW_TYPE_1);
	must(m != NULL && w != NULL);
	SAME(rec->what, IBV_MW_TYPE_1);
	SAME(w->rkey, 0x5566);
	struct ibv_mw_bind b = {.wr_id = 9, .send_flags = IBV_SEND_FENCE, .bind_info = {m, 0x1122334455667788, 0x99aabbccddeeff00, IBV_ACCESS_REMOTE_READ}};
	SAME(ibv_bind_mw(r->qp, w, &b), 0);
	must(w->rkey != 0x5566 && w->rkey >> 8 == 0x55);
	local_fields(0x1122334455667788, 0x99aabbccddeeff00, (uint64_t)IBV_ACCESS_REMOTE_READ << 32 | m->lkey, 0x5566, w->rkey);
	SAME(sent(1)->opcode, IBV_WR_BIND_MW);
	SAME(sent(1)->flags, IBV_SEND_FENCE);
	SAME(sent(1)->wr_id, 9);
	SAME(w->type, IBV_MW_TYPE_1);
	w->type = IBV_MW_TYPE_2, w->rkey = 0x5501;
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .bind_mw = {w, 0x5502, b.bind_info}};
	SAME(post_one(r, wr), 0);
	local_fields(0x1122334455667788, 0x99aabbccddeeff00, (uint64_t)IBV_ACCESS_REMOTE_READ << 32 | m->lkey, 0x5501, 0x5502);
	wr = (struct ibv_send_wr){.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = 0x01020304};
	SAME(post_one(r, wr), 0);
	SAME(sent(1)->imm, 0x01020304);
	SAME(sent(1)->opcode, IBV_WR_LOCAL_INV);
	ibv_wr_start(r->ex);
	r->ex->wr_id = 6, r->ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(r->ex, w, 0x5503, &b.bind_info);
	SAME(ibv_wr_complete(r->ex), 0);
	local_fields(0x1122334455667788, 0x99aabbccddeeff00, (uint64_t)IBV_ACCESS_REMOTE_READ << 32 | m->lkey, 0x5501, 0x5503);
	ibv_wr_start(r->ex);
	ibv_wr_local_inv(r->ex, 0x05060708);
	SAME(ibv_wr_complete(r->ex), 0);
	SAME(sent(1)->imm, 0x05060708);
	must(ibv_dealloc_mw(w) == 0 && ibv_dereg_mr(m) == 0);
}

// unsent returns the number of requests that no doorbell has reported yet.
static uint64_t posted;
static uint64_t unsent(void) { return posted - rec->requests; }

static void post_many(struct recording *r, int n, uint32_t size)
{
	must(post_writes(r, n, size) == 0);
	posted += (uint64_t)n;
	SAME(unsent() < SUPPRESSED_REQUESTS, true);
}

// begin_waits makes the library record that requests wait from now on. All posted
// requests are sent. It returns a time later than the recorded one.
static int64_t begin_waits(struct recording *r)
{
	struct ibv_wc wc;
	rec->waits = 0;
	must(ibv_poll_cq(r->cq, 1, &wc) == 0);
	rec->waits = 1;
	post_many(r, 1, 8); // nothing waits yet, so this rings
	SAME(unsent(), 0);
	return now_ns();
}

// A queue whose doorbell is suppressed: requests are sent at the latest when there are too many,
// when they are too long, or with the first post after OVERDUE_NS.
static void suppressed(struct recording *r)
{
	enum { ROUNDS = 1000, ENOUGH = 20 };
	int full = 0, long_enough = 0;
	posted = rec->requests;
	atomic_store(&rec->qp.send->flags, RING_SUPPRESS);
	for (int i = 0; i < ROUNDS && (i < ENOUGH || full == 0 || long_enough == 0); i++) {
		begin_waits(r);
		post_many(r, SUPPRESSED_REQUESTS - 1, 8);
		bool was = unsent() == SUPPRESSED_REQUESTS - 1;
		full += was;
		post_many(r, 1, 8);
		SAME(was && unsent() != 0, false);
		begin_waits(r);
		post_many(r, 1, SUPPRESSED_BYTES - 1);
		was = unsent() == 1;
		long_enough += was;
		post_many(r, 1, 1);
		SAME(was && unsent() != 0, false);
		begin_waits(r);
		post_many(r, SUPPRESSED_REQUESTS, 1);
		SAME(unsent(), 0);
		if (i < 10) { // later takes a while
			begin_waits(r);
			later();
			post_many(r, 1, 8);
			SAME(unsent(), 0);
		}
	}
	SAME(full > 0, true); // the thread is not interrupted in every round
	SAME(long_enough > 0, true);
	atomic_store(&rec->qp.send->flags, 0);
}

// Polls send requests that wait for too long, whether they find completions or not.
static void overdue(struct recording *r)
{
	struct ibv_cq_ex *x = (struct ibv_cq_ex *)r->cq;
	struct ibv_poll_cq_attr a = {0};
	struct ibv_wc wc;
	begin_waits(r);
	complete(1);
	later();
	unsigned had = rec->overdues;
	must(ibv_poll_cq(r->cq, 1, &wc) == 1);
	SAME(rec->overdues, had + 1);
	int64_t end = begin_waits(r) + OVERDUE_NS;
	while (now_ns() <= end) // polls while requests wait do not prolong the time
		must(ibv_poll_cq(r->cq, 1, &wc) == 0);
	complete(2);
	must(ibv_poll_cq(r->cq, 1, &wc) == 1);
	SAME(rec->overdues, had + 2);
	begin_waits(r);
	complete(3);
	must(ibv_start_poll(x, &a) == 0);
	later();
	ibv_end_poll(x);
	SAME(rec->overdues, had + 3);
	rec->waits = 0;
	complete(4);
	later();
	must(ibv_poll_cq(r->cq, 1, &wc) == 1); // nothing waits after this
	complete(5);
	later();
	unsigned all = rec->overdues;
	must(ibv_poll_cq(r->cq, 1, &wc) == 1);
	SAME(rec->overdues, all);
}

// The wall-clock time of a completion is the time of the program's first read of its
// timestamp, however late it reads the wall-clock time. A thread that is interrupted between
// the clocks gets a later time, so the earliest of several counts.
static void wallclock(struct recording *r)
{
	enum { TRIES = 1000, SPAN_NS = 2000000 };
	struct ibv_cq_ex *x = (struct ibv_cq_ex *)r->cq;
	struct ibv_poll_cq_attr a = {0};
	struct timespec t;
	complete(1);
	must(ibv_start_poll(x, &a) == 0);
	int64_t ts = (int64_t)ibv_wc_read_completion_ts(x), least = INT64_MAX, best = 0;
	while (now_ns() < ts + SPAN_NS)
		sched_yield();
	for (int i = 0; i < TRIES; i++) {
		clock_gettime(CLOCK_REALTIME, &t);
		int64_t was = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec - (now_ns() - ts), at = (int64_t)ibv_wc_read_completion_wallclock_ns(x);
		best = was > best ? was : best; // was is not later than the moment, and at not earlier
		least = at < least ? at : least;
	}
	ibv_end_poll(x);
	SAME(least > best + SPAN_NS / 2, false);
	SAME(least < best, false);
}

// For a queue pair with fault rules, the library checks each request before it posts it, and
// sends it before the next.
static void watched(void)
{
	struct recording r = {0};
	find_recorder();
	rec->watched = 1;
	recording_open(&r);
	struct ibv_send_wr *bad = NULL, wr[3] = {{.next = &wr[1], .opcode = IBV_WR_SEND}, {.next = &wr[2], .opcode = IBV_WR_SEND}, {.opcode = IBV_WR_SEND}};
	struct ibv_recv_wr *bad_recv = NULL, rwr[2] = {{.next = &rwr[1]}, {0}};
	must(ibv_post_send(r.qp, wr, &bad) == 0);
	SAME(rec->checks, 3);
	SAME(rec->doorbells, 3);
	rec->checked_code = 5;
	SAME(ibv_post_send(r.qp, wr, &bad), ENOMEM);
	must(bad == &wr[1]);
	SAME(rec->doorbells, 4);
	rec->checked_code = 7;
	SAME(ibv_post_recv(r.qp, rwr, &bad_recv), ENOMEM);
	must(bad_recv == &rwr[1]);
	rec->checked_code = 9;
	SAME(ibv_post_srq_recv(r.srq, rwr, &bad_recv), ENOMEM);
	must(bad_recv == &rwr[1]);
	ibv_wr_start(r.ex);
	ibv_wr_send(r.ex);
	ibv_wr_send(r.ex);
	rec->checked_code = 11;
	SAME(ibv_wr_complete(r.ex), ENOMEM);
	SAME(rec->checks, 11);
	recording_close(&r);
}

// Calls on an adapter that has failed.
static void dead(struct recording *r)
{
	struct ibv_cq_ex *x = (struct ibv_cq_ex *)r->cq;
	struct ibv_poll_cq_attr a = {0};
	struct ibv_srq_attr limit = {.srq_limit = 1};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD};
	struct ibv_wc wc;
	rec->code = EIO;
	SAME(post_one(r, (struct ibv_send_wr){.opcode = IBV_WR_SEND}), EIO);
	ibv_wr_start(r->ex);
	ibv_wr_send(r->ex);
	SAME(ibv_wr_complete(r->ex), EIO);
	SAME(ibv_poll_cq(r->cq, 1, &wc), -1);
	SAME(ibv_poll_cq(r->cq, 0, &wc), 0);
	SAME(ibv_start_poll(x, &a), EIO);
	rec->code = ENOSPC;
	SAME(ibv_req_notify_cq(r->cq, 0), ENOSPC);
	SAME(ibv_modify_qp(r->qp, &attr, IBV_QP_STATE), ENOSPC);
	SAME(r->qp->state, IBV_QPS_RTS);
	SAME(ibv_modify_srq(r->srq, &limit, IBV_SRQ_LIMIT), ENOSPC);
	SAME(ibv_query_srq(r->srq, &limit), ENOSPC);
	SAME(ibv_resize_cq(r->cq, 8), ENOSPC);
	must(ibv_destroy_qp(r->qp) == ENOSPC && ibv_destroy_cq(r->cq) == ENOSPC && ibv_destroy_srq(r->srq) == ENOSPC && ibv_dealloc_pd(r->pd) == ENOSPC);
	rec->code = 0;
}

static void posts(void)
{
	struct recording r = {0};
	recording_open(&r);
	entries(&r);
	windows(&r);
	suppressed(&r);
	overdue(&r);
	wallclock(&r);
	dead(&r);
	recording_close(&r);
	struct recording other = {0};
	recording_open(&other);
	reasons(&other);
	recording_close(&other);
}

const struct scenario recorded_posts[] = {{"recorded-posts", posts}, {"recorded-watched", watched}, {NULL, NULL}};

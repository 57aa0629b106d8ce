// Many threads at once: they post and poll on shared queues, sleep for completions, read
// events, create and destroy objects, and open and close adapters, all at the same time. The
// scenario is short, because some tools slow it down.
#include "rig.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>

enum { ROUNDS = 200, POSTERS = 3, ALL = POSTERS * ROUNDS };

static struct rig all;
static _Atomic int over;

// The numbers of requests posted and of completions polled. They are relaxed atomics: only
// the queues synchronize the threads.
static _Atomic long posted, polled;

static long count_of(_Atomic long *n) { return atomic_load_explicit(n, memory_order_relaxed); }

// Threads that post to one queue pair, and threads that poll its completion queue.
static void *post_only(void *arg)
{
	for (int i = 0; i < ROUNDS;) {
		if (count_of(&posted) - count_of(&polled) < DEPTH && post(&all, 0, IBV_WR_RDMA_WRITE, 8) == 0) {
			atomic_fetch_add_explicit(&posted, 1, memory_order_relaxed);
			i++;
		} else {
			sched_yield();
		}
	}
	return arg;
}

static void *poll_only(void *arg)
{
	struct ibv_wc wc[4];
	while (count_of(&polled) < ALL) {
		int n = ibv_poll_cq(all.cq[0], 4, wc);
		must(n >= 0);
		for (int i = 0; i < n; i++)
			must(wc[i].status == IBV_WC_SUCCESS);
		atomic_fetch_add_explicit(&polled, n, memory_order_relaxed);
	}
	return arg;
}

// A thread that sleeps for each completion, in a context of its own.
static void *sleep_for_each(void *arg)
{
	struct rig r = {0};
	struct ibv_cq *q;
	void *context;
	(void)arg;
	rig_open(&r, IBV_QPT_RC);
	for (int i = 0; i < ROUNDS; i++) {
		must(ibv_req_notify_cq(r.cq[0], 0) == 0 && post(&r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
		must(ibv_get_cq_event(r.channel, &q, &context) == 0 && q == r.cq[0] && context == &r);
		ibv_ack_cq_events(q, 1);
		want(q, IBV_WC_SUCCESS);
	}
	rig_close(&r);
	return NULL;
}

// A thread that creates and destroys objects in the shared context.
static void *make_and_end(void *arg)
{
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_ah_attr aa = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}};
	struct ibv_port_attr port;
	static char buf[4096];
	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_pd *pd = ibv_alloc_pd(all.ctx);
		struct ibv_cq *cq = ibv_create_cq(all.ctx, 8, NULL, all.channel, 0);
		must(pd != NULL && cq != NULL && ibv_query_gid(all.ctx, 1, 0, &aa.grh.dgid) == 0);
		struct ibv_qp_init_attr qa = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .cap = {8, 8, 1, 1, 0}};
		struct ibv_mr *mr = ibv_reg_mr(pd, buf, sizeof buf, IBV_ACCESS_LOCAL_WRITE);
		struct ibv_srq *srq = ibv_create_srq(pd, &sa);
		struct ibv_qp *qp = ibv_create_qp(pd, &qa);
		struct ibv_ah *ah = ibv_create_ah(pd, &aa);
		must(mr != NULL && srq != NULL && qp != NULL && ah != NULL);
		must(ibv_query_port(all.ctx, 1, &port) == 0);
		must(ibv_destroy_ah(ah) == 0 && ibv_destroy_qp(qp) == 0 && ibv_destroy_srq(srq) == 0);
		must(ibv_dereg_mr(mr) == 0 && ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0);
	}
	return NULL;
}

// A thread that reads asynchronous events until the others are done.
static void *take_events(void *arg)
{
	struct pollfd p = {all.ctx->async_fd, POLLIN, 0};
	struct ibv_async_event e;
	(void)arg;
	must(fcntl(p.fd, F_SETFL, O_NONBLOCK) == 0);
	while (!atomic_load(&over)) {
		if (poll(&p, 1, 10) == 1 && ibv_get_async_event(all.ctx, &e) == 0)
			ibv_ack_async_event(&e);
	}
	return NULL;
}

// A thread that posts and polls by the extended calls, in a context of its own.
static void *extended(void *arg)
{
	struct rig r = {0};
	struct ibv_poll_cq_attr none = {0};
	(void)arg;
	rig_open(&r, IBV_QPT_RC);
	struct ibv_cq_init_attr_ex ca = {.cqe = DEPTH, .wc_flags = IBV_WC_EX_WITH_QP_NUM};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(r.ctx, &ca);
	must(cq != NULL);
	struct ibv_qp_init_attr_ex qa = {
		.send_cq = ibv_cq_ex_to_cq(cq), .recv_cq = ibv_cq_ex_to_cq(cq), .qp_type = IBV_QPT_RC, .cap = {DEPTH, 1, 1, 1, 0}, .sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .pd = r.pd, .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(r.ctx, &qa);
	must(qp != NULL);
	struct ibv_qp_ex *q = ibv_qp_to_qp_ex(qp);
	connect_qp(&r, qp, qp);
	for (int i = 0; i < ROUNDS; i++) {
		ibv_wr_start(q);
		q->wr_id = (uint64_t)i;
		ibv_wr_rdma_write(q, r.mr[1]->rkey, (uintptr_t)r.buf[1]);
		ibv_wr_set_sge(q, r.mr[0]->lkey, (uintptr_t)r.buf[0], 8);
		must(ibv_wr_complete(q) == 0);
		int code;
		while ((code = ibv_start_poll(cq, &none)) == ENOENT) {
		}
		must(code == 0 && cq->status == IBV_WC_SUCCESS && cq->wr_id == (uint64_t)i && ibv_wc_read_qp_num(cq) == qp->qp_num);
		ibv_end_poll(cq);
	}
	must(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
	rig_close(&r);
	return NULL;
}

static void crowd(void)
{
	static void *(*const work[])(void *) = {post_only, post_only, post_only, poll_only, poll_only, sleep_for_each, sleep_for_each, make_and_end, make_and_end, extended};
	enum { WORKERS = sizeof work / sizeof *work };
	pthread_t t[WORKERS], events;
	rig_open(&all, IBV_QPT_RC);
	must(pthread_create(&events, NULL, take_events, NULL) == 0);
	for (int i = 0; i < WORKERS; i++)
		must(pthread_create(&t[i], NULL, work[i], NULL) == 0);
	for (int i = 0; i < WORKERS; i++)
		must(pthread_join(t[i], NULL) == 0);
	atomic_store(&over, 1);
	must(pthread_join(events, NULL) == 0 && polled == ALL);
	rig_close(&all);
}

// Errors that tools must find: a data race, and a read of freed memory.
static volatile long unguarded;
static _Atomic int counting;

// count begins when both threads do. Relaxed accesses order nothing else.
static void *count(void *arg)
{
	atomic_fetch_add_explicit(&counting, 1, memory_order_relaxed);
	while (atomic_load_explicit(&counting, memory_order_relaxed) < 2)
		sched_yield();
	for (int i = 0; i < ROUNDS; i++)
		unguarded++;
	return arg;
}

static void race(void)
{
	pthread_t t;
	must(pthread_create(&t, NULL, count, NULL) == 0);
	count(NULL);
	must(pthread_join(t, NULL) == 0);
}

static void stray(void)
{
	char *volatile p = malloc(64);
	must(p != NULL);
	memset(p, 1, 64);
	free(p);
	must(*(volatile char *)(p + 32) != 2);
}

const struct scenario crowds[] = {{"crowd", crowd}, {"race", race}, {"stray", stray}, {NULL, NULL}};

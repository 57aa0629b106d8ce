// Scenarios of extended verbs: times of completions, moderation, sizes of SRQs, and completion
// queues in parent domains.
#define _GNU_SOURCE
#include "rig.h"

#include <sched.h>

enum { MS = 1000000, PERIOD_US = 4095 };

static int64_t raw_clock(struct ibv_context *c)
{
	struct ibv_values_ex v = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	must(ibv_query_rt_values_ex(c, &v) == 0);
	return (int64_t)v.raw_clock.tv_sec * 1000000000 + v.raw_clock.tv_nsec;
}

static int64_t wall_clock(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// with_cq replaces the rig's queue pairs by others, of which side 1 completes to q.
static void with_cq(struct rig *r, struct ibv_cq_ex *q)
{
	must(q != NULL && ibv_destroy_qp(r->qp[0]) == 0 && ibv_destroy_qp(r->qp[1]) == 0 && ibv_destroy_cq(r->cq[1]) == 0);
	r->cq[1] = ibv_cq_ex_to_cq(q);
	for (int i = 0; i < SIDES; i++)
		r->qp[i] = make_qp(r, IBV_QPT_RC, i);
	connect_qp(r, r->qp[0], r->qp[1]);
	connect_qp(r, r->qp[1], r->qp[0]);
}

// message sends a message to side 1 and waits until it has arrived. Its completion stays in the
// queue of side 1.
static void message(struct rig *r)
{
	receive(r, 1, 64);
	must(post(r, 0, IBV_WR_SEND, 8) == 0);
	want(r->cq[0], IBV_WC_SUCCESS);
}

// A completion has the time at which it was made, on both clocks, however late it is polled.
static void timestamps(void)
{
	struct rig r = {0};
	struct ibv_poll_cq_attr p = {0};
	struct ibv_device_attr_ex d;
	struct ibv_cq_init_attr_ex a = {
		.cqe = DEPTH, .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
	};
	rig_open(&r, IBV_QPT_RC);
	must(ibv_query_device_ex(r.ctx, NULL, &d) == 0 && d.completion_timestamp_mask == UINT64_MAX && d.hca_core_clock == 1000000);
	struct ibv_cq_ex *q = ibv_create_cq_ex(r.ctx, &a);
	with_cq(&r, q);
	for (int i = 0; i < 10; i++) {
		int64_t from = raw_clock(r.ctx), wall_from = wall_clock();
		message(&r);
		int64_t to = raw_clock(r.ctx), wall_to = wall_clock();
		while (raw_clock(r.ctx) < to + 2 * MS)
			sched_yield();
		must(ibv_start_poll(q, &p) == 0);
		int64_t at = (int64_t)ibv_wc_read_completion_ts(q), wall = INT64_MAX;
		for (int k = 0; k < 100; k++) { // the thread may be preempted between its readings of the clocks
			int64_t w = (int64_t)ibv_wc_read_completion_wallclock_ns(q);
			if (w < wall)
				wall = w;
		}
		ibv_end_poll(q);
		must(at >= from && at <= to);
		must(wall >= wall_from - MS && wall <= wall_to + MS);
	}
	must(ibv_resize_cq(r.cq[1], 4 * DEPTH) == 0);
	message(&r);
	struct ibv_wc wc = wait_wc(r.cq[1]); // the calls of other queues work too
	must(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.byte_len == 8);
	rig_close(&r);
}

static int64_t wait_event(struct rig *r)
{
	struct ibv_cq *q;
	void *context;
	must(ibv_get_cq_event(r->channel, &q, &context) == 0 && q == r->cq[1]);
	ibv_ack_cq_events(q, 1);
	return now_ns();
}

static void moderate(struct rig *r, uint16_t count, uint16_t period)
{
	struct ibv_modify_cq_attr a = {.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {count, period}};
	must(ibv_modify_cq(r->cq[1], &a) == 0);
}

// The event of a moderated queue waits for the period, also if the completion was in the queue
// when it was armed.
static void moderated(void)
{
	struct rig r = {0};
	struct ibv_device_attr_ex d;
	rig_open(&r, IBV_QPT_RC);
	must(ibv_query_device_ex(r.ctx, NULL, &d) == 0 && d.cq_mod_caps.max_cq_count == UINT16_MAX && d.cq_mod_caps.max_cq_period == PERIOD_US);
	moderate(&r, 100, PERIOD_US);
	must(ibv_req_notify_cq(r.cq[1], 0) == 0);
	int64_t start = now_ns();
	message(&r);
	must(wait_event(&r) - start >= PERIOD_US * 1000);
	want(r.cq[1], IBV_WC_SUCCESS);

	message(&r);
	start = now_ns();
	must(ibv_req_notify_cq(r.cq[1], 0) == 0);
	must(wait_event(&r) - start >= PERIOD_US * 1000);
	moderate(&r, 2, PERIOD_US);
	message(&r);
	must(ibv_req_notify_cq(r.cq[1], 0) == 0); // two completions
	wait_event(&r);
	moderate(&r, 0, 0);
	message(&r);
	must(ibv_req_notify_cq(r.cq[1], 0) == 0);
	wait_event(&r);
	rig_close(&r);
}

static _Atomic bool sized; // the sizes have changed often enough

// post_receives posts receives, numbered in order, as fast as the queue takes them.
static void *post_receives(void *arg)
{
	struct rig *r = arg;
	struct ibv_sge s = {(uintptr_t)r->buf[1], 64, r->mr[1]->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &s, .num_sge = 1};
	while (!atomic_load(&sized)) {
		int code = ibv_post_srq_recv(r->srq, &wr, &bad);
		must(code == 0 || code == ENOMEM);
		if (code == 0)
			wr.wr_id++;
		else
			sched_yield();
	}
	return NULL;
}

// An SRQ changes its size while one thread posts receives and messages take them.
static void resized(void)
{
	static const uint32_t sizes[] = {DEPTH / 2, 4 * DEPTH, DEPTH, 2 * DEPTH};
	struct rig r = {.shared = true};
	struct ibv_device_attr d;
	struct ibv_srq_attr a;
	pthread_t t;
	rig_open(&r, IBV_QPT_RC);
	must(ibv_query_device(r.ctx, &d) == 0 && d.device_cap_flags & IBV_DEVICE_SRQ_RESIZE);
	must(pthread_create(&t, NULL, post_receives, &r) == 0);
	for (uint64_t i = 0; i < 400; i++) {
		a.max_wr = sizes[i % 4];
		int code = ibv_modify_srq(r.srq, &a, IBV_SRQ_MAX_WR); // EINVAL if there are too many receives
		must(code == EINVAL || (code == 0 && ibv_query_srq(r.srq, &a) == 0 && a.max_wr == sizes[i % 4]));
		must(post(&r, 0, IBV_WR_SEND, 8) == 0);
		want(r.cq[0], IBV_WC_SUCCESS);
		struct ibv_wc wc = wait_wc(r.cq[1]);
		must(wc.status == IBV_WC_SUCCESS && wc.wr_id == i);
	}
	atomic_store(&sized, true);
	must(pthread_join(t, NULL) == 0);
	a = (struct ibv_srq_attr){.max_wr = 8 * DEPTH, .srq_limit = 5 * DEPTH};
	must(ibv_modify_srq(r.srq, &a, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) == 0);
	must(ibv_query_srq(r.srq, &a) == 0 && a.max_wr == 8 * DEPTH && a.srq_limit == 5 * DEPTH);
	a.max_wr = a.srq_limit = 1; // more receives are left
	must(ibv_modify_srq(r.srq, &a, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) == EINVAL);
	must(ibv_query_srq(r.srq, &a) == 0 && a.max_wr == 8 * DEPTH && a.srq_limit == 5 * DEPTH);
	a.max_wr = 4 * DEPTH, a.srq_limit = 3;
	must(ibv_modify_srq(r.srq, &a, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) == 0); // the old limit does not fit the new size
	must(ibv_query_srq(r.srq, &a) == 0 && a.max_wr == 4 * DEPTH && a.srq_limit == 3);
	rig_close(&r);
}

// A completion queue in a parent domain keeps the domain. One with a thread domain may be polled
// by one thread at a time.
static void parents(void)
{
	struct rig r = {0};
	struct ibv_poll_cq_attr p = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_td *td = ibv_alloc_td(r.ctx, &(struct ibv_td_init_attr){0});
	struct ibv_parent_domain_init_attr of = {.pd = r.pd, .td = td};
	struct ibv_pd *parent = ibv_alloc_parent_domain(r.ctx, &of);
	must(td != NULL && parent != NULL);
	struct ibv_cq_init_attr_ex a = {
		.cqe = DEPTH, .wc_flags = IBV_WC_STANDARD_FLAGS, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD | IBV_CQ_INIT_ATTR_MASK_FLAGS, .parent_domain = parent,
		.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
	};
	struct ibv_cq_ex *q = ibv_create_cq_ex(r.ctx, &a);
	must(q != NULL && q->read_completion_ts == NULL && q->read_completion_wallclock_ns == NULL);
	with_cq(&r, q);
	must(ibv_dealloc_pd(parent) == EBUSY);
	message(&r);
	must(ibv_start_poll(q, &p) == 0 && q->status == IBV_WC_SUCCESS && ibv_wc_read_opcode(q) == IBV_WC_RECV);
	ibv_end_poll(q);
	must(ibv_destroy_qp(r.qp[0]) == 0 && ibv_destroy_qp(r.qp[1]) == 0 && ibv_destroy_cq(r.cq[1]) == 0);
	must(ibv_dealloc_pd(parent) == 0 && ibv_dealloc_td(td) == 0);
	rig_drop(&r);
}

const struct scenario extending[] = {
	{"timestamps", timestamps}, {"moderated", moderated}, {"srq-resized", resized}, {"parent-cq", parents}, {NULL, NULL},
};

#define _GNU_SOURCE
#include "../standin/queues.h"
#include "recorder.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))

// No two members of adapter have the same value.
VISIBLE struct recorder recorder = {
	.adapter = {
		.node_guid = 0x0102030405060708, .clock = 1000000, .max_msg_size = 1u << 31,
		.max_qp = 101, .max_qp_wr = 102, .max_sge = 103, .max_inline = 104, .max_cq = 105, .max_cqe = 106, .max_srq = 107, .max_srq_wr = 108,
		.max_mr = 109, .max_mw = 117, .max_pd = 110, .max_ah = 111, .max_rd_atomic = 112, .max_mcast_grp = 113, .max_mcast_qp_attach = 114,
		.max_total_mcast_qp_attach = 115, .max_dm_size = 118, .port_state = 4, .active_mtu = 3, .gids = 3, .pkeys = 2, .if_index = 116,
		.pkey = {0xffff, 0x8001}, .gid = {{[15] = 1}, {[15] = 2}, {[15] = 3}},
	},
};

static handle_t handles;

static handle_t next_handle(void) { return ++handles; }

static void copy(char *to, const char *from) { snprintf(to, RECORDED_TEXT, "%s", from != NULL ? from : "(null)"); }

static int open_adapter(struct softhca_config *c, handle_t *dev)
{
	recorder.config = *c;
	struct recorded *t = &recorder.text;
	copy(t->addr, c->addr), copy(t->capture, c->capture);
	copy(t->log_level, c->log_level), copy(t->log_format, c->log_format), copy(t->config_dir, c->config_dir), copy(t->guid, c->guid), copy(t->faults, c->faults);
	copy(t->faults_seed, c->faults_seed), copy(t->sysfs, c->sysfs), copy(t->wire, c->wire), copy(t->nasty, c->nasty);
	recorder.opens++;
	*dev = next_handle();
	return recorder.code;
}

static int close_adapter(handle_t dev)
{
	recorder.closes++;
	return recorder.code;
}

static int flush(handle_t dev)
{
	if (recorder.flushed != 0 && write(recorder.flushed, "f", 1) != 1)
		abort();
	while (recorder.hold_flush)
		pause();
	return 0;
}

static int describe(handle_t dev, struct softhca_adapter *out)
{
	*out = recorder.adapter;
	return recorder.code;
}

static int make(handle_t of, handle_t *made)
{
	*made = next_handle();
	return recorder.code;
}

// nothing is each call of which nothing is recorded: it has no prototype, so that it fits them all.
static int nothing() { return recorder.code; }

static int reg_mr(handle_t pd, struct softhca_mr *m)
{
	recorder.mr = *m;
	m->handle = next_handle(), m->lkey = 0x11, m->rkey = 0x22;
	return recorder.code;
}

static int rereg_mr(struct softhca_mr *m, uint32_t what, handle_t pd)
{
	recorder.mr = *m, recorder.what = what, recorder.pd = pd;
	m->lkey = 0x33, m->rkey = 0x44;
	return recorder.code;
}

static int alloc_mw(handle_t pd, uint32_t type, handle_t *mw, uint32_t *rkey)
{
	recorder.what = type, recorder.pd = pd;
	*mw = next_handle(), *rkey = 0x5566;
	return recorder.code;
}

static int advise_mr(handle_t pd, uint32_t advice, int wait, struct softhca_sge *list, uint32_t n)
{
	recorder.advice = advice, recorder.advised = n, recorder.wait = wait, recorder.first = list[0];
	return recorder.code;
}

static int alloc_dm(handle_t dev, struct softhca_dm *m)
{
	static uint8_t memory[64];
	m->handle = next_handle(), m->memory = memory;
	recorder.dm = *m;
	return recorder.code;
}

static int open_xrcd(handle_t dev, int file, char *name, handle_t *xrcd)
{
	copy(recorder.file, name);
	recorder.file_descriptor = file;
	recorder.domains++;
	*xrcd = next_handle();
	return recorder.code;
}

static int close_xrcd(handle_t xrcd)
{
	recorder.domains_closed++, recorder.in = xrcd;
	return recorder.code;
}

static int target_qp(handle_t xrcd, struct softhca_qp *c)
{
	recorder.target = *c, recorder.in = xrcd;
	c->handle = next_handle();
	c->qpn = c->qpn != 0 ? c->qpn : 0x456;
	return recorder.code;
}

// No two queues have the same size.
static int size_cq(struct softhca_cq *c)
{
	c->room.size = 1000;
	return recorder.code;
}

static int size_srq(struct softhca_srq *s)
{
	s->room.size = 2000;
	return recorder.code;
}

static int size_qp(struct softhca_qp *c)
{
	c->send_room.size = 3000, c->recv_room.size = 4000;
	return recorder.code;
}

// The memory of a queue lives until the process ends.
static int create_cq(handle_t dev, struct softhca_cq *c)
{
	c->handle = next_handle(), c->ring = new_ring(c->cqe, c->timed ? sizeof(struct ring_timed_cqe) : sizeof(struct ring_cqe)), c->cqe = c->ring->mask + 1;
	recorder.cq = *c;
	return recorder.code;
}

static int arm_cq(handle_t cq, int solicited)
{
	recorder.arms++, recorder.solicited = solicited;
	return recorder.code;
}

static int moderate_cq(handle_t cq, uint32_t count, uint32_t period_us)
{
	recorder.count = count, recorder.period = period_us;
	return recorder.code;
}

static int await_cq(handle_t cq, uint32_t completions)
{
	recorder.awaited = completions;
	return recorder.code;
}

static int resize_srq(handle_t srq, uint32_t wr)
{
	recorder.resized = wr;
	return recorder.code;
}

static int create_srq(handle_t pd, struct softhca_srq *s)
{
	s->handle = next_handle(), s->watched = recorder.watched, s->srqn = 0x789;
	s->ring = new_recv_ring(s->max_wr, s->max_sge);
	recorder.srq = *s;
	return recorder.code;
}

static int limit_srq(handle_t srq, uint32_t limit)
{
	recorder.limit = limit;
	return recorder.code;
}

static int query_srq(handle_t srq, struct softhca_srq *s)
{
	*s = (struct softhca_srq){.max_wr = 31, .max_sge = 32, .limit = recorder.limit_is};
	return recorder.code;
}

static int create_qp(handle_t pd, struct softhca_qp *c)
{
	recorder.qp = *c;
	c->handle = next_handle(), c->qpn = 0x123, c->watched = recorder.watched;
	c->send = new_send_ring(&c->cap);
	c->recv = c->srq != 0 ? NULL : new_recv_ring(c->cap.recv_wr, c->cap.recv_sge);
	recorder.qp.handle = c->handle, recorder.qp.send = c->send, recorder.qp.recv = c->recv;
	return recorder.code;
}

static int modify_qp(handle_t qp, struct softhca_qp_attr *a, uint32_t mask)
{
	recorder.modified = *a, recorder.mask = mask;
	return recorder.code;
}

static int query_qp(handle_t qp, struct softhca_qp_attr *a)
{
	*a = recorder.queried;
	return recorder.code;
}

static int limit_qp(handle_t qp, uint32_t rate, uint32_t burst)
{
	recorder.rate = rate, recorder.burst = burst;
	return recorder.code;
}

static int destroy_qp(handle_t qp, int detach)
{
	recorder.detach = detach;
	return recorder.code;
}

static int create_ah(handle_t pd, struct softhca_av *av, uint64_t *ah)
{
	recorder.av = *av;
	*ah = next_handle();
	return recorder.code;
}

static int check_srq(handle_t srq)
{
	return ++recorder.checks == recorder.checked_code ? ENOMEM : recorder.code;
}

static int check(handle_t qp, int kind)
{
	return check_srq(qp);
}

static int refused(handle_t qp, char *call, int code, char *why)
{
	recorder.refusals++;
	snprintf(recorder.refused, sizeof recorder.refused, "%s %d: %s", call, code, why);
	return 0;
}

// doorbell consumes the requests in the send queue of the newest queue pair.
static int doorbell(handle_t qp, struct softhca_posted *p, int *waits)
{
	struct ring *r = recorder.qp.send;
	recorder.doorbells++, recorder.requests += p->requests, recorder.bytes += p->bytes;
	atomic_store(&r->cons, atomic_load(&r->prod));
	*waits = recorder.waits;
	return recorder.code;
}

static long now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000 + t.tv_nsec;
}

// linger makes a call take longer. A thread that is cancelled meanwhile does not return.
static void linger(void)
{
	long end = now_ns() + recorder.linger;
	while (recorder.linger != 0 && now_ns() < end) {
		sched_yield();
		pthread_testcancel();
	}
}

// sleep_for raises an event of the newest completion queue, unless it is to return early.
static int sleep_for(handle_t dev, struct softhca_sleep *s)
{
	struct pollfd p = {s->ends, POLLIN, 0};
	recorder.sleeps++;
	recorder.sleep = *s;
	if (recorder.raise != 0)
		raise(recorder.raise);
	recorder.raise = 0;
	recorder.ended = poll(&p, 1, recorder.sleep_on ? -1 : 0) == 1;
	if (recorder.early > 0)
		recorder.early--;
	else
		recorder.config.completed(recorder.cq.object);
	linger();
	recorder.slept++;
	return recorder.code;
}

static int progress(handle_t cq, int *waits)
{
	sigset_t blocked;
	recorder.bare = pthread_sigmask(SIG_BLOCK, NULL, &blocked) == 0 && sigismember(&blocked, SIGUSR1) == 0;
	recorder.progresses++;
	recorder.in_progress = 1;
	while (recorder.hold_progress)
		sched_yield();
	linger();
	recorder.in_progress = 0;
	*waits = recorder.waits;
	return recorder.code;
}

static int overdue(handle_t dev, int *waits)
{
	recorder.overdues++;
	*waits = recorder.waits;
	return recorder.code;
}

VISIBLE const struct softhca_calls softhca_calls = {
	.abi = SOFTHCA_ENGINE_ABI,
	.open = open_adapter, .close = close_adapter, .flush = flush, .describe = describe,
	.alloc_pd = make, .dealloc_pd = nothing, .reg_mr = reg_mr, .rereg_mr = rereg_mr, .dereg_mr = nothing,
	.advise_mr = advise_mr, .alloc_dm = alloc_dm, .free_dm = nothing, .alloc_mw = alloc_mw, .dealloc_mw = nothing,
	.open_xrcd = open_xrcd, .close_xrcd = close_xrcd, .target_qp = target_qp,
	.size_cq = size_cq, .size_srq = size_srq, .size_qp = size_qp,
	.create_cq = create_cq, .resize_cq = nothing, .arm_cq = arm_cq, .moderate_cq = moderate_cq, .await_cq = await_cq, .destroy_cq = nothing,
	.create_srq = create_srq, .limit_srq = limit_srq, .resize_srq = resize_srq, .query_srq = query_srq, .destroy_srq = nothing,
	.create_qp = create_qp, .modify_qp = modify_qp, .query_qp = query_qp, .limit_qp = limit_qp, .destroy_qp = destroy_qp,
	.create_ah = create_ah, .destroy_ah = nothing, .attach = nothing, .detach = nothing,
	.check = check, .check_srq = check_srq, .refused = refused, .refused_srq = refused, .doorbell = doorbell, .progress = progress, .overdue = overdue, .sleep = sleep_for,
};

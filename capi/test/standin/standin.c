// An engine in C that replaces the adapter under tools that cannot analyse Go's runtime, such
// as the thread sanitizer and valgrind. It completes each request at once, and sends no
// packets. Its threads write the queues and call the library as the engine's threads do,
// with the memory order of package ring.
#include "queues.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

enum { SIGNALED = 2, OP_SEND = 2, WC_SEND = 0, WC_WRITE = 1, WC_RECV = 128, COMM_EST = 4, EVERY = 64, PAUSE_NS = 20000 };

struct cq {
	struct adapter *a;
	struct ring *ring;
	void *object;
	pthread_mutex_t mu; // held to write the queue; guards armed
	int armed;
};

struct qp {
	struct adapter *a;
	struct qp *next;
	struct ring *send, *recv;
	struct cq *send_cq, *recv_cq;
	void *object;
	uint32_t num;
	bool all;
};

struct adapter {
	struct softhca_config c;
	pthread_mutex_t mu; // guards what follows
	struct qp *first;
	uint32_t qps;
	uint64_t completions;
	bool closing;
	pthread_t worker;
};

static void *entry(const struct ring *r, uint32_t i) { return (char *)(uintptr_t)r->entries + (size_t)(i & r->mask) * r->stride; }

// complete writes a completion, and raises an event if the queue is armed.
static void complete(struct cq *q, const struct ring_cqe *what)
{
	pthread_mutex_lock(&q->mu);
	struct ring *r = q->ring;
	uint32_t prod = atomic_load_explicit(&r->prod, memory_order_relaxed);
	if (prod - atomic_load_explicit(&r->cons, memory_order_acquire) > r->mask)
		abort(); // the scenarios poll what they post
	struct ring_cqe *e = entry(r, prod);
	memcpy(e, what, offsetof(struct ring_cqe, valid));
	atomic_store_explicit(&e->valid, prod + 1, memory_order_release);
	atomic_store_explicit(&r->prod, prod + 1, memory_order_release);
	bool tell = q->armed;
	q->armed = 0;
	if (tell)
		q->a->c.completed(q->object);
	pthread_mutex_unlock(&q->mu);
}

// take_receive completes a receive, if one is posted. The caller holds the adapter's lock.
static void take_receive(struct qp *q, uint32_t length)
{
	uint32_t cons = atomic_load_explicit(&q->recv->cons, memory_order_relaxed);
	if (atomic_load_explicit(&q->recv->prod, memory_order_acquire) == cons)
		return;
	const struct ring_recv *e = entry(q->recv, cons);
	struct ring_cqe done = {.wr_id = e->wr_id, .qp_num = q->num, .byte_len = length, .opcode = WC_RECV};
	atomic_store_explicit(&q->recv->cons, cons + 1, memory_order_release);
	complete(q->recv_cq, &done);
}

// serve completes the requests in a send queue. The caller holds the adapter's lock.
static void serve(struct qp *q)
{
	uint32_t cons = atomic_load_explicit(&q->send->cons, memory_order_relaxed);
	for (; cons != atomic_load_explicit(&q->send->prod, memory_order_acquire); cons++) {
		const struct ring_send *e = entry(q->send, cons);
		struct ring_cqe done = {.wr_id = e->wr_id, .qp_num = q->num, .byte_len = e->length, .opcode = e->opcode == OP_SEND ? WC_SEND : WC_WRITE};
		bool tell = q->all || e->flags & SIGNALED;
		if (e->opcode == OP_SEND)
			take_receive(q, e->length);
		atomic_store_explicit(&q->send->cons, cons + 1, memory_order_release);
		if (tell)
			complete(q->send_cq, &done);
		if (++q->a->completions % EVERY == 0)
			q->a->c.event(q->a->c.device, q->object, COMM_EST);
	}
}

static void serve_all(struct adapter *a)
{
	pthread_mutex_lock(&a->mu);
	for (struct qp *q = a->first; q != NULL; q = q->next)
		serve(q);
	pthread_mutex_unlock(&a->mu);
}

// work is the only thread that serves the queues. Only their atomics order its accesses and the
// library's, so no lock hides a missing one.
static void *work(void *arg)
{
	struct adapter *a = arg;
	for (bool closing = false; !closing;) {
		nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
		serve_all(a);
		pthread_mutex_lock(&a->mu);
		closing = a->closing;
		pthread_mutex_unlock(&a->mu);
	}
	return NULL;
}

#define OF(type, handle) ((struct type *)(uintptr_t)(handle))

static int open_adapter(struct softhca_config *c, handle_t *dev)
{
	struct adapter *a = calloc(1, sizeof *a);
	a->c = *c;
	pthread_mutex_init(&a->mu, NULL);
	*dev = (uintptr_t)a;
	return pthread_create(&a->worker, NULL, work, a);
}

static int close_adapter(handle_t dev)
{
	struct adapter *a = OF(adapter, dev);
	pthread_mutex_lock(&a->mu);
	a->closing = true;
	pthread_mutex_unlock(&a->mu);
	pthread_join(a->worker, NULL);
	free(a);
	return 0;
}

static int describe(handle_t dev, struct softhca_adapter *out)
{
	*out = (struct softhca_adapter){.node_guid = 1, .max_msg_size = 1u << 31, .port_state = 4, .active_mtu = 3, .gids = 1, .pkeys = 1, .pkey = {0xffff}};
	return 0;
}

// Objects without a state of their own have the adapter as their handle.
static int alloc_pd(handle_t dev, handle_t *pd)
{
	*pd = dev;
	return 0;
}

static int reg_mr(handle_t pd, struct softhca_mr *m)
{
	m->handle = pd, m->lkey = m->rkey = 1;
	return 0;
}

// nothing is each call that has no effect: it has no prototype, so that it fits them all.
static int nothing() { return 0; }

static int create_cq(handle_t dev, struct softhca_cq *c)
{
	struct cq *q = calloc(1, sizeof *q);
	q->a = OF(adapter, dev), q->object = c->object, q->ring = new_ring(c->cqe, sizeof(struct ring_cqe));
	pthread_mutex_init(&q->mu, NULL);
	c->handle = (uintptr_t)q, c->ring = q->ring, c->cqe = q->ring->mask + 1;
	return 0;
}

static int resize_cq(handle_t cq, uint32_t *cqe)
{
	*cqe = OF(cq, cq)->ring->mask + 1;
	return 0;
}

static int arm_cq(handle_t cq, int solicited)
{
	struct cq *q = OF(cq, cq);
	pthread_mutex_lock(&q->mu);
	q->armed = 1;
	pthread_mutex_unlock(&q->mu);
	return 0;
}

static int destroy_cq(handle_t cq)
{
	struct cq *q = OF(cq, cq);
	pthread_mutex_lock(&q->a->mu); // waits until work no longer writes it
	pthread_mutex_unlock(&q->a->mu);
	free(q->ring);
	free(q);
	return 0;
}

static int create_srq(handle_t pd, struct softhca_srq *s)
{
	s->ring = new_recv_ring(s->max_wr, s->max_sge);
	s->handle = (uintptr_t)s->ring;
	return 0;
}

static int query_srq(handle_t srq, struct softhca_srq *s)
{
	*s = (struct softhca_srq){.max_wr = OF(ring, srq)->mask + 1};
	return 0;
}

static int destroy_srq(handle_t srq)
{
	free(OF(ring, srq));
	return 0;
}

static int create_qp(handle_t pd, struct softhca_qp *c)
{
	struct adapter *a = OF(adapter, pd);
	struct qp *q = calloc(1, sizeof *q);
	q->a = a, q->object = c->object, q->all = c->sig_all;
	q->send = new_send_ring(&c->cap);
	q->recv = new_recv_ring(c->cap.recv_wr, c->cap.recv_sge);
	q->send_cq = OF(cq, c->send_cq), q->recv_cq = OF(cq, c->recv_cq);
	pthread_mutex_lock(&a->mu);
	q->num = ++a->qps;
	q->next = a->first;
	a->first = q;
	pthread_mutex_unlock(&a->mu);
	c->handle = (uintptr_t)q, c->send = q->send, c->recv = c->srq == 0 ? q->recv : NULL, c->qpn = q->num;
	return 0;
}

static int query_qp(handle_t qp, struct softhca_qp_attr *a)
{
	memset(a, 0, sizeof *a);
	return 0;
}

static int destroy_qp(handle_t qp, int detach)
{
	struct qp *q = OF(qp, qp), **at;
	pthread_mutex_lock(&q->a->mu);
	for (at = &q->a->first; *at != q; at = &(*at)->next) {
	}
	*at = q->next;
	pthread_mutex_unlock(&q->a->mu);
	free(q->send);
	free(q->recv);
	free(q);
	return 0;
}

static int create_ah(handle_t pd, struct softhca_av *av, uint64_t *ah)
{
	*ah = 1;
	return 0;
}

static int doorbell(handle_t qp, struct softhca_posted *p, int *waits)
{
	*waits = 1;
	return 0;
}

static int sleep_for(handle_t dev, struct softhca_sleep *s)
{
	struct pollfd fds[] = {{s->channel, POLLIN, 0}, {s->set, POLLIN, 0}, {s->ends, POLLIN, 0}};
	if (__atomic_load_n(s->awake, __ATOMIC_SEQ_CST) == 0)
		poll(fds, 3, s->limit < 0 ? -1 : (int)(s->limit / 1000000) + 1);
	return 0;
}

static int progress(handle_t cq, int *waits)
{
	sched_yield();
	*waits = 1;
	return 0;
}

static int overdue(handle_t dev, int *waits)
{
	*waits = 1;
	return 0;
}

__attribute__((visibility("default"))) const struct softhca_calls softhca_calls = {
	.abi = SOFTHCA_ENGINE_ABI,
	.open = open_adapter, .close = close_adapter, .flush = nothing, .describe = describe,
	.alloc_pd = alloc_pd, .dealloc_pd = nothing, .reg_mr = reg_mr, .rereg_mr = nothing, .dereg_mr = nothing,
	.size_cq = nothing, .size_srq = nothing, .size_qp = nothing,
	.create_cq = create_cq, .resize_cq = resize_cq, .arm_cq = arm_cq, .destroy_cq = destroy_cq,
	.create_srq = create_srq, .limit_srq = nothing, .query_srq = query_srq, .destroy_srq = destroy_srq,
	.create_qp = create_qp, .modify_qp = nothing, .query_qp = query_qp, .limit_qp = nothing, .destroy_qp = destroy_qp,
	.create_ah = create_ah, .destroy_ah = nothing, .attach = nothing, .detach = nothing,
	.check = nothing, .check_srq = nothing, .refused = nothing, .refused_srq = nothing, .doorbell = doorbell, .progress = progress, .overdue = overdue, .sleep = sleep_for,
};

// Several threads post to one queue pair, and several poll its completion queue: each
// request completes once, and the requests of a thread are executed in order.
#define _GNU_SOURCE
#include "link.h"

#include <sched.h>

enum { POSTERS = 2, POLLERS = 2, REQUESTS = 120, OUTSTANDING = DEPTH / POSTERS };

struct shared {
	struct thread *of;
	struct link *l;
	struct end *e;
	_Atomic unsigned seen[POSTERS][REQUESTS];
	_Atomic unsigned done[POSTERS], all;
};

// sharer is one of the threads, with its own random numbers.
struct sharer {
	struct thread as;
	struct shared *s;
	unsigned number;
	pthread_t handle;
};

// Each poster writes increasing numbers to one word of its own.
static uint8_t *place_of(struct end *to, unsigned poster) { return to->buf + REACHED + poster * sizeof(uint64_t); }

static void fill_shared(struct shared *s, struct request *r, unsigned poster, uint64_t i)
{
	struct end *to = peer_of(s->l, s->e);
	uint64_t value = i + 1;
	*r = (struct request){
		.op = IBV_WR_RDMA_WRITE, .wr_id = (uint64_t)poster << 32 | i, .flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE, .num_sge = 1,
		.remote = (uintptr_t)place_of(to, poster), .rkey = to->mr->rkey,
	};
	memcpy(r->data, &value, sizeof value);
	r->sge[0] = (struct ibv_sge){(uintptr_t)r->data, sizeof value, 0};
}

static void *post_shared(void *arg)
{
	struct sharer *me_too = arg;
	struct shared *s = me_too->s;
	struct end *e = s->e;
	unsigned number = me_too->number, bad;
	me = &me_too->as;
	for (uint64_t i = 0, n; i < REQUESTS; i += n) {
		struct request r[OUTSTANDING];
		n = 1 + draw(OUTSTANDING);
		if (n > REQUESTS - i)
			n = REQUESTS - i;
		while (i + n - atomic_load(&s->done[number]) > OUTSTANDING)
			sched_yield();
		for (uint64_t k = 0; k < n; k++)
			fill_shared(s, &r[k], number, i + k);
		int code = e->qpx != NULL && chance(50) ? post_new(s->l, e, r, (unsigned)n, &bad) : post_old(s->l, e, r, (unsigned)n, &bad);
		WANT("posting while others do", code, 0);
	}
	return NULL;
}

static void count(struct shared *s, uint64_t wr_id, enum ibv_wc_status status)
{
	uint64_t poster = wr_id >> 32, i = wr_id & UINT32_MAX;
	WANT("a completion of what several threads post", status, IBV_WC_SUCCESS);
	if (poster >= POSTERS || i >= REQUESTS)
		fails("a completion of what several threads post", "wr_id is %#llx", (unsigned long long)wr_id);
	WANT("completions of one request", atomic_fetch_add(&s->seen[poster][i], 1), 0);
	atomic_fetch_add(&s->done[poster], 1);
	atomic_fetch_add(&s->all, 1);
	atomic_fetch_add(&s->of->moves, 1); // for the watchdog: on a busy host, the step takes long
}

static void poll_extended(struct shared *s)
{
	struct ibv_cq_ex *x = (struct ibv_cq_ex *)s->e->send_cq;
	struct ibv_poll_cq_attr a = {0};
	if (ibv_start_poll(x, &a) != 0)
		return;
	do {
		sched_yield(); // gives another thread the chance to poll too
		WANT("ibv_wc_read_qp_num", ibv_wc_read_qp_num(x), s->e->qp->qp_num);
		WANT("ibv_wc_read_opcode", ibv_wc_read_opcode(x), IBV_WC_RDMA_WRITE);
		count(s, x->wr_id, x->status);
	} while (ibv_next_poll(x) == 0);
	ibv_end_poll(x);
}

static void *poll_shared(void *arg)
{
	struct sharer *me_too = arg;
	struct shared *s = me_too->s;
	me = &me_too->as;
	while (atomic_load(&s->all) < POSTERS * REQUESTS) {
		struct ibv_wc wc[DEPTH];
		if (s->e->ex && chance(70)) {
			poll_extended(s);
			continue;
		}
		int n = ibv_poll_cq(s->e->send_cq, 1 + (int)draw(DEPTH), wc);
		for (int i = 0; i < n; i++)
			count(s, wc[i].wr_id, wc[i].status);
	}
	return NULL;
}

static void step_share(void)
{
	struct shared s = {.of = me, .l = some_link()};
	struct sharer t[POSTERS + POLLERS];
	unsigned pollers;
	s.e = &s.l->end[s.l->self ? 0 : draw(2)];
	if (s.l->type != IBV_QPT_RC)
		return;
	pollers = s.e->single ? 1 : POLLERS; // the program promised this when it created the queue
	waits_for("threads that post to one queue pair");
	for (unsigned i = 0; i < POSTERS + pollers; i++) {
		t[i] = (struct sharer){.as = *me, .s = &s, .number = i};
		t[i].as.random = draw64();
		if (pthread_create(&t[i].handle, NULL, i < POSTERS ? post_shared : poll_shared, &t[i]) != 0)
			abort();
	}
	for (unsigned i = 0; i < POSTERS + pollers; i++)
		pthread_join(t[i].handle, NULL);
	struct end *to = peer_of(s.l, s.e);
	for (unsigned i = 0; i < POSTERS; i++) {
		uint64_t want = REQUESTS;
		want_bytes("what several threads wrote", "memory", place_of(to, i), &want, sizeof want);
	}
	memcpy(to->shadow, to->buf, BUF);
}

const struct step share_steps[] = {{"share", 4, step_share}, {NULL, 0, NULL}};

//go:build cgo

#include "peer.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static void lock(struct ring *h)
{
	uint32_t free = 0;
	while (!atomic_compare_exchange_weak(&h->lock, &free, 1)) {
		free = 0;
		sched_yield();
	}
}

static void unlock(struct ring *h) { atomic_store(&h->lock, 0); }

static void *entry(const struct ring *h, uint32_t i)
{
	return (uint8_t *)(uintptr_t)h->entries + (size_t)(i & h->mask) * h->stride;
}

struct reader {
	struct ring *h;
	const struct board *board;
	struct taken *taken;
	size_t count, room;
	_Atomic int stop, overflow;
	pthread_t thread;
};

// poll takes up to four entries.
static size_t poll(struct reader *r)
{
	struct ring *h = r->h;
	size_t n = 0;

	lock(h);
	uint32_t cons = atomic_load(&h->cons);
	for (; n < 4 && r->count < r->room; n++, cons++) {
		const struct ring_cqe *e = entry(h, cons);
		if (atomic_load(&e->valid) != cons + 1)
			break;
		r->taken[r->count++] = (struct taken){
			.wr_id = e->wr_id, .qp_num = e->qp_num, .status = e->status,
			.late = e->qp_num < max_qps && e->wr_id < atomic_load(&r->board->removed[e->qp_num]),
		};
	}
	atomic_store(&h->cons, cons);
	unlock(h);
	return n;
}

static void *read_until_stopped(void *arg)
{
	struct reader *r = arg;
	for (;;) {
		int last = atomic_load(&r->stop);
		if (atomic_load(&r->h->flags) & RING_OVERFLOW)
			atomic_store(&r->overflow, 1);
		if (poll(r) != 0)
			continue;
		if (last)
			return NULL;
		sched_yield();
	}
}

struct reader *reader_start(struct ring *h, const struct board *b, size_t room)
{
	struct reader *r = calloc(1, sizeof *r);
	if (r == NULL)
		return NULL;
	r->h = h, r->board = b, r->room = room;
	r->taken = calloc(room, sizeof *r->taken);
	if (r->taken == NULL || pthread_create(&r->thread, NULL, read_until_stopped, r) != 0) {
		reader_free(r);
		return NULL;
	}
	return r;
}

void reader_stop(struct reader *r)
{
	atomic_store(&r->stop, 1);
	pthread_join(r->thread, NULL);
}

void reader_free(struct reader *r)
{
	free(r->taken);
	free(r);
}

size_t reader_count(const struct reader *r) { return r->count; }
const struct taken *reader_taken(const struct reader *r) { return r->taken; }
int reader_overflow(const struct reader *r) { return atomic_load(&r->overflow); }

// locked_add counts to n with the lock held for each step, not atomically.
void locked_add(struct ring *h, uint64_t *counter, uint64_t n)
{
	for (; n > 0; n--) {
		lock(h);
		*(volatile uint64_t *)counter += 1;
		unlock(h);
	}
}

// post returns the entry at the producer's index once there is one.
static void *post(struct ring *h)
{
	uint32_t prod = atomic_load(&h->prod);
	while (prod - atomic_load(&h->cons) > h->mask)
		sched_yield();
	return entry(h, prod);
}

static void publish(struct ring *h) { atomic_fetch_add(&h->prod, 1); }

void post_send(struct ring *h, const struct ring_send *w, const struct ring_sge *s)
{
	struct ring_send *e = post(h);
	*e = *w;
	memcpy(e + 1, s, w->num_sge * sizeof *s);
	publish(h);
}

void post_recv(struct ring *h, const struct ring_recv *w, const struct ring_sge *s)
{
	struct ring_recv *e = post(h);
	*e = *w;
	memcpy(e + 1, s, w->num_sge * sizeof *s);
	publish(h);
}

struct producer {
	struct ring *h;
	int receives;
	uint64_t n;
	pthread_t thread;
};

static void *produce(void *arg)
{
	struct producer *p = arg;
	for (uint64_t i = 0; i < p->n; i++) {
		struct ring_sge s = {~i, (uint32_t)i, (uint32_t)i * 3};
		if (p->receives)
			post_recv(p->h, &(struct ring_recv){.wr_id = i, .length = (uint32_t)i, .num_sge = 1}, &s);
		else
			post_send(p->h, &(struct ring_send){
				.wr_id = i, .remote_addr = i * 5, .compare_add = i * 7, .swap = i * 11, .length = (uint32_t)i,
				.rkey = (uint32_t)i * 13, .imm = (uint32_t)i * 17, .opcode = (uint8_t)i, .flags = (uint8_t)(i >> 8), .num_sge = 1,
			}, &s);
	}
	return NULL;
}

struct producer *producer_start(struct ring *h, int receives, uint64_t n)
{
	struct producer *p = calloc(1, sizeof *p);
	if (p == NULL)
		return NULL;
	p->h = h, p->receives = receives, p->n = n;
	if (pthread_create(&p->thread, NULL, produce, p) != 0) {
		free(p);
		return NULL;
	}
	return p;
}

void producer_join(struct producer *p)
{
	pthread_join(p->thread, NULL);
	free(p);
}

// Several threads wait for events of one channel, and a thread destroys a queue before all
// its events are acknowledged.
#define _GNU_SOURCE
#include "model.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

enum { MOST_WAITERS = 3, QUEUES = 3, ROOM = 64 };

// waiter is a thread that reads events: a fixed number of them, or all until it reads one of
// its stop queue.
struct waiter {
	struct thread *of;
	struct ibv_comp_channel *ch;
	struct ibv_cq *stop; // NULL: it ends after share events
	unsigned share;
	bool polls; // waits with poll on a descriptor that does not block
	_Atomic pid_t tid;
	_Atomic unsigned *taken; // events read of each queue, by its context
	pthread_t handle;
};

static void *wait_for_events(void *arg)
{
	struct waiter *w = arg;
	struct pollfd p = {w->ch->fd, POLLIN, 0};
	me = w->of;
	atomic_store(&w->tid, gettid());
	for (unsigned n = 0; w->stop != NULL || n < w->share;) {
		struct ibv_cq *cq = NULL;
		void *context = NULL;
		if (w->polls && poll(&p, 1, -1) != 1)
			fails("poll", "errno %d", errno);
		errno = 0;
		if (ibv_get_cq_event(w->ch, &cq, &context) != 0) {
			if (w->polls && errno == EAGAIN)
				continue; // another thread took it
			fails("ibv_get_cq_event", "fails with errno %d", errno);
		}
		n++;
		atomic_fetch_add(&me->moves, 1);
		atomic_fetch_add(&w->taken[(uintptr_t)context], 1);
		bool last = cq == w->stop;
		ibv_ack_cq_events(cq, 1);
		if (last)
			break;
	}
	return NULL;
}

static void start_waiter(struct waiter *w)
{
	if (pthread_create(&w->handle, NULL, wait_for_events, w) != 0)
		abort();
	while (atomic_load(&w->tid) == 0)
		sched_yield();
}

// pair is a queue pair with an incomplete send and receive. One call moves it to ERR and
// so raises an event of both queues.
struct pair {
	struct ibv_pd *pd;
	struct ibv_ah *ah;
	struct ibv_cq *cq[2];
	struct ibv_qp *qp;
};

static void open_pair(struct pair *p, struct ibv_context *ctx, struct ibv_comp_channel *ch)
{
	struct ibv_ah_attr av;
	p->pd = MADE(ibv_alloc_pd(ctx));
	fill_av(&av, 0);
	p->ah = MADE(ibv_create_ah(p->pd, &av));
	for (uintptr_t i = 0; i < 2; i++)
		p->cq[i] = MADE(ibv_create_cq(ctx, ROOM, (void *)i, ch, 0));
	struct ibv_qp_init_attr a = {.send_cq = p->cq[0], .recv_cq = p->cq[1], .qp_type = IBV_QPT_UD, .cap = {4, 4, 1, 1, 0}};
	p->qp = MADE(ibv_create_qp(p->pd, &a));
}

static void move_to(struct ibv_qp *qp, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr a = {.qp_state = to, .port_num = 1, .qkey = QKEY};
	WORKS(ibv_modify_qp(qp, &a, IBV_QP_STATE | mask));
}

static void load_pair(struct pair *p)
{
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .wr.ud = {p->ah, 1 << 20, QKEY}};
	struct ibv_recv_wr *bad_recv, rwr = {0};
	struct ibv_wc wc;
	move_to(p->qp, IBV_QPS_RESET, 0);
	move_to(p->qp, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	move_to(p->qp, IBV_QPS_RTR, 0);
	move_to(p->qp, IBV_QPS_RTS, IBV_QP_SQ_PSN);
	move_to(p->qp, IBV_QPS_SQD, 0);
	WORKS(ibv_post_send(p->qp, &wr, &bad));
	WORKS(ibv_post_recv(p->qp, &rwr, &bad_recv));
	for (int i = 0; i < 2; i++) {
		WANT("ibv_poll_cq", ibv_poll_cq(p->cq[i], 1, &wc), 0);
		WORKS(ibv_req_notify_cq(p->cq[i], 0));
	}
}

static void close_pair(struct pair *p)
{
	WORKS(ibv_destroy_qp(p->qp));
	WORKS(ibv_destroy_ah(p->ah));
	for (int i = 0; i < 2; i++)
		WORKS(ibv_destroy_cq(p->cq[i]));
	WORKS(ibv_dealloc_pd(p->pd));
}

// Two events are raised at once while two threads are blocked: each thread gets one. The
// step is repeated, because the first thread is sometimes fast enough to take both.
static void step_two(void)
{
	enum { ROUNDS = 3 };
	struct ibv_context *ctx = me->ctx[draw(ADAPTERS)];
	struct ibv_comp_channel *ch = MADE(ibv_create_comp_channel(ctx));
	struct pair p;
	bool polls = chance(30);
	open_pair(&p, ctx, ch);
	for (int round = 0; round < ROUNDS; round++) {
		_Atomic unsigned taken[2] = {0};
		struct waiter w[2];
		if (polls)
			fcntl(ch->fd, F_SETFL, O_NONBLOCK);
		load_pair(&p);
		for (int i = 0; i < 2; i++) {
			w[i] = (struct waiter){.of = me, .ch = ch, .share = 1, .taken = taken, .polls = polls};
			start_waiter(&w[i]);
			until_blocked(w[i].tid);
		}
		waits_for("two threads, each for one of two events");
		move_to(p.qp, IBV_QPS_ERR, 0);
		for (int i = 0; i < 2; i++)
			pthread_join(w[i].handle, NULL);
		WANT("events of the send queue", taken[0], 1);
		WANT("events of the receive queue", taken[1], 1);
		WANT("the descriptor of a channel", readable(ch->fd), false);
	}
	close_pair(&p);
	WORKS(ibv_destroy_comp_channel(ch));
}

// raise_one makes a queue raise an event.
static void raise_one(struct source *s)
{
	WORKS(ibv_req_notify_cq(s->cq, 0));
	source_emit(s, 1);
}

static void poll_all(struct ibv_cq *cq, unsigned want)
{
	struct ibv_wc wc[ROOM];
	WANT("ibv_poll_cq", ibv_poll_cq(cq, ROOM, wc), want);
}

// crowd is a channel with queues whose contexts are their indices. An event of the last
// queue stops the thread that reads it.
struct crowd {
	struct ibv_context *ctx;
	struct ibv_comp_channel *ch;
	struct source source[QUEUES];
	unsigned raised[QUEUES];
	_Atomic unsigned taken[QUEUES];
};

static void open_crowd_queue(struct crowd *c, uintptr_t i)
{
	struct ibv_cq *cq = MADE(ibv_create_cq(c->ctx, ROOM, (void *)i, c->ch, 0));
	source_open(&c->source[i], c->ctx, cq);
	c->raised[i] = 0;
	atomic_store(&c->taken[i], 0);
}

// take_rest reads the events that the threads left.
static void take_rest(struct crowd *c)
{
	struct ibv_cq *cq;
	void *context;
	fcntl(c->ch->fd, F_SETFL, O_NONBLOCK);
	for (;;) {
		bool there = readable(c->ch->fd);
		errno = 0;
		int code = ibv_get_cq_event(c->ch, &cq, &context);
		WANT("the descriptor of a channel", there, code == 0);
		if (code != 0)
			break;
		c->taken[(uintptr_t)context]++;
		ibv_ack_cq_events(cq, 1);
	}
	WANT("ibv_get_cq_event", errno, EAGAIN);
}

// Threads read events while queues raise them and the main thread destroys some queues. Each
// event of a queue that is not destroyed is read once.
static void step_crowd(void)
{
	struct crowd c = {.ctx = me->ctx[draw(ADAPTERS)]};
	struct waiter w[MOST_WAITERS];
	unsigned waiters = 2 + draw(MOST_WAITERS - 1), stop = QUEUES - 1;
	bool polls = chance(30);
	c.ch = MADE(ibv_create_comp_channel(c.ctx));
	if (polls)
		fcntl(c.ch->fd, F_SETFL, O_NONBLOCK);
	for (uintptr_t i = 0; i < QUEUES; i++)
		open_crowd_queue(&c, i);
	for (unsigned i = 0; i < waiters; i++) {
		w[i] = (struct waiter){.of = me, .ch = c.ch, .stop = c.source[stop].cq, .taken = c.taken, .polls = polls};
		start_waiter(&w[i]);
	}
	waits_for("threads that take events of a channel");
	for (unsigned n = 4 + draw(12); n > 0; n--) {
		unsigned i = draw(stop);
		raise_one(&c.source[i]);
		c.raised[i]++;
		if (chance(70))
			continue;
		poll_all(c.source[i].cq, c.raised[i]);
		source_close(&c.source[i]);
		WORKS(ibv_destroy_cq(c.source[i].cq));
		if (c.taken[i] > c.raised[i])
			fails("ibv_get_cq_event", "%u events of a queue that raised %u", c.taken[i], c.raised[i]);
		open_crowd_queue(&c, i);
	}
	for (unsigned i = 0; i < waiters; i++)
		raise_one(&c.source[stop]);
	c.raised[stop] = waiters;
	for (unsigned i = 0; i < waiters; i++)
		pthread_join(w[i].handle, NULL);
	take_rest(&c);
	for (unsigned i = 0; i < QUEUES; i++) {
		WANT("events read of a queue", c.taken[i], c.raised[i]);
		source_close(&c.source[i]);
		WORKS(ibv_destroy_cq(c.source[i].cq));
	}
	WORKS(ibv_destroy_comp_channel(c.ch));
}

// paused_waiter is a waiter that pauses.
struct paused_waiter {
	struct waiter w;
	struct pause p;
};

static void *wait_paused(void *arg)
{
	struct paused_waiter *w = arg;
	paused = &w->p;
	return wait_for_events(&w->w);
}

// An event wakes a thread that waits. Before the thread takes the event, its queue is destroyed,
// so the thread has to wait for the next event. A thread of a descriptor that does not block never
// sleeps in the engine.
static void step_gone(void)
{
	struct crowd c = {.ctx = me->ctx[draw(ADAPTERS)]};
	struct paused_waiter w;
	c.ch = MADE(ibv_create_comp_channel(c.ctx));
	fcntl(c.ch->fd, F_SETFL, O_NONBLOCK);
	for (uintptr_t i = 0; i < 2; i++)
		open_crowd_queue(&c, i);
	w.w = (struct waiter){.of = me, .ch = c.ch, .share = 1, .taken = c.taken};
	init_pause(&w.p, c.ch->fd);
	if (pthread_create(&w.w.handle, NULL, wait_paused, &w) != 0)
		abort();
	waits_for("a thread that an event of a channel wakes");
	sem_wait(&w.p.begins);
	raise_one(&c.source[0]);
	sem_wait(&w.p.returns);
	source_close(&c.source[0]);
	WORKS(ibv_destroy_cq(c.source[0].cq));
	waits_for("a thread that finds no event of a channel, and waits again");
	sem_post(&w.p.go_on);
	sem_wait(&w.p.begins);
	waits_for("a thread that takes an event of a channel after one that was gone");
	raise_one(&c.source[1]);
	pthread_join(w.w.handle, NULL);
	WANT("events read of a queue that was destroyed", c.taken[0], 0);
	WANT("events read of a queue", c.taken[1], 1);
	WANT("the descriptor of a channel", readable(c.ch->fd), false);
	source_close(&c.source[1]);
	WORKS(ibv_destroy_cq(c.source[1].cq));
	WORKS(ibv_destroy_comp_channel(c.ch));
}

static void destroy(void *cq) { WORKS(ibv_destroy_cq(cq)); }

// Destroying a queue waits until all events that were read are acknowledged. Unread events
// disappear with the queue.
static void step_unacknowledged(void)
{
	struct ibv_context *ctx = me->ctx[draw(ADAPTERS)];
	struct ibv_comp_channel *ch = MADE(ibv_create_comp_channel(ctx));
	struct ibv_cq *cq = MADE(ibv_create_cq(ctx, ROOM, ch, ch, 0)), *got;
	struct source s;
	struct helper h = {.call = destroy, .arg = cq};
	unsigned taken = 1 + draw(3), left = draw(3), acked = draw(taken);
	void *context;
	source_open(&s, ctx, cq);
	for (unsigned i = 0; i < taken + left; i++)
		raise_one(&s);
	for (unsigned i = 0; i < taken; i++)
		WORKS(ibv_get_cq_event(ch, &got, &context));
	ibv_ack_cq_events(cq, acked);
	source_close(&s);
	start_helper(&h);
	WANT("ibv_destroy_cq has returned before all events were acknowledged", has_returned(&h), false);
	waits_for("ibv_destroy_cq, whose events are acknowledged");
	for (; acked < taken; acked++) {
		WANT("ibv_destroy_cq has returned before all events were acknowledged", has_returned(&h), false);
		ibv_ack_cq_events(cq, 1);
	}
	join_helper(&h);
	WANT("the descriptor of a channel", readable(ch->fd), false);
	WORKS(ibv_destroy_comp_channel(ch));
}

const struct step waiter_steps[] = {{"two-waiters", 2, step_two}, {"crowd", 3, step_crowd}, {"gone", 1, step_gone}, {"unacknowledged", 3, step_unacknowledged}, {NULL, 0, NULL}};

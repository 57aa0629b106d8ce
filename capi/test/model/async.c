// Asynchronous events of queue pairs, completion queues and SRQs, in a context of their
// own. Each event is delivered once. Destroying an object discards its unread events, and
// waits until events that were read are acknowledged.
#define _GNU_SOURCE
#include "model.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

enum { SUBJECTS = 6, ROOM = 16 };

// subject is an object that has raised an event.
struct subject {
	enum ibv_event_type type; // of the event that it raised
	void *object;
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct source source;
	bool taken, acknowledged;
};

struct asyncs {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_ah *ah;
	struct subject s[SUBJECTS];
};

static void move_to(struct ibv_qp *qp, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr a = {.qp_state = to, .port_num = 1, .qkey = QKEY, .en_sqd_async_notify = 1};
	WORKS(ibv_modify_qp(qp, &a, IBV_QP_STATE | mask));
}

static struct ibv_qp *new_qp(struct asyncs *v, struct subject *s)
{
	struct ibv_qp_init_attr a = {.send_cq = s->cq, .recv_cq = s->cq, .srq = s->srq, .qp_type = IBV_QPT_UD, .cap = {4, 4, 1, 1, 0}};
	struct ibv_qp *qp = MADE(ibv_create_qp(v->pd, &a));
	move_to(qp, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	move_to(qp, IBV_QPS_RTR, 0);
	move_to(qp, IBV_QPS_RTS, IBV_QP_SQ_PSN);
	return qp;
}

// drain_queue drains an empty send queue.
static void drain_queue(struct asyncs *v, struct subject *s)
{
	s->object = s->qp = new_qp(v, s);
	s->type = IBV_EVENT_SQ_DRAINED;
	move_to(s->qp, IBV_QPS_SQD, IBV_QP_EN_SQD_ASYNC_NOTIFY);
}

static void new_srq(struct asyncs *v, struct subject *s)
{
	struct ibv_srq_init_attr a = {.attr = {ROOM, 1, 0}};
	s->srq = MADE(ibv_create_srq(v->pd, &a));
}

// last_taken moves a queue pair with an SRQ to ERR.
static void last_taken(struct asyncs *v, struct subject *s)
{
	new_srq(v, s);
	s->object = s->qp = new_qp(v, s);
	s->type = IBV_EVENT_QP_LAST_WQE_REACHED;
	move_to(s->qp, IBV_QPS_ERR, 0);
}

// reach_limit sets the limit of an SRQ to its number of receives, and has a datagram
// consume one.
static void reach_limit(struct asyncs *v, struct subject *s)
{
	struct ibv_srq_attr limit = {.srq_limit = 3};
	struct ibv_recv_wr *bad_recv, rwr = {0};
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_wc wc;
	new_srq(v, s);
	s->qp = new_qp(v, s);
	s->object = s->srq;
	s->type = IBV_EVENT_SRQ_LIMIT_REACHED;
	char grh[40];
	struct ibv_mr *mr = MADE(ibv_reg_mr(v->pd, grh, sizeof grh, IBV_ACCESS_LOCAL_WRITE));
	struct ibv_sge sge = {(uintptr_t)grh, sizeof grh, mr->lkey};
	rwr.sg_list = &sge, rwr.num_sge = 1;
	for (unsigned i = 0; i < limit.srq_limit; i++)
		WORKS(ibv_post_srq_recv(s->srq, &rwr, &bad_recv));
	WORKS(ibv_modify_srq(s->srq, &limit, IBV_SRQ_LIMIT));
	wr.wr.ud.ah = v->ah, wr.wr.ud.remote_qpn = s->qp->qp_num, wr.wr.ud.remote_qkey = QKEY;
	WORKS(ibv_post_send(s->qp, &wr, &bad));
	for (int n = 0; n < 2;) {
		int got = ibv_poll_cq(s->cq, 1, &wc);
		if (got < 0 || (got > 0 && wc.status != IBV_WC_SUCCESS))
			fails("ibv_poll_cq", "returned %d, status %d", got, wc.status);
		n += got;
	}
	WORKS(ibv_query_srq(s->srq, &limit));
	WANT("ibv_query_srq after the limit was reached", limit.srq_limit, 0);
	WORKS(ibv_dereg_mr(mr));
}

// overflow adds more completions to a queue than it holds.
static void overflow(struct asyncs *v, struct subject *s)
{
	source_open(&s->source, v->ctx, s->cq);
	s->object = s->cq;
	s->type = IBV_EVENT_CQ_ERR;
	source_emit(&s->source, 2 * (unsigned)s->cq->cqe + 2);
}

static void provoke(struct asyncs *v, struct subject *s)
{
	static void (*const how[])(struct asyncs *, struct subject *) = {drain_queue, last_taken, reach_limit, overflow};
	*s = (struct subject){.cq = MADE(ibv_create_cq(v->ctx, 4, s, NULL, 0))};
	how[draw(4)](v, s);
}

static void end_subject(struct subject *s)
{
	if (s->qp != NULL)
		WORKS(ibv_destroy_qp(s->qp));
	if (s->srq != NULL)
		WORKS(ibv_destroy_srq(s->srq));
	if (s->source.qp != NULL)
		source_close(&s->source);
	WORKS(ibv_destroy_cq(s->cq));
	s->cq = NULL, s->type = 0;
}

static struct subject *subject_of(struct asyncs *v, const struct ibv_async_event *e)
{
	for (int i = 0; i < SUBJECTS; i++)
		if (v->s[i].cq != NULL && !v->s[i].taken && v->s[i].type == e->event_type && (void *)e->element.qp == v->s[i].object)
			return &v->s[i];
	fails("ibv_get_async_event", "event %d (%s) of %p, which raised none", e->event_type, ibv_event_type_str(e->event_type), (void *)e->element.qp);
}

// take_one waits for an event and reads it. At random, it also acknowledges it.
static void take_one(struct asyncs *v)
{
	struct ibv_async_event e;
	poison(&e, sizeof e);
	WORKS(ibv_get_async_event(v->ctx, &e));
	struct subject *s = subject_of(v, &e);
	s->taken = true;
	if (chance(70)) {
		ibv_ack_async_event(&e);
		s->acknowledged = true;
	}
}

static void end(void *subject) { end_subject(subject); }

// end_unacknowledged destroys an object whose event was read but not acknowledged.
static void end_unacknowledged(struct subject *s)
{
	struct helper h = {.call = end, .arg = s};
	struct ibv_async_event e = {.event_type = s->type, .element.qp = s->object};
	start_helper(&h);
	WANT("an object is destroyed before its event is acknowledged", has_returned(&h), false);
	waits_for("the destruction of an object whose event is acknowledged");
	ibv_ack_async_event(&e);
	join_helper(&h);
}

static void step_async(void)
{
	struct asyncs v = {0};
	struct ibv_ah_attr av;
	struct ibv_async_event e;
	int waiting = 0, n = 1 + (int)draw(SUBJECTS), adapter = (int)draw(ADAPTERS);
	v.ctx = MADE(ibv_open_device(me->ctx[adapter]->device));
	v.pd = MADE(ibv_alloc_pd(v.ctx));
	fill_av(&av, adapter);
	v.ah = MADE(ibv_create_ah(v.pd, &av));
	waits_for("asynchronous events that were raised");
	for (int i = 0; i < n; i++)
		provoke(&v, &v.s[i]);
	for (int i = 0; i < n; i++) {
		if (chance(25)) // before its event is read
			end_subject(&v.s[i]);
		else
			waiting++;
	}
	while (waiting-- > 0)
		take_one(&v);
	WANT("the descriptor of asynchronous events", readable(v.ctx->async_fd), false);
	fcntl(v.ctx->async_fd, F_SETFL, O_NONBLOCK);
	REFUSES_MINUS(ibv_get_async_event(v.ctx, &e), EAGAIN);
	for (int i = 0; i < n; i++) {
		if (v.s[i].cq != NULL && v.s[i].taken && !v.s[i].acknowledged)
			end_unacknowledged(&v.s[i]);
		else if (v.s[i].cq != NULL)
			end_subject(&v.s[i]);
	}
	WORKS(ibv_destroy_ah(v.ah));
	WORKS(ibv_dealloc_pd(v.pd));
	WORKS(ibv_close_device(v.ctx));
}

// taker is a thread that reads one event.
struct taker {
	struct thread *of;
	struct ibv_context *ctx;
	struct ibv_async_event e;
	_Atomic pid_t tid;
	pthread_t handle;
};

static void *take(void *arg)
{
	struct taker *t = arg;
	me = t->of;
	atomic_store(&t->tid, gettid());
	WORKS(ibv_get_async_event(t->ctx, &t->e));
	return NULL;
}

// Two threads wait, two events are raised, and each thread reads one.
static void step_two_takers(void)
{
	struct asyncs v = {.ctx = MADE(ibv_open_device(me->ctx[draw(ADAPTERS)]->device))};
	struct taker t[2];
	v.pd = MADE(ibv_alloc_pd(v.ctx));
	for (int i = 0; i < 2; i++) {
		v.s[i].cq = MADE(ibv_create_cq(v.ctx, 4, NULL, NULL, 0));
		new_srq(&v, &v.s[i]);
		v.s[i].object = v.s[i].qp = new_qp(&v, &v.s[i]);
		v.s[i].type = IBV_EVENT_QP_LAST_WQE_REACHED;
	}
	for (int i = 0; i < 2; i++) {
		t[i] = (struct taker){.of = me, .ctx = v.ctx};
		if (pthread_create(&t[i].handle, NULL, take, &t[i]) != 0)
			abort();
		while (atomic_load(&t[i].tid) == 0)
			sched_yield();
		until_blocked(t[i].tid);
	}
	waits_for("two threads, each for one of two asynchronous events");
	for (int i = 0; i < 2; i++)
		move_to(v.s[i].qp, IBV_QPS_ERR, 0);
	for (int i = 0; i < 2; i++) {
		pthread_join(t[i].handle, NULL);
		subject_of(&v, &t[i].e)->taken = true;
		ibv_ack_async_event(&t[i].e);
	}
	WANT("the descriptor of asynchronous events", readable(v.ctx->async_fd), false);
	for (int i = 0; i < 2; i++)
		end_subject(&v.s[i]);
	WORKS(ibv_dealloc_pd(v.pd));
	WORKS(ibv_close_device(v.ctx));
}

// paused_taker is a taker that pauses.
struct paused_taker {
	struct taker t;
	struct pause p;
};

static void *take_paused(void *arg)
{
	struct paused_taker *t = arg;
	paused = &t->p;
	return take(&t->t);
}

// An event wakes a thread that waits. Before the thread takes the event, its queue pair is
// destroyed, so the thread has to wait for the next event.
static void step_gone(void)
{
	struct asyncs v = {.ctx = MADE(ibv_open_device(me->ctx[draw(ADAPTERS)]->device))};
	struct paused_taker t = {.t = {.of = me, .ctx = v.ctx}};
	v.pd = MADE(ibv_alloc_pd(v.ctx));
	for (int i = 0; i < 2; i++)
		v.s[i].cq = MADE(ibv_create_cq(v.ctx, 4, NULL, NULL, 0));
	init_pause(&t.p, v.ctx->async_fd);
	if (pthread_create(&t.t.handle, NULL, take_paused, &t) != 0)
		abort();
	waits_for("a thread that an asynchronous event wakes");
	sem_wait(&t.p.begins);
	drain_queue(&v, &v.s[0]);
	sem_wait(&t.p.returns);
	end_subject(&v.s[0]);
	waits_for("a thread that finds no asynchronous event, and waits again");
	sem_post(&t.p.go_on);
	sem_wait(&t.p.begins);
	waits_for("a thread that takes an asynchronous event after one that was gone");
	drain_queue(&v, &v.s[1]);
	pthread_join(t.t.handle, NULL);
	subject_of(&v, &t.t.e)->taken = true;
	ibv_ack_async_event(&t.t.e);
	WANT("the descriptor of asynchronous events", readable(v.ctx->async_fd), false);
	end_subject(&v.s[1]);
	WORKS(ibv_dealloc_pd(v.pd));
	WORKS(ibv_close_device(v.ctx));
}

const struct step async_steps[] = {{"async", 5, step_async}, {"two-takers", 1, step_two_takers}, {"async-gone", 1, step_gone}, {NULL, 0, NULL}};

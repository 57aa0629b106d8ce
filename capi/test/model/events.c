// Completion events of several queues on one channel, which one thread reads: the queues
// that raise one, that each is delivered once, and that the channel's descriptor is readable
// while an event is pending.
#define _GNU_SOURCE
#include "model.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { QUEUES = 4, ROOM = 64, ACTIONS = 40 };
enum armed { NOT_ARMED, ARMED_SOLICITED, ARMED_ANY };

// queue is the model of a completion queue.
struct queue {
	struct ibv_cq *cq; // NULL: destroyed
	struct source source;
	unsigned entries, prod; // in the queue now, and ever added
	enum armed armed;
	bool told;        // an event was raised, and the queue was not polled since,
	unsigned told_to; // when prod had this value
	unsigned pending, unacked;
	unsigned since; // the order in which queues got their oldest event
};

struct events {
	struct ibv_context *ctx;
	struct ibv_comp_channel *ch;
	struct queue q[QUEUES];
	unsigned pending, clock;
	bool in_order; // no queue has had two pending events since the channel was last empty
};

static void open_queue(struct events *v, struct queue *q)
{
	*q = (struct queue){0};
	q->cq = MADE(ibv_create_cq(v->ctx, ROOM, q, v->ch, 0));
	source_open(&q->source, v->ctx, q->cq);
}

static void raised(struct events *v, struct queue *q)
{
	q->armed = NOT_ARMED;
	q->told = true, q->told_to = q->prod;
	if (v->pending++ == 0)
		v->in_order = true;
	if (q->pending++ == 0)
		q->since = v->clock++;
	else
		v->in_order = false;
}

static void emit(struct events *v, struct queue *q)
{
	unsigned n = 1 + draw(3);
	if (q->entries + n > ROOM)
		return;
	for (unsigned i = 0; i < n; i++) {
		source_emit(&q->source, 1);
		q->entries++, q->prod++;
		if (q->armed != NOT_ARMED)
			raised(v, q);
	}
}

// Arming a queue for any completion raises an event at once if the queue holds entries for
// which no event was raised. Programs rely on this.
static void arm(struct events *v, struct queue *q)
{
	bool solicited = chance(30), news = q->entries > 0 && !(q->told && q->told_to == q->prod);
	WORKS(ibv_req_notify_cq(q->cq, solicited));
	if (!solicited)
		q->armed = ARMED_ANY;
	else if (q->armed == NOT_ARMED)
		q->armed = ARMED_SOLICITED;
	if (!solicited && news)
		raised(v, q);
}

static void poll_some(struct queue *q)
{
	struct ibv_wc wc[8];
	unsigned n = 1 + draw(8), want = q->entries < n ? q->entries : n;
	poison(wc, sizeof wc);
	WANT("ibv_poll_cq", ibv_poll_cq(q->cq, (int)n, wc), want);
	for (unsigned i = 0; i < want; i++) {
		WANT("ibv_poll_cq", wc[i].status, IBV_WC_WR_FLUSH_ERR);
		WANT("ibv_poll_cq", wc[i].wr_id, 7);
		WANT("ibv_poll_cq", wc[i].qp_num, q->source.qp->qp_num);
	}
	q->entries -= want;
	q->told = false;
}

// oldest returns the queue whose event the channel must deliver next, or NULL if the model
// allows several.
static struct queue *oldest(struct events *v)
{
	struct queue *o = NULL;
	for (int i = 0; v->in_order && i < QUEUES; i++)
		if (v->q[i].pending > 0 && (o == NULL || v->q[i].since < o->since))
			o = &v->q[i];
	return o;
}

static void get(struct events *v)
{
	struct ibv_cq *cq = (void *)1;
	void *context = (void *)2;
	int flags = fcntl(v->ch->fd, F_GETFL);
	if (v->pending == 0) {
		fcntl(v->ch->fd, F_SETFL, flags | O_NONBLOCK);
		REFUSES_MINUS(ibv_get_cq_event(v->ch, &cq, &context), EAGAIN);
		WANT("ibv_get_cq_event without an event", cq, (void *)1);
		fcntl(v->ch->fd, F_SETFL, flags & ~O_NONBLOCK);
		return;
	}
	if (chance(50))
		fcntl(v->ch->fd, F_SETFL, flags ^ O_NONBLOCK);
	WORKS(ibv_get_cq_event(v->ch, &cq, &context));
	struct queue *q = context, *want = oldest(v);
	if (q < v->q || q >= v->q + QUEUES || q->cq != cq || q->pending == 0)
		fails("ibv_get_cq_event", "an event of queue %p, context %p, which has none", (void *)cq, context);
	if (want != NULL)
		WANT("ibv_get_cq_event", q - v->q, want - v->q);
	q->pending--, q->unacked++, v->pending--;
	q->since = v->clock++;
}

static void ack(struct queue *q)
{
	unsigned n = draw(q->unacked + 1);
	ibv_ack_cq_events(q->cq, n);
	q->unacked -= n;
}

static void close_queue(struct events *v, struct queue *q)
{
	source_close(&q->source);
	ibv_ack_cq_events(q->cq, q->unacked);
	WORKS(ibv_destroy_cq(q->cq));
	v->pending -= q->pending;
	*q = (struct queue){0};
}

static void act(struct events *v)
{
	struct queue *q = &v->q[draw(QUEUES)];
	if (q->cq == NULL) {
		open_queue(v, q);
		return;
	}
	switch (draw(12)) {
	case 0:
	case 1:
	case 2:
		emit(v, q);
		break;
	case 3:
	case 4:
	case 5:
		arm(v, q);
		break;
	case 6:
		poll_some(q);
		break;
	case 7:
	case 8:
		get(v);
		break;
	case 9:
		ack(q);
		break;
	case 10:
		close_queue(v, q);
		break;
	case 11:
		arm(v, q);
		if (q->armed != NOT_ARMED)
			emit(v, q);
	}
}

static void step_events(void)
{
	struct events v = {.ctx = me->ctx[draw(ADAPTERS)]};
	struct epoll_event in = {.events = EPOLLIN}, out;
	int ep = epoll_create1(EPOLL_CLOEXEC), users = 0;
	v.ch = MADE(ibv_create_comp_channel(v.ctx));
	if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, v.ch->fd, &in) != 0)
		fails("epoll", "errno %d", errno);
	waits_for("a completion event that was raised");
	for (int i = 0; i < ACTIONS; i++) {
		act(&v);
		WANT("the descriptor of a channel", readable(v.ch->fd), v.pending > 0);
		WANT("epoll on a channel", epoll_wait(ep, &out, 1, 0), v.pending > 0);
	}
	for (int i = 0; i < QUEUES; i++)
		users += v.q[i].cq != NULL;
	WANT("a completion channel", v.ch->refcnt, users);
	while (v.pending > 0)
		get(&v);
	WANT("the descriptor of a channel", readable(v.ch->fd), false);
	for (int i = 0; i < QUEUES; i++)
		if (v.q[i].cq != NULL)
			close_queue(&v, &v.q[i]);
	int file = watch_open(v.ch->fd);
	WORKS(ibv_destroy_comp_channel(v.ch));
	WANT("the descriptor of a channel that is destroyed", is_open(file), false);
	close(ep);
}

// Destroys one of several queues with pending events: the first, a middle or the last one.
// Then another queue raises an event. All other events are delivered.
static void step_unlink(void)
{
	struct events v = {.ctx = me->ctx[draw(ADAPTERS)]};
	unsigned gone = draw(QUEUES - 1);
	v.ch = MADE(ibv_create_comp_channel(v.ctx));
	waits_for("events of queues that were behind one that is destroyed");
	for (int i = 0; i < QUEUES; i++) {
		open_queue(&v, &v.q[i]);
		WORKS(ibv_req_notify_cq(v.q[i].cq, 0));
		v.q[i].armed = ARMED_ANY;
	}
	for (int i = 0; i < QUEUES - 1; i++) {
		source_emit(&v.q[i].source, 1);
		v.q[i].prod++, v.q[i].entries++;
		raised(&v, &v.q[i]);
	}
	close_queue(&v, &v.q[gone]);
	WANT("the descriptor of a channel", readable(v.ch->fd), true);
	source_emit(&v.q[QUEUES - 1].source, 1);
	v.q[QUEUES - 1].prod++, v.q[QUEUES - 1].entries++;
	raised(&v, &v.q[QUEUES - 1]);
	while (v.pending > 0)
		get(&v);
	WANT("the descriptor of a channel", readable(v.ch->fd), false);
	for (int i = 0; i < QUEUES; i++)
		if (v.q[i].cq != NULL)
			close_queue(&v, &v.q[i]);
	WORKS(ibv_destroy_comp_channel(v.ch));
}

const struct step event_steps[] = {{"events", 6, step_events}, {"unlink", 3, step_unlink}, {NULL, 0, NULL}};

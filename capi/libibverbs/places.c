// The places of the queues of a program that is checked: a request takes one until a completion that covers it is polled.
#define _GNU_SOURCE
#include "requests.h"

// overfilled records that a program keeps posting to a full queue. The lock is held.
static void overfilled(const struct requests *rs, const struct object *o, bool receives)
{
	struct name name = name_of(o);
	const struct call calls[CALLS] = {{"posted here", rs->refused}, {"created here", o->made}};
	uint32_t n = rs->tail - rs->head;
	if (receives)
		found(RECEIVE_QUEUE_OVERFILLED, calls, "%s has %u entries, and %u receives are posted whose completions the program has not polled", name.text, rs->limit, n);
	else
		found(SEND_QUEUE_OVERFILLED, calls, "the send queue of %s has %u entries, and %u requests are posted that no polled completion covers", name.text, rs->limit, n);
}

// refuse notes that a post is refused. A program may post until it is refused, and try again later. It does so in vain if
// completions wait all the time that it does not poll. The lock is held.
static void refuse(struct requests *rs, const struct object *o, bool receives)
{
	const struct ring *c = rs->cq != NULL ? CONTAINER(rs->cq, struct cq, ibv)->ring : NULL;
	uint32_t cons = c != NULL ? atomic_load(&c->cons) : 0;
	if (c == NULL || atomic_load(&c->prod) == cons)
		rs->refused = NULL; // another completion may come
	else if (rs->refused == NULL || rs->refused_cons != cons)
		rs->refused = stack_here(), rs->refused_ns = now_ns(), rs->refused_cons = cons;
	else if (now_ns() - rs->refused_ns > SLOW_NS)
		overfilled(rs, o, receives);
}

// full reports whether a queue has no place for one more request after those that are counted and new ones, as
// hardware does.
static bool full(struct requests *rs, uint32_t new, const struct object *o, bool receives)
{
	bool is = false;
	if (rs == NULL)
		return false;
	tsan_hides();
	mutex_lock(REQUESTS_LOCK, &rs->mu);
	if (rs->tail - rs->head + new >= rs->limit && !rs->off) {
		is = true;
		struct name name = name_of(o);
		if (!receives && rs->signaled == 0 && new == 0)
			found(SEND_QUEUE_NEVER_RECLAIMED, CALLED({"posted here", stack_here()}, {"created here", o->made}),
				"the %u newest requests of %s are not signaled, and its send queue has %u entries: no completion can free them", rs->limit, name.text, rs->limit);
		else
			refuse(rs, o, receives);
	}
	mutex_unlock(&rs->mu);
	tsan_shows();
	return is;
}

bool check_full_sends(struct qp *q, uint32_t new) { return full(q->sends, new, &q->o, false); }
bool check_full_receives(struct qp *q) { return full(q->receives, 0, &q->o, true); }
bool check_full_srq(struct srq *s) { return full(s->receives, 0, &s->o, true); }

// Events that the engine raises: each is counted, and each list is bounded and has room again
// after events were read.
#define _GNU_SOURCE
#include "recorded.h"

#include <fcntl.h>
#include <poll.h>

enum { MAX_NOTES = 65536, GROUPS = 3 };

static void raise_about(void *object, enum ibv_event_type t) { rec->config.event(rec->config.device, object, t); }

static bool has_event(struct ibv_context *c)
{
	struct pollfd p = {c->async_fd, POLLIN, 0};
	return poll(&p, 1, 0) == 1;
}

// next_about reads an event, which must be there, and returns its object. The descriptor does
// not block.
static void *next_about(struct ibv_context *c, enum ibv_event_type t)
{
	struct ibv_async_event e;
	must(ibv_get_async_event(c, &e) == 0);
	SAME(e.event_type, t);
	ibv_ack_async_event(&e);
	return e.element.qp;
}

// Each type of event is counted for its object: the object can be destroyed after the event is
// acknowledged, and not before.
static void counted(struct recording *r)
{
	static const enum ibv_event_type of_pairs[] = {
		IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_COMM_EST, IBV_EVENT_SQ_DRAINED, IBV_EVENT_PATH_MIG,
		IBV_EVENT_PATH_MIG_ERR, IBV_EVENT_QP_LAST_WQE_REACHED,
	};
	uint32_t n = 0;
	for (size_t i = 0; i < sizeof of_pairs / sizeof *of_pairs; i++) {
		raise_about(r->qp, of_pairs[i]);
		must(next_about(r->ctx, of_pairs[i]) == r->qp);
		SAME(r->qp->events_completed, ++n);
	}
	raise_about(r->srq, IBV_EVENT_SRQ_ERR);
	must(next_about(r->ctx, IBV_EVENT_SRQ_ERR) == r->srq);
	raise_about(r->srq, IBV_EVENT_SRQ_LIMIT_REACHED);
	must(next_about(r->ctx, IBV_EVENT_SRQ_LIMIT_REACHED) == r->srq);
	SAME(r->srq->events_completed, 2);
	raise_about(r->cq, IBV_EVENT_CQ_ERR);
	must(next_about(r->ctx, IBV_EVENT_CQ_ERR) == r->cq);
	SAME(r->cq->async_events_completed, 1);
	SAME(has_event(r->ctx), false);
}

// An event of the port reaches each context, once.
static void of_port(struct recording *r)
{
	struct ibv_context *all[] = {r->ctx, open_first(), open_first()};
	struct ibv_async_event e;
	raise_about(NULL, IBV_EVENT_PORT_ERR);
	for (int i = 0; i < 3; i++) {
		must(has_event(all[i]) && ibv_get_async_event(all[i], &e) == 0);
		SAME(e.event_type, IBV_EVENT_PORT_ERR);
		SAME(e.element.port_num, 1);
		ibv_ack_async_event(&e);
		SAME(has_event(all[i]), false);
	}
	must(ibv_close_device(all[1]) == 0 && ibv_close_device(all[2]) == 0);
	SAME(rec->closes, 0); // another context of the adapter is open
}

static struct ibv_qp *another(struct recording *r)
{
	struct ibv_qp_init_attr a = {.send_cq = r->cq, .recv_cq = r->cq, .qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
	struct ibv_qp *q = ibv_create_qp(r->pd, &a);
	must(q != NULL);
	return q;
}

// Destroying a queue pair removes its events, wherever they are in the list. The others keep
// their order, and later ones follow them.
static void dropped(struct recording *r)
{
	for (int gone = 0; gone < GROUPS; gone++) {
		struct ibv_qp *q[GROUPS];
		for (int i = 0; i < GROUPS; i++)
			q[i] = another(r);
		for (int i = 0; i < 2 * GROUPS; i++)
			raise_about(q[i % GROUPS], IBV_EVENT_COMM_EST);
		must(ibv_destroy_qp(q[gone]) == 0);
		raise_about(r->qp, IBV_EVENT_SQ_DRAINED);
		for (int i = 0; i < 2 * GROUPS; i++)
			must(i % GROUPS == gone || next_about(r->ctx, IBV_EVENT_COMM_EST) == q[i % GROUPS]);
		must(next_about(r->ctx, IBV_EVENT_SQ_DRAINED) == r->qp);
		SAME(has_event(r->ctx), false);
		for (int i = 0; i < GROUPS; i++)
			must(i == gone || ibv_destroy_qp(q[i]) == 0);
	}
}

// The list of events is bounded. It has room again when events were read, or were removed
// with their object.
static void bounded(struct recording *r)
{
	struct ibv_qp *q = another(r);
	for (int i = 0; i < MAX_NOTES / 2; i++) {
		raise_about(q, IBV_EVENT_COMM_EST);
		raise_about(r->qp, IBV_EVENT_COMM_EST);
	}
	for (int i = 0; i < 3; i++)
		raise_about(r->qp, IBV_EVENT_SQ_DRAINED); // no room
	must(next_about(r->ctx, IBV_EVENT_COMM_EST) == q);
	raise_about(r->qp, IBV_EVENT_PATH_MIG); // room for one
	raise_about(r->qp, IBV_EVENT_SQ_DRAINED);
	must(ibv_destroy_qp(q) == 0); // room for half of the list
	for (int i = 0; i < MAX_NOTES / 2; i++)
		raise_about(r->qp, IBV_EVENT_PATH_MIG_ERR);
	for (int i = 0; i < MAX_NOTES / 2; i++)
		must(next_about(r->ctx, IBV_EVENT_COMM_EST) == r->qp);
	must(next_about(r->ctx, IBV_EVENT_PATH_MIG) == r->qp);
	for (int i = 0; i < MAX_NOTES / 2 - 1; i++)
		must(next_about(r->ctx, IBV_EVENT_PATH_MIG_ERR) == r->qp);
	SAME(has_event(r->ctx), false);
	raise_about(r->qp, IBV_EVENT_SQ_DRAINED);
	SAME(has_event(r->ctx), true);
	must(next_about(r->ctx, IBV_EVENT_SQ_DRAINED) == r->qp && !has_event(r->ctx));
}

// Closing a context destroys the queue pairs that the program left in it, which then leave
// their groups.
static void left(void)
{
	struct recording r = {0};
	recording_open(&r);
	unsigned closes = rec->closes;
	rec->detach = 0;
	must(ibv_close_device(r.ctx) == 0);
	SAME(rec->detach, 1);
	SAME(rec->closes, closes + 1);
}

static void events(void)
{
	struct recording r = {0};
	recording_open(&r);
	must(fcntl(r.ctx->async_fd, F_SETFL, O_NONBLOCK) == 0);
	counted(&r);
	of_port(&r);
	dropped(&r);
	bounded(&r);
	recording_close(&r);
	left();
}

const struct scenario recorded_events[] = {{"recorded-events", events}, {NULL, NULL}};

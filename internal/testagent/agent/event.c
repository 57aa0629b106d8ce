// Asynchronous events.
#define _GNU_SOURCE
#include "agent.h"

#include <poll.h>

static struct {
	int type;
	enum kind kind;
	int handle;
} events[EVENTS_MAX];
static int events_n;
static uint64_t events_lost;

void forget_events(void)
{
	events_n = 0;
	events_lost = 0;
}

// Takes the pending asynchronous events. It acknowledges them at once, because a queue pair cannot
// be destroyed before.
void take_events(void)
{
	struct ibv_async_event e;
	struct pollfd p = { .fd = ctx->async_fd, .events = POLLIN };

	for (int i = 0; i < EVENTS_MAX && poll(&p, 1, 0) == 1 && (p.revents & POLLIN) && !ibv_get_async_event(ctx, &e); i++) {
		enum kind kind = FREE;
		int handle = 0;

		switch (e.event_type) {
		case IBV_EVENT_CQ_ERR:
			kind = CQ;
			handle = handle_of(CQ, e.element.cq);
			break;
		case IBV_EVENT_QP_FATAL:
		case IBV_EVENT_QP_REQ_ERR:
		case IBV_EVENT_QP_ACCESS_ERR:
		case IBV_EVENT_COMM_EST:
		case IBV_EVENT_SQ_DRAINED:
		case IBV_EVENT_PATH_MIG:
		case IBV_EVENT_PATH_MIG_ERR:
		case IBV_EVENT_QP_LAST_WQE_REACHED:
			kind = QP;
			handle = handle_of(QP, e.element.qp);
			break;
		case IBV_EVENT_SRQ_ERR:
		case IBV_EVENT_SRQ_LIMIT_REACHED:
			kind = SRQ;
			handle = handle_of(SRQ, e.element.srq);
			break;
		default:
			break;
		}
		if (events_n < EVENTS_MAX) {
			events[events_n].type = e.event_type;
			events[events_n].kind = kind;
			events[events_n].handle = handle;
			events_n++;
		} else {
			events_lost++;
		}
		ibv_ack_async_event(&e);
	}
}

void do_events(void)
{
	uint64_t ms = number("ms", 0, WAIT_MAX_MS);

	if (failed)
		return;
	take_events();
	if (!events_n && ms) {
		struct pollfd p = { .fd = ctx->async_fd, .events = POLLIN };

		poll(&p, 1, (int)ms);
		take_events();
	}
	put("n=%d lost=%" PRIu64, events_n, events_lost);
	for (int i = 0; i < events_n; i++)
		put(" event=%d,%s,%d", events[i].type, events[i].kind == FREE ? "port" : KIND_NAMES[events[i].kind], events[i].handle);
	forget_events();
}

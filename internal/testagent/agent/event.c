// Asynchronous events.
#define _GNU_SOURCE
#include "agent.h"

#include <poll.h>

static struct event {
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

// The kind of the object that an event is about, FREE for the port and the device.
static enum kind subject(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_CQ_ERR:
		return CQ;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return QP;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return SRQ;
	default:
		return FREE;
	}
}

// Takes the pending asynchronous events. It acknowledges them at once, because a queue pair cannot
// be destroyed before.
void take_events(void)
{
	struct ibv_async_event e;
	struct pollfd p = { .fd = ctx->async_fd, .events = POLLIN };

	for (int i = 0; i < EVENTS_MAX && poll(&p, 1, 0) == 1 && (p.revents & POLLIN) && !ibv_get_async_event(ctx, &e); i++) {
		enum kind kind = subject(e.event_type);

		// The members of the union are pointers, but for the number of the port.
		if (events_n < EVENTS_MAX)
			events[events_n++] = (struct event){ e.event_type, kind, kind == FREE ? 0 : handle_of(kind, e.element.qp) };
		else
			events_lost++;
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

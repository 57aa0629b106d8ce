// Delivery of events: by poll and epoll, and from a channel that does not block. Destroying
// an ID discards its pending events.
#define _GNU_SOURCE
#include "../program/asleep.h"
#include "cm.h"

#include <pthread.h>
#include <sys/epoll.h>

static void nonblocking(void)
{
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *id = make_id(ch, RDMA_PS_TCP);
	struct rdma_cm_event *e;
	must(fcntl(ch->fd, F_SETFL, fcntl(ch->fd, F_GETFL) | O_NONBLOCK) == 0);
	refused(rdma_get_cm_event(ch, &e), EAGAIN);
	begin_resolve(id, PORT);
	struct pollfd p = {.fd = ch->fd, .events = POLLIN | POLLOUT};
	must(poll(&p, 1, 20000) == 1 && (p.revents & POLLIN) != 0);
	pass(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	refused(rdma_get_cm_event(ch, &e), EAGAIN);
	quiet(ch);
	must(rdma_destroy_id(id) == 0);
	rdma_destroy_event_channel(ch);
}

// Several channels in one epoll instance, level-triggered and edge-triggered.
static void by_epoll(void)
{
	enum { CHANNELS = 3 };
	struct rdma_event_channel *ch[CHANNELS];
	struct rdma_cm_id *id[CHANNELS];
	struct epoll_event got[CHANNELS + 1];
	int ep = epoll_create1(EPOLL_CLOEXEC);
	must(ep >= 0);
	for (int i = 0; i < CHANNELS; i++) {
		struct epoll_event want = {.events = EPOLLIN | (i == 0 ? EPOLLET : 0), .data.u32 = (uint32_t)i};
		ch[i] = open_channel();
		id[i] = make_id(ch[i], RDMA_PS_TCP);
		must(epoll_ctl(ep, EPOLL_CTL_ADD, ch[i]->fd, &want) == 0);
	}
	must(epoll_wait(ep, got, CHANNELS + 1, 0) == 0);
	begin_resolve(id[0], PORT);
	must(epoll_wait(ep, got, CHANNELS + 1, 20000) == 1 && got[0].data.u32 == 0 && got[0].events == EPOLLIN);
	must(epoll_wait(ep, got, CHANNELS + 1, 0) == 0); // an edge is reported once
	begin_resolve(id[2], PORT);
	for (int i = 0; i < 2; i++)
		must(epoll_wait(ep, got, CHANNELS + 1, 20000) == 1 && got[0].data.u32 == 2);
	must(pass(ch[2], RDMA_CM_EVENT_ADDR_RESOLVED) == id[2]);
	must(epoll_wait(ep, got, CHANNELS + 1, 0) == 0);
	must(rdma_resolve_route(id[2], TIMEOUT_MS) == 0);
	must(pass(ch[0], RDMA_CM_EVENT_ADDR_RESOLVED) == id[0] && rdma_resolve_route(id[0], TIMEOUT_MS) == 0);
	must(pass(ch[0], RDMA_CM_EVENT_ROUTE_RESOLVED) == id[0] && pass(ch[2], RDMA_CM_EVENT_ROUTE_RESOLVED) == id[2]);
	for (int i = 0; i < CHANNELS; i++) {
		must(rdma_destroy_id(id[i]) == 0);
		rdma_destroy_event_channel(ch[i]);
	}
	close(ep);
}

// Pending events of an ID disappear with it; those of other IDs stay.
static void vanish(void)
{
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *id[3];
	for (int i = 0; i < 3; i++)
		begin_resolve(id[i] = make_id(ch, RDMA_PS_TCP), PORT);
	must(rdma_destroy_id(id[0]) == 0 && rdma_destroy_id(id[2]) == 0);
	must(pass(ch, RDMA_CM_EVENT_ADDR_RESOLVED) == id[1]);
	quiet(ch);
	must(fcntl(ch->fd, F_SETFL, O_NONBLOCK) == 0);
	struct rdma_cm_event *e;
	refused(rdma_get_cm_event(ch, &e), EAGAIN);
	must(rdma_destroy_id(id[1]) == 0);
}

// Destroying an ID waits until its events that were read are acknowledged.
struct destroyer {
	struct rdma_cm_id *id;
	pthread_t handle;
	_Atomic pid_t thread;
	atomic_int destroyed;
};

static void *run_destroyer(void *arg)
{
	struct destroyer *d = arg;
	atomic_store(&d->thread, gettid());
	must(rdma_destroy_id(d->id) == 0);
	atomic_store(&d->destroyed, 1);
	return NULL;
}

// begin_destroy starts the destruction of an ID in another thread, which must wait.
static void begin_destroy(struct destroyer *d)
{
	must(pthread_create(&d->handle, NULL, run_destroyer, d) == 0);
	while (atomic_load(&d->thread) == 0)
		sched_yield();
	until_locked(d->thread);
	must(!atomic_load(&d->destroyed));
}

static void unacknowledged(void)
{
	struct rdma_event_channel *ch = open_channel();
	struct destroyer d = {.id = make_id(ch, RDMA_PS_TCP)};
	begin_resolve(d.id, PORT);
	struct rdma_cm_event *first = event_of(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	must(rdma_resolve_route(d.id, TIMEOUT_MS) == 0);
	struct rdma_cm_event *second = event_of(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	begin_destroy(&d);
	must(rdma_ack_cm_event(second) == 0);
	until_locked(d.thread);
	must(!atomic_load(&d.destroyed) && rdma_ack_cm_event(first) == 0);
	must(pthread_join(d.handle, NULL) == 0);
	quiet(ch);
}

// A connect request is an event of the listener, not of the new ID.
static void of_listeners(void)
{
	struct rdma_event_channel *ch = open_channel();
	struct destroyer d = {.id = listen_on(ch, RDMA_PS_TCP, PORT, 1)};
	struct rdma_cm_id *client = ready(ch, RDMA_PS_TCP, PORT);
	ask(client);
	struct rdma_cm_event *e = event_of(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	must(e->listen_id == d.id && rdma_destroy_id(e->id) == 0);
	begin_destroy(&d);
	must(rdma_ack_cm_event(e) == 0 && pthread_join(d.handle, NULL) == 0);
	must(failure(ch, RDMA_CM_EVENT_REJECTED, CONSUMER_REJECTS) == client);
	destroy(client);
}

const struct scenario events[] = {
	{"events-nonblocking", nonblocking}, {"events-epoll", by_epoll}, {"events-vanish", vanish}, {"events-unacknowledged", unacknowledged},
	{"events-listener", of_listeners}, {NULL, NULL},
};

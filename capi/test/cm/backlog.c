// Requests beyond a listener's backlog: as on Linux they are not answered. When the client
// repeats one after the program has taken others, there is room for it.
#include "cm.h"

enum { OTHER = PORT + 1, MANY = 40 };

// take takes the n requests that have arrived, and no more. Each channel becomes readable by
// itself: that of an earlier request may be the later one.
static void take(struct rdma_event_channel *ch, struct rdma_cm_id **taken, int n)
{
	for (int i = 0; i < n; i++)
		taken[i] = pass(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	quiet(ch);
}

// overtake connects n clients to a listener, and then one to another listener. When the last
// request has arrived, all have.
static void overtake(struct rdma_event_channel *clients, struct rdma_cm_id **id, int n)
{
	struct rdma_event_channel *own = open_channel();
	struct rdma_cm_id *listener = listen_on(own, RDMA_PS_TCP, OTHER, 1);
	id[n] = ready(clients, RDMA_PS_TCP, OTHER);
	for (int i = 0; i <= n; i++)
		ask(id[i]);
	struct rdma_cm_id *last = pass(own, RDMA_CM_EVENT_CONNECT_REQUEST);
	must(rdma_destroy_id(last) == 0 && rdma_destroy_id(listener) == 0);
	rdma_destroy_event_channel(own);
	must(failure(clients, RDMA_CM_EVENT_REJECTED, CONSUMER_REJECTS) == id[n]); // the ID of the request was destroyed
}

static void destroy_all(struct rdma_cm_id **id, int n)
{
	for (int i = 0; i < n; i++)
		destroy(id[i]);
}

static void backlog(void)
{
	enum { PLACES = 2, CLIENTS = 4 };
	struct rdma_event_channel *ch = open_channel(), *clients = open_channel();
	struct rdma_cm_id *listener = listen_on(ch, RDMA_PS_TCP, PORT, PLACES), *id[CLIENTS + 1], *taken[CLIENTS];
	for (int i = 0; i < CLIENTS; i++)
		id[i] = ready(clients, RDMA_PS_TCP, PORT);
	overtake(clients, id, CLIENTS);
	take(ch, taken, PLACES);
	quiet(clients); // no client is rejected
	for (int i = PLACES; i < CLIENTS; i++)
		taken[i] = pass(ch, RDMA_CM_EVENT_CONNECT_REQUEST); // repeated by the client after some seconds
	destroy_all(taken, CLIENTS);
	for (int i = 0; i < CLIENTS; i++)
		failure(clients, RDMA_CM_EVENT_REJECTED, CONSUMER_REJECTS);
	destroy_all(id, CLIENTS + 1);
	must(rdma_destroy_id(listener) == 0);
}

// A backlog of 0 or less stands for the largest backlog.
static void unbounded(void)
{
	const int backlogs[] = {0, -1};
	for (int i = 0; i < 2; i++) {
		struct rdma_event_channel *ch = open_channel(), *clients = open_channel();
		struct rdma_cm_id *listener = listen_on(ch, RDMA_PS_TCP, PORT, backlogs[i]), *id[MANY + 1], *taken[MANY];
		for (int k = 0; k < MANY; k++)
			id[k] = ready(clients, RDMA_PS_TCP, PORT);
		overtake(clients, id, MANY);
		take(ch, taken, MANY);
		destroy_all(taken, MANY);
		for (int k = 0; k < MANY; k++)
			failure(clients, RDMA_CM_EVENT_REJECTED, CONSUMER_REJECTS);
		destroy_all(id, MANY + 1);
		must(rdma_destroy_id(listener) == 0);
		rdma_destroy_event_channel(ch);
		rdma_destroy_event_channel(clients);
	}
}

// Destroying a listener rejects its pending requests.
static void abandoned(void)
{
	struct rdma_event_channel *ch = open_channel(), *clients = open_channel();
	struct rdma_cm_id *listener = listen_on(ch, RDMA_PS_TCP, PORT, 8), *id[3];
	id[0] = ready(clients, RDMA_PS_TCP, PORT);
	id[1] = ready(clients, RDMA_PS_TCP, PORT);
	overtake(clients, id, 2);
	must(rdma_destroy_id(listener) == 0);
	quiet(ch);
	for (int i = 0; i < 2; i++)
		failure(clients, RDMA_CM_EVENT_REJECTED, CONSUMER_REJECTS);
	destroy_all(id, 3);
}

const struct scenario backlogs[] = {{"backlog", backlog}, {"backlog-unbounded", unbounded}, {"backlog-abandoned", abandoned}, {NULL, NULL}};

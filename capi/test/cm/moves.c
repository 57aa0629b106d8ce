// rdma_migrate_id: an ID moves between event channels, with its pending events, and becomes
// synchronous and asynchronous again.
#include "cm.h"

// await waits until an event is pending.
static void await(struct rdma_event_channel *ch)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};
	must(poll(&p, 1, 20000) == 1);
}

// Pending events of the ID move to the end of the new channel's queue. Events of other IDs
// stay.
static void pending(void)
{
	struct rdma_event_channel *one = open_channel(), *two = open_channel();
	struct rdma_cm_id *id = make_id(one, RDMA_PS_TCP), *stays = make_id(one, RDMA_PS_TCP), *there = make_id(two, RDMA_PS_TCP);
	begin_resolve(id, PORT);
	begin_resolve(stays, PORT);
	begin_resolve(there, PORT);
	await(one);
	await(two);
	must(rdma_migrate_id(id, two) == 0 && id->channel == two);
	must(pass(one, RDMA_CM_EVENT_ADDR_RESOLVED) == stays);
	quiet(one);
	must(pass(two, RDMA_CM_EVENT_ADDR_RESOLVED) == there && pass(two, RDMA_CM_EVENT_ADDR_RESOLVED) == id);
	quiet(two);
	must(rdma_migrate_id(id, two) == 0); // to its current channel
	must(rdma_resolve_route(id, TIMEOUT_MS) == 0);
	must(rdma_migrate_id(id, one) == 0 && rdma_migrate_id(there, one) == 0);
	rdma_destroy_event_channel(two);
	must(pass(one, RDMA_CM_EVENT_ROUTE_RESOLVED) == id);
	struct rdma_conn_param p = params(NULL, 0);
	p.qp_num = 0x1234;
	must(rdma_connect(id, &p) == 0);
	must(failure(one, RDMA_CM_EVENT_REJECTED, INVALID_SERVICE) == id);
	destroy(id);
	destroy(stays);
	destroy(there);
}

// A listener moves with its pending requests. The ID of each request is then moved by itself.
static void of_listeners(void)
{
	struct rdma_event_channel *one = open_channel(), *two = open_channel(), *three = open_channel(), *clients = open_channel();
	struct rdma_cm_id *listener = listen_on(one, RDMA_PS_TCP, PORT, 8), *client[2], *server[2];
	struct rdma_conn_param p = params(NULL, 0);
	for (int i = 0; i < 2; i++) {
		client[i] = ready(clients, RDMA_PS_TCP, PORT);
		ask(client[i]);
	}
	server[0] = pass(one, RDMA_CM_EVENT_CONNECT_REQUEST);
	await(one); // for the second request
	must(rdma_migrate_id(listener, two) == 0);
	quiet(one);
	server[1] = pass(two, RDMA_CM_EVENT_CONNECT_REQUEST);
	must(server[0]->channel == one && server[1]->channel == two);
	must(rdma_migrate_id(server[0], three) == 0 && rdma_migrate_id(server[1], three) == 0);
	for (int i = 0; i < 2; i++) {
		add_qp(server[i]);
		must(rdma_accept(server[i], &p) == 0);
		pass(clients, RDMA_CM_EVENT_ESTABLISHED);
		must(pass(three, RDMA_CM_EVENT_ESTABLISHED) == server[i]);
	}
	quiet(one);
	quiet(two);
	for (int i = 0; i < 2; i++)
		destroy(client[i]);
	for (int i = 0; i < 2; i++)
		pass(three, RDMA_CM_EVENT_DISCONNECTED);
	destroy(server[0]);
	destroy(server[1]);
	destroy(listener);
}

// Without a channel, calls wait for their events.
static void synchronous(void)
{
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *listener = listen_on(ch, RDMA_PS_TCP, PORT, 1), *id = make_id(ch, RDMA_PS_TCP);
	struct rdma_conn_param p = params(NULL, 0);
	must(rdma_migrate_id(id, NULL) == 0 && id->channel != ch);
	begin_resolve(id, PORT);
	must(id->event != NULL && id->event->event == RDMA_CM_EVENT_ADDR_RESOLVED);
	must(rdma_resolve_route(id, TIMEOUT_MS) == 0 && id->event->event == RDMA_CM_EVENT_ROUTE_RESOLVED);
	quiet(ch);
	must(rdma_migrate_id(id, ch) == 0 && id->channel == ch && id->event == NULL);
	add_qp(id);
	ask(id); // no longer waits
	struct rdma_cm_id *server = pass(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	must(rdma_reject(server, "no", 2) == 0);
	struct rdma_cm_event *e = event_of(ch, RDMA_CM_EVENT_REJECTED);
	must(e->id == id && memcmp(e->param.conn.private_data, "no", 2) == 0 && rdma_ack_cm_event(e) == 0);
	must(rdma_destroy_id(server) == 0 && rdma_destroy_id(listener) == 0);
	destroy(id);

	id = ready(ch, RDMA_PS_TCP, PORT);
	must(rdma_migrate_id(id, NULL) == 0);
	refused(rdma_connect(id, &p), ECONNREFUSED); // waits for the answer
	must(id->event->event == RDMA_CM_EVENT_REJECTED && id->event->status == 8);
	destroy(id);
	quiet(ch);
}

const struct scenario moves[] = {{"migrate-pending", pending}, {"migrate-listener", of_listeners}, {"migrate-synchronous", synchronous}, {NULL, NULL}};

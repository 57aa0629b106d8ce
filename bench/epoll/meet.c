// Connections of rdma_cm. The server has the event channel in the epoll set of worker 0; the client
// makes its connections before its workers start.
#define _GNU_SOURCE
#include "rdma.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>

enum { TIMEOUT_MS = 5000 };

static struct program *program;
static struct rdma_event_channel *channel;
static struct ibv_pd *pd; // NULL: no worker has its queues yet

static void open_channel(void)
{
	need((channel = rdma_create_event_channel()) != NULL);
	need(fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0);
}

// new_link makes the next connection that of a worker.
static struct link *new_link(struct rdma_cm_id *id)
{
	struct program *p = program;
	if (pd == NULL) {
		need((pd = ibv_alloc_pd(id->verbs)) != NULL);
		open_queues(p, id->verbs, pd);
	}
	struct worker *w = &p->worker[p->opened++ % p->threads];
	struct queues *q = w->transport;
	struct link *l = calloc(1, sizeof *l);
	struct ibv_qp_init_attr a = {
		.send_cq = q->cq, .recv_cq = q->cq, .srq = q->srq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 2 * p->signal + 2, .max_recv_wr = q->srq == NULL ? RECEIVES : 0, .max_send_sge = 1, .max_recv_sge = 1},
	};
	need(l != NULL && rdma_create_qp(id, pd, &a) == 0);
	l->id = id, l->worker = w;
	l->out = new_message(p->size);
	need((l->mr = ibv_reg_mr(pd, l->out, p->size, 0)) != NULL);
	add_link(l);
	return l;
}

static struct rdma_conn_param parameters(void) { return (struct rdma_conn_param){.retry_count = 7, .rnr_retry_count = 7}; }

// handle answers an event of the server.
static void handle(struct rdma_cm_event *e)
{
	struct rdma_conn_param a = parameters();
	switch (e->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		opened(program);
		new_link(e->id);
		need(rdma_accept(e->id, &a) == 0);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		need(rdma_disconnect(e->id) == 0);
		closed(program);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		fprintf(stderr, "epoll: %s (%d)\n", rdma_event_str(e->event), e->status);
		exit(1);
	}
}

static void meet_ready(struct source *s)
{
	struct rdma_cm_event *e;
	(void)s;
	while (rdma_get_cm_event(channel, &e) == 0) {
		handle(e);
		need(rdma_ack_cm_event(e) == 0);
	}
	need(errno == EAGAIN);
}

void listen_rdma(struct program *p)
{
	static struct source s = {.ready = meet_ready};
	struct sockaddr_in a = address(p);
	struct rdma_cm_id *id;
	program = p;
	open_channel();
	need(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	need(rdma_bind_addr(id, (struct sockaddr *)&a) == 0 && rdma_listen(id, MAX_CONNECTIONS) == 0);
	s.fd = channel->fd;
	watch(&p->worker[0], &s);
	listen_on(p); // shows those who start a client that the server is ready
}

// expect waits for the next event, which must be of a type.
static void expect(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;
	while (rdma_get_cm_event(channel, &e) != 0) {
		struct pollfd p = {.fd = channel->fd, .events = POLLIN};
		need(errno == EAGAIN && poll(&p, 1, TIMEOUT_MS) == 1);
	}
	if (e->event != type) {
		fprintf(stderr, "epoll: %s (%d) instead of %s\n", rdma_event_str(e->event), e->status, rdma_event_str(type));
		exit(1);
	}
	need(rdma_ack_cm_event(e) == 0);
}

void connect_rdma(struct program *p)
{
	struct sockaddr_in a = address(p);
	program = p;
	open_channel();
	for (unsigned i = 0; i < p->connections; i++) {
		struct rdma_conn_param c = parameters();
		struct rdma_cm_id *id;
		need(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
		need(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, TIMEOUT_MS) == 0);
		expect(RDMA_CM_EVENT_ADDR_RESOLVED);
		need(rdma_resolve_route(id, TIMEOUT_MS) == 0);
		expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
		struct link *l = new_link(id);
		struct queues *q = l->worker->transport;
		l->next = q->first;
		q->first = l;
		l->worker->connections++;
		post_receives(l);
		need(rdma_connect(id, &c) == 0);
		expect(RDMA_CM_EVENT_ESTABLISHED);
	}
}

void end_rdma(struct program *p)
{
	for (unsigned i = 0; i < p->threads; i++) {
		const struct queues *q = p->worker[i].transport;
		for (struct link *l = q->first; l != NULL; l = l->next)
			need(rdma_disconnect(l->id) == 0);
	}
}

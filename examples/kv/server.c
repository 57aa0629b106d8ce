// The server of a key-value store. It reads large values from the memory of its clients by RDMA READ, and writes
// them there by RDMA WRITE. It sleeps until there is something to do, serves until SIGTERM, and prints the port
// that it listens on. Usage: server ADDRESS [PORT]
#include "common.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define CONNECTIONS 16   // at most
#define ENTRIES 64       // at most
#define SLOTS 4          // requests of a connection at a time
#define DRAIN_TIME 1000  // milliseconds

// A value is shared by the entry of the store and by the requests that read it.
struct value {
	unsigned refs;
	uint32_t length;
	struct ibv_mr *mr; // NULL if the value is small
	unsigned char bytes[];
};

struct entry {
	char key[KEY_SIZE]; // "": the entry is free
	struct value *value;
};

// A slot has the messages of one request. They are registered memory.
struct slot {
	struct request request;
	struct response response;
	struct value *value; // that this request reads or writes
};

// The ID of a work request is the number of its slot, times KINDS, plus its kind.
enum kind { RECV, READ, WRITE, SEND, KINDS };

struct connection {
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	struct ibv_mr *mr; // of slots
	unsigned posted;   // work requests whose completion is not polled
	bool accepted;     // rdma_disconnect has an effect
	bool closing;      // work requests are flushed
	struct slot slots[SLOTS];
};

static struct rdma_event_channel *channel;
static struct rdma_cm_id *listener;
static struct ibv_pd *pd;
static struct ibv_comp_channel *completions;
static struct connection *connections[CONNECTIONS];
static struct entry entries[ENTRIES];
static bool failures; // decides on the exit code

// release gives up a reference to a value. While memory is registered, it is not freed.
static void release(struct value **value)
{
	struct value *v = *value;
	*value = NULL;
	if (v == NULL || --v->refs > 0)
		return;
	if (deregister(&v->mr))
		free(v);
	else
		failures = true;
}

// new_value returns a value with one reference, or NULL.
static struct value *new_value(uint32_t length)
{
	struct value *v = malloc(sizeof *v + length);
	if (v == NULL) {
		failed("malloc");
		return NULL;
	}
	*v = (struct value){.refs = 1, .length = length};
	if (length > SMALL_SIZE) {
		v->mr = ibv_reg_mr(pd, v->bytes, length, IBV_ACCESS_LOCAL_WRITE);
		if (v->mr == NULL) {
			failed("ibv_reg_mr");
			free(v);
			return NULL;
		}
	}
	return v;
}

// find returns the entry of a key, or a free one for "", or NULL.
static struct entry *find(const char *key)
{
	for (int i = 0; i < ENTRIES; i++)
		if (strcmp(entries[i].key, key) == 0)
			return &entries[i];
	return NULL;
}

// store makes the value of a slot that of its key.
static uint32_t store(struct slot *s)
{
	struct entry *e = find(s->request.key);
	if (e == NULL && (e = find("")) == NULL) {
		release(&s->value);
		return ST_NO_ROOM;
	}
	release(&e->value);
	memcpy(e->key, s->request.key, KEY_SIZE);
	e->value = s->value;
	s->value = NULL;
	return ST_OK;
}

static bool post_receive(struct connection *c, struct slot *s)
{
	struct ibv_sge sge = {(uintptr_t)&s->request, sizeof s->request, c->mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = (uint64_t)(s - c->slots) * KINDS + RECV, .sg_list = &sge, .num_sge = 1};
	if (!check(ibv_post_recv(c->id->qp, &wr, &bad), "ibv_post_recv"))
		return false;
	c->posted++;
	return true;
}

// post_send posts a list of work requests. If one is refused, those before it are posted.
static bool post_send(struct connection *c, struct ibv_send_wr *list)
{
	struct ibv_send_wr *bad = NULL;
	int error = ibv_post_send(c->id->qp, list, &bad);
	for (struct ibv_send_wr *wr = list; wr != NULL && (error == 0 || wr != bad); wr = wr->next)
		c->posted++;
	return check(error, "ibv_post_send");
}

// transfer prepares the READ or the WRITE of the value of a slot.
static struct ibv_send_wr transfer(struct connection *c, struct slot *s, enum kind kind, struct ibv_sge *sge)
{
	*sge = (struct ibv_sge){(uintptr_t)s->value->bytes, s->value->length, s->value->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = (uint64_t)(s - c->slots) * KINDS + kind, .sg_list = sge, .num_sge = 1,
		.opcode = kind == READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	wr.wr.rdma.remote_addr = be64toh(s->request.address);
	wr.wr.rdma.rkey = be32toh(s->request.rkey);
	return wr;
}

// respond sends the response of a slot. Before it, the value of a GET is sent.
static bool respond(struct connection *c, struct slot *s, uint32_t status)
{
	struct response *r = &s->response;
	memset(r, 0, sizeof *r);
	r->sequence = s->request.sequence;
	r->status = htobe32(status);
	struct ibv_sge sge = {(uintptr_t)r, sizeof *r, c->mr->lkey}, data;
	struct ibv_send_wr write, wr = {.wr_id = (uint64_t)(s - c->slots) * KINDS + SEND, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	if (s->value == NULL)
		return post_send(c, &wr);
	r->length = htobe32(s->value->length);
	if (s->value->mr == NULL) {
		memcpy(r->small, s->value->bytes, s->value->length);
		return post_send(c, &wr);
	}
	write = transfer(c, s, WRITE, &data);
	write.next = &wr;
	return post_send(c, &write);
}

static bool put(struct connection *c, struct slot *s, uint32_t length)
{
	struct ibv_sge sge;
	struct ibv_send_wr read;
	if (length > VALUE_SIZE)
		return respond(c, s, ST_BAD_REQUEST);
	s->value = new_value(length);
	if (s->value == NULL) {
		failures = true;
		return respond(c, s, ST_NO_ROOM);
	}
	if (length > SMALL_SIZE) {
		read = transfer(c, s, READ, &sge);
		return post_send(c, &read);
	}
	memcpy(s->value->bytes, s->request.small, length);
	return respond(c, s, store(s));
}

static bool get(struct connection *c, struct slot *s, uint32_t room)
{
	struct entry *e = find(s->request.key);
	if (e == NULL)
		return respond(c, s, ST_NOT_FOUND);
	if (e->value->length > SMALL_SIZE && e->value->length > room)
		return respond(c, s, ST_NO_ROOM);
	s->value = e->value;
	s->value->refs++;
	return respond(c, s, ST_OK);
}

static bool delete(struct connection *c, struct slot *s)
{
	struct entry *e = find(s->request.key);
	if (e == NULL)
		return respond(c, s, ST_NOT_FOUND);
	release(&e->value);
	e->key[0] = 0;
	return respond(c, s, ST_OK);
}

// serve begins with a request that has arrived.
static bool serve(struct connection *c, struct slot *s, uint32_t bytes)
{
	const struct request *r = &s->request;
	if (bytes != sizeof *r || r->key[0] == 0 || r->key[KEY_SIZE - 1] != 0)
		return respond(c, s, ST_BAD_REQUEST);
	switch (be32toh(r->op)) {
	case OP_PUT:
		return put(c, s, be32toh(r->length));
	case OP_GET:
		return get(c, s, be32toh(r->length));
	case OP_DELETE:
		return delete(c, s);
	}
	return respond(c, s, ST_BAD_REQUEST);
}

// completed goes on with a request. It returns false if the connection is to be closed.
static bool completed(struct connection *c, const struct ibv_wc *wc)
{
	struct slot *s = &c->slots[wc->wr_id / KINDS];
	c->posted--;
	if (wc->status != IBV_WC_SUCCESS) {
		if (wc->status != IBV_WC_WR_FLUSH_ERR || !c->closing) {
			fprintf(stderr, "work request %d of slot %d: %s\n", (int)(wc->wr_id % KINDS), (int)(wc->wr_id / KINDS), ibv_wc_status_str(wc->status));
			failures = true;
		}
		return false;
	}
	if (c->closing)
		return true;
	switch (wc->wr_id % KINDS) {
	case RECV:
		return serve(c, s, wc->byte_len);
	case READ:
		return respond(c, s, store(s));
	case SEND:
		release(&s->value);
		return post_receive(c, s);
	}
	return true; // after the WRITE the response is sent
}

// poll_all polls the completions that there are.
static bool poll_all(struct connection *c)
{
	struct ibv_wc wc;
	int n;
	bool ok = true;
	while ((n = ibv_poll_cq(c->cq, 1, &wc)) > 0)
		ok = completed(c, &wc) && ok;
	if (n < 0) {
		fprintf(stderr, "ibv_poll_cq fails\n");
		failures = true;
		c->posted = 0; // no completion comes any more
	}
	return n == 0 && ok;
}

// drain polls until all work requests of a closing connection are complete, or time is up.
static void drain(struct connection *c)
{
	int64_t deadline = now() + DRAIN_TIME;
	do
		poll_all(c);
	while (c->posted > 0 && now() < deadline);
	if (c->posted > 0) {
		fprintf(stderr, "%u work requests are not flushed\n", c->posted);
		failures = true;
	}
}

// close_connection releases all that a connection has, in the order in which one depends on the other.
static void close_connection(struct connection *c)
{
	bool ok = true;
	c->closing = true;
	for (int i = 0; i < CONNECTIONS; i++)
		if (connections[i] == c)
			connections[i] = NULL;
	if (c->accepted) {
		ok = worked(rdma_disconnect(c->id), "rdma_disconnect"); // the queue pair flushes its work requests
		drain(c);
	}
	if (c->id->qp != NULL)
		rdma_destroy_qp(c->id);
	for (int i = 0; i < SLOTS; i++)
		release(&c->slots[i].value);
	ok = deregister(&c->mr) && ok;
	ok = destroy_cq(&c->cq) && ok;
	ok = destroy_id(&c->id) && ok;
	if (ok)
		free(c);
	else
		failures = true;
}

// set_up prepares a connection, and accepts it.
static bool set_up(struct connection *c)
{
	c->mr = ibv_reg_mr(pd, c->slots, sizeof c->slots, IBV_ACCESS_LOCAL_WRITE);
	if (c->mr == NULL)
		return failed("ibv_reg_mr");
	c->cq = ibv_create_cq(c->id->verbs, 3 * SLOTS, c, completions, 0);
	if (c->cq == NULL)
		return failed("ibv_create_cq");
	if (!check(ibv_req_notify_cq(c->cq, 0), "ibv_req_notify_cq"))
		return false;
	struct ibv_qp_init_attr init = {.qp_context = c, .send_cq = c->cq, .recv_cq = c->cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 2 * SLOTS, .max_recv_wr = SLOTS, .max_send_sge = 1, .max_recv_sge = 1}};
	if (!worked(rdma_create_qp(c->id, pd, &init), "rdma_create_qp"))
		return false;
	for (int i = 0; i < SLOTS; i++)
		if (!post_receive(c, &c->slots[i]))
			return false;
	struct rdma_conn_param param = {.initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 6};
	c->accepted = worked(rdma_accept(c->id, &param), "rdma_accept");
	return c->accepted;
}

// connect_request answers a client that wants a connection.
static void connect_request(struct rdma_cm_id *id)
{
	int i = 0;
	while (i < CONNECTIONS && connections[i] != NULL)
		i++;
	struct connection *c = i < CONNECTIONS ? calloc(1, sizeof *c) : NULL;
	if (c == NULL) {
		fprintf(stderr, "no room for another connection\n");
		failures = true;
		worked(rdma_reject(id, NULL, 0), "rdma_reject");
		destroy_id(&id);
		return;
	}
	c->id = id;
	id->context = c;
	connections[i] = c;
	if (set_up(c))
		return;
	failures = true;
	if (!c->accepted)
		worked(rdma_reject(id, NULL, 0), "rdma_reject");
	close_connection(c);
}

// cm_event handles one event of rdma_cm. It returns false if the server is to end.
static bool cm_event(void)
{
	struct notice n;
	if (!next_notice(channel, &n))
		return false;
	switch (n.type) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		connect_request(n.id);
		return true;
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return true;
	case RDMA_CM_EVENT_DISCONNECTED:
		close_connection(n.id->context);
		return true;
	default:
		fprintf(stderr, "%s, status %d\n", rdma_event_str(n.type), n.status);
		failures = true;
		if (n.id == listener)
			return false;
		close_connection(n.id->context);
		return true;
	}
}

// completion_event handles one event of a completion queue. There is none if the queue has been destroyed since
// poll has returned.
static bool completion_event(void)
{
	struct ibv_cq *cq;
	void *context;
	if (ibv_get_cq_event(completions, &cq, &context) != 0)
		return errno == EAGAIN || failed("ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	struct connection *c = context;
	if (c->closing)
		return true; // the queue could not be destroyed
	if (!check(ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq") || !poll_all(c)) {
		failures = true;
		close_connection(c);
	}
	return true;
}

// device_event handles one asynchronous event. It closes the connection that the event is about, and returns false
// if the device has failed.
static bool device_event(void)
{
	struct ibv_async_event event;
	struct connection *c = NULL;
	if (ibv_get_async_event(listener->verbs, &event) != 0)
		return errno == EAGAIN || failed("ibv_get_async_event");
	enum ibv_event_type type = event.event_type;
	switch (type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		c = event.element.qp->qp_context;
		break;
	case IBV_EVENT_CQ_ERR:
		c = event.element.cq->cq_context;
		break;
	default: // it is about the device or a port, or no error
		break;
	}
	ibv_ack_async_event(&event); // before the object is destroyed, which waits for it
	if (type == IBV_EVENT_COMM_EST)
		return true;
	fprintf(stderr, "asynchronous event: %s\n", ibv_event_type_str(type));
	failures = failures || c != NULL || type == IBV_EVENT_DEVICE_FATAL;
	if (c != NULL && !c->closing)
		close_connection(c);
	return type != IBV_EVENT_DEVICE_FATAL;
}

// run serves until SIGTERM can be read from signals.
static bool run(int signals)
{
	struct pollfd fds[] = {{.fd = signals, .events = POLLIN}, {.fd = channel->fd, .events = POLLIN},
		{.fd = completions->fd, .events = POLLIN}, {.fd = listener->verbs->async_fd, .events = POLLIN}};
	for (;;) {
		if (poll(fds, sizeof fds / sizeof *fds, -1) < 0) {
			if (errno == EINTR)
				continue;
			return failed("poll");
		}
		if (fds[0].revents != 0)
			return true;
		if (fds[1].revents != 0 && !cm_event())
			return false;
		if (fds[2].revents != 0 && !completion_event())
			return false;
		if (fds[3].revents != 0 && !device_event())
			return false;
	}
}

// listen_on opens what all connections share, and prints the port.
static bool listen_on(struct sockaddr_in *address)
{
	channel = rdma_create_event_channel();
	if (channel == NULL)
		return failed("rdma_create_event_channel");
	if (!worked(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), "rdma_create_id") ||
		!worked(rdma_bind_addr(listener, (struct sockaddr *)address), "rdma_bind_addr"))
		return false;
	if (listener->verbs == NULL) {
		fprintf(stderr, "no RDMA device has this address\n");
		return false;
	}
	pd = ibv_alloc_pd(listener->verbs);
	if (pd == NULL)
		return failed("ibv_alloc_pd");
	completions = ibv_create_comp_channel(listener->verbs);
	if (completions == NULL)
		return failed("ibv_create_comp_channel");
	if (fcntl(completions->fd, F_SETFL, O_NONBLOCK) != 0 || fcntl(listener->verbs->async_fd, F_SETFL, O_NONBLOCK) != 0)
		return failed("fcntl");
	if (!worked(rdma_listen(listener, CONNECTIONS), "rdma_listen"))
		return false;
	printf("%d\n", ntohs(rdma_get_src_port(listener)));
	return fflush(stdout) == 0 || failed("standard output");
}

// close_all releases everything.
static bool close_all(void)
{
	for (int i = 0; i < CONNECTIONS; i++)
		if (connections[i] != NULL)
			close_connection(connections[i]);
	for (int i = 0; i < ENTRIES; i++)
		release(&entries[i].value);
	bool ok = completions == NULL || check(ibv_destroy_comp_channel(completions), "ibv_destroy_comp_channel");
	ok = dealloc_pd(&pd) && ok;
	ok = destroy_id(&listener) && ok;
	if (channel != NULL)
		rdma_destroy_event_channel(channel);
	return ok;
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(argc > 2 ? atoi(argv[2]) : 0))};
	if (argc < 2 || argc > 3 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1) {
		fprintf(stderr, "usage: server ADDRESS [PORT]\n");
		return 2;
	}
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL); // before another thread starts
	int signals = signalfd(-1, &set, SFD_CLOEXEC);
	bool ok = signals >= 0 || failed("signalfd");
	ok = ok && listen_on(&address) && run(signals);
	ok = close_all() && ok;
	if (signals >= 0)
		close(signals);
	return ok && !failures ? 0 : 1;
}

// The client of a key-value store. It puts, gets and deletes values, and compares what it gets with what it has
// put. It polls for completions. Usage: client ADDRESS PORT NAME
#include "common.h"

#include <arpa/inet.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_TIME 2000   // milliseconds for an event, or for the response to a request
#define DRAIN_TIME 1000  // milliseconds for work requests to be flushed
#define SPINS 1000       // polls of the completion queue between looks at the events

// The messages of a request. They are registered memory.
struct messages {
	struct request request;
	struct response response;
};

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct messages *messages;
static unsigned char *value; // VALUE_SIZE bytes, which the server reads and writes
static struct ibv_mr *messages_mr, *value_mr;
static unsigned posted;   // work requests whose completion is not polled
static bool established;  // there is a connection
static uint32_t sequence; // of the last request

// expect waits for an event of a type.
static bool expect(enum rdma_cm_event_type type)
{
	struct notice n;
	switch (wait_for(channel->fd, now() + WAIT_TIME)) {
	case -1:
		return failed("poll");
	case 0:
		fprintf(stderr, "no event in %d ms, want %s\n", WAIT_TIME, rdma_event_str(type));
		return false;
	}
	if (!next_notice(channel, &n))
		return false;
	if (n.type == type)
		return true;
	fprintf(stderr, "%s, status %d, want %s\n", rdma_event_str(n.type), n.status, rdma_event_str(type));
	return false;
}

// allocate allocates and registers memory.
static bool allocate(void)
{
	messages = calloc(1, sizeof *messages);
	value = calloc(1, VALUE_SIZE);
	if (messages == NULL || value == NULL)
		return failed("calloc");
	messages_mr = ibv_reg_mr(pd, messages, sizeof *messages, IBV_ACCESS_LOCAL_WRITE);
	if (messages_mr == NULL)
		return failed("ibv_reg_mr");
	value_mr = ibv_reg_mr(pd, value, VALUE_SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
	return value_mr != NULL || failed("ibv_reg_mr");
}

// open_connection connects to the server.
static bool open_connection(struct sockaddr_in *address)
{
	channel = rdma_create_event_channel();
	if (channel == NULL)
		return failed("rdma_create_event_channel");
	if (!worked(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id") ||
		!worked(rdma_resolve_addr(id, NULL, (struct sockaddr *)address, WAIT_TIME), "rdma_resolve_addr") ||
		!expect(RDMA_CM_EVENT_ADDR_RESOLVED) ||
		!worked(rdma_resolve_route(id, WAIT_TIME), "rdma_resolve_route") ||
		!expect(RDMA_CM_EVENT_ROUTE_RESOLVED))
		return false;
	pd = ibv_alloc_pd(id->verbs);
	if (pd == NULL)
		return failed("ibv_alloc_pd");
	if (!allocate())
		return false;
	cq = ibv_create_cq(id->verbs, 2, NULL, NULL, 0);
	if (cq == NULL)
		return failed("ibv_create_cq");
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	if (!worked(rdma_create_qp(id, pd, &init), "rdma_create_qp"))
		return false;
	struct rdma_conn_param param = {.responder_resources = 1, .retry_count = 7, .rnr_retry_count = 6};
	if (!worked(rdma_connect(id, &param), "rdma_connect"))
		return false;
	established = expect(RDMA_CM_EVENT_ESTABLISHED);
	return established;
}

// post posts the receive of the response, and sends the request.
static bool post(void)
{
	struct ibv_sge to = {(uintptr_t)&messages->response, sizeof messages->response, messages_mr->lkey};
	struct ibv_sge from = {(uintptr_t)&messages->request, sizeof messages->request, messages_mr->lkey};
	struct ibv_recv_wr *bad_recv, recv = {.sg_list = &to, .num_sge = 1};
	struct ibv_send_wr *bad_send, send = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	if (!check(ibv_post_recv(id->qp, &recv, &bad_recv), "ibv_post_recv"))
		return false;
	posted++;
	if (!check(ibv_post_send(id->qp, &send, &bad_send), "ibv_post_send"))
		return false;
	posted++;
	return true;
}

// no_news reports whether there is no event. In a connection, all of them are bad news.
static bool no_news(void)
{
	struct notice n;
	switch (wait_for(channel->fd, 0)) {
	case -1:
		return failed("poll");
	case 0:
		return true;
	}
	if (next_notice(channel, &n)) {
		fprintf(stderr, "%s, status %d\n", rdma_event_str(n.type), n.status);
		established = n.type != RDMA_CM_EVENT_DISCONNECTED;
	}
	return false;
}

// complete polls until both work requests are complete.
static bool complete(void)
{
	int64_t deadline = now() + WAIT_TIME;
	struct ibv_wc wc;
	for (unsigned spins = 1; posted > 0; spins++) {
		int n = ibv_poll_cq(cq, 1, &wc);
		if (n < 0) {
			fprintf(stderr, "ibv_poll_cq fails\n");
			return false;
		}
		if (n > 0) {
			posted--;
			if (wc.status != IBV_WC_SUCCESS) {
				fprintf(stderr, "a work request: %s\n", ibv_wc_status_str(wc.status));
				return false;
			}
		} else if (spins % SPINS == 0) {
			if (!no_news())
				return false;
			if (now() >= deadline) {
				fprintf(stderr, "no response in %d ms\n", WAIT_TIME);
				return false;
			}
		}
	}
	return true;
}

// call sends a request, and waits for the response, whose status must be as expected. A large value of a PUT is
// in value, and there a large value of a GET arrives.
static bool call(uint32_t op, const char *key, uint32_t length, uint32_t want)
{
	struct request *r = &messages->request;
	memset(messages, 0, sizeof *messages);
	r->op = htobe32(op);
	r->sequence = htobe32(++sequence);
	r->length = htobe32(length);
	r->rkey = htobe32(value_mr->rkey);
	r->address = htobe64((uintptr_t)value);
	snprintf(r->key, sizeof r->key, "%s", key);
	if (op == OP_PUT && length <= SMALL_SIZE)
		memcpy(r->small, value, length);
	if (!post() || !complete())
		return false;
	uint32_t status = be32toh(messages->response.status);
	if (be32toh(messages->response.sequence) != sequence || status != want) {
		fprintf(stderr, "request %u for %s: status %u of request %u, want %u\n", sequence, key, status, be32toh(messages->response.sequence), want);
		return false;
	}
	return true;
}

// byte_of returns a byte of the value that a key has.
static unsigned char byte_of(const char *key, uint32_t length, uint32_t i)
{
	return (unsigned char)(i * 7 + i / 251 + length + (unsigned char)key[i % strlen(key)]);
}

static bool put(const char *key, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		value[i] = byte_of(key, length, i);
	return call(OP_PUT, key, length, ST_OK);
}

// get gets a value, and compares it with what put has put.
static bool get(const char *key, uint32_t length)
{
	memset(value, 0, length);
	if (!call(OP_GET, key, VALUE_SIZE, ST_OK))
		return false;
	if (be32toh(messages->response.length) != length) {
		fprintf(stderr, "%s has %u bytes, want %u\n", key, be32toh(messages->response.length), length);
		return false;
	}
	const unsigned char *got = length <= SMALL_SIZE ? messages->response.small : value;
	for (uint32_t i = 0; i < length; i++) {
		if (got[i] != byte_of(key, length, i)) {
			fprintf(stderr, "%s: byte %u is %u, want %u\n", key, i, got[i], byte_of(key, length, i));
			return false;
		}
	}
	return true;
}

// work puts, gets and deletes values. The key "shared" is that of all clients.
static bool work(const char *name)
{
	char key[KEY_SIZE];
	for (int round = 0; round < 2; round++) {
		static const uint32_t lengths[] = {0, 1, SMALL_SIZE, SMALL_SIZE + 1, 100 * 1000, VALUE_SIZE};
		for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
			snprintf(key, sizeof key, "%s-%zu", name, i);
			if (!put(key, lengths[i]) || !get(key, lengths[i]))
				return false;
		}
		if (!put("shared", 10 * 1000) || !get("shared", 10 * 1000) ||
			!call(OP_DELETE, key, 0, ST_OK) || !call(OP_GET, key, VALUE_SIZE, ST_NOT_FOUND))
			return false;
	}
	return true;
}

// drain polls until all work requests are flushed, or time is up.
static bool drain(void)
{
	int64_t deadline = now() + DRAIN_TIME;
	struct ibv_wc wc;
	int n = 0;
	while (posted > 0 && n >= 0 && now() < deadline) {
		n = ibv_poll_cq(cq, 1, &wc);
		if (n > 0)
			posted--;
	}
	if (posted > 0)
		fprintf(stderr, "%u work requests are not flushed\n", posted);
	return posted == 0;
}

// close_connection releases everything, in the order in which one depends on the other.
static bool close_connection(void)
{
	bool ok = true;
	if (established) {
		ok = worked(rdma_disconnect(id), "rdma_disconnect") && expect(RDMA_CM_EVENT_DISCONNECTED);
		ok = drain() && ok;
	}
	if (id != NULL && id->qp != NULL)
		rdma_destroy_qp(id);
	if (deregister(&messages_mr))
		free(messages);
	else
		ok = false;
	if (deregister(&value_mr))
		free(value);
	else
		ok = false;
	ok = destroy_cq(&cq) && ok;
	ok = dealloc_pd(&pd) && ok;
	ok = destroy_id(&id) && ok;
	if (channel != NULL)
		rdma_destroy_event_channel(channel);
	return ok;
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	if (argc != 4 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1 || strlen(argv[3]) > KEY_SIZE / 2) {
		fprintf(stderr, "usage: client ADDRESS PORT NAME\n");
		return 2;
	}
	address.sin_port = htons((uint16_t)atoi(argv[2]));
	bool ok = open_connection(&address) && work(argv[3]);
	ok = close_connection() && ok;
	return ok ? 0 : 1;
}

// Private data: the largest size that each call accepts. The peer gets all of it, and zeros up
// to the end of the message's field.
#include "cm.h"

enum { SIDR_REJECTS = 2, REP_DATA = 196, REJ_DATA = 148, SIDR_REP_DATA = 136 };

// The room for private data in each message; in a request, after the addresses of rdma_cm.
static int room_of_request(enum rdma_port_space ps) { return ps == RDMA_PS_UDP ? 180 : 56; }
static int room_of_accept(enum rdma_port_space ps) { return ps == RDMA_PS_UDP ? SIDR_REP_DATA : REP_DATA; }
static int room_of_reject(enum rdma_port_space ps) { return ps == RDMA_PS_UDP ? SIDR_REP_DATA : REJ_DATA; }

static uint8_t pattern[256];

static void fill(void)
{
	for (int i = 0; i < 256; i++)
		pattern[i] = (uint8_t)(i * 7 + 1);
}

// carries checks that an event has n bytes of the pattern in a field of room bytes.
static void carries(struct rdma_cm_event *e, bool ud, int n, int room)
{
	const uint8_t *data = ud ? e->param.ud.private_data : e->param.conn.private_data;
	int got = ud ? e->param.ud.private_data_len : e->param.conn.private_data_len;
	must(got == room && data != NULL && memcmp(data, pattern, (size_t)n) == 0);
	for (int i = n; i < room; i++)
		must(data[i] == 0);
}

// asks connects a client with n bytes of private data, after a call with one byte too many was
// refused. It returns the server's ID.
static struct rdma_cm_id *asks(struct rdma_event_channel *ch, struct rdma_cm_id *client, int n)
{
	int room = room_of_request(client->ps);
	struct rdma_conn_param p = params(pattern, room + 1);
	refused(rdma_connect(client, &p), EINVAL);
	p.private_data_len = (uint8_t)n;
	must(rdma_connect(client, &p) == 0);
	struct rdma_cm_event *e = event_of(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *server = e->id;
	must(e->status == 0);
	carries(e, client->ps == RDMA_PS_UDP, n, room);
	must(rdma_ack_cm_event(e) == 0);
	add_qp(server);
	return server;
}

// accepted makes a request with asked bytes of private data and accepts it with n.
static void accepted(struct rdma_event_channel *ch, struct rdma_event_channel *clients, enum rdma_port_space ps, int asked, int n)
{
	struct rdma_cm_id *client = ready(clients, ps, PORT), *server = asks(ch, client, asked);
	struct rdma_conn_param p = params(pattern, n);
	must(rdma_accept(server, &p) == 0);
	struct rdma_cm_event *e = event_of(clients, RDMA_CM_EVENT_ESTABLISHED);
	must(e->id == client && e->status == 0);
	carries(e, ps == RDMA_PS_UDP, n, room_of_accept(ps));
	must(rdma_ack_cm_event(e) == 0);
	if (ps != RDMA_PS_UDP)
		must(pass(ch, RDMA_CM_EVENT_ESTABLISHED) == server);
	destroy(client);
	if (ps != RDMA_PS_UDP)
		must(pass(ch, RDMA_CM_EVENT_DISCONNECTED) == server);
	destroy(server);
}

// rejection returns the client's event of a rejection.
static struct rdma_cm_event *rejection(struct rdma_event_channel *clients, enum rdma_port_space ps)
{
	struct rdma_cm_event *e = event_of(clients, ps == RDMA_PS_UDP ? RDMA_CM_EVENT_UNREACHABLE : RDMA_CM_EVENT_REJECTED);
	must(e->status == (ps == RDMA_PS_UDP ? SIDR_REJECTS : CONSUMER_REJECTS));
	return e;
}

// rejected_with rejects with n bytes, after a call with one byte too many was refused.
static void rejected_with(struct rdma_event_channel *ch, struct rdma_event_channel *clients, enum rdma_port_space ps, int n)
{
	struct rdma_cm_id *client = ready(clients, ps, PORT), *server = asks(ch, client, 1);
	refused(rdma_reject(server, pattern, (uint8_t)(room_of_reject(ps) + 1)), EINVAL);
	quiet(clients);
	must(rdma_reject(server, pattern, (uint8_t)n) == 0);
	struct rdma_cm_event *e = rejection(clients, ps);
	carries(e, ps == RDMA_PS_UDP, n, room_of_reject(ps));
	must(rdma_ack_cm_event(e) == 0);
	destroy(server);
	destroy(client);
}

// Accepting with too much private data rejects the request.
static void accepts_too_much(struct rdma_event_channel *ch, struct rdma_event_channel *clients, enum rdma_port_space ps)
{
	struct rdma_cm_id *client = ready(clients, ps, PORT), *server = asks(ch, client, 1);
	struct rdma_conn_param p = params(pattern, room_of_accept(ps) + 1);
	refused(rdma_accept(server, &p), EINVAL);
	must(rdma_ack_cm_event(rejection(clients, ps)) == 0);
	destroy(server);
	destroy(client);
}

static void private_data(enum rdma_port_space ps)
{
	struct rdma_event_channel *ch = open_channel(), *clients = open_channel();
	struct rdma_cm_id *listener = listen_on(ch, ps, PORT, 8);
	fill();
	accepted(ch, clients, ps, 0, 0);
	accepted(ch, clients, ps, 1, 1);
	accepted(ch, clients, ps, room_of_request(ps), room_of_accept(ps));
	rejected_with(ch, clients, ps, 0);
	rejected_with(ch, clients, ps, 1);
	rejected_with(ch, clients, ps, room_of_reject(ps));
	accepts_too_much(ch, clients, ps);
	must(rdma_destroy_id(listener) == 0);
	quiet(ch);
	quiet(clients);
}

static void of_tcp(void) { private_data(RDMA_PS_TCP); }
static void of_udp(void) { private_data(RDMA_PS_UDP); }
static void of_ib(void) { private_data(RDMA_PS_IB); }

const struct scenario privates[] = {{"private-tcp", of_tcp}, {"private-udp", of_udp}, {"private-ib", of_ib}, {NULL, NULL}};

// Scenarios over IPv6, on an adapter with an IPv4 and an IPv6 address: the first and the second
// of SOFTHCA_ADDR.
#include "cm.h"

enum { GRH = 40, LENGTH = 100 };

static struct sockaddr_in6 six(const char *addr, int port)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
	must(inet_pton(AF_INET6, addr, &a.sin6_addr) == 1);
	return a;
}

static const char *own_addr(void)
{
	const char *comma = strchr(getenv("SOFTHCA_ADDR"), ',');
	must(comma != NULL);
	return comma + 1;
}

static struct sockaddr_in6 own(int port) { return six(own_addr(), port); }

static int bind_six(struct rdma_cm_id *id, struct sockaddr_in6 a) { return rdma_bind_addr(id, (struct sockaddr *)&a); }
static int bind_four(struct rdma_cm_id *id, struct sockaddr_in a) { return rdma_bind_addr(id, (struct sockaddr *)&a); }

static struct rdma_cm_id *ready_six(struct rdma_event_channel *ch, enum rdma_port_space ps, int port)
{
	struct rdma_cm_id *id = make_id(ch, ps);
	struct sockaddr_in6 to = own(port);
	must(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, TIMEOUT_MS) == 0);
	must(pass(ch, RDMA_CM_EVENT_ADDR_RESOLVED) == id);
	must(rdma_resolve_route(id, TIMEOUT_MS) == 0);
	must(pass(ch, RDMA_CM_EVENT_ROUTE_RESOLVED) == id);
	add_qp(id);
	return id;
}

// is checks that an address is the adapter's IPv6 address.
static void is(struct sockaddr *a, in_port_t port)
{
	struct sockaddr_in6 *got = (struct sockaddr_in6 *)a, want = own(0);
	must(got->sin6_family == AF_INET6 && got->sin6_port == port && memcmp(&got->sin6_addr, &want.sin6_addr, 16) == 0);
}

// asked waits for a client's request, which must have the client's address.
static struct rdma_cm_id *asked(struct rdma_event_channel *ch, struct rdma_cm_id *listener, struct rdma_cm_id *client)
{
	struct rdma_cm_event *e = event_of(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *id = e->id;
	must(e->listen_id == listener && rdma_get_dst_port(id) == rdma_get_src_port(client));
	must(rdma_get_peer_addr(id)->sa_family == rdma_get_local_addr(client)->sa_family);
	must(rdma_get_local_addr(id)->sa_family == rdma_get_peer_addr(client)->sa_family);
	must(rdma_ack_cm_event(e) == 0);
	return id;
}

// by_both connects a client of each family. The listeners take the requests, and reject them.
static void by_both(struct rdma_event_channel *ch, struct rdma_cm_id *four, struct rdma_cm_id *of_six)
{
	for (int by_six = 0; by_six <= 1; by_six++) {
		struct rdma_cm_id *client = by_six ? ready_six(ch, RDMA_PS_TCP, PORT) : ready(ch, RDMA_PS_TCP, PORT);
		ask(client);
		destroy(asked(ch, by_six ? of_six : four, client));
		must(failure(ch, RDMA_CM_EVENT_REJECTED, CONSUMER_REJECTS) == client);
		destroy(client);
	}
}

static void connection(void)
{
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *listener = make_id(ch, RDMA_PS_TCP);
	char data[57] = "by IPv6 there is no less room for private data";
	must(bind_six(listener, own(PORT)) == 0 && rdma_listen(listener, 1) == 0);
	struct rdma_cm_id *client = ready_six(ch, RDMA_PS_TCP, PORT);
	is(rdma_get_local_addr(client), rdma_get_src_port(client));
	is(rdma_get_peer_addr(client), htons(PORT));
	struct rdma_conn_param p = params(data, sizeof data);
	refused(rdma_connect(client, &p), EINVAL);
	p.private_data_len = sizeof data - 1;
	must(rdma_connect(client, &p) == 0);
	struct rdma_cm_event *e = event_of(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	must(e->param.conn.private_data_len == sizeof data - 1 && memcmp(e->param.conn.private_data, data, sizeof data - 1) == 0);
	struct rdma_cm_id *server = e->id;
	must(rdma_ack_cm_event(e) == 0);
	is(rdma_get_local_addr(server), htons(PORT));
	is(rdma_get_peer_addr(server), rdma_get_src_port(client));
	establish(client, server, params(NULL, 0));
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	union ibv_gid gid;
	must(ibv_query_qp(client->qp, &a, IBV_QP_AV, &init) == 0 && memcmp(&a.ah_attr.grh.dgid, &((struct sockaddr_in6 *)rdma_get_peer_addr(client))->sin6_addr, 16) == 0);
	must(ibv_query_gid(client->verbs, 1, a.ah_attr.grh.sgid_index, &gid) == 0 && memcmp(&gid, &a.ah_attr.grh.dgid, 16) == 0);
	hang_up(client, server, listener);
}

// Listeners on all addresses of a family coexist: each takes the requests of its family. A
// listener for both families takes all.
static void wildcards(void)
{
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *four = make_id(ch, RDMA_PS_TCP), *only = make_id(ch, RDMA_PS_TCP);
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	int on = 1;
	must(rdma_set_option(only, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof on) == 0);
	must(bind_six(only, six("::", PORT)) == 0 && bind_four(four, any) == 0 && rdma_listen(four, 1) == 0 && rdma_listen(only, 1) == 0);
	by_both(ch, four, only);
	destroy(only);
	struct rdma_cm_id *client = ready_six(ch, RDMA_PS_TCP, PORT); // the IPv4 listener does not take it
	ask(client);
	must(failure(ch, RDMA_CM_EVENT_REJECTED, CONSUMER_REJECTS) == client);
	destroy(client);
	destroy(four);

	struct rdma_cm_id *both = make_id(ch, RDMA_PS_TCP);
	must(bind_six(both, six("::", PORT)) == 0 && rdma_listen(both, 1) == 0);
	by_both(ch, both, both);
	destroy(both);
	quiet(ch);
}

// A port belongs to an address: the address of the other family has its own port of the same
// number.
static void ports_of_both(void)
{
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *one = make_id(ch, RDMA_PS_TCP), *two = make_id(ch, RDMA_PS_TCP), *three = make_id(ch, RDMA_PS_TCP);
	must(bind_four(one, here(PORT)) == 0 && bind_six(two, own(PORT)) == 0);
	refused(bind_six(three, own(PORT)), EADDRINUSE);
	refused(bind_six(three, six("::", PORT)), EADDRNOTAVAIL);
	must(rdma_listen(one, 1) == 0 && rdma_listen(two, 1) == 0);
	destroy(one);
	refused(bind_six(three, six("::", PORT)), EADDRNOTAVAIL); // two has it
	destroy(two);
	must(bind_six(three, six("::", PORT)) == 0);
	destroy(three);
	for (int i = 0; i < 2; i++) {
		one = make_id(ch, RDMA_PS_TCP);
		must(bind_six(one, i == 0 ? six("::", 0) : own(0)) == 0 && ntohs(rdma_get_src_port(one)) >= 32768);
		destroy(one);
	}
}

// Addresses that are refused.
static void addresses(void)
{
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *id = make_id(ch, RDMA_PS_TCP);
	struct sockaddr_in four = here(PORT);
	struct sockaddr_in6 to = own(PORT);
	refused(bind_six(id, six("2001:db8::1", PORT)), EADDRNOTAVAIL);
	refused(bind_six(id, six("fe80::1", PORT)), EINVAL); // the interface is missing
	must(bind_six(id, six("::", 0)) == 0);
	refused(rdma_resolve_addr(id, NULL, (struct sockaddr *)&four, TIMEOUT_MS), EINVAL); // although it is bound to all IPv6 addresses
	quiet(ch);
	must(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, TIMEOUT_MS) == 0);
	must(pass(ch, RDMA_CM_EVENT_ADDR_RESOLVED) == id);
	is(rdma_get_local_addr(id), rdma_get_src_port(id));
	destroy(id);
	id = make_id(ch, RDMA_PS_TCP);
	must(bind_four(id, here(0)) == 0);
	refused(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, TIMEOUT_MS), EINVAL);
	destroy(id);
}

// deliver sends a datagram by the parameters of an event, and waits for it.
static void deliver(struct rdma_cm_id *from, struct rdma_cm_id *to, struct rdma_ud_param *u)
{
	static char out[LENGTH], in[GRH + LENGTH];
	struct ibv_mr *mr = rdma_reg_msgs(to, in, sizeof in), *mr2 = rdma_reg_msgs(from, out, sizeof out);
	must(mr != NULL && mr2 != NULL && rdma_post_recv(to, NULL, in, sizeof in, mr) == 0);
	struct ibv_ah *ah = ibv_create_ah(from->pd, &u->ah_attr);
	must(ah != NULL);
	memset(out, 'x', sizeof out);
	must(rdma_post_ud_send(from, NULL, out, sizeof out, mr2, IBV_SEND_SIGNALED, ah, u->qp_num) == 0);
	struct ibv_wc wc;
	must(rdma_get_recv_comp(to, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.byte_len == GRH + LENGTH && in[GRH + LENGTH - 1] == 'x');
	must(ibv_destroy_ah(ah) == 0 && rdma_dereg_mr(mr) == 0 && rdma_dereg_mr(mr2) == 0);
}

// Datagrams: the client's event has everything that it needs to send to the service.
static void datagrams(void)
{
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *listener = make_id(ch, RDMA_PS_UDP);
	struct rdma_conn_param p = params("hello", 5);
	must(bind_six(listener, own(PORT)) == 0 && rdma_listen(listener, 1) == 0);
	struct rdma_cm_id *client = ready_six(ch, RDMA_PS_UDP, PORT);
	must(rdma_connect(client, &p) == 0);
	struct rdma_cm_event *e = event_of(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *server = e->id;
	must(memcmp(e->param.ud.private_data, "hello", 5) == 0 && rdma_ack_cm_event(e) == 0);
	is(rdma_get_local_addr(server), htons(PORT));
	is(rdma_get_peer_addr(server), rdma_get_src_port(client));
	add_qp(server);
	p = params(NULL, 0);
	p.qp_num = server->qp->qp_num;
	must(rdma_accept(server, &p) == 0);
	e = event_of(ch, RDMA_CM_EVENT_ESTABLISHED);
	struct rdma_ud_param *u = &e->param.ud;
	must(e->id == client && u->qp_num == server->qp->qp_num && u->qkey == RDMA_UDP_QKEY && u->ah_attr.is_global == 1);
	struct sockaddr_in6 to = own(0);
	must(memcmp(&u->ah_attr.grh.dgid, &to.sin6_addr, 16) == 0);
	deliver(client, server, u);
	must(rdma_ack_cm_event(e) == 0);
	destroy(client);
	destroy(server);
	destroy(listener);
	quiet(ch);
}

// An IPv6 multicast group: its address is its GID.
static void group(void)
{
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *id = make_id(ch, RDMA_PS_UDP);
	struct sockaddr_in6 g = six("ff15::4791", 0), from = own(0);
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xef000001)};
	must(rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&g, TIMEOUT_MS) == 0);
	must(pass(ch, RDMA_CM_EVENT_ADDR_RESOLVED) == id);
	add_qp(id);
	refused(rdma_join_multicast(id, (struct sockaddr *)&four, NULL), EINVAL);
	must(rdma_join_multicast(id, (struct sockaddr *)&g, &g) == 0);
	struct rdma_cm_event *e = event_of(ch, RDMA_CM_EVENT_MULTICAST_JOIN);
	struct rdma_ud_param *u = &e->param.ud;
	must(e->status == 0 && u->private_data == &g && u->qkey == RDMA_UDP_QKEY && memcmp(&u->ah_attr.grh.dgid, &g.sin6_addr, 16) == 0);
	deliver(id, id, u);
	must(rdma_ack_cm_event(e) == 0 && rdma_leave_multicast(id, (struct sockaddr *)&g) == 0);
	destroy(id);
	quiet(ch);
}

// rdma_getaddrinfo and rdma_create_ep with IPv6.
static void hints(void)
{
	struct rdma_addrinfo passive = {.ai_flags = RAI_PASSIVE | RAI_NUMERICHOST, .ai_port_space = RDMA_PS_TCP}, active = {.ai_port_space = RDMA_PS_TCP};
	struct rdma_addrinfo *a, family = {.ai_flags = RAI_FAMILY | RAI_NUMERICHOST, .ai_family = AF_INET, .ai_port_space = RDMA_PS_TCP};
	struct rdma_cm_id *listener, *id;
	must(rdma_getaddrinfo(own_addr(), "7471", &family, &a) != 0); // the address has another family
	must(rdma_getaddrinfo(own_addr(), "7471", &passive, &a) == 0 && a->ai_family == AF_INET6 && a->ai_src_len == sizeof(struct sockaddr_in6));
	is(a->ai_src_addr, htons(PORT));
	must(rdma_create_ep(&listener, a, NULL, NULL) == 0);
	rdma_freeaddrinfo(a);
	is(rdma_get_local_addr(listener), htons(PORT));
	must(rdma_listen(listener, 1) == 0);
	must(rdma_getaddrinfo(own_addr(), "7471", &active, &a) == 0 && a->ai_family == AF_INET6 && a->ai_dst_len == sizeof(struct sockaddr_in6));
	must(rdma_create_ep(&id, a, NULL, NULL) == 0);
	rdma_freeaddrinfo(a);
	is(rdma_get_peer_addr(id), htons(PORT));
	must(id->route.num_paths == 1);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
}

const struct scenario sixes[] = {
	{"six-connection", connection}, {"six-wildcards", wildcards}, {"six-ports", ports_of_both}, {"six-addresses", addresses}, {"six-datagrams", datagrams},
	{"six-group", group}, {"six-hints", hints}, {NULL, NULL},
};

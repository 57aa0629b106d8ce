// The options of an ID: the effect of each, when it may be set, and Linux's errors for unknown
// options.
#include "cm.h"

#include <infiniband/sa.h>

enum { ID = RDMA_OPTION_ID, TOS = RDMA_OPTION_ID_TOS, REUSE = RDMA_OPTION_ID_REUSEADDR, AFONLY = RDMA_OPTION_ID_AFONLY };
enum { ACK_TIMEOUT = RDMA_OPTION_ID_ACK_TIMEOUT };

static int set(struct rdma_cm_id *id, int option, int v) { return rdma_set_option(id, ID, option, &v, sizeof v); }
static int set_byte(struct rdma_cm_id *id, int option, uint8_t v) { return rdma_set_option(id, ID, option, &v, sizeof v); }

// Several IDs share a port; one of them may listen.
static void reuse(void)
{
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *one = make_id(ch, RDMA_PS_TCP), *two = make_id(ch, RDMA_PS_TCP), *three = make_id(ch, RDMA_PS_TCP);
	must(set(one, REUSE, 1) == 0 && bind_to(one, PORT) == 0);
	refused(bind_to(two, PORT), EADDRINUSE);
	must(set(two, REUSE, 1) == 0 && bind_to(two, PORT) == 0);
	refused(set(two, REUSE, 0), EINVAL); // the port is shared already
	refused(rdma_listen(one, 1), EADDRINUSE);
	destroy(two);
	must(rdma_listen(one, 1) == 0);
	refused(set(one, REUSE, 1), EINVAL);
	must(set(three, REUSE, 1) == 0);
	refused(bind_to(three, PORT), EADDRINUSE); // a listener does not share its port
	destroy(one);
	must(bind_to(three, PORT) == 0);
	destroy(three);
}

static int bind_any(struct rdma_cm_id *id, int family)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
	return rdma_bind_addr(id, family == AF_INET ? (struct sockaddr *)&a : (struct sockaddr *)&a6);
}

// Listeners on all addresses of each family coexist if the IPv6 one is restricted to IPv6; an
// IPv4 one is always restricted to IPv4.
static void afonly(void)
{
	struct rdma_event_channel *ch = open_channel();
	for (int four_first = 0; four_first <= 1; four_first++) {
		struct rdma_cm_id *four = make_id(ch, RDMA_PS_TCP), *six = make_id(ch, RDMA_PS_TCP);
		must(!four_first || bind_any(four, AF_INET) == 0);
		must(set(six, AFONLY, 1) == 0 && bind_any(six, AF_INET6) == 0);
		must(four_first || bind_any(four, AF_INET) == 0);
		must(rdma_listen(six, 1) == 0 && rdma_listen(four, 1) == 0);
		refused(set(six, AFONLY, 0), EINVAL);
		destroy(four);

		// Without the IPv4 listener, requests over IPv4 are rejected.
		struct rdma_cm_id *client = ready(ch, RDMA_PS_TCP, PORT);
		ask(client);
		must(failure(ch, RDMA_CM_EVENT_REJECTED, CONSUMER_REJECTS) == client);
		destroy(client);
		destroy(six);
	}
	// A listener on both families excludes others from the port, and takes requests over IPv4.
	struct rdma_cm_id *both = make_id(ch, RDMA_PS_TCP), *four = make_id(ch, RDMA_PS_TCP), *client;
	must(bind_any(both, AF_INET6) == 0 && rdma_listen(both, 1) == 0);
	refused(bind_any(four, AF_INET), EADDRNOTAVAIL);
	client = ready(ch, RDMA_PS_TCP, PORT);
	ask(client);
	destroy(pass(ch, RDMA_CM_EVENT_CONNECT_REQUEST));
	must(failure(ch, RDMA_CM_EVENT_REJECTED, CONSUMER_REJECTS) == client);
	destroy(client);
	destroy(both);
	// An IPv4 ID with AFONLY set to 0 takes the port in both families.
	struct rdma_cm_id *six = make_id(ch, RDMA_PS_TCP);
	must(set(four, AFONLY, 0) == 0 && bind_any(four, AF_INET) == 0 && set(six, AFONLY, 1) == 0);
	refused(bind_any(six, AF_INET6), EADDRNOTAVAIL);
	destroy(four);
	destroy(six);
}

// The type of service and the ACK timeout become attributes of the queue pairs, on both sides
// where they apply to both.
static void attributes(void)
{
	enum { CLASS = 0x68, CLIENT_TIMEOUT = 12, SERVER_TIMEOUT = 11 };
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *listener = listen_on(ch, RDMA_PS_TCP, PORT, 1), *client = make_id(ch, RDMA_PS_TCP);
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	must(set_byte(client, TOS, CLASS) == 0 && set_byte(client, ACK_TIMEOUT, CLIENT_TIMEOUT) == 0);
	resolve(client, PORT);
	must(client->route.num_paths == 1 && client->route.path_rec->traffic_class == CLASS);
	must(client->route.path_rec->packet_life_time == CLIENT_TIMEOUT - 1);
	add_qp(client);
	ask(client);
	struct rdma_cm_id *server = pass(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	must(set_byte(server, ACK_TIMEOUT, SERVER_TIMEOUT) == 0);
	establish(client, server, params(NULL, 0));
	must(ibv_query_qp(client->qp, &a, IBV_QP_TIMEOUT | IBV_QP_AV, &init) == 0);
	must(a.timeout == CLIENT_TIMEOUT && a.ah_attr.grh.traffic_class == CLASS);
	must(ibv_query_qp(server->qp, &a, IBV_QP_TIMEOUT | IBV_QP_AV, &init) == 0);
	must(a.timeout == SERVER_TIMEOUT && a.ah_attr.grh.traffic_class == CLASS);
	hang_up(client, server, listener);

	struct rdma_cm_id *datagrams = make_id(ch, RDMA_PS_UDP);
	refused(set_byte(datagrams, ACK_TIMEOUT, 12), EINVAL); // nothing is acknowledged
	must(set_byte(datagrams, TOS, CLASS) == 0);
	destroy(datagrams);
}

// Unknown options, and options of a wrong size.
static void unknown(void)
{
	char bytes[256] = {0};
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *id = make_id(ch, RDMA_PS_TCP);
	refused(rdma_set_option(id, ID, 4, bytes, 1), ENOSYS);
	refused(rdma_set_option(id, ID, 4, bytes, 4), ENOSYS);
	refused(rdma_set_option(id, ID, 99, bytes, 7), ENOSYS);
	refused(rdma_set_option(id, 2, TOS, bytes, 1), ENOSYS);
	refused(rdma_set_option(id, RDMA_OPTION_IB, 0, bytes, 1), ENOSYS);
	const struct { int option; size_t size; } sizes[] = {{TOS, 1}, {REUSE, 4}, {AFONLY, 4}, {ACK_TIMEOUT, 1}};
	for (int i = 0; i < 4; i++) {
		for (size_t n = 0; n < 9; n++) {
			if (n == sizes[i].size)
				must(rdma_set_option(id, ID, sizes[i].option, bytes, n) == 0);
			else
				refused(rdma_set_option(id, ID, sizes[i].option, bytes, n), EINVAL);
		}
		refused(rdma_set_option(id, ID, sizes[i].option, (void *)8, sizes[i].size), EFAULT);
	}
	destroy(id);
}

// After the program has set a path, an ID may connect, as after rdma_resolve_route.
static void path(void)
{
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *listener = listen_on(ch, RDMA_PS_TCP, PORT, 1), *id = make_id(ch, RDMA_PS_TCP), *other = make_id(ch, RDMA_PS_TCP);
	struct ibv_path_data data = {0};
	must(sizeof data == 72);
	refused(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &data, sizeof data), EINVAL); // no flag says what the path is for
	data.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL;
	refused(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &data, sizeof data), EINVAL); // no adapter
	begin_resolve(id, PORT);
	pass(ch, RDMA_CM_EVENT_ADDR_RESOLVED);

	// A path with the addresses of another ID's.
	resolve(other, PORT);
	struct ibv_sa_path_rec *was = other->route.path_rec;
	data.path.dgid = was->dgid, data.path.sgid = was->sgid, data.path.pkey = was->pkey;
	data.path.flowlabel_hoplimit = htonl(0x12345 << 8 | 64), data.path.tclass = 0x20, data.path.reversible_numpath = 1 << 7 | 1;
	data.path.mtu = 2 << 6 | IBV_MTU_512, data.path.rate = 2 << 6 | was->rate, data.path.packetlifetime = 2 << 6 | 13;
	refused(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &data, sizeof data - 1), EINVAL);
	refused(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &data, 0), EINVAL);
	quiet(ch);
	must(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &data, sizeof data) == 0);
	must(pass(ch, RDMA_CM_EVENT_ROUTE_RESOLVED) == id);
	refused(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &data, sizeof data), EINVAL);
	refused(rdma_resolve_route(id, TIMEOUT_MS), EINVAL);
	must(id->route.num_paths == 1 && id->route.path_rec->mtu == IBV_MTU_512 && id->route.path_rec->traffic_class == 0x20);
	must(id->route.path_rec->packet_life_time == 13 && ntohl(id->route.path_rec->flow_label) == 0x12345);

	add_qp(id);
	ask(id);
	struct rdma_cm_id *server = pass(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	establish(id, server, params(NULL, 0));
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	must(ibv_query_qp(server->qp, &a, IBV_QP_PATH_MTU | IBV_QP_AV, &init) == 0);
	must(a.path_mtu == IBV_MTU_512 && a.ah_attr.grh.traffic_class == 0x20 && a.ah_attr.grh.flow_label == 0x12345);
	hang_up(id, server, listener);
	destroy(other);
}

const struct scenario options[] = {
	{"option-reuseaddr", reuse}, {"option-afonly", afonly}, {"option-attributes", attributes}, {"option-unknown", unknown}, {"option-path", path},
	{NULL, NULL},
};

// Calls in the wrong order, and other calls that rdma_cm refuses.
#include "cm.h"

static int resolve_addr(struct rdma_cm_id *id, const char *from, const char *to)
{
	struct sockaddr_in src = {.sin_family = AF_INET}, dst = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	must(from == NULL || inet_pton(AF_INET, from, &src.sin_addr) == 1);
	must(inet_pton(AF_INET, to, &dst.sin_addr) == 1);
	return rdma_resolve_addr(id, from == NULL ? NULL : (struct sockaddr *)&src, (struct sockaddr *)&dst, TIMEOUT_MS);
}

// Each step of a connection requires the one before, and cannot be repeated.
static void active(void)
{
	struct rdma_event_channel *ch = open_channel();
	struct rdma_conn_param p = params(NULL, 0);
	struct rdma_cm_id *id = make_id(ch, RDMA_PS_TCP), *listener = listen_on(ch, RDMA_PS_TCP, PORT, 1);
	const char *own = getenv("SOFTHCA_ADDR");
	p.qp_num = 0x1234;
	refused(rdma_reject(id, NULL, 0), EINVAL); // librdmacm itself refuses most of the others without an adapter
	must(resolve_addr(id, NULL, own) == 0);
	pass(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	refused(rdma_accept(id, &p), EINVAL);
	refused(rdma_reject(id, NULL, 0), EINVAL);
	refused(rdma_establish(id), EINVAL);
	refused(rdma_notify(id, IBV_EVENT_COMM_EST), EINVAL);
	refused(rdma_connect(id, &p), EINVAL);
	refused(rdma_disconnect(id), EINVAL);
	refused(bind_to(id, 0), EINVAL);
	refused(rdma_listen(id, 1), EINVAL);
	refused(rdma_resolve_route(id, 0), EINVAL);
	must(rdma_resolve_route(id, TIMEOUT_MS) == 0);
	pass(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	refused(rdma_resolve_route(id, TIMEOUT_MS), EINVAL);
	refused(resolve_addr(id, NULL, own), EINVAL);
	refused(rdma_accept(id, &p), EINVAL);
	must(rdma_connect(id, &p) == 0);
	refused(rdma_connect(id, &p), EINVAL);
	struct rdma_cm_id *server = pass(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	refused(rdma_connect(server, &p), EINVAL);
	refused(rdma_resolve_route(server, TIMEOUT_MS), EINVAL);
	refused(rdma_listen(server, 1), EINVAL);
	refused(bind_to(server, 0), EINVAL);
	destroy(server);
	failure(ch, RDMA_CM_EVENT_REJECTED, CONSUMER_REJECTS);
	refused(rdma_connect(id, &p), EINVAL); // after a rejection, a program needs a new ID
	destroy(id);
	resolve(id = make_id(ch, RDMA_PS_TCP), PORT);
	must(rdma_connect(id, &p) == 0);
	server = pass(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	must(rdma_reject(server, NULL, 0) == 0);
	refused(rdma_reject(server, NULL, 0), EINVAL);
	refused(rdma_accept(server, &p), EINVAL);
	failure(ch, RDMA_CM_EVENT_REJECTED, CONSUMER_REJECTS);
	destroy(server);
	destroy(id);
	destroy(listener);
	quiet(ch);
}

// Calls that a listener refuses.
static void listener(void)
{
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *id = listen_on(ch, RDMA_PS_TCP, PORT, 1), *idle = make_id(ch, RDMA_PS_TCP);
	struct rdma_conn_param p = params(NULL, 0);
	refused(rdma_listen(id, 1), EINVAL);
	refused(bind_to(id, PORT + 1), EINVAL);
	refused(resolve_addr(id, NULL, getenv("SOFTHCA_ADDR")), EINVAL);
	refused(rdma_connect(id, &p), EINVAL);
	refused(rdma_accept(id, &p), EINVAL);
	refused(rdma_reject(id, NULL, 0), EINVAL);
	must(rdma_listen(idle, 1) == 0); // gets a port on all addresses
	must(ntohs(rdma_get_src_port(idle)) >= 1024 && rdma_get_src_port(idle) != rdma_get_src_port(id));
	destroy(idle);
	destroy(id);
}

// The end of a connection.
static void ending(void)
{
	struct link l;
	struct rdma_conn_param p = params(NULL, 0);
	link_up(&l, RDMA_PS_TCP);
	refused(rdma_accept(l.server, &p), EINVAL);
	refused(rdma_reject(l.server, NULL, 0), EINVAL);
	refused(rdma_connect(l.client, &p), EINVAL);
	must(rdma_disconnect(l.client) == 0);
	must(rdma_disconnect(l.client) == 0); // a second call while the first one's DREQ is under way
	struct rdma_cm_id *first = pass(l.ch, RDMA_CM_EVENT_DISCONNECTED);
	must(first == l.server);
	must(rdma_disconnect(l.server) == 0);
	must(pass(l.ch, RDMA_CM_EVENT_DISCONNECTED) == l.client);
	must(rdma_disconnect(l.server) == 0 && rdma_disconnect(l.client) == 0);
	refused(rdma_accept(l.server, &p), EINVAL);
	refused(rdma_connect(l.client, &p), EINVAL);
	refused(rdma_connect(l.server, &p), EINVAL);
	refused(rdma_reject(l.server, NULL, 0), EINVAL);
	link_down(&l);
}

// Addresses that are refused.
static void addresses(void)
{
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *id = make_id(ch, RDMA_PS_TCP);
	const char *own = getenv("SOFTHCA_ADDR");
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT, .sin6_port = htons(PORT)};
	struct sockaddr_in four = here(0), odd = {.sin_family = AF_UNIX};
	refused(resolve_addr(id, "192.0.2.1", own), EADDRNOTAVAIL); // no host has this address
	struct rdma_cm_id *far = make_id(ch, RDMA_PS_TCP);
	if (resolve_addr(far, NULL, "192.0.2.9") == 0) { // the host has a route, but from no adapter
		must(failure(ch, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV) == far);
	} else {
		int why = errno;
		must(why == ENETUNREACH || why == EHOSTUNREACH);
	}
	resolve(far, PORT); // the ID is still usable
	destroy(far);
	refused(rdma_resolve_addr(id, (struct sockaddr *)&four, (struct sockaddr *)&six, TIMEOUT_MS), EINVAL);
	refused(rdma_bind_addr(id, (struct sockaddr *)&odd), EINVAL);
	refused(rdma_resolve_addr(id, NULL, (struct sockaddr *)&odd, TIMEOUT_MS), EINVAL);
	struct rdma_cm_id *other = make_id(ch, RDMA_PS_TCP);
	inet_pton(AF_INET, "192.0.2.1", &four.sin_addr);
	refused(rdma_bind_addr(other, (struct sockaddr *)&four), EADDRNOTAVAIL);
	must(bind_to(other, 0) == 0); // the ID is still usable
	refused(bind_to(other, 0), EINVAL);
	must(resolve_addr(other, "192.0.2.1", own) == 0); // a bound ID ignores the source
	pass(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	must(((struct sockaddr_in *)rdma_get_local_addr(other))->sin_addr.s_addr == here(0).sin_addr.s_addr);
	destroy(other);
	destroy(id);
}

// No ID listens on the port, or only one in another port space.
static void nobody(void)
{
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *listener = listen_on(ch, RDMA_PS_IB, PORT, 1), *id = ready(ch, RDMA_PS_TCP, PORT);
	ask(id);
	must(failure(ch, RDMA_CM_EVENT_REJECTED, INVALID_SERVICE) == id);
	destroy(id);
	id = ready(ch, RDMA_PS_UDP, PORT);
	ask(id);
	must(failure(ch, RDMA_CM_EVENT_UNREACHABLE, 1) == id); // not supported
	destroy(id);
	destroy(listener);
}

// The port space of IP over InfiniBand, which does not exist on Ethernet.
static void ipoib(void)
{
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *id = make_id(ch, RDMA_PS_IPOIB);
	refused(bind_to(id, PORT), EINVAL);
	must(resolve_addr(id, NULL, getenv("SOFTHCA_ADDR")) == 0);
	must(failure(ch, RDMA_CM_EVENT_ADDR_ERROR, -EINVAL) == id);
	destroy(id);
	refused(rdma_create_id(ch, &id, NULL, 0x0555), EINVAL);
}

// Extended connection establishment: like older kernels, the adapter does not offer it. A
// program that offers it connects like any other.
static void ece(void)
{
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *listener = listen_on(ch, RDMA_PS_TCP, PORT, 1), *id = make_id(ch, RDMA_PS_TCP);
	struct rdma_conn_param p = params(NULL, 0);
	struct ibv_ece offer = {.vendor_id = 0x15b3, .options = 7}, got = {.vendor_id = 1}, none = {0};
	p.qp_num = 0x1234;
	refused(rdma_set_local_ece(id, &none), EINVAL);
	must(rdma_set_local_ece(id, &offer) == 0);
	resolve(id, PORT);
	must(rdma_connect(id, &p) == 0);
	struct rdma_cm_id *server = pass(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	must(rdma_get_remote_ece(server, &got) == 0 && got.vendor_id == 0 && got.options == 0);
	must(rdma_set_local_ece(server, &offer) == 0);
	p.qp_num = 0x1235;
	must(rdma_accept(server, &p) == 0);
	must(pass(ch, RDMA_CM_EVENT_CONNECT_RESPONSE) == id);
	got.vendor_id = 1;
	must(rdma_get_remote_ece(id, &got) == 0 && got.vendor_id == 0 && got.options == 0);
	must(rdma_establish(id) == 0);
	must(pass(ch, RDMA_CM_EVENT_ESTABLISHED) == server);
	refused(rdma_establish(id), EINVAL);
	struct rdma_cm_id *with = ready(ch, RDMA_PS_TCP, PORT);
	must(ibv_query_ece(with->qp, &got) == EOPNOTSUPP && ibv_set_ece(with->qp, &offer) == EOPNOTSUPP);
	refused(rdma_set_local_ece(with, &offer), EINVAL); // the queue pair would have to support it
	destroy(with);
	hang_up(id, server, listener);
}

const struct scenario orders[] = {
	{"order-active", active}, {"order-listener", listener}, {"order-ending", ending}, {"order-addresses", addresses}, {"order-nobody", nobody},
	{"order-ipoib", ipoib}, {"order-ece", ece}, {NULL, NULL},
};

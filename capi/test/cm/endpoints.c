// Endpoints: rdma_getaddrinfo and rdma_create_ep, on both sides, with synchronous IDs: they
// have no event channel, and calls wait for their events.
#include "cm.h"

#include <pthread.h>

enum { DATA = 64 };

static struct rdma_addrinfo *info(int flags, int ps, int qp_type)
{
	struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = ps, .ai_qp_type = qp_type}, *got;
	must(rdma_getaddrinfo(getenv("SOFTHCA_ADDR"), "7471", &hints, &got) == 0 && got != NULL);
	return got;
}

static in_port_t port_of(struct sockaddr *a) { return ((struct sockaddr_in *)a)->sin_port; }

// The effect of hints on rdma_getaddrinfo.
static void hints(void)
{
	const struct { int ps, type; } of[] = {{RDMA_PS_TCP, IBV_QPT_RC}, {RDMA_PS_UDP, IBV_QPT_UD}, {RDMA_PS_IB, IBV_QPT_RC}, {RDMA_PS_IB, IBV_QPT_UC}};
	struct rdma_addrinfo *got;
	for (int i = 0; i < 4; i++) {
		got = info(RAI_PASSIVE, of[i].ps, of[i].type);
		must(got->ai_port_space == of[i].ps && got->ai_qp_type == of[i].type && got->ai_family == AF_INET);
		must((got->ai_flags & RAI_PASSIVE) != 0 && got->ai_src_len == sizeof(struct sockaddr_in) && got->ai_dst_len == 0);
		must(port_of(got->ai_src_addr) == htons(PORT));
		rdma_freeaddrinfo(got);
		got = info(0, of[i].ps, of[i].type);
		must(got->ai_dst_len == sizeof(struct sockaddr_in) && port_of(got->ai_dst_addr) == htons(PORT));
		rdma_freeaddrinfo(got);
	}
	struct rdma_addrinfo any = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, numeric = {.ai_flags = RAI_NUMERICHOST};
	must(rdma_getaddrinfo(NULL, "7471", &any, &got) == 0 && got->ai_src_len > 0 && port_of(got->ai_src_addr) == htons(PORT));
	rdma_freeaddrinfo(got);
	must(rdma_getaddrinfo("no.address", "7471", &numeric, &got) != 0);
}

static struct rdma_cm_id *create_ep(struct rdma_addrinfo *a, struct ibv_qp_init_attr *qp)
{
	struct rdma_cm_id *id;
	must(rdma_create_ep(&id, a, NULL, qp) == 0);
	rdma_freeaddrinfo(a);
	return id;
}

static struct ibv_qp_init_attr queues(void)
{
	return (struct ibv_qp_init_attr){.cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1}, .sq_sig_all = 1};
}

// The server: a listener whose requests come with a queue pair.
struct served {
	int ps, type;
	struct rdma_cm_id *listener;
};

static void *serve(void *arg)
{
	struct served *s = arg;
	struct rdma_cm_id *id;
	char buf[DATA];
	struct ibv_wc wc;
	must(rdma_get_request(s->listener, &id) == 0);
	must(id->channel == NULL || id->channel != s->listener->channel);
	must(id->qp != NULL && (int)id->qp->qp_type == s->type && id->event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	must(memcmp(id->event->param.conn.private_data, "hello", 5) == 0);
	struct ibv_mr *mr = rdma_reg_msgs(id, buf, sizeof buf);
	must(mr != NULL && rdma_post_recv(id, NULL, buf, sizeof buf, mr) == 0);
	must(rdma_accept(id, NULL) == 0); // waits until the connection is established
	must(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.byte_len == DATA && buf[DATA - 1] == 'z');
	must(rdma_post_send(id, NULL, buf, sizeof buf, mr, 0) == 0);
	must(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	rdma_disconnect(id); // the client may have disconnected first
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	return NULL;
}

static void connect_ep(int ps, int type)
{
	struct ibv_qp_init_attr qp = queues(), own = queues();
	struct served s = {.ps = ps, .type = type};
	pthread_t t;
	qp.qp_type = own.qp_type = (enum ibv_qp_type)type;
	s.listener = create_ep(info(RAI_PASSIVE, ps, type), &qp);
	must(s.listener->qp == NULL && rdma_listen(s.listener, 0) == 0);
	must(pthread_create(&t, NULL, serve, &s) == 0);
	struct rdma_cm_id *id = create_ep(info(0, ps, type), &own);
	must(id->qp != NULL && (int)id->qp->qp_type == type && (int)id->ps == ps && id->route.num_paths == 1);
	struct rdma_conn_param p = params("hello", 5);
	char buf[DATA], back[DATA];
	struct ibv_wc wc;
	memset(buf, 'z', sizeof buf);
	struct ibv_mr *mr = rdma_reg_msgs(id, buf, sizeof buf), *mr2 = rdma_reg_msgs(id, back, sizeof back);
	must(mr != NULL && mr2 != NULL && rdma_post_recv(id, NULL, back, sizeof back, mr2) == 0);
	must(rdma_connect(id, &p) == 0 && id->event->event == RDMA_CM_EVENT_ESTABLISHED);
	must(rdma_post_send(id, NULL, buf, sizeof buf, mr, 0) == 0);
	must(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	must(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS && memcmp(buf, back, DATA) == 0);
	must(rdma_disconnect(id) == 0);
	rdma_dereg_mr(mr);
	rdma_dereg_mr(mr2);
	rdma_destroy_ep(id);
	must(pthread_join(t, NULL) == 0);
	rdma_destroy_ep(s.listener);
}

static void of_tcp(void) { connect_ep(RDMA_PS_TCP, IBV_QPT_RC); }
static void of_ib(void) { connect_ep(RDMA_PS_IB, IBV_QPT_RC); }
static void of_uc(void) { connect_ep(RDMA_PS_IB, IBV_QPT_UC); }

// Endpoints for datagrams, in two port spaces.
static void *answer(void *arg)
{
	struct served *s = arg;
	struct rdma_cm_id *id;
	must(rdma_get_request(s->listener, &id) == 0 && id->qp != NULL && id->qp->qp_type == IBV_QPT_UD);
	must(memcmp(id->event->param.ud.private_data, "hello", 5) == 0);
	struct rdma_conn_param p = params("welcome", 7);
	p.qp_num = id->qp->qp_num;
	must(rdma_accept(id, &p) == 0);
	return id;
}

static void datagrams(int ps)
{
	struct ibv_qp_init_attr qp = queues(), own = queues();
	struct served s = {.ps = ps, .type = IBV_QPT_UD};
	pthread_t t;
	void *server;
	qp.qp_type = own.qp_type = IBV_QPT_UD;
	s.listener = create_ep(info(RAI_PASSIVE, ps, IBV_QPT_UD), &qp);
	must(rdma_listen(s.listener, 0) == 0 && pthread_create(&t, NULL, answer, &s) == 0);
	struct rdma_cm_id *id = create_ep(info(0, ps, IBV_QPT_UD), &own);
	struct rdma_conn_param p = params("hello", 5);
	must(rdma_connect(id, &p) == 0 && id->event->event == RDMA_CM_EVENT_ESTABLISHED);
	must(pthread_join(t, &server) == 0);
	struct rdma_ud_param *ud = &id->event->param.ud;
	must(ud->qp_num == ((struct rdma_cm_id *)server)->qp->qp_num && ud->qkey == RDMA_UDP_QKEY && memcmp(ud->private_data, "welcome", 7) == 0);
	rdma_destroy_ep(id);
	rdma_destroy_ep(server);
	rdma_destroy_ep(s.listener);
}

static void of_udp(void) { datagrams(RDMA_PS_UDP); }
static void of_ud_over_ib(void) { datagrams(RDMA_PS_IB); }

// Calls on synchronous IDs return errors that occur while they wait.
static void failing(void)
{
	struct ibv_qp_init_attr qp = queues();
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *a;
	struct rdma_cm_id *id;
	qp.qp_type = IBV_QPT_RC;
	id = create_ep(info(0, RDMA_PS_TCP, IBV_QPT_RC), &qp);
	refused(rdma_connect(id, NULL), ECONNREFUSED);
	must(id->event->event == RDMA_CM_EVENT_REJECTED);
	rdma_destroy_ep(id);
	must(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
	struct sockaddr_in four = here(PORT);
	four.sin_addr.s_addr = htonl(0xc0000201); // 192.0.2.1, an address of no host
	refused(rdma_resolve_addr(id, (struct sockaddr *)&four, (struct sockaddr *)&four, TIMEOUT_MS), EADDRNOTAVAIL);
	must(rdma_destroy_id(id) == 0);
	hints.ai_flags = RAI_PASSIVE;
	must(rdma_getaddrinfo("192.0.2.1", "7471", &hints, &a) == 0);
	refused(rdma_create_ep(&id, a, NULL, NULL), EADDRNOTAVAIL);
	rdma_freeaddrinfo(a);
}

const struct scenario endpoints[] = {
	{"endpoint-hints", hints}, {"endpoint-tcp", of_tcp}, {"endpoint-ib", of_ib}, {"endpoint-uc", of_uc}, {"endpoint-udp", of_udp},
	{"endpoint-ud-over-ib", of_ud_over_ib}, {"endpoint-failing", failing}, {NULL, NULL},
};

// The parameters of a connection: those of the peer in the events of each side, their effect
// on the queue pairs, and the time wait after the end of a connection.
#include "cm.h"

static struct ibv_qp_attr attributes(struct rdma_cm_id *id)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	must(ibv_query_qp(id->qp, &a, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC, &init) == 0);
	return a;
}

// The READs that one side issues are served by the other: each side's event has both depths
// from its own point of view.
static void told(void)
{
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *listener = listen_on(ch, RDMA_PS_TCP, PORT, 1), *client = ready(ch, RDMA_PS_TCP, PORT);
	struct rdma_conn_param ask = {.responder_resources = 3, .initiator_depth = 5, .flow_control = 1, .retry_count = 4, .rnr_retry_count = 2};
	struct rdma_conn_param answer = {.responder_resources = 2, .initiator_depth = 1, .rnr_retry_count = 6};
	must(rdma_connect(client, &ask) == 0);
	struct rdma_cm_event *e = event_of(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_conn_param *p = &e->param.conn;
	must(p->responder_resources == 5 && p->initiator_depth == 3 && p->retry_count == 4 && p->rnr_retry_count == 2);
	must(p->flow_control == 1 && p->srq == 0 && p->qp_num == client->qp->qp_num);
	struct rdma_cm_id *server = e->id;
	must(rdma_ack_cm_event(e) == 0);

	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4, .max_sge = 1}};
	must(rdma_create_srq(server, NULL, &srq) == 0);
	add_qp(server);
	must(rdma_accept(server, &answer) == 0);
	e = event_of(ch, RDMA_CM_EVENT_ESTABLISHED);
	if (e->id == server) { // its RTU may arrive first
		must(rdma_ack_cm_event(e) == 0);
		e = event_of(ch, RDMA_CM_EVENT_ESTABLISHED);
	} else {
		pass(ch, RDMA_CM_EVENT_ESTABLISHED);
	}
	p = &e->param.conn;
	must(e->id == client && p->responder_resources == 1 && p->initiator_depth == 2 && p->rnr_retry_count == 6);
	must(p->srq == 1 && p->flow_control == 0 && p->qp_num == server->qp->qp_num);
	must(rdma_ack_cm_event(e) == 0);

	struct ibv_qp_attr c = attributes(client), s = attributes(server);
	must(c.max_dest_rd_atomic == 1 && c.max_rd_atomic == 2 && c.retry_cnt == 4 && c.rnr_retry == 6);
	must(s.max_dest_rd_atomic == 2 && s.max_rd_atomic == 1 && s.retry_cnt == 4 && s.rnr_retry == 2);
	destroy(client);
	pass(ch, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(server);
	rdma_destroy_srq(server);
	destroy(server);
	destroy(listener);
}

// Values above the adapter's limits are refused, and "all" stands for the limit.
static void most(void)
{
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *listener = listen_on(ch, RDMA_PS_TCP, PORT, 1), *client = ready(ch, RDMA_PS_TCP, PORT);
	struct ibv_device_attr dev;
	must(ibv_query_device(client->verbs, &dev) == 0);
	must(dev.max_qp_rd_atom > 0 && dev.max_qp_rd_atom < 255 && dev.max_qp_init_rd_atom > 0 && dev.max_qp_init_rd_atom < 255);
	struct rdma_conn_param p = params(NULL, 0);
	p.responder_resources = (uint8_t)(dev.max_qp_rd_atom + 1);
	refused(rdma_connect(client, &p), EINVAL);
	p.responder_resources = 0, p.initiator_depth = (uint8_t)(dev.max_qp_init_rd_atom + 1);
	refused(rdma_connect(client, &p), EINVAL);
	p.responder_resources = RDMA_MAX_RESP_RES, p.initiator_depth = RDMA_MAX_INIT_DEPTH;
	must(rdma_connect(client, &p) == 0);
	struct rdma_cm_event *e = event_of(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	must(e->param.conn.responder_resources == dev.max_qp_init_rd_atom && e->param.conn.initiator_depth == dev.max_qp_rd_atom);
	struct rdma_cm_id *server = e->id;
	must(rdma_ack_cm_event(e) == 0);
	establish(client, server, p);
	struct ibv_qp_attr c = attributes(client), s = attributes(server);
	must(c.max_rd_atomic == dev.max_qp_init_rd_atom && c.max_dest_rd_atomic == dev.max_qp_rd_atom);
	must(s.max_rd_atomic == c.max_dest_rd_atomic && s.max_dest_rd_atomic == c.max_rd_atomic);
	hang_up(client, server, listener);
}

// A program that moves its queue pair itself, or has none, passes the fields that the peer's
// event reports.
static void without_qp(void)
{
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *listener = listen_on(ch, RDMA_PS_TCP, PORT, 1), *client = make_id(ch, RDMA_PS_TCP);
	struct rdma_conn_param p = {.qp_num = 0x1234, .srq = 1, .retry_count = 7, .rnr_retry_count = 7};
	resolve(client, PORT);
	must(rdma_connect(client, &p) == 0);
	struct rdma_cm_event *e = event_of(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	must(e->param.conn.qp_num == 0x1234 && e->param.conn.srq == 1);
	struct rdma_cm_id *server = e->id;
	must(rdma_ack_cm_event(e) == 0);
	p.qp_num = 0x5678, p.srq = 0;
	must(rdma_accept(server, &p) == 0);
	e = event_of(ch, RDMA_CM_EVENT_CONNECT_RESPONSE);
	must(e->id == client && e->param.conn.qp_num == 0x5678 && e->param.conn.srq == 0 && rdma_ack_cm_event(e) == 0);
	must(rdma_establish(client) == 0);
	must(pass(ch, RDMA_CM_EVENT_ESTABLISHED) == server);
	hang_up(client, server, listener);
}

// An ACK timeout of 0 disables the timer, and leaves the packet lifetime of the path unchanged.
static void no_timeout(void)
{
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *listener = listen_on(ch, RDMA_PS_TCP, PORT, 1), *client = make_id(ch, RDMA_PS_TCP), *other = make_id(ch, RDMA_PS_TCP);
	uint8_t none = 0;
	must(rdma_set_option(client, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &none, sizeof none) == 0);
	resolve(client, PORT);
	resolve(other, PORT);
	must(client->route.path_rec->packet_life_time == other->route.path_rec->packet_life_time);
	add_qp(client);
	ask(client);
	struct rdma_cm_id *server = pass(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	establish(client, server, params(NULL, 0));
	must(attributes(client).timeout == 0 && attributes(server).timeout != 0);
	hang_up(client, server, listener);
	destroy(other);
}

// An ID that is kept after the disconnect gets TIMEWAIT_EXIT after the packet lifetime of the
// path, when no packet can be in flight any more.
static void timewait(void)
{
	struct link l = {.ch = open_channel()};
	struct rdma_conn_param p = params(NULL, 0);
	uint8_t short_life = 4; // some microseconds
	l.listener = listen_on(l.ch, RDMA_PS_TCP, PORT, 1);
	l.client = make_id(l.ch, RDMA_PS_TCP);
	must(rdma_set_option(l.client, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &short_life, sizeof short_life) == 0);
	resolve(l.client, PORT);
	must(rdma_connect(l.client, &(struct rdma_conn_param){.qp_num = 0x1234, .retry_count = 7}) == 0);
	l.server = pass(l.ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	p.qp_num = 0x5678;
	must(rdma_accept(l.server, &p) == 0);
	must(pass(l.ch, RDMA_CM_EVENT_CONNECT_RESPONSE) == l.client && rdma_establish(l.client) == 0);
	must(pass(l.ch, RDMA_CM_EVENT_ESTABLISHED) == l.server);
	must(rdma_disconnect(l.client) == 0);
	must(pass(l.ch, RDMA_CM_EVENT_DISCONNECTED) == l.server);
	must(rdma_disconnect(l.server) == 0);
	int client = 0, server = 0, over = 0;
	while (client < 2 || server < 1) { // both sides get theirs, in any order
		struct rdma_cm_event *e;
		must(rdma_get_cm_event(l.ch, &e) == 0 && e->status == 0);
		must(e->event == RDMA_CM_EVENT_TIMEWAIT_EXIT || (e->event == RDMA_CM_EVENT_DISCONNECTED && e->id == l.client && client == 0));
		over += e->event == RDMA_CM_EVENT_TIMEWAIT_EXIT;
		client += e->id == l.client;
		server += e->id == l.server;
		must(rdma_ack_cm_event(e) == 0);
	}
	must(client == 2 && server == 1 && over == 2);
	link_down(&l);
}

const struct scenario parameters[] = {
	{"parameters-told", told}, {"parameters-most", most}, {"parameters-without-qp", without_qp}, {"parameters-no-timeout", no_timeout},
	{"parameters-timewait", timewait}, {NULL, NULL},
};

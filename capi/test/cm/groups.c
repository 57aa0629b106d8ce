// Multicast groups: the event of a join, the receivers of a datagram, and joins that repeat or
// end.
#include "cm.h"

enum { GRH = 40, LENGTH = 100 };

struct member {
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	uint32_t qpn, qkey;
	char buf[GRH + LENGTH];
};

// group returns the address of a group that no other program on the machine uses.
static struct sockaddr_in group(int which)
{
	struct sockaddr_in a = here(0);
	a.sin_addr.s_addr = htonl((239u << 24) | (ntohl(a.sin_addr.s_addr) & 0xffffff)) ^ htonl((uint32_t)which << 22);
	return a;
}

static void resolve_group(struct member *m, struct sockaddr_in *to)
{
	struct sockaddr_in from = here(0);
	m->ch = open_channel();
	m->id = make_id(m->ch, RDMA_PS_UDP);
	must(rdma_resolve_addr(m->id, (struct sockaddr *)&from, (struct sockaddr *)to, TIMEOUT_MS) == 0);
	must(pass(m->ch, RDMA_CM_EVENT_ADDR_RESOLVED) == m->id);
	add_qp(m->id);
	must((m->mr = rdma_reg_msgs(m->id, m->buf, sizeof m->buf)) != NULL);
}

// joined waits for the event of a join and checks its fields.
static void joined(struct member *m, struct sockaddr_in *g, void *context)
{
	struct rdma_cm_event *e = event_of(m->ch, RDMA_CM_EVENT_MULTICAST_JOIN);
	struct rdma_ud_param *u = &e->param.ud;
	union ibv_gid mgid = {.raw = {[10] = 0xff, 0xff}};
	memcpy(mgid.raw + 12, &g->sin_addr, 4);
	must(e->id == m->id && e->status == 0 && u->private_data == context);
	must(u->qp_num == 0xffffff && u->qkey == RDMA_UDP_QKEY);
	must(u->ah_attr.is_global == 1 && u->ah_attr.port_num == 1 && u->ah_attr.dlid == 0 && u->ah_attr.grh.hop_limit > 0);
	must(memcmp(&u->ah_attr.grh.dgid, &mgid, sizeof mgid) == 0);
	if (m->ah == NULL)
		must((m->ah = ibv_create_ah(m->id->pd, &u->ah_attr)) != NULL);
	m->qpn = u->qp_num, m->qkey = u->qkey;
	must(rdma_ack_cm_event(e) == 0);
}

static void join(struct member *m, struct sockaddr_in *g)
{
	must(rdma_join_multicast(m->id, (struct sockaddr *)g, m) == 0);
	joined(m, g, m);
}

static void expect(struct member *m) { must(rdma_post_recv(m->id, NULL, m->buf, sizeof m->buf, m->mr) == 0); }

// got waits for a datagram that consists of one letter, repeated.
static void got(struct member *m, char letter)
{
	struct ibv_wc wc;
	must(rdma_get_recv_comp(m->id, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.byte_len == GRH + LENGTH);
	for (int i = 0; i < LENGTH; i++)
		must(m->buf[GRH + i] == letter);
}

static void send_letter(struct member *m, char letter)
{
	static char out[LENGTH];
	struct ibv_wc wc;
	memset(out, letter, sizeof out);
	struct ibv_mr *mr = rdma_reg_msgs(m->id, out, sizeof out);
	must(mr != NULL && rdma_post_ud_send(m->id, NULL, out, sizeof out, mr, IBV_SEND_SIGNALED, m->ah, m->qpn) == 0);
	must(rdma_get_send_comp(m->id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	rdma_dereg_mr(mr);
}

static void end(struct member *m)
{
	if (m->ah != NULL)
		must(ibv_destroy_ah(m->ah) == 0);
	rdma_dereg_mr(m->mr);
	destroy(m->id);
	quiet(m->ch);
	rdma_destroy_event_channel(m->ch);
}

// The other process, also a member.
static void member(int parent, int from)
{
	struct member m = {0};
	struct sockaddr_in g = group(0);
	resolve_group(&m, &g);
	expect(&m);
	join(&m, &g);
	say(parent);
	got(&m, 'a');
	say(parent);
	hear(from);
	expect(&m);
	say(parent);
	got(&m, 'b');
	end(&m);
}

// Members in two processes on one address: both get each datagram, including the sender.
static void two_processes(void)
{
	int from, to;
	pid_t child = start(member, &from, &to);
	struct member m = {0};
	struct sockaddr_in g = group(0);
	resolve_group(&m, &g);
	join(&m, &g);
	hear(from);
	expect(&m);
	send_letter(&m, 'a');
	got(&m, 'a');
	hear(from);
	must(rdma_leave_multicast(m.id, (struct sockaddr *)&g) == 0);
	expect(&m);
	say(to);
	hear(from);
	send_letter(&m, 'b'); // to the remaining members
	ended_well(child);
	struct ibv_wc wc;
	must(ibv_poll_cq(m.id->recv_cq, 1, &wc) == 0);
	end(&m);
}

// Joining one group twice, and another group: each join has its own event and leave.
static void twice(void)
{
	struct member m = {0};
	struct sockaddr_in g = group(0), other = group(1);
	char one, two;
	resolve_group(&m, &g);
	must(rdma_join_multicast(m.id, (struct sockaddr *)&g, &one) == 0);
	must(rdma_join_multicast(m.id, (struct sockaddr *)&g, &two) == 0);
	joined(&m, &g, &one);
	joined(&m, &g, &two);
	must(rdma_join_multicast(m.id, (struct sockaddr *)&other, NULL) == 0);
	joined(&m, &other, NULL);
	expect(&m);
	send_letter(&m, 'c');
	got(&m, 'c');
	must(rdma_leave_multicast(m.id, (struct sockaddr *)&g) == 0);
	must(rdma_leave_multicast(m.id, (struct sockaddr *)&g) == 0);
	refused(rdma_leave_multicast(m.id, (struct sockaddr *)&g), EADDRNOTAVAIL);
	must(rdma_leave_multicast(m.id, (struct sockaddr *)&other) == 0);
	// A pending event disappears with its join.
	must(rdma_join_multicast(m.id, (struct sockaddr *)&g, &one) == 0);
	must(rdma_leave_multicast(m.id, (struct sockaddr *)&g) == 0);
	quiet(m.ch);
	join(&m, &g);
	expect(&m);
	send_letter(&m, 'd');
	got(&m, 'd');
	end(&m); // destroying an ID leaves its groups
}

// A send-only join, which on RoCE is like any other, and joins that fail.
static void refusals(void)
{
	struct member m = {0};
	struct sockaddr_in g = group(0), any = here(0);
	resolve_group(&m, &g);
	struct rdma_cm_join_mc_attr_ex ex = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS, .join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
		.addr = (struct sockaddr *)&g,
	};
	must(rdma_join_multicast_ex(m.id, &ex, &m) == 0);
	joined(&m, &g, &m);
	ex.join_flags = RDMA_MC_JOIN_FLAG_RESERVED;
	refused(rdma_join_multicast_ex(m.id, &ex, &m), EINVAL);
	any.sin_addr.s_addr = 0;
	refused(rdma_join_multicast(m.id, (struct sockaddr *)&any, NULL), EINVAL);
	must(rdma_resolve_route(m.id, TIMEOUT_MS) == 0);
	pass(m.ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	refused(rdma_join_multicast(m.id, (struct sockaddr *)&g, NULL), EINVAL); // Linux requires that first
	struct rdma_cm_id *stream = make_id(m.ch, RDMA_PS_TCP), *unbound = make_id(m.ch, RDMA_PS_UDP);
	must(bind_to(stream, 0) == 0);
	refused(rdma_join_multicast(stream, (struct sockaddr *)&g, NULL), EINVAL);
	refused(rdma_join_multicast(unbound, (struct sockaddr *)&g, NULL), EINVAL);
	must(rdma_destroy_id(stream) == 0 && rdma_destroy_id(unbound) == 0);
	end(&m);
}

const struct scenario groups[] = {{"group-two-processes", two_processes}, {"group-twice", twice}, {"group-refusals", refusals}, {NULL, NULL}};

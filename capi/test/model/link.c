// Links: creating, connecting and closing them.
#include "link.h"

void links_open(void) { me->links = MADE(calloc(1, sizeof *me->links)); }

// refuses_next draws whether one of the next n calls for memory gets none.
static bool refuses_next(struct end *e, unsigned n)
{
	if (!e->allocates || !chance(20))
		return false;
	e->rooms.refuse = e->rooms.calls + 1 + draw(n);
	e->rooms.before = e->rooms.live;
	return true;
}

static void refused_once(struct end *e)
{
	WANT("blocks that are left when there is no memory for a queue", e->rooms.live, e->rooms.before);
	WANT("calls for memory", e->rooms.calls, e->rooms.refuse);
	e->rooms.refuse = 0;
}

static struct ibv_cq *new_cq(struct end *e)
{
	enum { FLAGS = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK };
	if (!e->ex)
		return MADE(ibv_create_cq(e->ctx, 8 * DEPTH, e, e->channel, 0));
	bool in = e->pd != e->root && chance(70); // the parent domain
	struct ibv_cq_init_attr_ex a = {
		.cqe = 8 * DEPTH, .cq_context = e, .channel = e->channel, .wc_flags = FLAGS,
		.comp_mask = e->single ? IBV_CQ_INIT_ATTR_MASK_FLAGS : 0, .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED, .parent_domain = e->pd,
	};
	a.comp_mask |= in ? IBV_CQ_INIT_ATTR_MASK_PD : 0;
	if (in && refuses_next(e, 1)) {
		REFUSES_NULL(ibv_create_cq_ex(e->ctx, &a), ENOMEM);
		refused_once(e);
	}
	return ibv_cq_ex_to_cq(MADE(ibv_create_cq_ex(e->ctx, &a)));
}

static uint64_t ops_of(enum ibv_qp_type t)
{
	uint64_t ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
	if (t == IBV_QPT_UD)
		return ops;
	ops |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
	if (t == IBV_QPT_UC)
		return ops;
	ops |= IBV_QP_EX_WITH_ATOMIC_WRITE | QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
	return ops | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV;
}

static void new_qp(struct link *l, struct end *e)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_context = e, .send_cq = e->send_cq, .recv_cq = e->recv_cq, .srq = e->srq, .qp_type = l->type, .sq_sig_all = l->sig_all,
		.cap = {DEPTH, DEPTH, MAX_SGE, MAX_SGE, INLINE}, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = e->pd,
	};
	bool extended = chance(50);
	if (extended)
		a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, a.send_ops_flags = ops_of(l->type);
	if (refuses_next(e, e->srq != NULL ? 1 : 2)) {
		REFUSES_NULL(ibv_create_qp_ex(e->ctx, &a), ENOMEM);
		refused_once(e);
	}
	e->qp = MADE(ibv_create_qp_ex(e->ctx, &a));
	e->qpx = ibv_qp_to_qp_ex(e->qp);
	WANT("ibv_qp_to_qp_ex", e->qpx != NULL, extended);
	e->cap = a.cap;
}

static void open_end(struct link *l, struct end *e)
{
	struct ibv_srq_init_attr sa = {.srq_context = e, .attr = {.max_wr = DEPTH, .max_sge = MAX_SGE}};
	e->adapter = (int)draw(ADAPTERS);
	e->ctx = me->ctx[e->adapter];
	open_pd(e);
	e->buf = MADE(malloc(BUF));
	e->shadow = MADE(malloc(BUF));
	scribble(e->buf, BUF);
	memcpy(e->shadow, e->buf, BUF);
	e->mr = MADE(ibv_reg_mr(e->pd, e->buf, BUF, ALL_ACCESS | ACCESS_FLUSH_GLOBAL));
	e->channel = chance(60) ? MADE(ibv_create_comp_channel(e->ctx)) : NULL;
	e->ex = chance(50);
	e->single = e->ex && chance(30);
	e->send_cq = new_cq(e);
	e->recv_cq = chance(50) ? e->send_cq : new_cq(e);
	e->srq = NULL;
	if (chance(30)) {
		if (refuses_next(e, 1)) {
			REFUSES_NULL(ibv_create_srq(e->pd, &sa), ENOMEM);
			refused_once(e);
		}
		e->srq = MADE(ibv_create_srq(e->pd, &sa));
	}
	new_qp(l, e);
}

static void move(struct end *e, int mask)
{
	WORKS(ibv_modify_qp(e->qp, &e->attr, mask));
	WANT("ibv_modify_qp", e->qp->state, e->attr.qp_state);
}

// by_lid checks that paths without a GID are refused: RoCE requires one.
static void by_lid(const struct end *e, int mask)
{
	struct ibv_qp_attr a = e->attr;
	a.ah_attr.is_global = 0;
	REFUSES(ibv_modify_qp(e->qp, &a, mask), EINVAL);
	a = e->attr;
	a.alt_ah_attr = e->av, a.alt_port_num = 1;
	a.alt_ah_attr.is_global = 0;
	REFUSES(ibv_modify_qp(e->qp, &a, mask | IBV_QP_ALT_PATH), EINVAL);
	WANT("ibv_modify_qp", e->qp->state, IBV_QPS_INIT);
}

// connect_end moves a queue pair from RESET to RTS.
static void connect_end(struct link *l, struct end *e)
{
	struct end *to = peer_of(l, e);
	enum { LONG_TIMEOUT = 18 }; // a second: on a busy machine the peer may be delayed
	bool rc = l->type == IBV_QPT_RC, ud = l->type == IBV_QPT_UD;
	fill_av(&e->av, to->adapter);
	e->av.static_rate = IBV_RATE_MAX;
	e->attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL_ACCESS | (rc ? ACCESS_FLUSH_GLOBAL : 0), .qkey = QKEY, .path_mtu = l->mtu,
		.dest_qp_num = to->qp->qp_num, .max_dest_rd_atomic = 4, .max_rd_atomic = 4, .min_rnr_timer = 1, .ah_attr = e->av, .timeout = LONG_TIMEOUT,
		.retry_cnt = 7, .rnr_retry = 7, .rq_psn = ud ? 0 : e->attr.rq_psn, .sq_psn = e->attr.sq_psn,
	};
	move(e, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
	e->attr.qp_state = IBV_QPS_RTR;
	int mask = IBV_QP_STATE | (ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) |
		   (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
	if (!ud && chance(30))
		by_lid(e, mask);
	move(e, mask);
	e->attr.qp_state = IBV_QPS_RTS;
	move(e, IBV_QP_STATE | IBV_QP_SQ_PSN | (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0));
	if (ud)
		e->ah = MADE(ibv_create_ah(e->pd, &e->av));
}

void connect_link(struct link *l)
{
	int ends = l->self ? 1 : 2;
	for (int i = 0; i < ends; i++)
		l->end[i].attr.sq_psn = draw(1 << 24);
	for (int i = 0; i < ends; i++)
		l->end[i].attr.rq_psn = peer_of(l, &l->end[i])->attr.sq_psn;
	l->mtu = IBV_MTU_256 + draw(IBV_MTU_4096); // the same on both sides
	for (int i = 0; i < ends; i++)
		connect_end(l, &l->end[i]);
}

static void open_link(struct link *l, enum ibv_qp_type t, bool self)
{
	*l = (struct link){.type = t, .sig_all = chance(30), .self = self};
	for (int i = 0; i < (l->self ? 1 : 2); i++)
		open_end(l, &l->end[i]);
	connect_link(l);
}

struct link *some_link(void)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	struct link *l = &me->links->link[draw(LINKS)];
	if (l->type == 0) {
		enum ibv_qp_type t = types[draw(4)];
		open_link(l, t, chance(20));
	}
	return l;
}

struct link *own_peer(void)
{
	struct link *l = &me->links->link[draw(LINKS)];
	if (l->type == IBV_QPT_RC && l->self)
		return l;
	if (l->type != 0)
		close_link(l);
	open_link(l, IBV_QPT_RC, true);
	return l;
}

// close_end destroys the objects of an end. An object that is in use cannot be destroyed before
// its users.
static void close_end(struct end *e)
{
	REFUSES(ibv_destroy_cq(e->send_cq), EBUSY);
	REFUSES(ibv_dealloc_pd(e->root), EBUSY);
	if (e->rooms.live > 0)
		REFUSES(ibv_dealloc_pd(e->pd), EBUSY);
	if (e->srq != NULL)
		REFUSES(ibv_destroy_srq(e->srq), EBUSY);
	if (e->ah != NULL)
		WORKS(ibv_destroy_ah(e->ah));
	WORKS(ibv_destroy_qp(e->qp));
	if (e->channel != NULL)
		REFUSES(ibv_destroy_comp_channel(e->channel), EBUSY);
	WORKS(ibv_destroy_cq(e->send_cq));
	if (e->recv_cq != e->send_cq)
		WORKS(ibv_destroy_cq(e->recv_cq));
	if (e->channel != NULL)
		WORKS(ibv_destroy_comp_channel(e->channel));
	if (e->srq != NULL)
		WORKS(ibv_destroy_srq(e->srq));
	WORKS(ibv_dereg_mr(e->mr));
	close_pd(e);
	free(e->buf);
	free(e->shadow);
}

void close_link(struct link *l)
{
	for (int i = 0; i < (l->self ? 1 : 2); i++)
		close_end(&l->end[i]);
	l->type = 0;
}

static void step_close(void)
{
	struct link *l = &me->links->link[draw(LINKS)];
	if (l->type != 0)
		close_link(l);
}

// Queues of links are resized, whether or not they are in the program's memory.
static void step_resize(void)
{
	struct link *l = some_link();
	struct end *e = &l->end[l->self ? 0 : draw(2)];
	struct ibv_srq_attr a = {.max_wr = DEPTH + draw(2 * DEPTH)};
	WORKS(ibv_resize_cq(e->send_cq, 8 * DEPTH + (int)draw(8 * DEPTH)));
	if (e->srq != NULL)
		WORKS(ibv_modify_srq(e->srq, &a, IBV_SRQ_MAX_WR));
}

void links_close(void)
{
	for (int i = 0; i < LINKS; i++)
		if (me->links->link[i].type != 0)
			close_link(&me->links->link[i]);
	free(me->links);
}

const struct step link_steps[] = {{"batch", 30, step_batch}, {"close-link", 2, step_close}, {"resize", 2, step_resize}, {NULL, 0, NULL}};

// Queue pairs make legal and illegal moves between states, and are queried. No packet is
// sent.
#include "zoo.h"

enum {
	CUR = IBV_QP_CUR_STATE, EN_SQD = IBV_QP_EN_SQD_ASYNC_NOTIFY, ACCESS = IBV_QP_ACCESS_FLAGS, PKEY = IBV_QP_PKEY_INDEX, PORT = IBV_QP_PORT,
	QK = IBV_QP_QKEY, AV = IBV_QP_AV, MTU = IBV_QP_PATH_MTU, TIMERS = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY,
	RQPSN = IBV_QP_RQ_PSN, RD = IBV_QP_MAX_QP_RD_ATOMIC, ALT = IBV_QP_ALT_PATH, MINRNR = IBV_QP_MIN_RNR_TIMER, SQPSN = IBV_QP_SQ_PSN,
	DESTRD = IBV_QP_MAX_DEST_RD_ATOMIC, MIG = IBV_QP_PATH_MIG_STATE, DEST = IBV_QP_DEST_QPN, ALL_BITS = (1 << 21) - 1,
};

// A legal move, with the attributes that its mask must and may contain.
struct move {
	enum ibv_qp_type type;
	enum ibv_qp_state from, to;
	int required, optional;
};

static const struct move moves[] = {
	{IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, PKEY | PORT | ACCESS, 0},
	{IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_INIT, 0, PKEY | PORT | ACCESS},
	{IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, AV | MTU | DEST | RQPSN | DESTRD | MINRNR, ALT | ACCESS | PKEY | TIMERS},
	{IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, TIMERS | SQPSN | RD, CUR | ALT | ACCESS | MINRNR | MIG},
	{IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RTS, 0, CUR | ACCESS | ALT | MIG | MINRNR},
	{IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_SQD, 0, EN_SQD},
	{IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_RTS, 0, CUR | ALT | ACCESS | MINRNR | MIG | AV | MTU | TIMERS | RD | DESTRD | PKEY | PORT},
	{IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_SQD, 0, PORT | AV | TIMERS | RD | DESTRD | ALT | ACCESS | PKEY | MINRNR | MIG},
	{IBV_QPT_UC, IBV_QPS_RESET, IBV_QPS_INIT, PKEY | PORT | ACCESS, 0},
	{IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_INIT, 0, PKEY | PORT | ACCESS},
	{IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_RTR, AV | MTU | DEST | RQPSN, ALT | ACCESS | PKEY},
	{IBV_QPT_UC, IBV_QPS_RTR, IBV_QPS_RTS, SQPSN, CUR | ALT | ACCESS | MIG},
	{IBV_QPT_UC, IBV_QPS_RTS, IBV_QPS_RTS, 0, CUR | ACCESS | ALT | MIG},
	{IBV_QPT_UC, IBV_QPS_RTS, IBV_QPS_SQD, 0, EN_SQD},
	{IBV_QPT_UC, IBV_QPS_SQD, IBV_QPS_RTS, 0, CUR | ALT | ACCESS | MIG | AV | MTU | PKEY},
	{IBV_QPT_UC, IBV_QPS_SQD, IBV_QPS_SQD, 0, AV | ALT | ACCESS | PKEY | MIG},
	{IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT, PKEY | PORT | QK, 0},
	{IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_INIT, 0, PKEY | PORT | QK},
	{IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_RTR, 0, PKEY | QK},
	{IBV_QPT_UD, IBV_QPS_RTR, IBV_QPS_RTS, SQPSN, CUR | QK},
	{IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_RTS, 0, CUR | QK},
	{IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_SQD, 0, EN_SQD},
	{IBV_QPT_UD, IBV_QPS_SQD, IBV_QPS_RTS, 0, CUR | QK | PKEY},
	{IBV_QPT_UD, IBV_QPS_SQD, IBV_QPS_SQD, 0, PKEY | QK},
};

enum { MOVES = sizeof moves / sizeof *moves };

static const struct move *find(enum ibv_qp_type t, enum ibv_qp_state from, enum ibv_qp_state to)
{
	for (int i = 0; i < MOVES; i++)
		if (moves[i].type == t && moves[i].from == from && moves[i].to == to)
			return &moves[i];
	return NULL;
}

// fill_av draws an address vector for a path to an adapter.
void fill_av(struct ibv_ah_attr *a, int adapter)
{
	*a = (struct ibv_ah_attr){
		.grh = {.flow_label = draw(1 << 20), .hop_limit = (uint8_t)(1 + draw(255)), .traffic_class = (uint8_t)draw(256)},
		.sl = (uint8_t)draw(16), .is_global = 1, .port_num = 1, .static_rate = chance(50) ? IBV_RATE_MAX : IBV_RATE_100_GBPS,
	};
	poison(&a->grh.dgid, sizeof a->grh.dgid);
	WORKS(ibv_query_gid(me->ctx[adapter], 1, 0, &a->grh.dgid));
}

void want_av(const char *call, const struct ibv_ah_attr *got, const struct ibv_ah_attr *want)
{
	want_bytes(call, "dgid", &got->grh.dgid, &want->grh.dgid, sizeof got->grh.dgid);
	WANT(call, got->grh.flow_label, want->grh.flow_label);
	WANT(call, got->grh.sgid_index, want->grh.sgid_index);
	WANT(call, got->grh.hop_limit, want->grh.hop_limit);
	WANT(call, got->grh.traffic_class, want->grh.traffic_class);
	WANT(call, got->sl, want->sl);
	WANT(call, got->static_rate, want->static_rate);
	WANT(call, got->is_global, 1);
	WANT(call, got->port_num, want->port_num);
	WANT(call, got->dlid, 0);
	WANT(call, got->src_path_bits, 0);
}

// fill_attr draws valid values for all attributes that a mask may contain.
static void fill_attr(struct ibv_qp_attr *a, const struct zoo_qp *q)
{
	poison(a, sizeof *a); // the call must ignore fields outside its mask
	a->cur_qp_state = q->attr.qp_state;
	a->path_mtu = IBV_MTU_256 + draw(IBV_MTU_4096);
	a->path_mig_state = IBV_MIG_MIGRATED;
	a->qkey = draw(1u << 31), a->rq_psn = draw(1 << 24), a->sq_psn = draw(1 << 24), a->dest_qp_num = draw(1 << 24);
	a->qp_access_flags = draw(16);
	fill_av(&a->ah_attr, (int)draw(ADAPTERS));
	fill_av(&a->alt_ah_attr, (int)draw(ADAPTERS));
	a->pkey_index = a->alt_pkey_index = 0;
	a->en_sqd_async_notify = (uint8_t)draw(2);
	a->max_rd_atomic = (uint8_t)draw((unsigned)me->dev.max_qp_init_rd_atom + 1);
	a->max_dest_rd_atomic = (uint8_t)draw((unsigned)me->dev.max_qp_rd_atom + 1);
	a->min_rnr_timer = (uint8_t)draw(32), a->timeout = (uint8_t)draw(32), a->alt_timeout = (uint8_t)draw(32);
	a->retry_cnt = (uint8_t)draw(8), a->rnr_retry = (uint8_t)draw(8);
	a->port_num = a->alt_port_num = 1;
}

// some_bit draws one bit of a mask; 0 if it is empty.
static int some_bit(int mask)
{
	int bits[21], n = 0;
	for (int bit = 1; bit <= DEST; bit <<= 1)
		if (mask & bit)
			bits[n++] = bit;
	return n > 0 ? bits[draw((unsigned)n)] : 0;
}

// spoil draws an attribute of a mask and makes its value invalid. It returns false if the
// attribute has no invalid value.
static bool spoil(struct ibv_qp_attr *a, int mask)
{
	int one = some_bit(mask);
	switch (one) {
	case PORT:
		a->port_num = 2;
		return true;
	case PKEY:
		a->pkey_index = 99;
		return true;
	case AV:
		if (chance(50))
			a->ah_attr.is_global = 0;
		else
			a->ah_attr.sl = 16;
		return true;
	case ALT:
		a->alt_ah_attr.is_global = 0;
		return true;
	case MTU:
		a->path_mtu = 0;
		return true;
	case IBV_QP_TIMEOUT:
		a->timeout = 32;
		return true;
	case IBV_QP_RETRY_CNT:
		a->retry_cnt = 8;
		return true;
	case DEST:
		a->dest_qp_num = 1 << 24;
		return true;
	case CUR:
		a->cur_qp_state = IBV_QPS_SQE;
		return true;
	}
	return false;
}

// store copies the attributes of a mask to the model.
static void store(struct ibv_qp_attr *to, const struct ibv_qp_attr *a, int mask)
{
#define STORE(bit, field)                                                                      \
	if (mask & (bit))                                                                      \
	to->field = a->field
	STORE(EN_SQD, en_sqd_async_notify);
	STORE(ACCESS, qp_access_flags);
	STORE(PKEY, pkey_index);
	STORE(PORT, port_num);
	STORE(QK, qkey);
	STORE(AV, ah_attr);
	STORE(MTU, path_mtu);
	STORE(IBV_QP_TIMEOUT, timeout);
	STORE(IBV_QP_RETRY_CNT, retry_cnt);
	STORE(IBV_QP_RNR_RETRY, rnr_retry);
	STORE(RQPSN, rq_psn);
	STORE(RD, max_rd_atomic);
	STORE(ALT, alt_ah_attr);
	STORE(ALT, alt_port_num);
	STORE(ALT, alt_pkey_index);
	STORE(ALT, alt_timeout);
	STORE(MINRNR, min_rnr_timer);
	STORE(SQPSN, sq_psn);
	STORE(DESTRD, max_dest_rd_atomic);
	STORE(DEST, dest_qp_num);
#undef STORE
}

// want_attr compares the result of a query with the model. A field outside the mask may be
// left unwritten.
static void want_attr(const struct zoo_qp *q, const struct ibv_qp_attr *got, int mask)
{
	const char *call = "ibv_query_qp";
	const struct ibv_qp_attr *want = &q->attr;
#define ATTR(bit, field)                                                                       \
	if (mask & (bit) || !is_poison(&got->field, sizeof got->field))                        \
	WANT(call, got->field, want->field)
	ATTR(IBV_QP_STATE, qp_state);
	ATTR(CUR, cur_qp_state);
	ATTR(EN_SQD, en_sqd_async_notify);
	ATTR(ACCESS, qp_access_flags);
	ATTR(PKEY, pkey_index);
	ATTR(PORT, port_num);
	ATTR(QK, qkey);
	ATTR(MTU, path_mtu);
	ATTR(IBV_QP_TIMEOUT, timeout);
	ATTR(IBV_QP_RETRY_CNT, retry_cnt);
	ATTR(IBV_QP_RNR_RETRY, rnr_retry);
	ATTR(RQPSN, rq_psn);
	ATTR(RD, max_rd_atomic);
	ATTR(ALT, alt_port_num);
	ATTR(ALT, alt_pkey_index);
	ATTR(ALT, alt_timeout);
	ATTR(MINRNR, min_rnr_timer);
	ATTR(SQPSN, sq_psn);
	ATTR(DESTRD, max_dest_rd_atomic);
	ATTR(MIG, path_mig_state);
	ATTR(DEST, dest_qp_num);
	ATTR(IBV_QP_CAP, cap.max_send_wr);
	ATTR(IBV_QP_CAP, cap.max_recv_wr);
	ATTR(IBV_QP_CAP, cap.max_send_sge);
	ATTR(IBV_QP_CAP, cap.max_recv_sge);
	ATTR(IBV_QP_CAP, cap.max_inline_data);
	ATTR(EN_SQD, sq_draining);
#undef ATTR
	if (mask & AV || !is_poison(&got->ah_attr, sizeof got->ah_attr))
		want_av(call, &got->ah_attr, &want->ah_attr);
	if (mask & ALT || !is_poison(&got->alt_ah_attr, sizeof got->alt_ah_attr))
		want_av(call, &got->alt_ah_attr, &want->alt_ah_attr);
}

static void query(struct zoo_qp *q)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	int mask = chance(20) ? ALL_BITS : (int)draw(ALL_BITS + 1) & (int)draw(ALL_BITS + 1);
	poison(&a, sizeof a);
	poison(&init, sizeof init);
	WANT("the state of a queue pair", q->qp->state, q->known);
	WORKS(ibv_query_qp(q->qp, &a, mask, &init));
	if (mask & IBV_QP_STATE)
		q->known = q->attr.qp_state;
	WANT("ibv_query_qp", q->qp->state, q->known);
	want_attr(q, &a, mask);
	const char *call = "ibv_query_qp";
	WANT(call, init.qp_context, q->init.qp_context);
	WANT(call, init.send_cq, q->init.send_cq);
	WANT(call, init.recv_cq, q->init.recv_cq);
	WANT(call, init.srq, q->init.srq);
	WANT(call, init.qp_type, q->init.qp_type);
	WANT(call, init.sq_sig_all, q->init.sq_sig_all);
	WANT(call, init.cap.max_send_wr, q->init.cap.max_send_wr);
	WANT(call, init.cap.max_recv_wr, q->init.cap.max_recv_wr);
	WANT(call, init.cap.max_send_sge, q->init.cap.max_send_sge);
	WANT(call, init.cap.max_recv_sge, q->init.cap.max_recv_sge);
	WANT(call, init.cap.max_inline_data, q->init.cap.max_inline_data);
}

// moved updates the model after a successful ibv_modify_qp.
static void moved(struct zoo_qp *q, const struct ibv_qp_attr *a, int mask)
{
	enum ibv_qp_state to = mask & IBV_QP_STATE ? a->qp_state : q->attr.qp_state;
	struct ibv_qp_cap cap = q->attr.cap;
	if (to == IBV_QPS_RESET) {
		// In RESET the attributes are undefined, and the library returns zeros.
		q->attr = (struct ibv_qp_attr){.cap = cap};
	} else {
		store(&q->attr, a, mask);
	}
	q->attr.qp_state = q->attr.cur_qp_state = to;
	if (mask & IBV_QP_STATE)
		q->known = to;
}

static void modify(struct zoo_qp *q)
{
	static const enum ibv_qp_state path[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD};
	struct ibv_qp_attr a;
	enum ibv_qp_state from = q->attr.qp_state, to = chance(30) ? (enum ibv_qp_state)draw(7) : path[draw(4)];
	fill_attr(&a, q);
	a.qp_state = to;
	int mask = from == to && chance(30) ? 0 : IBV_QP_STATE;
	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) {
		mask = IBV_QP_STATE;
		WORKS(ibv_modify_qp(q->qp, &a, mask));
		moved(q, &a, mask);
		return;
	}
	const struct move *m = find(q->init.qp_type, from, to);
	bool good = m != NULL;
	mask |= m == NULL ? (int)draw(ALL_BITS + 1) & ~IBV_QP_CAP : m->required | (m->optional & (int)draw(ALL_BITS + 1));
	if (m != NULL && chance(10) && m->required != 0) { // leave out a required attribute
		good = false;
		mask &= ~some_bit(m->required);
	}
	if (m != NULL && chance(10)) { // add an attribute that is not allowed
		int one = 1 << draw(21);
		bool extra = !((m->required | m->optional | IBV_QP_STATE) & one) && one != IBV_QP_CAP;
		good = good && !extra;
		mask |= extra ? one : 0;
	}
	if (chance(15))
		good = !spoil(&a, mask) && good;
	if (!good) {
		REFUSES(ibv_modify_qp(q->qp, &a, mask), EINVAL);
		WANT("ibv_modify_qp", q->qp->state, q->known);
		return;
	}
	WORKS(ibv_modify_qp(q->qp, &a, mask));
	moved(q, &a, mask);
	WANT("ibv_modify_qp", q->qp->state, q->known);
}

static struct zoo_cq *some_cq(int adapter)
{
	struct zoo_cq *q = &me->zoo->cq[draw(CQS)];
	return q->cq != NULL && q->adapter == adapter ? q : NULL;
}

// no_qp tries to create an invalid queue pair.
static void no_qp(struct zoo_pd *p, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr a = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
	struct ibv_qp_init_attr_ex x = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UC, .cap = {1, 1, 1, 1, 0}, .pd = p->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	switch (draw(6)) {
	case 0:
		a.recv_cq = NULL;
		REFUSES_NULL(ibv_create_qp(p->pd, &a), EINVAL);
		break;
	case 1:
		a.cap.max_send_wr = (uint32_t)me->dev.max_qp_wr + 1;
		REFUSES_NULL(ibv_create_qp(p->pd, &a), EINVAL);
		break;
	case 2:
		a.cap.max_recv_sge = (uint32_t)me->dev.max_sge + 1;
		REFUSES_NULL(ibv_create_qp(p->pd, &a), EINVAL);
		break;
	case 3:
		x.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ;
		REFUSES_NULL(ibv_create_qp_ex(p->pd->context, &x), EOPNOTSUPP);
		break;
	case 4:
		x.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS, x.create_flags = IBV_QP_CREATE_CVLAN_STRIPPING;
		REFUSES_NULL(ibv_create_qp_ex(p->pd->context, &x), EOPNOTSUPP);
		break;
	case 5:
		x.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
		REFUSES_NULL(ibv_create_qp_ex(p->pd->context, &x), EOPNOTSUPP);
		break;
	}
}

static struct ibv_qp *create(struct zoo_pd *p, struct ibv_qp_init_attr *a)
{
	if (chance(50))
		return MADE(ibv_create_qp(p->pd, a));
	bool ops = chance(50);
	struct ibv_qp_init_attr_ex x = {
		.qp_context = a->qp_context, .send_cq = a->send_cq, .recv_cq = a->recv_cq, .srq = a->srq, .cap = a->cap, .qp_type = a->qp_type,
		.sq_sig_all = a->sq_sig_all, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = p->pd,
	};
	if (ops)
		x.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, x.send_ops_flags = IBV_QP_EX_WITH_SEND;
	struct ibv_qp *qp = MADE(ibv_create_qp_ex(p->pd->context, &x));
	a->cap = x.cap;
	WANT("ibv_qp_to_qp_ex", ibv_qp_to_qp_ex(qp) != NULL, ops);
	return qp;
}

static void new_qp(struct zoo_qp *q)
{
	struct zoo_pd *p = some_pd();
	struct zoo_cq *send = some_cq(p->adapter), *recv = some_cq(p->adapter);
	struct zoo_srq *s = &me->zoo->srq[draw(SRQS)];
	if (send == NULL || recv == NULL)
		return;
	if (chance(20)) {
		no_qp(p, send->cq);
		return;
	}
	if (s->srq == NULL || root_pd(s->pd) != root_pd(p) || chance(30))
		s = NULL;
	struct ibv_qp_init_attr a = {
		.qp_context = q, .send_cq = send->cq, .recv_cq = recv->cq, .srq = s != NULL ? s->srq : NULL, .sq_sig_all = (int)draw(2),
		.qp_type = draw(3) == 0 ? IBV_QPT_UD : chance(60) ? IBV_QPT_RC : IBV_QPT_UC,
		.cap = {1 + draw(60), 1 + draw(60), 1 + draw(8), 1 + draw(8), draw(200)},
	}, asked = a;
	struct ibv_qp *qp = create(p, &a);
	*q = (struct zoo_qp){.qp = qp, .pd = p, .send = send, .recv = recv, .srq = s, .init = a, .attr = {.cap = a.cap}};
	const char *call = "ibv_create_qp";
	WANT(call, qp->context, p->pd->context);
	WANT(call, qp->pd, p->pd);
	WANT(call, qp->qp_context, q);
	WANT(call, qp->send_cq, send->cq);
	WANT(call, qp->recv_cq, recv->cq);
	WANT(call, qp->srq, asked.srq);
	WANT(call, qp->qp_type, asked.qp_type);
	WANT(call, qp->state, IBV_QPS_RESET);
	WANT(call, a.cap.max_send_wr >= asked.cap.max_send_wr, true);
	WANT(call, a.cap.max_recv_wr >= (s != NULL ? 0 : asked.cap.max_recv_wr), true);
	WANT(call, a.cap.max_send_sge >= asked.cap.max_send_sge, true);
	WANT(call, a.cap.max_recv_sge >= (s != NULL ? 0 : asked.cap.max_recv_sge), true);
	WANT(call, a.cap.max_inline_data >= asked.cap.max_inline_data, true);
	WANT(call, a.cap.max_inline_data >= asked.cap.max_send_sge * sizeof(struct ibv_sge), true); // as on mlx5
	send->users++, recv->users++;
	hold(p);
	if (s != NULL)
		s->users++;
}

void drop_qp(struct zoo_qp *q)
{
	WORKS(ibv_destroy_qp(q->qp));
	q->send->users--, q->recv->users--;
	release(q->pd);
	if (q->srq != NULL)
		q->srq->users--;
	q->qp = NULL;
}

// In RESET nothing can be posted, from INIT on receives, from RTS on sends.
static void post_early(struct zoo_qp *q)
{
	struct ibv_send_wr *bad = NULL, wr = {.opcode = IBV_WR_SEND};
	struct ibv_recv_wr *bad_recv = NULL, rwr = {0};
	if (q->known < IBV_QPS_RTS) {
		REFUSES(ibv_post_send(q->qp, &wr, &bad), EINVAL);
		WANT("ibv_post_send", bad, &wr);
	}
	if (q->known == IBV_QPS_RESET || q->srq != NULL) {
		REFUSES(ibv_post_recv(q->qp, &rwr, &bad_recv), EINVAL);
		WANT("ibv_post_recv", bad_recv, &rwr);
	}
	if (q->known == IBV_QPS_INIT && q->attr.qp_state == IBV_QPS_INIT && q->srq == NULL) {
		struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
		WORKS(ibv_post_recv(q->qp, &rwr, &bad_recv));
		WORKS(ibv_modify_qp(q->qp, &reset, IBV_QP_STATE)); // discards the receive
		moved(q, &reset, IBV_QP_STATE);
	}
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(q->qp);
	if (x != NULL && q->known < IBV_QPS_RTS) {
		ibv_wr_start(x);
		ibv_wr_send(x);
		ibv_wr_set_sge_list(x, 0, NULL);
		REFUSES(ibv_wr_complete(x), EINVAL);
	}
}

static void limit_rate(struct zoo_qp *q)
{
	struct ibv_qp_rate_limit_attr a = {.rate_limit = 1 + draw(100000)};
	if (q->attr.qp_state == IBV_QPS_RESET || q->attr.qp_state == IBV_QPS_ERR) {
		REFUSES(ibv_modify_qp_rate_limit(q->qp, &a), EINVAL);
		return;
	}
	WORKS(ibv_modify_qp_rate_limit(q->qp, &a));
	a.comp_mask = 1;
	REFUSES(ibv_modify_qp_rate_limit(q->qp, &a), EINVAL);
}

void step_qp(void)
{
	struct zoo_qp *q = &me->zoo->qp[draw(QPS)];
	if (q->qp == NULL) {
		new_qp(q);
		return;
	}
	switch (draw(10)) {
	case 0:
		drop_qp(q);
		break;
	case 1:
		post_early(q);
		break;
	case 2:
		limit_rate(q);
		break;
	case 3:
	case 4:
		query(q);
		break;
	default:
		modify(q);
		if (chance(50))
			query(q);
	}
}

// Queue pairs: creating, modifying, querying.
#define _GNU_SOURCE
#include "check.h"

static void return_rooms(struct qp *q, bool left)
{
	return_room(&q->send_room, left);
	return_room(&q->recv_room, left);
}

// take_rooms asks the program for the memory of the queues of a queue pair, unless the adapter will
// refuse the queue pair.
static int take_rooms(struct qp *q, struct pd *pd, struct softhca_qp *c, bool receives)
{
	const struct softhca_adapter *most = &q->dev->info;
	const struct softhca_cap *cap = &c->cap;
	if (pd->alloc == NULL || cap->send_wr > most->max_qp_wr || cap->recv_wr > most->max_qp_wr || cap->send_sge > most->max_sge ||
	    cap->recv_sge > most->max_sge || cap->inline_data > most->max_inline)
		return 0;
	int code = ENGINE(q->dev, size_qp, c);
	if (code == 0)
		code = take_room(pd, &q->send_room, RESOURCE_SEND, &c->send_room);
	if (code == 0 && receives && (code = take_room(pd, &q->recv_room, RESOURCE_RECV, &c->recv_room)) != 0)
		return_room(&q->send_room, false);
	return code;
}

static int end_qp(struct qp *q, bool wait)
{
	if (outlived(&q->o, q))
		return 0;
	struct unpolled u = {0};
	if (UNLIKELY(checking)) {
		check_notes();
		u = check_unpolled_qp(q);
		check_unlinks(q);
	}
	int code = ENGINE(q->dev, destroy_qp, q->handle, !wait);
	if (code != 0) {
		if (UNLIKELY(checking))
			check_links(q);
		if (UNLIKELY(checking) && code == EBUSY)
			check_busy(&q->o, q->ibv.context);
		return code;
	}
	if (UNLIKELY(checking) && wait)
		check_destroys_qp(q, &u);
	forget_async(q->ibv.context, q);
	mutex_lock(OBJECT_LOCK, &q->ibv.mutex);
	while (wait && q->ibv.events_completed != q->async_taken)
		await_ack(&q->o, &q->ibv.cond, &q->ibv.mutex, ASYNC_EVENTS_NOT_ACKNOWLEDGED);
	mutex_unlock(&q->ibv.mutex);
	unuse_xrcd(q->xrcd);
	return_rooms(q, !wait);
	release_object(q->ibv.context, &q->o, q);
	return 0;
}

static int free_qp(struct object *o) { return end_qp(CONTAINER(o, struct qp, o), false); }

const struct kind qp_kind = {"queue pair", 4, free_qp};

static handle_t cq_handle(struct ibv_cq *q) { return q != NULL ? CONTAINER(q, struct cq, ibv)->handle : 0; }

// inline_data returns how much inline data an entry of the send queue holds: the requested
// amount or the room of its scatter list, whichever is larger, like drivers of hardware and
// rxe. Some programs rely on that: rdma_xclient asks for none, and sends 16 bytes.
static uint32_t inline_data(const struct ibv_qp_cap *cap)
{
	uint64_t list = (uint64_t)cap->max_send_sge * sizeof(struct ibv_sge);
	return list <= UINT32_MAX && list > cap->max_inline_data ? (uint32_t)list : cap->max_inline_data;
}

// is_service reports whether rdma-core would pass requests for queue pairs of a type in a
// protection domain to the device.
static bool is_service(enum ibv_qp_type t)
{
	switch (t) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_UD:
	case IBV_QPT_RAW_PACKET:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_DRIVER:
		return true;
	default:
		return false;
	}
}

// An XRC target has no send queue: posts go to no_sends, which is always empty, and fail.
static struct ring no_sends;

// take_qp makes q what the engine has created or opened.
static void take_qp(struct qp *q, const struct softhca_qp *c)
{
	q->handle = c->handle, q->send = c->send != NULL ? c->send : &no_sends, q->recv = c->recv, q->cap = c->cap, q->watched = c->watched;
	q->ibv.handle = visible(q->dev, c->handle), q->ibv.qp_num = c->qpn;
	add_object(q->ibv.context, &q->o, &qp_kind, q->ibv.qp_num);
	if (UNLIKELY(checking))
		check_new_qp(q);
}

// new_qp returns the library's part of a queue pair.
static struct qp *new_qp(struct ibv_context *c, enum ibv_qp_type t, void *context)
{
	struct qp *q = calloc(1, sizeof *q);
	if (q == NULL)
		return fail(ENOMEM);
	q->dev = device_of(c);
	q->ibv.context = c, q->ibv.qp_context = context, q->ibv.qp_type = t;
	pthread_mutex_init(&q->ibv.mutex, NULL);
	pthread_cond_init(&q->ibv.cond, NULL);
	seek_handlers();
	return q;
}

static struct qp *create(struct ibv_pd *pd, struct ibv_qp_init_attr *a, uint32_t flags)
{
	bool receives = a->srq == NULL && a->qp_type != IBV_QPT_XRC_SEND;
	if (UNLIKELY(checking) && check_uses_ended(pd, a))
		return fail(EINVAL);
	if (a->send_cq == NULL || (a->recv_cq == NULL && a->qp_type != IBV_QPT_XRC_SEND) || !is_service(a->qp_type))
		return fail(EINVAL);
	struct qp *q = new_qp(pd->context, a->qp_type, a->qp_context);
	if (q == NULL)
		return NULL;
	struct softhca_qp c = {
		.send_cq = cq_handle(a->send_cq), .recv_cq = cq_handle(a->recv_cq), .object = q, .type = a->qp_type, .create_flags = flags,
		.sig_all = a->sq_sig_all,
		.srq = a->srq != NULL ? CONTAINER(a->srq, struct srq, ibv)->handle : 0,
		.cap = {a->cap.max_send_wr, receives ? a->cap.max_recv_wr : 0, a->cap.max_send_sge, receives ? a->cap.max_recv_sge : 0,
			inline_data(&a->cap)},
	};
	if (a->qp_type == IBV_QPT_XRC_SEND) // programs may name what Linux ignores
		c.recv_cq = c.srq = 0;
	q->ibv.pd = pd, q->ibv.send_cq = a->send_cq, q->ibv.recv_cq = a->recv_cq, q->ibv.srq = a->srq;
	q->ibv.state = IBV_QPS_RESET;
	int code = take_rooms(q, CONTAINER(pd, struct pd, ibv), &c, receives);
	if (code != 0)
		return abandon(q, code);
	code = ENGINE(q->dev, create_qp, CONTAINER(pd, struct pd, ibv)->handle, &c);
	if (code != 0) {
		return_rooms(q, false);
		return abandon(q, code);
	}
	q->sig_all = a->sq_sig_all;
	take_qp(q, &c);
	a->cap = (struct ibv_qp_cap){c.cap.send_wr, c.cap.recv_wr, c.cap.send_sge, c.cap.recv_sge, c.cap.inline_data};
	return q;
}

// target creates an XRC target, or opens the one with a number that is not 0.
static struct qp *target(struct ibv_context *c, struct ibv_xrcd *xrcd, uint32_t num, void *context)
{
	struct qp *q = new_qp(c, IBV_QPT_XRC_RECV, context);
	if (q == NULL)
		return NULL;
	struct softhca_qp s = {.object = q, .type = IBV_QPT_XRC_RECV, .qpn = num};
	q->ibv.state = num == 0 ? IBV_QPS_RESET : IBV_QPS_UNKNOWN;
	int code = ENGINE(q->dev, target_qp, use_xrcd(xrcd), &s);
	if (code != 0) {
		unuse_xrcd(xrcd);
		return abandon(q, code);
	}
	q->xrcd = xrcd;
	take_qp(q, &s);
	return q;
}

VERB(struct ibv_qp *, open_qp, (struct ibv_context *c, struct ibv_qp_open_attr *a), c, a)
{
	enum { NEEDED = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE };
	if (a->comp_mask & ~(uint32_t)(NEEDED | IBV_QP_OPEN_ATTR_CONTEXT))
		return fail(EOPNOTSUPP);
	if ((a->comp_mask & NEEDED) != NEEDED || a->qp_type != IBV_QPT_XRC_RECV || a->xrcd == NULL || a->qp_num == 0)
		return fail(EINVAL);
	struct qp *q = target(c, a->xrcd, a->qp_num, a->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? a->qp_context : NULL);
	return q != NULL ? &q->ibv : NULL;
}

EXPORT VERB(struct ibv_qp *, ibv_create_qp, (struct ibv_pd *pd, struct ibv_qp_init_attr *a), pd, a)
{
	struct qp *q = create(pd, a, 0);
	return q != NULL ? &q->ibv : NULL;
}

VERB(struct ibv_qp *, create_qp_ex, (struct ibv_context *c, struct ibv_qp_init_attr_ex *a), c, a)
{
	const bool xrc = a->qp_type == IBV_QPT_XRC_RECV;
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS |
			       (xrc ? IBV_QP_INIT_ATTR_XRCD : 0);
	if (a->comp_mask & ~known)
		return fail(EOPNOTSUPP);
	if (!(a->comp_mask & (xrc ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD)) || (xrc && a->xrcd == NULL))
		return fail(EINVAL);
	uint32_t flags = a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS ? a->create_flags : 0;
	if (xrc && flags != 0)
		return fail(EINVAL);
	bool extended = a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	if (extended && a->send_ops_flags & ~wr_ops(a->qp_type))
		return fail(EOPNOTSUPP);
	// The members of the old structure come first.
	struct qp *q = xrc ? target(c, a->xrcd, 0, a->qp_context) : create(a->pd, (struct ibv_qp_init_attr *)a, flags);
	if (q == NULL)
		return NULL;
	if (xrc) { // the target uses none of these, but programs read them, such as librdmacm
		q->ibv.pd = a->comp_mask & IBV_QP_INIT_ATTR_PD ? a->pd : NULL;
		q->ibv.send_cq = a->send_cq, q->ibv.recv_cq = a->recv_cq, q->ibv.srq = a->srq;
	}
	if (extended)
		fill_wr_ops(q, a->send_ops_flags);
	return &q->ibv;
}

EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *ibv)
{
	struct qp *q = CONTAINER(ibv, struct qp, ibv);
	return q->extended ? &q->ex : NULL;
}

static struct ibv_ah_attr attr_of(const struct softhca_av *v)
{
	struct ibv_ah_attr a = {
		.grh = {.flow_label = v->flow_label, .sgid_index = v->sgid_index, .hop_limit = v->hop_limit, .traffic_class = v->traffic_class},
		.sl = v->sl, .static_rate = v->static_rate, .is_global = 1, .port_num = v->port,
	};
	memcpy(a.grh.dgid.raw, v->dgid, sizeof v->dgid);
	return a;
}

EXPORT VERB(int, ibv_modify_qp, (struct ibv_qp *ibv, struct ibv_qp_attr *a, int mask), ibv, a, mask)
{
	struct qp *q = CONTAINER(ibv, struct qp, ibv);
	if (UNLIKELY(checking) && check_ended(&q->o))
		return EINVAL;
	// Linux lets no call resize the queues of a queue pair, and RoCE does not use LIDs.
	if (mask & IBV_QP_CAP || (mask & IBV_QP_AV && !a->ah_attr.is_global) || (mask & IBV_QP_ALT_PATH && !a->alt_ah_attr.is_global))
		return EINVAL;
	struct softhca_qp_attr s = {
		.state = a->qp_state, .cur_state = a->cur_qp_state, .path_mtu = a->path_mtu, .mig_state = a->path_mig_state, .qkey = a->qkey,
		.rq_psn = a->rq_psn, .sq_psn = a->sq_psn, .dest_qpn = a->dest_qp_num, .access = a->qp_access_flags, .rate_limit = a->rate_limit,
		.cap = {a->cap.max_send_wr, a->cap.max_recv_wr, a->cap.max_send_sge, a->cap.max_recv_sge, a->cap.max_inline_data},
		.av = av_of(&a->ah_attr), .alt_av = av_of(&a->alt_ah_attr), .pkey_index = a->pkey_index, .alt_pkey_index = a->alt_pkey_index,
		.sqd_notify = a->en_sqd_async_notify, .max_rd_atomic = a->max_rd_atomic, .max_dest_rd_atomic = a->max_dest_rd_atomic,
		.min_rnr_timer = a->min_rnr_timer, .port = a->port_num, .timeout = a->timeout, .retry_cnt = a->retry_cnt,
		.rnr_retry = a->rnr_retry, .alt_port = a->alt_port_num, .alt_timeout = a->alt_timeout,
	};
	// Each end of XRC has half of the attributes of RC, and Linux ignores the other half.
	if (q->ibv.qp_type == IBV_QPT_XRC_SEND)
		mask &= ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	else if (q->ibv.qp_type == IBV_QPT_XRC_RECV)
		mask &= ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
	keep_faults();
	int code = ENGINE(q->dev, modify_qp, q->handle, &s, (uint32_t)mask);
	if (UNLIKELY(checking) && code == 0) {
		check_settings(q, a, mask);
		if (mask & IBV_QP_STATE)
			check_state(q, a->qp_state);
	}
	if (code == 0 && mask & IBV_QP_STATE)
		ibv->state = a->qp_state;
	return code;
}

VERB(int, modify_qp_rate_limit, (struct ibv_qp *ibv, struct ibv_qp_rate_limit_attr *a), ibv, a)
{
	struct qp *q = CONTAINER(ibv, struct qp, ibv);
	if (a->comp_mask != 0)
		return EINVAL;
	return ENGINE(q->dev, limit_qp, q->handle, a->rate_limit, a->max_burst_sz);
}

EXPORT VERB(int, ibv_query_qp, (struct ibv_qp *ibv, struct ibv_qp_attr *a, int mask, struct ibv_qp_init_attr *init),
	ibv, a, mask, init)
{
	struct qp *q = CONTAINER(ibv, struct qp, ibv);
	struct softhca_qp_attr s;
	if (UNLIKELY(checking) && check_ended(&q->o))
		return EINVAL;
	if (mask & ~(2 * IBV_QP_RATE_LIMIT - 1))
		return EOPNOTSUPP;
	int code = ENGINE(q->dev, query_qp, q->handle, &s);
	if (code != 0)
		return code;
	struct ibv_qp_cap cap = {q->cap.send_wr, q->cap.recv_wr, q->cap.send_sge, q->cap.recv_sge, q->cap.inline_data};
	*a = (struct ibv_qp_attr){
		.qp_state = (enum ibv_qp_state)s.state, .cur_qp_state = (enum ibv_qp_state)s.state, .path_mtu = (enum ibv_mtu)s.path_mtu,
		.path_mig_state = (enum ibv_mig_state)s.mig_state, .qkey = s.qkey, .rq_psn = s.rq_psn, .sq_psn = s.sq_psn,
		.dest_qp_num = s.dest_qpn, .qp_access_flags = s.access, .cap = cap, .ah_attr = attr_of(&s.av), .alt_ah_attr = attr_of(&s.alt_av),
		.pkey_index = s.pkey_index, .alt_pkey_index = s.alt_pkey_index, .en_sqd_async_notify = s.sqd_notify, .sq_draining = s.sq_draining,
		.max_rd_atomic = s.max_rd_atomic, .max_dest_rd_atomic = s.max_dest_rd_atomic, .min_rnr_timer = s.min_rnr_timer,
		.port_num = s.port, .timeout = s.timeout, .retry_cnt = s.retry_cnt, .rnr_retry = s.rnr_retry,
		.alt_port_num = s.alt_port, .alt_timeout = s.alt_timeout, .rate_limit = s.rate_limit,
	};
	// The engine returns all attributes, but qp->state is updated only if the program asks
	// for the state: the program may compare qp->state with the state that it set.
	if (mask & IBV_QP_STATE)
		ibv->state = a->qp_state;
	*init = (struct ibv_qp_init_attr){
		.qp_context = ibv->qp_context, .send_cq = ibv->send_cq, .recv_cq = ibv->recv_cq, .srq = ibv->srq, .cap = cap,
		.qp_type = ibv->qp_type, .sq_sig_all = q->sig_all,
	};
	return 0;
}

// The adapter places packets in order of arrival, but READ responses, and packets that fill a
// gap, may come in any order.
LATER(int, ibv_query_qp_data_in_order, void) { return 0; }

// Extended connection establishment: the adapter has no options to negotiate.
REFUSES(ibv_query_ece)
REFUSES(ibv_set_ece)

EXPORT VERB(int, ibv_destroy_qp, (struct ibv_qp *q), q)
{
	return end_qp(CONTAINER(q, struct qp, ibv), true);
}

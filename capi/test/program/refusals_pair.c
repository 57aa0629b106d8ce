// Refused calls that concern queue pairs and multicast groups.
#include "refusals.h"

enum { TOO_MANY = 1 << 30 };

static struct ibv_qp_init_attr good(struct rig *r)
{
	return (struct ibv_qp_init_attr){.send_cq = r->cq[0], .recv_cq = r->cq[0], .qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
}

static void refuse_qp(struct rig *r, const char *condition, struct ibv_qp_init_attr a)
{
	watch(&a, sizeof a);
	NULL_OF("ibv_create_qp", condition, ibv_create_qp(r->pd, &a));
}

static void refuse_qp_ex(struct rig *r, const char *condition, struct ibv_qp_init_attr_ex a)
{
	a.send_cq = a.recv_cq = r->cq[0], a.cap = (struct ibv_qp_cap){1, 1, 1, 1, 0}, a.pd = r->pd;
	watch(&a, sizeof a);
	NULL_OF("ibv_create_qp_ex", condition, ibv_create_qp_ex(r->ctx, &a));
}

#define WITH(r, ...)                                                                           \
	({                                                                                     \
		struct ibv_qp_init_attr a = good(r);                                           \
		__VA_ARGS__;                                                                   \
		a;                                                                             \
	})

static void refuse_new(struct rig *r)
{
	const enum { PD = IBV_QP_INIT_ATTR_PD, FLAGS = IBV_QP_INIT_ATTR_CREATE_FLAGS, OPS = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS } masks = PD;
	(void)masks;
	refuse_qp(r, "no send completion queue", WITH(r, a.send_cq = NULL));
	refuse_qp(r, "no receive completion queue", WITH(r, a.recv_cq = NULL));
	refuse_qp(r, "IBV_QPT_RAW_PACKET", WITH(r, a.qp_type = IBV_QPT_RAW_PACKET));
	refuse_qp(r, "IBV_QPT_XRC_RECV", WITH(r, a.qp_type = IBV_QPT_XRC_RECV));
	refuse_qp(r, "IBV_QPT_DRIVER", WITH(r, a.qp_type = IBV_QPT_DRIVER));
	refuse_qp(r, "an undefined service", WITH(r, a.qp_type = 77));
	refuse_qp(r, "more send requests than max_qp_wr", WITH(r, a.cap.max_send_wr = TOO_MANY));
	refuse_qp(r, "more receives than max_qp_wr", WITH(r, a.cap.max_recv_wr = TOO_MANY));
	refuse_qp(r, "more send elements than max_sge", WITH(r, a.cap.max_send_sge = TOO_MANY));
	refuse_qp(r, "more receive elements than max_sge", WITH(r, a.cap.max_recv_sge = TOO_MANY));
	refuse_qp(r, "more inline data than the adapter takes", WITH(r, a.cap.max_inline_data = TOO_MANY));
	refuse_qp_ex(r, "an unknown bit of comp_mask", (struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_RC, .comp_mask = PD | 1u << 31});
	refuse_qp_ex(r, "no protection domain", (struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_RC, .comp_mask = FLAGS});
	refuse_qp_ex(r, "an unknown bit of create_flags", (struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_RC, .comp_mask = PD | FLAGS, .create_flags = 1u << 31});
	refuse_qp_ex(r, "IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, RC",
		     (struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_RC, .comp_mask = PD | FLAGS, .create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB});
	refuse_qp_ex(r, "an operation that the service does not have",
		     (struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_UD, .comp_mask = PD | OPS, .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE});
	refuse_qp_ex(r, "IBV_QPT_RAW_PACKET", (struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_RAW_PACKET, .comp_mask = PD});
	refuse_qp_ex(r, "IBV_QP_INIT_ATTR_RX_HASH", (struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_RAW_PACKET, .comp_mask = PD | IBV_QP_INIT_ATTR_RX_HASH});
	refuse_qp_ex(r, "IBV_QP_INIT_ATTR_IND_TABLE", (struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_UD, .comp_mask = PD | IBV_QP_INIT_ATTR_IND_TABLE});
	refuse_qp_ex(r, "IBV_QP_INIT_ATTR_MAX_TSO_HEADER", (struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_UD, .comp_mask = PD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER});
	refuse_qp_ex(r, "IBV_QP_CREATE_SOURCE_QPN",
		     (struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_UD, .comp_mask = PD | FLAGS, .create_flags = IBV_QP_CREATE_SOURCE_QPN});
	refuse_qp_ex(r, "IBV_QP_EX_WITH_TSO", (struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_RC, .comp_mask = PD | OPS, .send_ops_flags = IBV_QP_EX_WITH_TSO});
}

void refuse_qps(struct rig *r)
{
	struct ibv_ece ece = {0};
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	struct ibv_qp_rate_limit_attr rate = {.comp_mask = 1};
	refuse_new(r);
	poison(&a, sizeof a);
	poison(&init, sizeof init);
	CODE_OF("ibv_query_qp", "an unknown bit of the mask", ibv_query_qp(r->qp[0], &a, 1 << 30, &init));
	CODE_OF("ibv_modify_qp_rate_limit", "an unknown bit of comp_mask", ibv_modify_qp_rate_limit(r->qp[0], &rate));
	struct ibv_qp *q = make_qp(r, IBV_QPT_RC, 0);
	rate.comp_mask = 0;
	CODE_OF("ibv_modify_qp_rate_limit", "a queue pair in RESET", ibv_modify_qp_rate_limit(q, &rate));
	CODE_OF("ibv_query_ece", "always", ibv_query_ece(q, &ece));
	CODE_OF("ibv_set_ece", "no vendor", ibv_set_ece(q, &ece));
	ece.vendor_id = 0x15b3;
	CODE_OF("ibv_set_ece", "a vendor", ibv_set_ece(q, &ece));
	must(ibv_destroy_qp(q) == 0);
}

// refuse_move makes a call of ibv_modify_qp that is refused and leaves qp->state unchanged.
static void refuse_move(struct ibv_qp *q, const char *condition, int mask, struct ibv_qp_attr a)
{
	watch(&a, sizeof a);
	watch(&q->state, sizeof q->state);
	CODE_OF("ibv_modify_qp", condition, ibv_modify_qp(q, &a, mask));
}

static const enum { TO_INIT = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	TO_RTR = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	TO_RTS = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
} moves = TO_INIT;

static void refuse_to_init(struct ibv_qp *q)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	refuse_move(q, "from RESET to RTR", TO_RTR, (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR});
	refuse_move(q, "an undefined state", IBV_QP_STATE, (struct ibv_qp_attr){.qp_state = 77});
	refuse_move(q, "an unknown bit of the mask", TO_INIT | 1 << 30, a);
	refuse_move(q, "to INIT without the port", TO_INIT & ~IBV_QP_PORT, a);
	refuse_move(q, "to INIT with the retry count", TO_INIT | IBV_QP_RETRY_CNT, a);
	refuse_move(q, "IBV_QP_CUR_STATE of another state", TO_INIT | IBV_QP_CUR_STATE, (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .cur_qp_state = IBV_QPS_RTS, .port_num = 1});
	a.port_num = 2;
	refuse_move(q, "to INIT on port 2 of 1", TO_INIT, a);
	a.port_num = 1, a.pkey_index = 999;
	refuse_move(q, "a P_Key beyond the table", TO_INIT, a);
	a.pkey_index = 0, a.qp_access_flags = 1 << 19;
	refuse_move(q, "an unknown access right", TO_INIT, a);
}

static void refuse_to_rtr(struct rig *r, struct ibv_qp *q)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = 7, .max_dest_rd_atomic = 1, .min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}},
	}, b;
	must(ibv_query_gid(r->ctx, 1, 0, &a.ah_attr.grh.dgid) == 0);
#define CHANGED(condition, ...) (b = a, __VA_ARGS__, refuse_move(q, condition, TO_RTR, b))
	refuse_move(q, "to RTR without the path", TO_RTR & ~IBV_QP_AV, a);
	refuse_move(q, "to RTR with a Q_Key of RC", TO_RTR | IBV_QP_QKEY, a);
	CHANGED("a path with is_global 0", b.ah_attr.is_global = 0);
	CHANGED("a path on port 2 of 1", b.ah_attr.port_num = 2);
	CHANGED("a path from a source GID beyond the table", b.ah_attr.grh.sgid_index = 200);
	CHANGED("a path to a multicast group", memcpy(b.ah_attr.grh.dgid.raw + 10, (uint8_t[]){0xff, 0xff, 239, 1, 2, 3}, 6));
	CHANGED("path MTU code 0", b.path_mtu = 0);
	CHANGED("path MTU code 6", b.path_mtu = 6);
	CHANGED("a destination QPN of more than 24 bits", b.dest_qp_num = 1u << 24);
	CHANGED("max_dest_rd_atomic beyond the adapter's", b.max_dest_rd_atomic = 255);
	CHANGED("min_rnr_timer 32", b.min_rnr_timer = 32);
	must(ibv_modify_qp(q, &a, TO_RTR) == 0);
#undef CHANGED
}

static void refuse_to_rts(struct ibv_qp *q)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1}, b;
#define CHANGED(condition, ...) (b = a, __VA_ARGS__, refuse_move(q, condition, TO_RTS, b))
	CHANGED("timeout 32", b.timeout = 32);
	CHANGED("retry_cnt 8", b.retry_cnt = 8);
	CHANGED("rnr_retry 8", b.rnr_retry = 8);
	CHANGED("max_rd_atomic beyond the adapter's", b.max_rd_atomic = 255);
	refuse_move(q, "IBV_QP_PATH_MIG_STATE rearmed without an alternate path", TO_RTS | IBV_QP_PATH_MIG_STATE,
		    (b = a, b.path_mig_state = IBV_MIG_REARM, b));
	must(ibv_modify_qp(q, &a, TO_RTS) == 0);
	refuse_move(q, "from RTS to INIT", TO_INIT, (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1});
	refuse_move(q, "IBV_QP_CAP", IBV_QP_CAP, (struct ibv_qp_attr){.cap = {1, 1, 1, 1, 0}});
#undef CHANGED
}

void refuse_moves(struct rig *r)
{
	struct ibv_qp *q = make_qp(r, IBV_QPT_RC, 0);
	(void)moves;
	refuse_to_init(q);
	to_init(q);
	refuse_to_rtr(r, q);
	refuse_to_rts(q);
	must(ibv_destroy_qp(q) == 0);
}

void refuse_groups(struct rig *r)
{
	const union ibv_gid group = {.raw = {[10] = 0xff, 0xff, 239, 1, 2, 3}}, host = {.raw = {[10] = 0xff, 0xff, 127, 1, 2, 3}};
	struct ibv_srq *srq = r->srq;
	r->srq = NULL;
	struct ibv_qp *ud = make_qp(r, IBV_QPT_UD, 0);
	r->srq = srq;
	to_init(ud);
	CODE_OF("ibv_attach_mcast", "a queue pair of RC", ibv_attach_mcast(r->qp[0], &group, 0));
	CODE_OF("ibv_attach_mcast", "a GID that is no group's", ibv_attach_mcast(ud, &host, 0));
	CODE_OF("ibv_detach_mcast", "a group that it is not attached to", ibv_detach_mcast(ud, &group, 0));
	must(ibv_attach_mcast(ud, &group, 0) == 0);
	CODE_OF("ibv_attach_mcast", "a group that it is attached to", ibv_attach_mcast(ud, &group, 0));
	CODE_OF("ibv_destroy_qp", "it is attached to a group", ibv_destroy_qp(ud));
	must(ibv_detach_mcast(ud, &group, 0) == 0);
	CODE_OF("ibv_detach_mcast", "a group that it was detached from", ibv_detach_mcast(ud, &group, 0));
	must(ibv_destroy_qp(ud) == 0);
}

// Queue pairs and address handles.
#define _GNU_SOURCE
#include "agent.h"

#include <arpa/inet.h>

static const struct name QP_TYPES[] = { { "RC", IBV_QPT_RC }, { "UC", IBV_QPT_UC }, { "UD", IBV_QPT_UD }, { 0, 0 } };

static const struct name QP_STATES[] = {
	{ "RESET", IBV_QPS_RESET }, { "INIT", IBV_QPS_INIT }, { "RTR", IBV_QPS_RTR }, { "RTS", IBV_QPS_RTS },
	{ "SQD", IBV_QPS_SQD }, { "SQE", IBV_QPS_SQE }, { "ERR", IBV_QPS_ERR }, { 0, 0 }
};

static struct ibv_qp_cap caps(uint32_t send_wr, uint32_t recv_wr, uint32_t sge)
{
	return (struct ibv_qp_cap){
		.max_send_wr = number("swr", send_wr, UINT32_MAX), .max_recv_wr = number("rwr", recv_wr, UINT32_MAX),
		.max_send_sge = number("ssge", sge, UINT32_MAX), .max_recv_sge = number("rsge", sge, UINT32_MAX),
		.max_inline_data = number("inline", 0, UINT32_MAX),
	};
}

static void put_caps(const struct ibv_qp_cap *c)
{
	put(" swr=%u rwr=%u ssge=%u rsge=%u inline=%u", c->max_send_wr, c->max_recv_wr, c->max_send_sge, c->max_recv_sge, c->max_inline_data);
}

// Creates a queue pair, which can post ATOMIC_WRITE if atomic_write=1.
static struct ibv_qp *create(struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	if (!number("atomic_write", 0, 1))
		return ibv_create_qp(pd, a);
#ifdef WITH_ATOMIC_WRITE
	struct ibv_qp_init_attr_ex ex = {
		.send_cq = a->send_cq, .recv_cq = a->recv_cq, .srq = a->srq, .cap = a->cap, .qp_type = a->qp_type, .sq_sig_all = a->sq_sig_all, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = IBV_QP_EX_WITH_ATOMIC_WRITE,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(ctx, &ex);

	a->cap = ex.cap;
	return qp;
#else
	errno = EOPNOTSUPP;
	return NULL;
#endif
}

void do_qp(void)
{
	struct object *pd = arg(PD, "pd"), *scq = arg(CQ, "scq"), *rcq = given("rcq") ? arg(CQ, "rcq") : scq, *srq = given("srq") ? arg(SRQ, "srq") : NULL;
	struct ibv_qp_init_attr a = {
		.qp_type = names_in(0, rq.n, QP_TYPES, "type", IBV_QPT_RC), .cap = caps(16, srq ? 0 : 16, 1), .sq_sig_all = number("sigall", 0, 1)
	};
	int h;

	if (!may_create())
		return;
	a.send_cq = scq->cq;
	a.recv_cq = rcq->cq;
	a.srq = srq ? srq->srq : NULL;
	if (!(h = created(QP, create(pd->pd, &a), "create_qp")))
		return;
	put(" qpn=0x%x", objects[h].qp->qp_num);
	put_caps(&a.cap);
}

static uint64_t prefixed(const char *prefix, const char *name, uint64_t otherwise, uint64_t max)
{
	char key[40];

	snprintf(key, sizeof key, "%s%s", prefix, name);
	return number(key, otherwise, max);
}

// An address vector from keys that begin with prefix; false if dgid is not given.
static bool address(const char *prefix, struct ibv_ah_attr *av)
{
	char key[40];
	const char *s;

	memset(av, 0, sizeof *av);
	snprintf(key, sizeof key, "%sdgid", prefix);
	if (!(s = find(0, rq.n, key)))
		return false;
	to_gid(key, s, &av->grh.dgid);
	av->is_global = 1;
	av->grh.sgid_index = prefixed(prefix, "sgid_index", 0, 255);
	av->grh.hop_limit = prefixed(prefix, "hop_limit", 64, 255);
	av->grh.traffic_class = prefixed(prefix, "traffic_class", 0, 255);
	av->grh.flow_label = prefixed(prefix, "flow_label", 0, UINT32_MAX);
	av->sl = prefixed(prefix, "sl", 0, 255);
	av->static_rate = prefixed(prefix, "rate", 0, 255);
	av->port_num = prefixed(prefix, "av_port", port, 255);
	return true;
}

static enum ibv_mtu to_mtu(uint64_t bytes)
{
	for (int m = IBV_MTU_256; m <= IBV_MTU_4096; m++)
		if (bytes == 128u << m)
			return m;
	fail(EINVAL, "path_mtu is 256, 512, 1024, 2048 or 4096");
	return 0;
}

static int attributes(struct ibv_qp_attr *a)
{
	int mask = 0;

	memset(a, 0, sizeof *a);
#define ATTR(key, bit, assign) do { if (given(key)) { mask |= bit; assign; } } while (0)
	ATTR("state", IBV_QP_STATE, a->qp_state = names_in(0, rq.n, QP_STATES, "state", 0));
	ATTR("cur_state", IBV_QP_CUR_STATE, a->cur_qp_state = names_in(0, rq.n, QP_STATES, "cur_state", 0));
	ATTR("sqd_notify", IBV_QP_EN_SQD_ASYNC_NOTIFY, a->en_sqd_async_notify = number("sqd_notify", 0, 1));
	ATTR("access", IBV_QP_ACCESS_FLAGS, a->qp_access_flags = names_in(0, rq.n, ACCESS, "access", 0));
	ATTR("pkey_index", IBV_QP_PKEY_INDEX, a->pkey_index = number("pkey_index", 0, UINT16_MAX));
	ATTR("port", IBV_QP_PORT, a->port_num = number("port", port, 255));
	ATTR("qkey", IBV_QP_QKEY, a->qkey = number("qkey", 0, UINT32_MAX));
	ATTR("path_mtu", IBV_QP_PATH_MTU, a->path_mtu = to_mtu(number("path_mtu", 0, 4096)));
	ATTR("timeout", IBV_QP_TIMEOUT, a->timeout = number("timeout", 0, 255));
	ATTR("retry_cnt", IBV_QP_RETRY_CNT, a->retry_cnt = number("retry_cnt", 0, 255));
	ATTR("rnr_retry", IBV_QP_RNR_RETRY, a->rnr_retry = number("rnr_retry", 0, 255));
	ATTR("rq_psn", IBV_QP_RQ_PSN, a->rq_psn = number("rq_psn", 0, UINT32_MAX));
	ATTR("sq_psn", IBV_QP_SQ_PSN, a->sq_psn = number("sq_psn", 0, UINT32_MAX));
	ATTR("max_rd_atomic", IBV_QP_MAX_QP_RD_ATOMIC, a->max_rd_atomic = number("max_rd_atomic", 0, 255));
	ATTR("max_dest_rd_atomic", IBV_QP_MAX_DEST_RD_ATOMIC, a->max_dest_rd_atomic = number("max_dest_rd_atomic", 0, 255));
	ATTR("min_rnr_timer", IBV_QP_MIN_RNR_TIMER, a->min_rnr_timer = number("min_rnr_timer", 0, 255));
	ATTR("dest_qpn", IBV_QP_DEST_QPN, a->dest_qp_num = number("dest_qpn", 0, UINT32_MAX));
	ATTR("path_mig", IBV_QP_PATH_MIG_STATE, a->path_mig_state = number("path_mig", 0, 2));
	ATTR("rate_limit", IBV_QP_RATE_LIMIT, a->rate_limit = number("rate_limit", 0, UINT32_MAX));
#undef ATTR
	if (address("", &a->ah_attr))
		mask |= IBV_QP_AV;
	if (address("alt_", &a->alt_ah_attr)) {
		mask |= IBV_QP_ALT_PATH;
		a->alt_port_num = a->alt_ah_attr.port_num;
		a->alt_timeout = number("alt_timeout", 0, 255);
		a->alt_pkey_index = number("alt_pkey_index", 0, UINT16_MAX);
	}
	if (given("swr")) {
		mask |= IBV_QP_CAP;
		a->cap = caps(0, 0, 0);
	}
	return mask;
}

void do_modify(void)
{
	struct object *qp = arg(QP, "qp");
	struct ibv_qp_attr a;
	int mask = attributes(&a), rc;

	if (ready() && (rc = ibv_modify_qp(qp->qp, &a, mask)))
		fail(error_of(rc), "modify_qp mask=0x%x", mask);
}

void do_query(void)
{
	const int mask = IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_AV | IBV_QP_PATH_MTU |
			 IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_RQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_SQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			 IBV_QP_PATH_MIG_STATE | IBV_QP_CAP | IBV_QP_DEST_QPN;
	struct object *qp = arg(QP, "qp");
	struct ibv_qp_init_attr init = { 0 };
	struct ibv_qp_attr a = { 0 };
	char gid[INET6_ADDRSTRLEN];

	if (!ready() || !done(ibv_query_qp(qp->qp, &a, mask, &init), "query_qp"))
		return;
	put("state=%d cur_state=%d access=0x%x pkey_index=%u port=%u qkey=0x%x path_mtu=%d", a.qp_state, a.cur_qp_state, a.qp_access_flags, a.pkey_index, a.port_num, a.qkey,
	    a.path_mtu ? 128 << a.path_mtu : 0);
	put(" timeout=%u retry_cnt=%u rnr_retry=%u min_rnr_timer=%u rq_psn=0x%x sq_psn=0x%x max_rd_atomic=%u max_dest_rd_atomic=%u dest_qpn=0x%x", a.timeout, a.retry_cnt, a.rnr_retry,
	    a.min_rnr_timer, a.rq_psn, a.sq_psn, a.max_rd_atomic, a.max_dest_rd_atomic, a.dest_qp_num);
	put(" path_mig=%d sq_draining=%d sgid_index=%u hop_limit=%u traffic_class=%u", a.path_mig_state, a.sq_draining, a.ah_attr.grh.sgid_index, a.ah_attr.grh.hop_limit,
	    a.ah_attr.grh.traffic_class);
	if (inet_ntop(AF_INET6, a.ah_attr.grh.dgid.raw, gid, sizeof gid))
		put(" dgid=%s", gid);
	put_caps(&a.cap);
}

void do_ah(void)
{
	struct object *pd = arg(PD, "pd");
	struct ibv_ah_attr av;

	if (!address("", &av))
		fail(EINVAL, "dgid= is missing");
	if (may_create())
		created(AH, ibv_create_ah(pd->pd, &av), "create_ah");
}

#define _GNU_SOURCE
#include "asleep.h"
#include "rig.h"

#include <time.h>

struct ibv_context *open_first(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	must(list != NULL && list[0] != NULL);
	struct ibv_context *c = ibv_open_device(list[0]);
	must(c != NULL);
	ibv_free_device_list(list);
	return c;
}

struct ibv_qp *make_qp(struct rig *r, enum ibv_qp_type t, int side)
{
	struct ibv_qp_init_attr a = {
		.send_cq = r->cq[side], .recv_cq = r->cq[side], .srq = side == 1 ? r->srq : NULL, .qp_type = t,
		.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64},
	};
	struct ibv_qp *q = ibv_create_qp(r->pd, &a);
	must(q != NULL);
	return q;
}

void to_init(struct ibv_qp *q)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL_ACCESS, .qkey = QKEY};
	must(ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (q->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)) == 0);
}

void to_rtr(struct rig *r, struct ibv_qp *q, struct ibv_qp *to)
{
	bool rc = q->qp_type == IBV_QPT_RC, ud = q->qp_type == IBV_QPT_UD;
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = to->qp_num, .max_dest_rd_atomic = 4, .min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64, .flow_label = UINT32_MAX}},
	};
	a.ah_attr.grh.sgid_index = r->sgid_index;
	must(ibv_query_gid(r->ctx, 1, 0, &a.ah_attr.grh.dgid) == 0);
	must(ibv_modify_qp(q, &a, IBV_QP_STATE | (ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) |
					  (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)) == 0);
}

void to_rts(struct rig *r, struct ibv_qp *q)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTS, .timeout = r->timeout, .retry_cnt = r->retry, .rnr_retry = r->rnr_retry, .max_rd_atomic = r->reads > 0 ? r->reads : 4,
	};
	must(ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | (q->qp_type != IBV_QPT_RC ? 0 :
					  IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)) == 0);
}

void connect_qp(struct rig *r, struct ibv_qp *q, struct ibv_qp *to)
{
	to_init(q);
	to_rtr(r, q, to);
	to_rts(r, q);
}

void rig_open(struct rig *r, enum ibv_qp_type t)
{
	if (r->timeout == 0)
		r->timeout = 14, r->retry = 7, r->rnr_retry = 7;
	r->ctx = open_first();
	must((r->pd = ibv_alloc_pd(r->ctx)) != NULL);
	must((r->channel = ibv_create_comp_channel(r->ctx)) != NULL);
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = DEPTH, .max_sge = 2}};
	must(!r->shared || (r->srq = ibv_create_srq(r->pd, &srq)) != NULL);
	for (int i = 0; i < SIDES; i++) {
		int cqe = i == 0 && r->cqe > 0 ? r->cqe : 4 * DEPTH;
		must((r->cq[i] = ibv_create_cq(r->ctx, cqe, r, r->channel, 0)) != NULL);
		must((r->buf[i] = calloc(1, BUF)) != NULL);
		must((r->mr[i] = ibv_reg_mr(r->pd, r->buf[i], BUF, ALL_ACCESS)) != NULL);
		r->qp[i] = make_qp(r, t, i);
	}
	connect_qp(r, r->qp[0], r->qp[1]);
	connect_qp(r, r->qp[1], r->qp[0]);
}

void rig_close(struct rig *r)
{
	for (int i = 0; i < SIDES; i++) {
		must(ibv_destroy_qp(r->qp[i]) == 0);
		must(ibv_destroy_cq(r->cq[i]) == 0);
		must(ibv_dereg_mr(r->mr[i]) == 0);
		free(r->buf[i]);
	}
	if (r->srq != NULL)
		must(ibv_destroy_srq(r->srq) == 0);
	must(ibv_destroy_comp_channel(r->channel) == 0);
	must(ibv_dealloc_pd(r->pd) == 0);
	must(ibv_close_device(r->ctx) == 0);
}

// rig_drop closes the adapter, which destroys all objects in it.
void rig_drop(struct rig *r)
{
	must(ibv_close_device(r->ctx) == 0);
	free(r->buf[0]);
	free(r->buf[1]);
}

// to_self returns the attributes of an address handle for the adapter itself.
struct ibv_ah_attr to_self(struct ibv_context *c)
{
	struct ibv_ah_attr a = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}};
	must(ibv_query_gid(c, 1, 0, &a.grh.dgid) == 0);
	return a;
}

int post(struct rig *r, int side, enum ibv_wr_opcode op, uint32_t n)
{
	struct ibv_sge s = {(uintptr_t)r->buf[side], n, r->mr[side]->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = n, .sg_list = &s, .num_sge = 1, .opcode = op, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_mr *to = r->mr[1 - side];
	if (op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)to->addr, wr.wr.atomic.rkey = to->rkey;
		wr.wr.atomic.compare_add = 5, wr.wr.atomic.swap = 9;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)to->addr, wr.wr.rdma.rkey = to->rkey;
	}
	return ibv_post_send(r->qp[side], &wr, &bad);
}

void receive(struct rig *r, int side, uint32_t n)
{
	struct ibv_sge s = {(uintptr_t)r->buf[side], n, r->mr[side]->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = 1000 + n, .sg_list = &s, .num_sge = 1};
	must((side == 1 && r->srq != NULL ? ibv_post_srq_recv(r->srq, &wr, &bad) : ibv_post_recv(r->qp[side], &wr, &bad)) == 0);
}

struct ibv_wc wait_wc(struct ibv_cq *q)
{
	struct ibv_wc wc;
	time_t end = time(NULL) + 30;
	int n;
	while ((n = ibv_poll_cq(q, 1, &wc)) == 0)
		must(time(NULL) < end);
	must(n == 1);
	return wc;
}

void want(struct ibv_cq *q, enum ibv_wc_status s)
{
	struct ibv_wc wc = wait_wc(q);
	if (wc.status != s) {
		fprintf(stderr, "a completion of wr_id %lu has status %d (%s), want %d (%s)\n", (unsigned long)wc.wr_id, wc.status,
			ibv_wc_status_str(wc.status), s, ibv_wc_status_str(s));
		exit(1);
	}
}

static void *send_signal(void *sig)
{
	until_reading(getpid());
	must(kill(getpid(), (int)(intptr_t)sig) == 0);
	return NULL;
}

pthread_t interrupt(int sig)
{
	pthread_t t;
	sigset_t all, old;
	sigfillset(&all);
	must(pthread_sigmask(SIG_BLOCK, &all, &old) == 0); // the new thread catches no signals
	must(pthread_create(&t, NULL, send_signal, (void *)(intptr_t)sig) == 0);
	must(pthread_sigmask(SIG_SETMASK, &old, NULL) == 0);
	return t;
}

void sleep_for_completion(struct rig *r)
{
	struct ibv_cq *q;
	void *context;
	must(ibv_req_notify_cq(r->cq[0], 0) == 0);
	must(post(r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
	must(ibv_get_cq_event(r->channel, &q, &context) == 0);
	ibv_ack_cq_events(q, 1);
	want(r->cq[0], IBV_WC_SUCCESS);
}

// Two queue pairs of one adapter are connected to each other. One writes into the
// memory of the other; then it tries the same with a wrong key.
#include <infiniband/verbs.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

// connect_to takes a queue pair from RESET to RTS. A real program learns the peer's
// QP number, GID and first PSN (0 here) from the peer, over TCP or by rdma_cm.
static void connect_to(struct ibv_qp *qp, uint32_t peer, union ibv_gid gid)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	must(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");

	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = IBV_MTU_1024;
	a.dest_qp_num = peer;
	a.max_dest_rd_atomic = 1;
	a.min_rnr_timer = 12;
	a.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .sgid_index = 0, .hop_limit = 64}};
	must(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");

	a.qp_state = IBV_QPS_RTS;
	a.timeout = 14;
	a.retry_cnt = a.rnr_retry = 7;
	a.max_rd_atomic = 1;
	must(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

// write_to posts an RDMA WRITE and waits for its completion.
static enum ibv_wc_status write_to(struct ibv_qp *qp, struct ibv_mr *from, struct ibv_mr *to, uint32_t rkey)
{
	struct ibv_sge s = {(uintptr_t)from->addr, from->length, from->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	wr.wr.rdma.remote_addr = (uintptr_t)to->addr;
	wr.wr.rdma.rkey = rkey;
	must(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
	struct ibv_wc wc;
	int n;
	while ((n = ibv_poll_cq(qp->send_cq, 1, &wc)) == 0)
		;
	must(n == 1, "ibv_poll_cq");
	return wc.status;
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	must(list != NULL && list[0] != NULL, "no RDMA device");
	struct ibv_context *ctx = ibv_open_device(list[0]);
	must(ctx != NULL, "ibv_open_device");
	union ibv_gid gid;
	must(!ibv_query_gid(ctx, 1, 0, &gid), "ibv_query_gid");

	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	must(pd != NULL && cq != NULL, "protection domain and completion queue");
	static char from[64] = "hello, world", to[64];
	struct ibv_mr *a = ibv_reg_mr(pd, from, sizeof from, 0);
	struct ibv_mr *b = ibv_reg_mr(pd, to, sizeof to, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	must(a != NULL && b != NULL, "ibv_reg_mr");

	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp *p = ibv_create_qp(pd, &init), *q = ibv_create_qp(pd, &init);
	must(p != NULL && q != NULL, "ibv_create_qp");
	connect_to(p, q->qp_num, gid);
	connect_to(q, p->qp_num, gid);

	printf("a WRITE: %s\n", ibv_wc_status_str(write_to(p, a, b, b->rkey)));
	printf("the memory has: %s\n", to);
	printf("a wrong key: %s\n", ibv_wc_status_str(write_to(p, a, b, b->rkey ^ 0xff)));

	ibv_destroy_qp(p), ibv_destroy_qp(q);
	ibv_dereg_mr(a), ibv_dereg_mr(b);
	ibv_destroy_cq(cq), ibv_dealloc_pd(pd), ibv_close_device(ctx);
	ibv_free_device_list(list);
	return 0;
}

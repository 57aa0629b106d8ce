// Programs with more findings, notes and objects than the checker keeps.
#define _GNU_SOURCE
#include "limits.h"

static void poll_all(struct ibv_cq *q)
{
	struct ibv_wc wc;
	while (ibv_poll_cq(q, 1, &wc) > 0) {
	}
}

// More refusals than the table of notes holds, 32.
static void many_refusals(void)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	for (int i = 0; i < 40; i++) {
		struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};
		refuse(&r);
		for (int side = 0; side < SIDES; side++)
			must(ibv_modify_qp(r.qp[side], &a, IBV_QP_STATE) == 0);
		connect_qp(&r, r.qp[0], r.qp[1]);
		connect_qp(&r, r.qp[1], r.qp[0]);
	}
	poll_all(r.cq[0]);
	rig_close(&r);
}

// More repeated packets with another payload than the table of notes holds, 64: one of each pair of queue pairs. The peers drop the
// requests until these have changed.
static void many_changes(void)
{
	enum { PAIRS = 80 };
	struct rig r = {.timeout = 17, .retry = 7, .rnr_retry = 7}; // half a second
	struct ibv_qp *q[PAIRS][SIDES];
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	rig_open(&r, IBV_QPT_RC);
	memset(r.buf[0], 1, BUF);
	for (int i = 0; i < PAIRS; i++) {
		struct ibv_sge s = {(uintptr_t)r.buf[0] + 8 * i, 8, r.mr[0]->lkey};
		struct ibv_send_wr *bad, wr = {.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
		wr.wr.rdma.remote_addr = (uintptr_t)r.buf[1] + 8 * i, wr.wr.rdma.rkey = r.mr[1]->rkey;
		for (int side = 0; side < SIDES; side++)
			q[i][side] = make_qp(&r, IBV_QPT_RC, side);
		to_init(q[i][1]);
		connect_qp(&r, q[i][0], q[i][1]);
		must(ibv_post_send(q[i][0], &wr, &bad) == 0);
	}
	for (int i = 0; i < PAIRS; i++) // a query waits for the threads that send the request and drop it
		for (int side = 0; side < SIDES; side++)
			must(ibv_query_qp(q[i][side], &attr, IBV_QP_STATE, &init) == 0);
	for (int i = 0; i < PAIRS; i++)
		r.buf[0][8 * i] = 2;
	for (int i = 0; i < PAIRS; i++) {
		to_rtr(&r, q[i][1], q[i][0]);
		to_rts(&r, q[i][1]);
	}
	for (int i = 0; i < PAIRS; i++) {
		const volatile char *to = &r.buf[1][8 * i];
		while (*to == 0) {
		}
		r.buf[0][8 * i] = 1;
	}
	for (int i = 0; i < PAIRS; i++)
		want(r.cq[0], IBV_WC_SUCCESS);
	for (int i = 0; i < PAIRS; i++)
		for (int side = 0; side < SIDES; side++)
			must(ibv_destroy_qp(q[i][side]) == 0);
	rig_close(&r);
}

// deep calls f from a stack of its own for each n below 2^depth.
static __attribute__((noinline)) void deep(struct rig *r, void (*f)(struct rig *), unsigned n, int depth)
{
	volatile int here = 0; // the call is not the last one of the function
	if (depth == 0)
		f(r);
	else if (n & 1)
		deep(r, f, n >> 1, depth - 1);
	else
		deep(r, f, n >> 1, depth - 1);
	here++;
}

// More different findings than the checker keeps, 512.
static void many_findings(void)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	for (unsigned i = 0; i < 600; i++)
		deep(&r, wrong_call, i, 10);
	rig_close(&r);
}

static void handle(struct rig *r)
{
	struct ibv_ah_attr a = to_self(r->ctx);
	struct ibv_ah *ah = ibv_create_ah(r->pd, &a);
	must(ah != NULL && ibv_destroy_ah(ah) == 0);
}

// More different stacks than the checker keeps, 16384. The bug after that is found, without a stack.
static void many_stacks(void)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	for (unsigned i = 0; i < 17000; i++)
		deep(&r, handle, i, 15);
	wrong_call(&r);
	wrong_call(&r);
	rig_close(&r);
}

// A stack with more calls than the checker keeps, 24.
static void deep_stack(void)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	deep(&r, wrong_call, 0, 100);
	rig_close(&r);
}

// More destroyed objects than the checker keeps, 256: it finds the use of the newest one.
static void many_destroyed(void)
{
	struct rig r = {0};
	struct ibv_ah *ah = NULL;
	struct ibv_ah_attr a;
	rig_open(&r, IBV_QPT_RC);
	a = to_self(r.ctx);
	for (int i = 0; i < 300; i++)
		must((ah = ibv_create_ah(r.pd, &a)) != NULL && ibv_destroy_ah(ah) == 0);
	ibv_destroy_ah(ah);
	rig_close(&r);
}

// More objects left in a context than the checker names, 64. The channel, the domain and the queues are left too.
static void many_left(void)
{
	struct rig r = {0};
	struct ibv_ah_attr a;
	rig_open(&r, IBV_QPT_RC);
	a = to_self(r.ctx);
	for (int i = 0; i < 100; i++)
		must(ibv_create_ah(r.pd, &a) != NULL);
	rig_drop(&r);
}

// post_with posts a message with a key, which the adapter refuses.
static void post_with(struct rig *r, uint32_t lkey)
{
	struct ibv_sge s = {(uintptr_t)r->buf[0], 8, lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	must(ibv_post_send(r->qp[0], &wr, &bad) == 0);
	want(r->cq[0], IBV_WC_LOC_PROT_ERR);
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	for (int i = 0; i < SIDES; i++)
		must(ibv_modify_qp(r->qp[i], &reset, IBV_QP_STATE) == 0);
	connect_qp(r, r->qp[0], r->qp[1]);
	connect_qp(r, r->qp[1], r->qp[0]);
}

// More deregistered regions than the checker keeps, 1024: it knows the newest, not the oldest.
static void many_regions(void)
{
	struct rig r = {0};
	uint32_t first = 0, last = 0;
	rig_open(&r, IBV_QPT_RC);
	for (int i = 0; i < 1100; i++) {
		struct ibv_mr *m = ibv_reg_mr(r.pd, r.buf[0], 64, 0);
		must(m != NULL);
		first = i == 0 ? m->lkey : first, last = m->lkey;
		must(ibv_dereg_mr(m) == 0);
	}
	post_with(&r, last);
	post_with(&r, first);
	rig_close(&r);
}

// More receives without a polled completion than the checker keeps of a shared receive queue of DEPTH entries, whose
// number of entries is not known since it was resized.
static void many_receives(void)
{
	struct rig r = {.shared = true};
	struct ibv_srq_attr a = {.max_wr = DEPTH};
	rig_open(&r, IBV_QPT_RC);
	must(ibv_modify_srq(r.srq, &a, IBV_SRQ_MAX_WR) == 0);
	for (int i = 0; i < 3 * DEPTH; i++) {
		receive(&r, 1, 64);
		must(post(&r, 0, IBV_WR_SEND, 64) == 0);
		want(r.cq[0], IBV_WC_SUCCESS);
	}
	for (int i = 0; i < 3 * DEPTH; i++)
		want(r.cq[1], IBV_WC_SUCCESS);
	rig_close(&r);
}

const struct scenario tables[] = {
	{"many-refusals", many_refusals}, {"many-changes", many_changes}, {"many-findings", many_findings}, {"many-stacks", many_stacks}, {"deep-stack", deep_stack},
	{"many-destroyed", many_destroyed}, {"many-left", many_left}, {"many-regions", many_regions}, {"many-receives", many_receives}, {NULL, NULL},
};

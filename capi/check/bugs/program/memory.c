// Bugs with the memory of requests.
#include "bugs.h"

static void send_buffer_changed(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	must(post(&r, 0, IBV_WR_RDMA_WRITE, 64) == 0); // FOUND
	if (bug)
		r.buf[0][63]++;
	want(r.cq[0], IBV_WC_SUCCESS);
	r.buf[0][63]++;
	rig_close(&r);
}

// The peer has no receive, so the adapter repeats the message until it has. Meanwhile the program changes the payload,
// and restores it before the request completes.
static void buffer_changed_and_restored(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	must(post(&r, 0, IBV_WR_SEND, 64) == 0); // FOUND
	for (int i = 0; i < 2; i++) {
		wait_ms(20);
		r.buf[0][63] ^= bug;
	}
	wait_ms(20);
	receive(&r, 1, 64);
	want(r.cq[0], IBV_WC_SUCCESS);
	want(r.cq[1], IBV_WC_SUCCESS);
	rig_close(&r);
}

static void region_deregistered(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_mr *m = ibv_reg_mr(r.pd, r.buf[0], 64, 0);
	struct ibv_sge s = {(uintptr_t)r.buf[0], 64, m->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	must(ibv_post_send(r.qp[0], &wr, &bad) == 0); // the peer is not ready, so this takes long
	if (!bug) {
		receive(&r, 1, 64);
		want(r.cq[0], IBV_WC_SUCCESS);
		want(r.cq[1], IBV_WC_SUCCESS);
	}
	must(ibv_dereg_mr(m) == 0); // FOUND
	if (bug) {
		receive(&r, 1, 64);
		wait_wc(r.cq[0]);
	}
	rig_close(&r);
}

static __attribute__((noinline)) void post_from_stack(struct rig *r, struct ibv_mr **m, char *own)
{
	char local[64] = "";
	char *from = own != NULL ? own : local;
	must((*m = ibv_reg_mr(r->pd, from, 64, 0)) != NULL);
	struct ibv_sge s = {(uintptr_t)from, 64, (*m)->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	wr.wr.rdma.remote_addr = (uintptr_t)r->buf[1], wr.wr.rdma.rkey = r->mr[1]->rkey;
	must(ibv_post_send(r->qp[0], &wr, &bad) == 0); // FOUND
}

static void stack_memory_gone(bool bug)
{
	struct rig r = {0};
	char own[64] = "";
	struct ibv_mr *m;
	struct ibv_wc wc;
	rig_open(&r, IBV_QPT_RC);
	post_from_stack(&r, &m, bug ? NULL : own);
	while (ibv_poll_cq(r.cq[0], 1, &wc) == 0) {
	}
	must(wc.status == IBV_WC_SUCCESS && ibv_dereg_mr(m) == 0);
	rig_close(&r);
}

static void extended_buffer_changed(bool bug)
{
	struct rig r = {0};
	struct ibv_qp_ex *q = open_extended(&r);
	ibv_wr_start(q);
	q->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(q, r.mr[1]->rkey, (uintptr_t)r.buf[1]);
	ibv_wr_set_sge(q, r.mr[0]->lkey, (uintptr_t)r.buf[0], 64);
	must(ibv_wr_complete(q) == 0); // FOUND
	if (bug)
		r.buf[0][0]++;
	want(r.cq[0], IBV_WC_SUCCESS);
	r.buf[0][0]++;
	rig_close(&r);
}

// Each byte of a payload counts: those of whole blocks of the sum, of its words, and the last ones.
static void each_byte_changed(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	for (int i = 0; i < 173; i++) {
		must(post(&r, 0, IBV_WR_RDMA_WRITE, 173) == 0); // FOUND
		if (bug)
			r.buf[0][i] ^= 0x80;
		want(r.cq[0], IBV_WC_SUCCESS);
		r.buf[0][i] ^= 1;
	}
	rig_close(&r);
}

// The adapter writes to a payload before it is posted, and while it is outstanding: in the right program to the
// payload, whose change is no bug of the program, and with the bug elsewhere.
static void payload_written(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_sge s = {(uintptr_t)r.buf[1] + 4096, 64, r.mr[1]->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	wr.wr.rdma.remote_addr = (uintptr_t)r.buf[0], wr.wr.rdma.rkey = r.mr[0]->rkey;
	must(ibv_post_send(r.qp[1], &wr, &bad) == 0);
	want(r.cq[1], IBV_WC_SUCCESS);
	must(post(&r, 0, IBV_WR_RDMA_WRITE, 64) == 0); // FOUND
	memset(r.buf[1] + 4096, 'w', 64);
	wr.wr.rdma.remote_addr += bug ? 4096 : 0;
	must(ibv_post_send(r.qp[1], &wr, &bad) == 0);
	want(r.cq[1], IBV_WC_SUCCESS);
	if (bug)
		r.buf[0][0]++;
	want(r.cq[0], IBV_WC_SUCCESS);
	rig_close(&r);
}

// Inline data may change after the post. An unsignaled request completes with a later one, even if both have the
// same wr_id.
static void unsignaled_buffer_changed(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_sge s = element(&r, 0, 16);
	struct ibv_send_wr *bad, wr = {.wr_id = 64, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_INLINE};
	wr.wr.rdma.remote_addr = (uintptr_t)r.buf[1], wr.wr.rdma.rkey = r.mr[1]->rkey;
	must(ibv_post_send(r.qp[0], &wr, &bad) == 0);
	r.buf[0][0]++;
	s.addr += 4096, wr.send_flags = 0;
	must(ibv_post_send(r.qp[0], &wr, &bad) == 0); // FOUND
	if (bug)
		r.buf[0][4096]++;
	must(post(&r, 0, IBV_WR_RDMA_WRITE, 64) == 0);
	want(r.cq[0], IBV_WC_SUCCESS);
	r.buf[0][4096]++;
	rig_close(&r);
}

static void region_reregistered(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_mr *m = ibv_reg_mr(r.pd, r.buf[0], 64, IBV_ACCESS_LOCAL_WRITE);
	must(m != NULL && post_element(&r, IBV_WR_SEND, (struct ibv_sge){(uintptr_t)r.buf[0], 64, m->lkey}) == 0);
	if (!bug) {
		receive(&r, 1, 64);
		want(r.cq[0], IBV_WC_SUCCESS);
		want(r.cq[1], IBV_WC_SUCCESS);
	}
	must(ibv_rereg_mr(m, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, r.buf[0] + 64, 64, 0) == 0); // FOUND
	if (bug) {
		receive(&r, 1, 64);
		wait_wc(r.cq[0]);
	}
	must(ibv_dereg_mr(m) == 0);
	rig_close(&r);
}

static __attribute__((noinline)) void receive_on_stack(struct rig *r, struct ibv_mr **m, char *own)
{
	char local[64] = "";
	char *to = own != NULL ? own : local;
	must((*m = ibv_reg_mr(r->pd, to, 64, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	receive_element(r, (struct ibv_sge){(uintptr_t)to, 64, (*m)->lkey}); // FOUND
}

// The peer sends 0 bytes, so that nothing is written to the stack of the function that has returned.
static void received_on_stack(bool bug)
{
	struct rig r = {0};
	char own[64] = "";
	struct ibv_mr *m;
	struct ibv_wc wc;
	rig_open(&r, IBV_QPT_RC);
	receive_on_stack(&r, &m, bug ? NULL : own);
	must(post(&r, 0, IBV_WR_SEND, 0) == 0);
	want(r.cq[0], IBV_WC_SUCCESS);
	while (ibv_poll_cq(r.cq[1], 1, &wc) == 0) {
	}
	must(wc.status == IBV_WC_SUCCESS && ibv_dereg_mr(m) == 0);
	rig_close(&r);
}

const struct bug memory_bugs[] = {
	{"buffer-changed-and-restored", "send-buffer-changed", buffer_changed_and_restored},
	{"send-buffer-changed", "send-buffer-changed", send_buffer_changed},
	{"each-byte-changed", "send-buffer-changed", each_byte_changed},
	{"extended-buffer-changed", "send-buffer-changed", extended_buffer_changed},
	{"payload-written", "send-buffer-changed", payload_written},
	{"unsignaled-buffer-changed", "send-buffer-changed", unsignaled_buffer_changed},
	{"region-deregistered", "region-deregistered-in-use", region_deregistered},
	{"region-reregistered", "region-deregistered-in-use", region_reregistered},
	{"stack-memory-gone", "stack-memory-gone", stack_memory_gone},
	{"received-on-stack", "stack-memory-gone", received_on_stack},
	{NULL, NULL, NULL},
};

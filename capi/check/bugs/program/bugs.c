#include "bugs.h"

#include <poll.h>

static const struct bug *const all[] = {memory_bugs, freed_bugs, poisoned_bugs, race_bugs, right_races, key_bugs, event_bugs, queue_bugs, lifetime_bugs, advice_bugs};

struct ibv_sge element(struct rig *r, int side, uint32_t n) { return (struct ibv_sge){(uintptr_t)r->buf[side], n, r->mr[side]->lkey}; }

int post_element(struct rig *r, enum ibv_wr_opcode op, struct ibv_sge s)
{
	struct ibv_send_wr *bad, wr = {.sg_list = &s, .num_sge = 1, .opcode = op, .send_flags = IBV_SEND_SIGNALED};
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD)
		wr.wr.atomic.remote_addr = (uintptr_t)r->buf[1], wr.wr.atomic.rkey = r->mr[1]->rkey;
	else
		wr.wr.rdma.remote_addr = (uintptr_t)r->buf[1], wr.wr.rdma.rkey = r->mr[1]->rkey;
	return ibv_post_send(r->qp[0], &wr, &bad);
}

void receive_element(struct rig *r, struct ibv_sge s)
{
	struct ibv_recv_wr *bad, wr = {.sg_list = &s, .num_sge = 1};
	must((r->srq != NULL ? ibv_post_srq_recv(r->srq, &wr, &bad) : ibv_post_recv(r->qp[1], &wr, &bad)) == 0);
}

int send_datagram(struct rig *r, struct ibv_ah *ah, uint32_t n)
{
	struct ibv_sge s = element(r, 0, n);
	struct ibv_send_wr *bad, wr = {
		.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
		.wr.ud = {ah, r->qp[1]->qp_num, QKEY},
	};
	return ibv_post_send(r->qp[0], &wr, &bad);
}

struct ibv_ah *make_ah(struct rig *r, struct ibv_pd *pd)
{
	struct ibv_ah_attr a = to_self(r->ctx);
	struct ibv_ah *ah = ibv_create_ah(pd, &a);
	must(ah != NULL);
	return ah;
}

void ends(struct ibv_cq *q, bool success)
{
	struct ibv_wc wc = wait_wc(q);
	if ((wc.status == IBV_WC_SUCCESS) == success)
		return;
	fprintf(stderr, "a completion has status %d (%s)\n", wc.status, ibv_wc_status_str(wc.status));
	exit(1);
}

void await_completion(struct rig *r, struct ibv_cq *q)
{
	struct ibv_cq *got;
	void *context;
	must(ibv_req_notify_cq(q, 0) == 0);
	must(ibv_get_cq_event(r->channel, &got, &context) == 0 && got == q);
	ibv_ack_cq_events(got, 1);
}

void wait_ms(int ms) { must(poll(NULL, 0, ms) == 0); }

void move_to(struct ibv_qp *q, enum ibv_qp_state s)
{
	struct ibv_qp_attr a = {.qp_state = s};
	must(ibv_modify_qp(q, &a, IBV_QP_STATE) == 0);
}

void connect_anew(struct rig *r)
{
	for (int i = 0; i < SIDES; i++)
		move_to(r->qp[i], IBV_QPS_RESET);
	connect_qp(r, r->qp[0], r->qp[1]);
	connect_qp(r, r->qp[1], r->qp[0]);
}

void use_queue(struct rig *r, int side, struct ibv_cq *q)
{
	enum ibv_qp_type t = r->qp[side]->qp_type;
	must(q != NULL && ibv_destroy_qp(r->qp[side]) == 0 && ibv_destroy_cq(r->cq[side]) == 0);
	r->cq[side] = q;
	r->qp[side] = make_qp(r, t, side);
	connect_anew(r);
}

struct ibv_qp_ex *open_extended(struct rig *r)
{
	rig_open(r, IBV_QPT_RC);
	struct ibv_qp_init_attr_ex a = {
		.send_cq = r->cq[0], .recv_cq = r->cq[0], .qp_type = IBV_QPT_RC, .pd = r->pd,
		.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ,
	};
	must(ibv_destroy_qp(r->qp[0]) == 0 && (r->qp[0] = ibv_create_qp_ex(r->ctx, &a)) != NULL);
	connect_anew(r);
	return ibv_qp_to_qp_ex(r->qp[0]);
}

// list prints the name of each case, and that of its finding.
static int list(void)
{
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		for (const struct bug *b = all[i]; b->name != NULL; b++)
			printf("%s %s\n", b->name, b->finding);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 1)
		return list();
	must(argc == 3);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		for (const struct bug *b = all[i]; b->name != NULL; b++)
			if (strcmp(b->name, argv[1]) == 0) {
				b->run(strcmp(argv[2], "bug") == 0);
				return 0;
			}
	fprintf(stderr, "there is no case %s\n", argv[1]);
	return 1;
}

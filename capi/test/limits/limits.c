// Programs whose findings and notes meet an end or a bound of the checker: they crash, fork, end at the first
// finding, or fill a table. limits_test.go says what the report of each must be.
#define _GNU_SOURCE
#include "limits.h"

static const struct scenario *const all[] = {crashes, forks, fatals, tables};

void wrong_call(struct rig *r)
{
	struct ibv_send_wr *bad, wr = {.opcode = (enum ibv_wr_opcode)31};
	must(ibv_post_send(r->qp[0], &wr, &bad) == EINVAL);
}

void refuse(struct rig *r)
{
	struct ibv_sge s = {(uintptr_t)r->buf[0], 64, r->mr[0]->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_cq *q;
	void *context;
	wr.wr.rdma.remote_addr = (uintptr_t)r->buf[1], wr.wr.rdma.rkey = r->mr[1]->rkey ^ 0x5500;
	must(ibv_req_notify_cq(r->cq[0], 0) == 0);
	must(ibv_post_send(r->qp[0], &wr, &bad) == 0);
	must(ibv_get_cq_event(r->channel, &q, &context) == 0 && q == r->cq[0]);
	ibv_ack_cq_events(q, 1);
}

int main(int argc, char **argv)
{
	alarm(120);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		for (const struct scenario *s = all[i]; s->name != NULL; s++)
			if (argc == 2 && strcmp(s->name, argv[1]) == 0) {
				s->run();
				return 0;
			}
	fprintf(stderr, "there is no such scenario\n");
	return 2;
}

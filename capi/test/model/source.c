// Completions on demand: receives that are posted to a queue pair in ERR are flushed at
// once.
#include "model.h"

enum { ROOM = 32 };

void source_open(struct source *s, struct ibv_context *ctx, struct ibv_cq *cq)
{
	*s = (struct source){.ctx = ctx, .cq = cq, .pd = MADE(ibv_alloc_pd(ctx))};
	struct ibv_qp_init_attr a = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .cap = {1, ROOM, 1, 1, 0}};
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	s->qp = MADE(ibv_create_qp(s->pd, &a));
	WORKS(ibv_modify_qp(s->qp, &err, IBV_QP_STATE));
}

// source_emit returns when the completions are in the queue: the adapter answers a query
// of the queue pair after it processed the posted receives.
void source_emit(struct source *s, unsigned n)
{
	struct ibv_recv_wr wr = {.wr_id = 7}, *bad;
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	for (unsigned i = 0; i < n; i++) {
		WORKS(ibv_post_recv(s->qp, &wr, &bad));
		if (i % ROOM == ROOM - 1 || i == n - 1)
			WORKS(ibv_query_qp(s->qp, &a, IBV_QP_STATE, &init));
	}
}

void source_close(struct source *s)
{
	WORKS(ibv_destroy_qp(s->qp));
	WORKS(ibv_dealloc_pd(s->pd));
}

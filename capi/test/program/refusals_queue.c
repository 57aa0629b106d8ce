// Refused calls that concern queues, events and posts.
#include "refusals.h"

#include <fcntl.h>
#include <sys/resource.h>

enum { TOO_MANY = 1 << 30 };

static struct ibv_qp *fresh(struct rig *r, enum ibv_qp_type t)
{
	struct ibv_srq *srq = r->srq;
	r->srq = NULL;
	struct ibv_qp *q = make_qp(r, t, 0);
	r->srq = srq;
	return q;
}

static void refuse_srq(struct rig *r, const char *condition, uint32_t wr, uint32_t sge)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = wr, .max_sge = sge}};
	watch(&a, sizeof a);
	NULL_OF("ibv_create_srq", condition, ibv_create_srq(r->pd, &a));
}

static void refuse_srq_ex(struct rig *r, const char *condition, uint32_t mask, enum ibv_srq_type type)
{
	struct ibv_srq_init_attr_ex a = {.attr = {.max_wr = 1, .max_sge = 1}, .comp_mask = mask, .pd = r->pd, .srq_type = type};
	watch(&a, sizeof a);
	NULL_OF("ibv_create_srq_ex", condition, ibv_create_srq_ex(r->ctx, &a));
}

void refuse_srqs(struct rig *r)
{
	struct ibv_srq_attr a = {.max_wr = 2 * DEPTH, .srq_limit = TOO_MANY}, now;
	refuse_srq(r, "no room", 0, 1);
	refuse_srq(r, "more requests than max_srq_wr", TOO_MANY, 1);
	refuse_srq(r, "more elements than max_srq_sge", 1, TOO_MANY);
	refuse_srq_ex(r, "an unknown bit of comp_mask", IBV_SRQ_INIT_ATTR_PD | 1u << 31, IBV_SRQT_BASIC);
	refuse_srq_ex(r, "no protection domain", IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQT_BASIC);
	refuse_srq_ex(r, "IBV_SRQT_TM", IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQT_TM);
	CODE_OF("ibv_modify_srq", "a limit of more requests than the new size", ibv_modify_srq(r->srq, &a, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT));
	a.max_wr = TOO_MANY;
	CODE_OF("ibv_modify_srq", "a size of more requests than max_srq_wr", ibv_modify_srq(r->srq, &a, IBV_SRQ_MAX_WR));
	a.max_wr = 0;
	CODE_OF("ibv_modify_srq", "a size of no requests", ibv_modify_srq(r->srq, &a, IBV_SRQ_MAX_WR));
	CODE_OF("ibv_modify_srq", "a limit of more requests than there is room for", ibv_modify_srq(r->srq, &a, IBV_SRQ_LIMIT));
	CODE_OF("ibv_modify_srq", "nothing is to change", ibv_modify_srq(r->srq, &a, 0));
	must(ibv_query_srq(r->srq, &now) == 0 && now.srq_limit == 0 && now.max_wr == DEPTH);
	CODE_OF("ibv_destroy_srq", "a queue pair uses it", ibv_destroy_srq(r->srq));
}

static void refuse_cq_ex(struct rig *r, const char *condition, struct ibv_cq_init_attr_ex a)
{
	watch(&a, sizeof a);
	NULL_OF("ibv_create_cq_ex", condition, ibv_create_cq_ex(r->ctx, &a));
}

// refuse_next polls the only completion of a queue, a flushed receive, and asks for the next one.
static void refuse_next(struct rig *r, struct ibv_cq_ex *q)
{
	struct ibv_cq *had = r->cq[0];
	struct ibv_poll_cq_attr p = {0};
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
	struct ibv_recv_wr *bad, wr = {.wr_id = 7};
	r->cq[0] = ibv_cq_ex_to_cq(q);
	struct ibv_qp *failed = fresh(r, IBV_QPT_RC);
	r->cq[0] = had;
	must(ibv_modify_qp(failed, &a, IBV_QP_STATE) == 0 && ibv_post_recv(failed, &wr, &bad) == 0);
	while (ibv_start_poll(q, &p) != 0) {
	}
	must(q->wr_id == 7);
	CODE_OF("ibv_next_poll", "no completion", ibv_next_poll(q));
	ibv_end_poll(q);
	must(ibv_destroy_qp(failed) == 0);
}

static void refuse_poll(struct rig *r)
{
	struct ibv_cq_init_attr_ex a = {.cqe = DEPTH};
	struct ibv_poll_cq_attr p = {.comp_mask = 1};
	struct ibv_cq_ex *q = ibv_create_cq_ex(r->ctx, &a);
	struct ibv_wc wc;
	must(q != NULL);
	CODE_OF("ibv_start_poll", "an unknown bit of comp_mask", ibv_start_poll(q, &p));
	p.comp_mask = 0;
	CODE_OF("ibv_start_poll", "no completion", ibv_start_poll(q, &p));
	poison(&wc, sizeof wc);
	NUMBER_OF("ibv_poll_cq", "no completion", ibv_poll_cq(ibv_cq_ex_to_cq(q), 1, &wc));
	NUMBER_OF("ibv_poll_cq", "room for -1 completions", ibv_poll_cq(ibv_cq_ex_to_cq(q), -1, &wc));
	refuse_next(r, q);
	must(ibv_destroy_cq(ibv_cq_ex_to_cq(q)) == 0);
}

static void refuse_moderation(struct ibv_cq *q)
{
	struct ibv_modify_cq_attr a = {.attr_mask = 0};
	CODE_OF("ibv_modify_cq", "no bit of attr_mask", ibv_modify_cq(q, &a));
	a.attr_mask = IBV_CQ_ATTR_MODERATE | 1u << 31;
	CODE_OF("ibv_modify_cq", "an unknown bit of attr_mask", ibv_modify_cq(q, &a));
	a = (struct ibv_modify_cq_attr){.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {1, 4096}};
	CODE_OF("ibv_modify_cq", "a period of more than max_cq_period", ibv_modify_cq(q, &a));
}

void refuse_cqs(struct rig *r)
{
	struct ibv_cq *q = r->cq[0];
	NULL_OF("ibv_create_cq", "no entries", ibv_create_cq(r->ctx, 0, NULL, NULL, 0));
	NULL_OF("ibv_create_cq", "-1 entries", ibv_create_cq(r->ctx, -1, NULL, NULL, 0));
	NULL_OF("ibv_create_cq", "more entries than max_cqe", ibv_create_cq(r->ctx, TOO_MANY, NULL, NULL, 0));
	NULL_OF("ibv_create_cq", "completion vector -1", ibv_create_cq(r->ctx, 1, NULL, NULL, -1));
	NULL_OF("ibv_create_cq", "a completion vector of num_comp_vectors", ibv_create_cq(r->ctx, 1, NULL, NULL, r->ctx->num_comp_vectors));
	refuse_cq_ex(r, "an unknown bit of comp_mask", (struct ibv_cq_init_attr_ex){.cqe = 1, .comp_mask = 1u << 31});
	refuse_cq_ex(r, "an unknown bit of wc_flags", (struct ibv_cq_init_attr_ex){.cqe = 1, .wc_flags = 1ULL << 63});
	refuse_cq_ex(r, "IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN",
		     (struct ibv_cq_init_attr_ex){.cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN});
	refuse_cq_ex(r, "no entries", (struct ibv_cq_init_attr_ex){.cqe = 0});
	refuse_cq_ex(r, "a completion vector of num_comp_vectors", (struct ibv_cq_init_attr_ex){.cqe = 1, .comp_vector = (uint32_t)r->ctx->num_comp_vectors});
	refuse_cq_ex(r, "IBV_WC_EX_WITH_FLOW_TAG", (struct ibv_cq_init_attr_ex){.cqe = 1, .wc_flags = IBV_WC_EX_WITH_FLOW_TAG});
	refuse_cq_ex(r, "IBV_WC_EX_WITH_CVLAN", (struct ibv_cq_init_attr_ex){.cqe = 1, .wc_flags = IBV_WC_EX_WITH_CVLAN});
	refuse_cq_ex(r, "IBV_WC_EX_WITH_TM_INFO", (struct ibv_cq_init_attr_ex){.cqe = 1, .wc_flags = IBV_WC_EX_WITH_TM_INFO});
	refuse_cq_ex(r, "a parent domain that is a protection domain",
		     (struct ibv_cq_init_attr_ex){.cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = r->pd});
	refuse_moderation(q);
	watch(&q->cqe, sizeof q->cqe);
	CODE_OF("ibv_resize_cq", "no entries", ibv_resize_cq(q, 0));
	CODE_OF("ibv_resize_cq", "-1 entries", ibv_resize_cq(q, -1));
	watch(&q->cqe, sizeof q->cqe);
	CODE_OF("ibv_resize_cq", "more entries than max_cqe", ibv_resize_cq(q, TOO_MANY));
	for (int i = 0; i < DEPTH / 2; i++) {
		receive(r, 0, 8);
		must(post(r, 1, IBV_WR_SEND, 8) == 0);
	}
	for (int i = 0; i < DEPTH / 2; i++)
		want(r->cq[1], IBV_WC_SUCCESS); // the sends are acknowledged, so the receives' completions are in q
	watch(&q->cqe, sizeof q->cqe);
	CODE_OF("ibv_resize_cq", "fewer entries than there are completions", ibv_resize_cq(q, 1));
	for (int i = 0; i < DEPTH / 2; i++)
		want(q, IBV_WC_SUCCESS);
	CODE_OF("ibv_destroy_cq", "a queue pair uses it", ibv_destroy_cq(q));
	refuse_poll(r);
}

void refuse_events(struct rig *r)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(r->ctx);
	struct ibv_async_event e;
	struct ibv_cq *q;
	void *context;
	must(ch != NULL && fcntl(ch->fd, F_SETFL, O_NONBLOCK) == 0 && fcntl(r->ctx->async_fd, F_SETFL, O_NONBLOCK) == 0);
	poison(&q, sizeof q);
	poison(&context, sizeof context);
	NUMBER_OF("ibv_get_cq_event", "no event, and the descriptor does not block", ibv_get_cq_event(ch, &q, &context));
	poison(&e, sizeof e);
	NUMBER_OF("ibv_get_async_event", "no event, and the descriptor does not block", ibv_get_async_event(r->ctx, &e));
	must(ibv_destroy_comp_channel(ch) == 0 && fcntl(r->ctx->async_fd, F_SETFL, 0) == 0);
	CODE_OF("ibv_destroy_comp_channel", "a completion queue uses it", ibv_destroy_comp_channel(r->channel));
	struct rlimit had, none;
	must(getrlimit(RLIMIT_NOFILE, &had) == 0);
	none = had, none.rlim_cur = 0;
	must(setrlimit(RLIMIT_NOFILE, &none) == 0);
	NULL_OF("ibv_create_comp_channel", "no descriptor is left", ibv_create_comp_channel(r->ctx));
	must(setrlimit(RLIMIT_NOFILE, &had) == 0);
}

// refuse_send posts a request that must be refused, followed by a valid one. bad_wr must
// name the refused request.
static void refuse_send(struct ibv_qp *q, const char *condition, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL, next = {0};
	wr->next = &next;
	CODE_OF("ibv_post_send", condition, ibv_post_send(q, wr, &bad));
	must(bad == wr);
}

static void refuse_sends_of(struct rig *r, struct ibv_qp *q)
{
	static struct ibv_sge s[64];
	uint64_t to = (uintptr_t)r->buf[1];
	uint32_t key = r->mr[1]->rkey;
	for (int i = 0; i < 64; i++)
		s[i] = (struct ibv_sge){(uintptr_t)r->buf[0], 1024, r->mr[0]->lkey};
	refuse_send(q, "more elements than max_send_sge", &(struct ibv_send_wr){.sg_list = s, .num_sge = 64, .opcode = IBV_WR_SEND});
	refuse_send(q, "-1 elements", &(struct ibv_send_wr){.sg_list = s, .num_sge = -1, .opcode = IBV_WR_SEND});
	refuse_send(q, "an undefined opcode", &(struct ibv_send_wr){.opcode = 77});
	refuse_send(q, "IBV_WR_LOCAL_INV with an element", &(struct ibv_send_wr){.opcode = IBV_WR_LOCAL_INV, .sg_list = s, .num_sge = 1});
	refuse_send(q, "IBV_WR_LOCAL_INV with IBV_SEND_INLINE", &(struct ibv_send_wr){.opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_INLINE});
	refuse_send(q, "IBV_WR_BIND_MW of a window of type 1",
		    &(struct ibv_send_wr){.opcode = IBV_WR_BIND_MW, .bind_mw.mw = &(struct ibv_mw){.type = IBV_MW_TYPE_1}});
	refuse_send(q, "IBV_WR_BIND_MW of bytes of no region",
		    &(struct ibv_send_wr){.opcode = IBV_WR_BIND_MW, .bind_mw = {.mw = &(struct ibv_mw){.type = IBV_MW_TYPE_2}, .bind_info.length = 1}});
	refuse_send(q, "IBV_WR_TSO", &(struct ibv_send_wr){.opcode = IBV_WR_TSO});
	refuse_send(q, "inline data of more than max_inline_data", &(struct ibv_send_wr){.sg_list = s, .num_sge = 1, .send_flags = IBV_SEND_INLINE});
	refuse_send(q, "IBV_WR_RDMA_READ with IBV_SEND_INLINE",
		    &(struct ibv_send_wr){.sg_list = s, .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_INLINE, .wr.rdma = {to, key}});
	s[0].length = UINT32_MAX;
	refuse_send(q, "more than 2^31 bytes", &(struct ibv_send_wr){.sg_list = s, .num_sge = 1, .opcode = IBV_WR_SEND});
	s[0].length = 4;
	refuse_send(q, "an atomic whose element has less than 8 bytes",
		    &(struct ibv_send_wr){.sg_list = s, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .wr.atomic = {to, 1, 1, key}});
}

// refuse_full fills a send queue. Its requests never complete, because no peer answers them.
static void refuse_full(struct rig *r)
{
	struct ibv_qp *q = fresh(r, IBV_QPT_RC), *silent = fresh(r, IBV_QPT_RC);
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_RDMA_WRITE, .wr.rdma = {(uintptr_t)r->buf[1], r->mr[1]->rkey}};
	struct rig slow = *r;
	slow.timeout = 0; // never
	connect_qp(&slow, q, silent);
	while (ibv_post_send(q, &wr, &bad) == 0) {
	}
	refuse_send(q, "the queue is full", &wr);
	must(ibv_destroy_qp(q) == 0 && ibv_destroy_qp(silent) == 0);
}

// overflow completes more requests than the completion queue has room for.
static void overflow(struct rig *r)
{
	struct ibv_cq *q = ibv_create_cq(r->ctx, 1, NULL, NULL, 0), *had = r->cq[0];
	must(q != NULL);
	r->cq[0] = q;
	struct ibv_qp *pair = fresh(r, IBV_QPT_RC);
	r->cq[0] = had;
	connect_qp(r, pair, pair);
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {(uintptr_t)r->buf[1], r->mr[1]->rkey},
	};
	for (int i = 0; i < q->cqe; i++)
		must(ibv_post_send(pair, &wr, &bad) == 0);
	event_of(r->ctx);
	CODE_OF("ibv_post_send", "one completion more than the completion queue has room for", ibv_post_send(pair, &wr, &bad));
	must(ibv_destroy_qp(pair) == 0 && ibv_destroy_cq(q) == 0);
}

static void refuse_receives(struct rig *r)
{
	struct ibv_sge s[64] = {{0}};
	struct ibv_recv_wr *bad = NULL, wr = {.sg_list = s, .num_sge = 64}, empty = {0};
	struct ibv_qp *q = fresh(r, IBV_QPT_RC);
	CODE_OF("ibv_post_recv", "a queue pair in RESET", ibv_post_recv(q, &empty, &bad));
	must(bad == &empty);
	to_init(q);
	CODE_OF("ibv_post_recv", "more elements than max_recv_sge", ibv_post_recv(q, &wr, &bad));
	must(bad == &wr);
	while (ibv_post_recv(q, &empty, &bad) == 0) {
	}
	CODE_OF("ibv_post_recv", "the queue is full", ibv_post_recv(q, &empty, &bad));
	must(ibv_destroy_qp(q) == 0);
	CODE_OF("ibv_post_recv", "a queue pair with an SRQ", ibv_post_recv(r->qp[1], &empty, &bad));
	CODE_OF("ibv_post_srq_recv", "more elements than max_sge", ibv_post_srq_recv(r->srq, &wr, &bad));
	must(bad == &wr);
	while (ibv_post_srq_recv(r->srq, &empty, &bad) == 0) {
	}
	CODE_OF("ibv_post_srq_recv", "the queue is full", ibv_post_srq_recv(r->srq, &empty, &bad));
	struct ibv_srq_attr small = {.max_wr = 1};
	CODE_OF("ibv_modify_srq", "a size of fewer requests than there are receives", ibv_modify_srq(r->srq, &small, IBV_SRQ_MAX_WR));
}

void refuse_posts(struct rig *r)
{
	struct ibv_qp *uc = fresh(r, IBV_QPT_UC), *ud = fresh(r, IBV_QPT_UD);
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	refuse_send(uc, "a queue pair in RESET", &wr);
	to_init(uc);
	refuse_send(uc, "a queue pair in INIT", &wr);
	to_rtr(r, uc, uc);
	refuse_send(uc, "a queue pair in RTR", &wr);
	to_rts(r, uc);
	refuse_send(uc, "IBV_WR_RDMA_READ of UC", &(struct ibv_send_wr){.opcode = IBV_WR_RDMA_READ});
	connect_qp(r, ud, ud);
	refuse_send(ud, "IBV_WR_RDMA_WRITE of UD", &(struct ibv_send_wr){.opcode = IBV_WR_RDMA_WRITE});
	refuse_sends_of(r, r->qp[0]);
	refuse_full(r);
	overflow(r);
	refuse_receives(r);
	must(ibv_destroy_qp(uc) == 0 && ibv_destroy_qp(ud) == 0);
}

// refuse_built builds one SEND on an extended queue pair. ibv_wr_complete must refuse it.
static void refuse_built(struct ibv_qp_ex *q, const char *condition, size_t elements, size_t inline_data)
{
	static struct ibv_sge s[64];
	static char data[4096];
	ibv_wr_start(q);
	ibv_wr_send(q);
	if (elements > 0)
		ibv_wr_set_sge_list(q, elements, s);
	if (inline_data > 0)
		ibv_wr_set_inline_data(q, data, inline_data);
	CODE_OF("ibv_wr_complete", condition, ibv_wr_complete(q));
}

void refuse_builders(struct rig *r)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = r->cq[0], .recv_cq = r->cq[0], .qp_type = IBV_QPT_RC, .cap = {2, 1, 1, 1, 16}, .pd = r->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *q = ibv_create_qp_ex(r->ctx, &a);
	must(q != NULL);
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(q);
	NULL_OF("ibv_qp_to_qp_ex", "a queue pair of ibv_create_qp", ibv_qp_to_qp_ex(r->qp[0]));
	refuse_built(x, "a queue pair in RESET", 1, 0);
	connect_qp(r, q, q);
	refuse_built(x, "more elements than max_send_sge", 64, 0);
	refuse_built(x, "inline data of more than max_inline_data", 0, 4096);
	ibv_wr_start(x);
	for (uint32_t i = 0; i <= a.cap.max_send_wr; i++)
		ibv_wr_send(x);
	CODE_OF("ibv_wr_complete", "more requests than the queue has room for", ibv_wr_complete(x));
	must(ibv_destroy_qp(q) == 0);
}

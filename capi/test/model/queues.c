// Completion channels, completion queues and shared receive queues without traffic.
#include "zoo.h"

static void new_channel(struct zoo_channel *c)
{
	*c = (struct zoo_channel){.adapter = (int)draw(ADAPTERS)};
	c->ch = MADE(ibv_create_comp_channel(me->ctx[c->adapter]));
	WANT("ibv_create_comp_channel", c->ch->context, me->ctx[c->adapter]);
	WANT("ibv_create_comp_channel", readable(c->ch->fd), false);
}

static void step_channel(void)
{
	struct zoo_channel *c = &me->zoo->channel[draw(CHANNELS)];
	if (c->ch == NULL) {
		new_channel(c);
		return;
	}
	WANT("a completion channel", c->ch->refcnt, c->users);
	if (c->users > 0) {
		REFUSES(ibv_destroy_comp_channel(c->ch), EBUSY);
		return;
	}
	WORKS(ibv_destroy_comp_channel(c->ch));
	c->ch = NULL;
}

static void want_cq(const char *call, const struct zoo_cq *q, int least)
{
	WANT(call, q->cq->context, me->ctx[q->adapter]);
	WANT(call, q->cq->channel, q->channel != NULL ? q->channel->ch : NULL);
	WANT(call, q->cq->cq_context, q);
	if (q->cq->cqe < least || q->cq->cqe > 4 * least + 64)
		fails(call, "cq->cqe is %d, %d requested", q->cq->cqe, least);
}

// no_cq tries to create an invalid completion queue.
static void no_cq(struct ibv_context *c)
{
	struct ibv_cq_init_attr_ex a = {.cqe = 4};
	switch (draw(6)) {
	case 0:
		REFUSES_NULL(ibv_create_cq(c, 0, NULL, NULL, 0), EINVAL);
		break;
	case 1:
		REFUSES_NULL(ibv_create_cq(c, me->dev.max_cqe + 1, NULL, NULL, 0), EINVAL);
		break;
	case 2:
		REFUSES_NULL(ibv_create_cq(c, 4, NULL, NULL, c->num_comp_vectors), EINVAL);
		break;
	case 3:
		a.wc_flags = IBV_WC_EX_WITH_CVLAN;
		REFUSES_NULL(ibv_create_cq_ex(c, &a), EOPNOTSUPP);
		break;
	case 4:
		a.cqe = 0;
		REFUSES_NULL(ibv_create_cq_ex(c, &a), EINVAL);
		break;
	case 5:
		a.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, a.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
		REFUSES_NULL(ibv_create_cq_ex(c, &a), EOPNOTSUPP);
		break;
	}
}

static void new_cq(struct zoo_cq *q)
{
	struct zoo_channel *ch = &me->zoo->channel[draw(CHANNELS)];
	int n = 1 + (int)draw(100);
	*q = (struct zoo_cq){.adapter = (int)draw(ADAPTERS), .channel = ch->ch != NULL ? ch : NULL};
	if (q->channel != NULL)
		q->adapter = ch->adapter;
	struct ibv_context *c = me->ctx[q->adapter];
	if (chance(20)) {
		no_cq(c);
		return;
	}
	struct ibv_comp_channel *on = q->channel != NULL ? ch->ch : NULL;
	if (chance(50)) {
		struct ibv_cq_init_attr_ex a = {
			.cqe = (uint32_t)n, .cq_context = q, .channel = on, .wc_flags = IBV_WC_STANDARD_FLAGS,
			.comp_mask = chance(50) ? IBV_CQ_INIT_ATTR_MASK_FLAGS : 0, .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
		};
		q->cq = ibv_cq_ex_to_cq(MADE(ibv_create_cq_ex(c, &a)));
	} else {
		q->cq = MADE(ibv_create_cq(c, n, q, on, 0));
	}
	want_cq("ibv_create_cq", q, n);
	if (q->channel != NULL)
		ch->users++;
}

static void resize(struct zoo_cq *q)
{
	int had = q->cq->cqe, n = 1 + (int)draw(300);
	switch (draw(4)) {
	case 0:
		REFUSES(ibv_resize_cq(q->cq, 0), EINVAL);
		break;
	case 1:
		REFUSES(ibv_resize_cq(q->cq, me->dev.max_cqe + 1), EINVAL);
		break;
	default:
		WORKS(ibv_resize_cq(q->cq, n));
		want_cq("ibv_resize_cq", q, n);
		return;
	}
	WANT("ibv_resize_cq", q->cq->cqe, had);
}

static void moderate(struct zoo_cq *q)
{
	struct ibv_modify_cq_attr a = {.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {(uint16_t)draw(4), (uint16_t)draw(4096)}};
	switch (draw(4)) {
	case 0:
		a.attr_mask = 0;
		REFUSES(ibv_modify_cq(q->cq, &a), EINVAL);
		break;
	case 1:
		a.moderate.cq_period = (uint16_t)(4096 + draw(1000));
		REFUSES(ibv_modify_cq(q->cq, &a), EINVAL);
		break;
	default:
		WORKS(ibv_modify_cq(q->cq, &a));
	}
}

static void drop_cq(struct zoo_cq *q)
{
	WORKS(ibv_destroy_cq(q->cq));
	if (q->channel != NULL)
		q->channel->users--;
	q->cq = NULL;
}

static void step_cq(void)
{
	struct zoo_cq *q = &me->zoo->cq[draw(CQS)];
	struct ibv_wc wc[2];
	if (q->cq == NULL) {
		new_cq(q);
		return;
	}
	switch (draw(5)) {
	case 0:
		resize(q);
		break;
	case 3:
		moderate(q);
		break;
	case 1:
		poison(wc, sizeof wc);
		WANT("ibv_poll_cq", ibv_poll_cq(q->cq, (int)draw(3), wc), 0);
		WANT("ibv_poll_cq of an empty queue", is_poison(wc, sizeof wc), true);
		break;
	case 2:
		WORKS(ibv_req_notify_cq(q->cq, (int)draw(2)));
		break;
	default:
		if (q->users > 0)
			REFUSES(ibv_destroy_cq(q->cq), EBUSY);
		else
			drop_cq(q);
	}
}

static void new_srq(struct zoo_srq *s)
{
	struct zoo_pd *p = some_pd();
	struct ibv_srq_init_attr a = {.srq_context = s, .attr = {1 + draw(40), draw(8), 3}};
	struct ibv_srq_init_attr_ex ax = {.srq_context = s, .attr = a.attr, .comp_mask = IBV_SRQ_INIT_ATTR_PD, .pd = p->pd};
	if (chance(20)) {
		a.attr.max_wr = 0;
		REFUSES_NULL(ibv_create_srq(p->pd, &a), EINVAL);
		a.attr.max_wr = 1, a.attr.max_sge = (uint32_t)me->dev.max_srq_sge + 1;
		REFUSES_NULL(ibv_create_srq(p->pd, &a), EINVAL);
		return;
	}
	struct ibv_srq_attr asked = a.attr;
	*s = (struct zoo_srq){.pd = p};
	if (chance(50)) {
		s->srq = MADE(ibv_create_srq_ex(p->pd->context, &ax));
		a.attr = ax.attr;
	} else {
		s->srq = MADE(ibv_create_srq(p->pd, &a));
	}
	WANT("ibv_create_srq", s->srq->context, p->pd->context);
	WANT("ibv_create_srq", s->srq->pd, p->pd);
	WANT("ibv_create_srq", s->srq->srq_context, s);
	if (a.attr.max_wr < asked.max_wr || a.attr.max_sge < asked.max_sge)
		fails("ibv_create_srq", "%u work requests of %u elements for %u of %u", a.attr.max_wr, a.attr.max_sge, asked.max_wr, asked.max_sge);
	s->want = (struct ibv_srq_attr){a.attr.max_wr, a.attr.max_sge, 0};
	hold(p);
}

static void query_srq(struct zoo_srq *s)
{
	struct ibv_srq_attr a;
	uint32_t number = 0;
	poison(&a, sizeof a);
	REFUSES(ibv_get_srq_num(s->srq, &number), EINVAL); // not a queue of XRC
	WORKS(ibv_query_srq(s->srq, &a));
	WANT("ibv_query_srq", a.max_wr, s->want.max_wr);
	WANT("ibv_query_srq", a.max_sge, s->want.max_sge);
	WANT("ibv_query_srq", a.srq_limit, s->want.srq_limit);
}

// resize_srq asks for a size, alone or together with a limit. The queue has the next power of two.
static void resize_srq(struct zoo_srq *s, uint32_t wr, uint32_t limit, bool both)
{
	struct ibv_srq_attr a = {.max_wr = wr, .max_sge = 77, .srq_limit = limit};
	int mask = IBV_SRQ_MAX_WR | (both ? IBV_SRQ_LIMIT : 0);
	uint32_t size = 1;
	while (size < wr)
		size *= 2;
	if (wr == 0 || size < s->posted || (both ? limit > wr : s->want.srq_limit > size)) {
		REFUSES(ibv_modify_srq(s->srq, &a, mask), EINVAL);
		return;
	}
	WORKS(ibv_modify_srq(s->srq, &a, mask));
	s->want.max_wr = size;
	if (both)
		s->want.srq_limit = limit;
}

static void modify_srq(struct zoo_srq *s)
{
	struct ibv_srq_attr a = {.max_wr = 5, .max_sge = 77, .srq_limit = draw(s->want.max_wr + 1)};
	switch (draw(4)) {
	case 0:
		a.srq_limit = s->want.max_wr + 1;
		REFUSES(ibv_modify_srq(s->srq, &a, IBV_SRQ_LIMIT), EINVAL);
		break;
	case 1:
		resize_srq(s, draw(80), draw(80), chance(50));
		break;
	default:
		WORKS(ibv_modify_srq(s->srq, &a, IBV_SRQ_LIMIT));
		s->want.srq_limit = a.srq_limit;
	}
}

// post_srq posts a list in which one request may be invalid.
static void post_srq(struct zoo_srq *s)
{
	enum { MOST = 8 };
	struct ibv_recv_wr wr[MOST], *bad = (void *)1;
	struct ibv_sge sge[40] = {{0}};
	unsigned n = 1 + draw(MOST), wrong = chance(30) ? draw(n) : n, room = s->want.max_wr - s->posted;
	for (unsigned i = 0; i < n; i++)
		wr[i] = (struct ibv_recv_wr){
			.wr_id = i, .next = i + 1 < n ? &wr[i + 1] : NULL, .sg_list = sge,
			.num_sge = (int)(i == wrong ? s->want.max_sge + 1 : draw(s->want.max_sge + 1)),
		};
	int code = room < n && room <= wrong ? ENOMEM : wrong < n ? EINVAL : 0;
	unsigned good = code == ENOMEM ? room : wrong;
	if (code == 0) {
		WORKS(ibv_post_srq_recv(s->srq, wr, &bad));
	} else {
		REFUSES(ibv_post_srq_recv(s->srq, wr, &bad), code);
		WANT("ibv_post_srq_recv", bad, &wr[good]);
	}
	s->posted += good;
}

static void step_srq(void)
{
	struct zoo_srq *s = &me->zoo->srq[draw(SRQS)];
	if (s->srq == NULL) {
		new_srq(s);
		return;
	}
	query_srq(s);
	switch (draw(4)) {
	case 0:
		modify_srq(s);
		query_srq(s);
		break;
	case 1:
	case 2:
		post_srq(s);
		break;
	default:
		if (s->users > 0) {
			REFUSES(ibv_destroy_srq(s->srq), EBUSY);
			return;
		}
		WORKS(ibv_destroy_srq(s->srq));
		release(s->pd);
		s->srq = NULL;
	}
}

void empty_queues(void)
{
	struct zoo *z = me->zoo;
	for (int i = 0; i < QPS; i++)
		if (z->qp[i].qp != NULL)
			drop_qp(&z->qp[i]);
	for (int i = 0; i < SRQS; i++)
		if (z->srq[i].srq != NULL)
			WORKS(ibv_destroy_srq(z->srq[i].srq));
	for (int i = 0; i < CQS; i++)
		if (z->cq[i].cq != NULL)
			drop_cq(&z->cq[i]);
	for (int i = 0; i < CHANNELS; i++)
		if (z->channel[i].ch != NULL)
			WORKS(ibv_destroy_comp_channel(z->channel[i].ch));
}

const struct step queue_steps[] = {
	{"channel", 3, step_channel}, {"cq", 6, step_cq}, {"srq", 6, step_srq}, {"qp", 20, step_qp}, {NULL, 0, NULL},
};

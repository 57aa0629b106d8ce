// Links that fail: requests that complete with errors, full queues, and requests that are
// outstanding when a queue pair moves to ERR or RESET. Afterwards the link is reconnected.
#define _GNU_SOURCE
#include "link.h"

#include <fcntl.h>

static void move_to(struct end *e, enum ibv_qp_state to)
{
	struct ibv_qp_attr a = {.qp_state = to};
	WORKS(ibv_modify_qp(e->qp, &a, IBV_QP_STATE));
}

// reset_link moves both ends to RESET, which discards their requests and completions, and
// reconnects them.
void reset_link(struct link *l)
{
	struct ibv_wc wc;
	for (int i = 0; i < (l->self ? 1 : 2); i++) {
		struct end *e = &l->end[i];
		move_to(e, IBV_QPS_RESET);
		WANT("ibv_poll_cq after RESET", ibv_poll_cq(e->send_cq, 1, &wc), 0);
		WANT("ibv_poll_cq after RESET", ibv_poll_cq(e->recv_cq, 1, &wc), 0);
		if (e->ah != NULL)
			WORKS(ibv_destroy_ah(e->ah));
		memcpy(e->shadow, e->buf, BUF);
	}
	forget_lines(l);
	connect_link(l);
}

// want_state checks the state of a queue pair that may have moved by itself. qp->state
// follows only when the program queries the state.
static void want_state(struct end *e, enum ibv_qp_state known, enum ibv_qp_state is)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	WANT("the state of a queue pair", e->qp->state, known);
	WORKS(ibv_query_qp(e->qp, &a, IBV_QP_PORT, &init));
	WANT("qp->state after a query of the port", e->qp->state, known);
	WORKS(ibv_query_qp(e->qp, &a, IBV_QP_STATE, &init));
	WANT("ibv_query_qp", a.qp_state, is);
	WANT("qp->state after a query of the state", e->qp->state, is);
}

static void expect_flush(struct end *e, struct line *l, uint64_t wr_id)
{
	struct expected *x = expect(l, wr_id, IBV_WC_SEND);
	x->failed = true;
	x->wc.status = IBV_WC_WR_FLUSH_ERR;
	x->wc.qp_num = e->qp->qp_num;
}

// post_too_many posts more receives than the queue holds.
static void post_too_many(struct end *e)
{
	struct ibv_recv_wr wr[4 * DEPTH] = {0}, *bad = NULL;
	unsigned room = e->cap.max_recv_wr, n = room + 1 + draw(2);
	if (n > 4 * DEPTH)
		return;
	for (unsigned i = 0; i < n; i++)
		wr[i] = (struct ibv_recv_wr){.wr_id = draw64(), .next = i + 1 < n ? &wr[i + 1] : NULL};
	for (unsigned i = 0; i < room; i++)
		expect_flush(e, &e->recv, wr[i].wr_id);
	unsigned wrong = draw(room), spoilt = chance(50);
	if (spoilt) { // an error before the queue is full
		wr[wrong].num_sge = (int)e->cap.max_recv_sge + 1;
		REFUSES(ibv_post_recv(e->qp, wr, &bad), EINVAL);
		WANT("ibv_post_recv", bad, &wr[wrong]);
		wr[wrong].num_sge = 0;
	}
	struct ibv_recv_wr *rest = spoilt ? &wr[wrong] : wr;
	REFUSES(ibv_post_recv(e->qp, rest, &bad), ENOMEM);
	WANT("ibv_post_recv", bad, &wr[room]);
}

// Outstanding requests are flushed in order, signaled or not. So are requests that are
// posted in ERR.
static void step_flush(void)
{
	struct link *l = some_link();
	struct end *e = &l->end[l->self ? 0 : draw(2)];
	struct request r[BATCH];
	unsigned n = 1 + draw(BATCH), bad;
	move_to(e, IBV_QPS_SQD);
	for (unsigned i = 0; i < n; i++) {
		draw_request(l, e, &r[i], i);
		expect_flush(e, &e->send, r[i].wr_id);
	}
	WANT("posting in SQD", (e->qpx != NULL ? post_new : post_old)(l, e, r, n, &bad), 0);
	if (e->srq == NULL)
		post_too_many(e);
	move_to(e, IBV_QPS_ERR);
	if (chance(50)) {
		draw_request(l, e, &r[0], 0);
		expect_flush(e, &e->send, r[0].wr_id);
		WANT("posting in ERR", post_old(l, e, r, 1, &bad), 0);
	}
	drain(l);
	want_state(e, IBV_QPS_ERR, IBV_QPS_ERR);
	reset_link(l);
}

// A request fails: the requests before it succeed, the requests after it are flushed.
static void step_fail(void)
{
	struct link *l = some_link();
	struct end *e = &l->end[l->self ? 0 : draw(2)], *to = peer_of(l, e);
	struct request r[BATCH];
	unsigned n = 1 + draw(BATCH), wrong = draw(n), bad;
	enum ibv_wc_status status = IBV_WC_REM_ACCESS_ERR;
	if (l->type != IBV_QPT_RC)
		return;
	for (unsigned i = 0; i < n; i++) {
		draw_request(l, e, &r[i], i);
		r[i].op = IBV_WR_RDMA_WRITE;
		for (int k = 0; k < r[i].num_sge; k++)
			r[i].sge[k].lkey = r[i].flags & IBV_SEND_INLINE ? 0 : e->mr->lkey;
	}
	r[wrong].num_sge = 1, r[wrong].flags = 0;
	r[wrong].sge[0] = (struct ibv_sge){(uintptr_t)e->buf, 8, e->mr->lkey};
	r[wrong].length = 8;
	switch (l->self ? 2 : draw(5)) { // a QP that is its own peer would flush a request that it refuses
	case 0:
		r[wrong].rkey ^= 0x100;
		break;
	case 1:
		r[wrong].remote = (uintptr_t)to->buf + BUF - 7;
		break;
	case 2:
		r[wrong].sge[0].lkey ^= 0x100, status = IBV_WC_LOC_PROT_ERR;
		break;
	case 3:
		r[wrong].op = IBV_WR_ATOMIC_FETCH_AND_ADD, r[wrong].remote = (uintptr_t)to->buf + 1, status = IBV_WC_REM_INV_REQ_ERR;
		break;
	case 4:
		r[wrong].op = IBV_WR_ATOMIC_WRITE, r[wrong].remote = (uintptr_t)to->buf + 4, status = IBV_WC_REM_INV_REQ_ERR;
	}
	for (unsigned i = 0; i < wrong; i++)
		foresee(l, e, &r[i], NULL);
	for (unsigned i = wrong; i < n; i++)
		expect_flush(e, &e->send, r[i].wr_id);
	e->send.e[e->send.tail - (n - wrong)].wc.status = status;
	WANT("posting a list", (e->qpx != NULL ? post_new : post_old)(l, e, r, n, &bad), 0);
	drain(l);
	want_state(e, IBV_QPS_RTS, IBV_QPS_ERR);
	reset_link(l);
}

// A list of more requests than the send queue holds: ibv_post_send refuses the first one
// that does not fit, the extended calls refuse the whole list.
static void step_full(void)
{
	enum { MOST_REQUESTS = 2 * DEPTH };
	struct link *l = some_link();
	struct end *e = &l->end[l->self ? 0 : draw(2)];
	struct request *r = MADE(calloc(MOST_REQUESTS, sizeof *r));
	unsigned room = e->cap.max_send_wr, n = room + 1, taken = room, bad;
	bool extended = e->qpx != NULL && chance(50);
	if (l->type == IBV_QPT_RC && n <= MOST_REQUESTS) {
		for (unsigned i = 0; i < n; i++) {
			draw_request(l, e, &r[i], 0);
			r[i].op = IBV_WR_RDMA_WRITE;
		}
		r[room - 1].flags |= IBV_SEND_SIGNALED;
		taken = extended ? 0 : room;
		for (unsigned i = 0; i < taken; i++)
			foresee(l, e, &r[i], NULL);
		WANT("posting more than there is room for", (extended ? post_new : post_old)(l, e, r, n, &bad), ENOMEM);
		WANT("posting more than there is room for: errno", errno, ENOMEM);
		WANT("posting more than there is room for: the first that is refused", bad, taken);
		drain(l);
	}
	free(r);
}

// send_one sends a message with the given flags, and waits until it is received.
static void send_one(struct link *l, struct end *e, int flags)
{
	struct end *to = peer_of(l, e);
	uint32_t room = l->type == IBV_QPT_UD ? GRH : 0;
	struct ibv_sge sge = {(uintptr_t)to->buf + RECEIVED, GRH, to->mr->lkey};
	struct ibv_recv_wr *bad_recv, rwr = {.wr_id = draw64(), .sg_list = &sge, .num_sge = 1};
	struct request r = {.op = IBV_WR_SEND, .wr_id = draw64(), .flags = flags | IBV_SEND_SIGNALED};
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	unsigned bad;
	WORKS(to->srq != NULL ? ibv_post_srq_recv(to->srq, &rwr, &bad_recv) : ibv_post_recv(to->qp, &rwr, &bad_recv));
	foresee(l, e, &r, &rwr);
	WANT("posting a message", post_old(l, e, &r, 1, &bad), 0);
	drain(l);
	memcpy(to->shadow + RECEIVED, to->buf + RECEIVED, room);
	// The event is raised after the completion. A call into the adapter returns after both.
	WORKS(ibv_query_qp(to->qp, &a, IBV_QP_PORT, &init));
}

static unsigned take_all(struct end *e)
{
	struct ibv_cq *cq;
	void *context;
	unsigned n = 0;
	for (; ibv_get_cq_event(e->channel, &cq, &context) == 0; n++)
		ibv_ack_cq_events(cq, 1);
	WANT("ibv_get_cq_event", errno, EAGAIN);
	return n;
}

// A queue that is armed for solicited completions raises events only for these.
static void step_solicited(void)
{
	struct link *l = some_link();
	struct end *e = &l->end[l->self ? 0 : draw(2)], *to = peer_of(l, e);
	struct ibv_comp_channel *had[2] = {e->channel, to->channel};
	if (to->channel == NULL)
		return;
	fcntl(to->channel->fd, F_SETFL, O_NONBLOCK);
	e->channel = to->channel = NULL; // send_one must arm no queue
	WORKS(ibv_req_notify_cq(to->recv_cq, 0)); // clears an earlier notification request
	send_one(l, e, 0);
	e->channel = had[0], to->channel = had[1];
	if (take_all(to) == 0)
		fails("ibv_get_cq_event", "no event of an armed queue that has a completion");
	e->channel = to->channel = NULL;
	WORKS(ibv_req_notify_cq(to->recv_cq, 1));
	send_one(l, e, 0);
	WANT("an event of a completion that was not solicited", readable(had[1]->fd), false);
	send_one(l, e, IBV_SEND_SOLICITED);
	WANT("an event of a solicited completion", readable(had[1]->fd), true);
	send_one(l, e, IBV_SEND_SOLICITED);
	e->channel = had[0], to->channel = had[1];
	WANT("events of solicited completions", take_all(to), 1);
	fcntl(to->channel->fd, F_SETFL, 0);
}

const struct step break_steps[] = {{"flush", 4, step_flush}, {"fail", 4, step_fail}, {"full", 2, step_full}, {"solicited", 3, step_solicited}, {NULL, 0, NULL}};

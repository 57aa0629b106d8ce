// Bugs with completion events, asynchronous events and completion queues.
#include "bugs.h"

// How long a thread lets a call wait that a bug blocks: more than the checker does, 1 s.
enum { BLOCKED_MS = 4500 };

// event_of reads the next completion event of a rig.
static struct ibv_cq *event_of(struct rig *r)
{
	struct ibv_cq *q;
	void *context;
	must(ibv_get_cq_event(r->channel, &q, &context) == 0);
	return q;
}

static void *acknowledge_late(void *cq)
{
	wait_ms(BLOCKED_MS);
	ibv_ack_cq_events(cq, 1);
	return NULL;
}

static void events_not_acknowledged(bool bug)
{
	struct rig r = {0};
	pthread_t late;
	rig_open(&r, IBV_QPT_RC);
	must(ibv_req_notify_cq(r.cq[0], 0) == 0 && post(&r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
	struct ibv_cq *q = event_of(&r);
	want(q, IBV_WC_SUCCESS);
	if (bug)
		must(pthread_create(&late, NULL, acknowledge_late, q) == 0);
	else
		ibv_ack_cq_events(q, 1);
	rig_close(&r); // FOUND
	if (bug)
		must(pthread_join(late, NULL) == 0);
}

static void *acknowledge_async_late(void *e)
{
	wait_ms(BLOCKED_MS);
	ibv_ack_async_event(e);
	return NULL;
}

// close_after closes a rig, which a thread acknowledges an event of while it waits, if there is a bug.
static void close_after(struct rig *r, struct ibv_async_event *e, bool bug)
{
	pthread_t late;
	if (bug)
		must(pthread_create(&late, NULL, acknowledge_async_late, e) == 0);
	else
		ibv_ack_async_event(e);
	rig_close(r); // FOUND
	if (bug)
		must(pthread_join(late, NULL) == 0);
}

// drain moves a queue pair to SQD, and asks for the event.
static void drain(struct ibv_qp *q)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	must(ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0);
}

static void async_events_not_acknowledged(bool bug)
{
	struct rig r = {0};
	struct ibv_async_event e;
	rig_open(&r, IBV_QPT_RC);
	drain(r.qp[0]);
	must(ibv_get_async_event(r.ctx, &e) == 0 && e.event_type == IBV_EVENT_SQ_DRAINED);
	close_after(&r, &e, bug);
}

// run_low makes an SRQ raise the event that it has fewer receives than its limit.
static void run_low(struct rig *r)
{
	struct ibv_srq_attr a = {.srq_limit = 1};
	receive(r, 1, 64);
	must(ibv_modify_srq(r->srq, &a, IBV_SRQ_LIMIT) == 0 && post(r, 0, IBV_WR_SEND, 64) == 0);
	want(r->cq[0], IBV_WC_SUCCESS);
	want(r->cq[1], IBV_WC_SUCCESS);
}

static void srq_events_not_acknowledged(bool bug)
{
	struct rig r = {.shared = true};
	struct ibv_async_event e;
	rig_open(&r, IBV_QPT_RC);
	run_low(&r);
	must(ibv_get_async_event(r.ctx, &e) == 0 && e.event_type == IBV_EVENT_SRQ_LIMIT_REACHED);
	close_after(&r, &e, bug);
}

// The second event makes the sum of both acknowledgements right again, so that the queue can be destroyed.
static void acknowledged_twice(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	for (int i = 0; i < 2; i++) {
		must(ibv_req_notify_cq(r.cq[0], 0) == 0 && post(&r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
		struct ibv_cq *q = event_of(&r);
		want(q, IBV_WC_SUCCESS);
		if (!bug || i == 0)
			ibv_ack_cq_events(q, bug ? 2 : 1); // FOUND
	}
	rig_close(&r);
}

// The program acknowledges completions, not events: one event may be for many completions.
static void completions_acknowledged(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	for (int i = 0; i < 2; i++)
		must(post(&r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
	unsigned acknowledged = 0, events = 0;
	for (int completions = 0; completions < 2; events++) {
		struct ibv_wc wc;
		must(ibv_req_notify_cq(r.cq[0], 0) == 0);
		must(event_of(&r) == r.cq[0]);
		while (completions < 2 && ibv_poll_cq(r.cq[0], 1, &wc) > 0)
			completions++;
	}
	ibv_ack_cq_events(r.cq[0], bug ? 2 * events : events); // FOUND
	for (acknowledged = bug ? 2 * events : events; events < acknowledged; events++) { // as many events as were acknowledged
		must(ibv_req_notify_cq(r.cq[0], 0) == 0 && post(&r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
		must(event_of(&r) == r.cq[0]);
		want(r.cq[0], IBV_WC_SUCCESS);
	}
	rig_close(&r);
}

static void async_acknowledged_twice(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	for (int i = 0; i < 2; i++) {
		struct ibv_async_event e;
		drain(r.qp[0]);
		must(ibv_get_async_event(r.ctx, &e) == 0 && e.event_type == IBV_EVENT_SQ_DRAINED);
		if (!bug || i == 0)
			ibv_ack_async_event(&e);
		if (bug && i == 0)
			ibv_ack_async_event(&e); // FOUND
		move_to(r.qp[0], IBV_QPS_RTS);
	}
	rig_close(&r);
}

static void srq_event_acknowledged_twice(bool bug)
{
	struct rig r = {.shared = true};
	rig_open(&r, IBV_QPT_RC);
	for (int i = 0; i < 2; i++) {
		struct ibv_async_event e;
		run_low(&r);
		must(ibv_get_async_event(r.ctx, &e) == 0 && e.event_type == IBV_EVENT_SRQ_LIMIT_REACHED);
		if (!bug || i == 0)
			ibv_ack_async_event(&e);
		if (bug && i == 0)
			ibv_ack_async_event(&e); // FOUND
	}
	rig_close(&r);
}

static void *post_late(void *rig)
{
	wait_ms(BLOCKED_MS);
	must(post(rig, 0, IBV_WR_RDMA_WRITE, 8) == 0);
	return NULL;
}

// sleep_again reads an event of side 0, polls or not, and waits for the next event, which a thread causes.
static void sleep_again(struct rig *r, bool polls)
{
	struct ibv_cq *q = r->cq[0];
	struct ibv_wc wc;
	void *context;
	pthread_t late;
	int polled = 0;
	must(ibv_req_notify_cq(q, 0) == 0 && post(r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
	must(ibv_get_cq_event(q->channel, &q, &context) == 0);
	ibv_ack_cq_events(q, 1);
	must(ibv_req_notify_cq(q, 0) == 0);
	while (polls && ibv_poll_cq(q, 1, &wc) > 0)
		polled++;
	must(pthread_create(&late, NULL, post_late, r) == 0);
	must(ibv_get_cq_event(q->channel, &q, &context) == 0); // FOUND
	ibv_ack_cq_events(q, 1);
	must(pthread_join(late, NULL) == 0);
	for (; polled < 2; polled++)
		want(q, IBV_WC_SUCCESS);
}

static void waits_without_polling(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_comp_channel *own = ibv_create_comp_channel(r.ctx);
	must(own != NULL);
	use_queue(&r, 0, ibv_create_cq(r.ctx, DEPTH, NULL, own, 0));
	sleep_again(&r, !bug);
	use_queue(&r, 0, ibv_create_cq(r.ctx, DEPTH, NULL, r.channel, 0));
	must(ibv_destroy_comp_channel(own) == 0);
	rig_close(&r);
}

// The channel has another queue, which is empty. It is not armed, so it cannot wake the thread either.
static void completions_of_shared_channel(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	sleep_again(&r, !bug);
	rig_close(&r);
}

// poll_until_destroyed acknowledges an event that destroying the queue waits for, when it polls no more.
static void *poll_until_destroyed(void *cq)
{
	struct ibv_wc wc;
	while (ibv_poll_cq(cq, 1, &wc) >= 0)
		;
	ibv_ack_cq_events(cq, 1);
	return NULL;
}

static void polled_while_destroyed(bool bug)
{
	struct rig r = {0};
	pthread_t poller;
	rig_open(&r, IBV_QPT_RC);
	must(ibv_req_notify_cq(r.cq[0], 0) == 0 && post(&r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
	struct ibv_cq *q = event_of(&r);
	want(q, IBV_WC_SUCCESS);
	if (bug)
		must(pthread_create(&poller, NULL, poll_until_destroyed, q) == 0);
	else
		ibv_ack_cq_events(q, 1);
	rig_close(&r); // FOUND
	if (bug)
		must(pthread_join(poller, NULL) == 0);
}

static void cq_overrun(bool bug)
{
	struct rig r = {.cqe = 3};
	struct ibv_async_event e;
	rig_open(&r, IBV_QPT_RC); // FOUND
	for (int i = 0; i <= r.cq[0]->cqe; i++) {
		must(post(&r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
		if (!bug)
			want(r.cq[0], IBV_WC_SUCCESS);
	}
	for (bool overran = !bug; !overran; ibv_ack_async_event(&e)) {
		must(ibv_get_async_event(r.ctx, &e) == 0);
		overran = e.event_type == IBV_EVENT_CQ_ERR;
	}
	rig_close(&r); // FOUND
}

// The receives complete in a queue with too few entries for all.
static void cq_overrun_by_receives(bool bug)
{
	struct rig r = {0};
	struct ibv_async_event e;
	rig_open(&r, IBV_QPT_RC);
	struct ibv_cq *q = ibv_create_cq(r.ctx, bug ? 2 : 16, NULL, NULL, 0); // FOUND
	use_queue(&r, 1, q);
	int n = bug ? q->cqe + 1 : 3;
	for (int i = 0; i < n; i++) {
		receive_element(&r, (struct ibv_sge){(uintptr_t)r.buf[1] + 64 * (unsigned)i, 64, r.mr[1]->lkey});
		must(post(&r, 0, IBV_WR_SEND, 64) == 0);
	}
	for (bool overran = !bug; !overran; ibv_ack_async_event(&e)) {
		must(ibv_get_async_event(r.ctx, &e) == 0);
		overran = e.event_type == IBV_EVENT_CQ_ERR;
	}
	for (int i = 0; !bug && i < n; i++)
		want(q, IBV_WC_SUCCESS);
	rig_close(&r);
}

const struct bug event_bugs[] = {
	{"events-not-acknowledged", "events-not-acknowledged", events_not_acknowledged},
	{"async-events-not-acknowledged", "async-events-not-acknowledged", async_events_not_acknowledged},
	{"srq-events-not-acknowledged", "async-events-not-acknowledged", srq_events_not_acknowledged},
	{"acknowledged-twice", "acknowledged-twice", acknowledged_twice},
	{"completions-acknowledged", "acknowledged-twice", completions_acknowledged},
	{"async-acknowledged-twice", "async-acknowledged-twice", async_acknowledged_twice},
	{"srq-event-acknowledged-twice", "async-acknowledged-twice", srq_event_acknowledged_twice},
	{"waits-without-polling", "waits-without-polling", waits_without_polling},
	{"completions-of-shared-channel", "waits-without-polling", completions_of_shared_channel},
	{"polled-while-destroyed", "polled-while-destroyed", polled_while_destroyed},
	{"cq-overrun", "cq-overrun", cq_overrun},
	{"cq-overrun-by-receives", "cq-overrun", cq_overrun_by_receives},
	{NULL, NULL, NULL},
};

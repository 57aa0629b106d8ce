// What is legal, but rarely wanted.
#include "bugs.h"

// patient opens a rig whose queue pairs give up if the peer posts no receives.
static void patient(struct rig *r)
{
	r->timeout = 14, r->retry = 7, r->rnr_retry = 6;
	rig_open(r, IBV_QPT_RC);
}

// receive_two posts two receives of side 1 at a distance, and sends two messages to them.
static void receive_two(struct rig *r, uint32_t distance)
{
	struct ibv_sge s = element(r, 1, 64);
	receive_element(r, s);
	s.addr += distance;
	receive_element(r, s); // FOUND
	for (int i = 0; i < 2; i++)
		must(post(r, 0, IBV_WR_SEND, 64) == 0);
	for (int i = 0; i < 2; i++) {
		want(r->cq[0], IBV_WC_SUCCESS);
		want(r->cq[1], IBV_WC_SUCCESS);
	}
	rig_close(r);
}

static void receives_overlap(bool bug)
{
	struct rig r = {0};
	patient(&r);
	receive_two(&r, bug ? 0 : 64);
}

static void srq_receives_overlap(bool bug)
{
	struct rig r = {.shared = true};
	patient(&r);
	receive_two(&r, bug ? 63 : 64);
}

// result_two posts two READs or atomics with results at a distance.
static void result_two(enum ibv_wr_opcode op, uint32_t distance)
{
	struct rig r = {0};
	patient(&r);
	struct ibv_sge s = element(&r, 0, 8);
	must(post_element(&r, op, s) == 0);
	s.addr += distance;
	must(post_element(&r, op, s) == 0); // FOUND
	want(r.cq[0], IBV_WC_SUCCESS);
	want(r.cq[0], IBV_WC_SUCCESS);
	rig_close(&r);
}

static void reads_overlap(bool bug) { result_two(IBV_WR_RDMA_READ, bug ? 4 : 8); }
static void atomics_overlap(bool bug) { result_two(IBV_WR_ATOMIC_FETCH_AND_ADD, bug ? 0 : 8); }

// The destination of a READ is free again when its completion was polled.
static void reads_in_flight_overlap(bool bug)
{
	struct rig r = {0};
	patient(&r);
	must(post(&r, 0, IBV_WR_RDMA_READ, 64) == 0);
	if (!bug)
		want(r.cq[0], IBV_WC_SUCCESS);
	must(post(&r, 0, IBV_WR_RDMA_READ, 64) == 0); // FOUND
	want(r.cq[0], IBV_WC_SUCCESS);
	if (bug)
		want(r.cq[0], IBV_WC_SUCCESS);
	rig_close(&r);
}

// A peer without receives fails a request.
static void posted_after_error(bool bug)
{
	struct rig r = {.timeout = 14, .retry = 7, .rnr_retry = 1};
	rig_open(&r, IBV_QPT_RC);
	must(post(&r, 0, IBV_WR_SEND, 64) == 0);
	want(r.cq[0], IBV_WC_RNR_RETRY_EXC_ERR);
	if (!bug)
		connect_anew(&r);
	must(post(&r, 0, IBV_WR_RDMA_WRITE, 64) == 0); // FOUND
	ends(r.cq[0], !bug);
	rig_close(&r);
}

// As many receives are posted as the completion queue has entries, or one more. A receive before needs no entry
// any more.
static void cq_too_small(bool bug)
{
	struct rig r = {0};
	patient(&r);
	struct ibv_cq *q = ibv_create_cq(r.ctx, 3, NULL, NULL, 0);
	use_queue(&r, 1, q);
	receive(&r, 1, 64);
	must(post(&r, 0, IBV_WR_SEND, 64) == 0);
	want(r.cq[0], IBV_WC_SUCCESS);
	want(q, IBV_WC_SUCCESS);
	for (int i = 0; i < q->cqe + bug; i++)
		receive_element(&r, (struct ibv_sge){(uintptr_t)r.buf[1] + 64 * (unsigned)i, 64, r.mr[1]->lkey}); // FOUND
	rig_close(&r);
}

static void reads_one_at_a_time(bool bug)
{
	struct rig r = {.reads = 1};
	patient(&r);
	struct ibv_sge list[2] = {element(&r, 0, 8), element(&r, 0, 8)};
	struct ibv_send_wr *bad, wr[2] = {
		{.sg_list = &list[0], .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED, .next = &wr[1]},
		{.sg_list = &list[1], .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED},
	};
	list[1].addr += 8;
	for (int i = 0; i < 2; i++)
		wr[i].wr.rdma.remote_addr = (uintptr_t)r.buf[1], wr[i].wr.rdma.rkey = r.mr[1]->rkey;
	if (!bug) {
		wr[0].next = NULL;
		must(ibv_post_send(r.qp[0], &wr[0], &bad) == 0);
		want(r.cq[0], IBV_WC_SUCCESS);
	}
	must(ibv_post_send(r.qp[0], bug ? wr : &wr[1], &bad) == 0); // FOUND
	for (int i = 0; i <= bug; i++)
		want(r.cq[0], IBV_WC_SUCCESS);
	rig_close(&r);
}

static void objects_left_at_exit(bool bug)
{
	struct ibv_context *c = open_first();
	struct ibv_pd *pd = ibv_alloc_pd(c); // FOUND
	must(pd != NULL);
	if (!bug)
		must(ibv_dealloc_pd(pd) == 0 && ibv_close_device(c) == 0);
}

static void completions_never_polled(bool bug)
{
	struct rig r = {0};
	patient(&r);
	struct ibv_cq *q = ibv_create_cq(r.ctx, 16, NULL, r.channel, 0);
	use_queue(&r, 0, q); // FOUND
	must(post(&r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
	await_completion(&r, q);
	if (!bug)
		want(q, IBV_WC_SUCCESS);
	rig_close(&r);
}

// The program does not read a message that has come.
static void message_never_read(bool bug)
{
	struct rig r = {0};
	patient(&r);
	struct ibv_cq *q = ibv_create_cq(r.ctx, 16, NULL, NULL, 0);
	use_queue(&r, 1, q); // FOUND
	receive(&r, 1, 64);
	must(post(&r, 0, IBV_WR_SEND, 64) == 0);
	want(r.cq[0], IBV_WC_SUCCESS);
	if (!bug)
		want(q, IBV_WC_SUCCESS);
	rig_close(&r);
}

static void armed_without_channel(bool bug)
{
	struct ibv_context *c = open_first();
	struct ibv_comp_channel *ch = ibv_create_comp_channel(c);
	struct ibv_cq *q = ibv_create_cq(c, 16, NULL, bug ? NULL : ch, 0);
	must(q != NULL && ibv_req_notify_cq(q, 0) == 0); // FOUND
	must(ibv_destroy_cq(q) == 0 && ibv_destroy_comp_channel(ch) == 0 && ibv_close_device(c) == 0);
}

// The settings of queue pairs. Those of a rig that are advised against themselves are not what the cases are
// about, so each case has a queue pair of its own.

// fresh returns a queue pair in INIT.
static struct ibv_qp *fresh(struct rig *r)
{
	patient(r);
	struct ibv_qp *q = make_qp(r, IBV_QPT_RC, 0);
	to_init(q);
	return q;
}

// receiving returns the attributes of a move to RTR, with the right settings.
static struct ibv_qp_attr receiving(struct rig *r)
{
	struct ibv_port_attr p;
	must(ibv_query_port(r->ctx, 1, &p) == 0);
	return (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = p.active_mtu, .dest_qp_num = r->qp[1]->qp_num, .max_dest_rd_atomic = 4, .min_rnr_timer = 12,
		.ah_attr = to_self(r->ctx),
	};
}

enum {
	TO_RTR = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
};

static void drop(struct rig *r, struct ibv_qp *q)
{
	must(ibv_destroy_qp(q) == 0);
	rig_close(r);
}

static void timeout_forever(bool bug)
{
	struct rig r = {0};
	struct ibv_qp *q = fresh(&r);
	to_rtr(&r, q, r.qp[1]);
	r.timeout = bug ? 0 : 14;
	to_rts(&r, q); // FOUND
	drop(&r, q);
}

static void rnr_retry_forever(bool bug)
{
	struct rig r = {0};
	struct ibv_qp *q = fresh(&r);
	to_rtr(&r, q, r.qp[1]);
	r.rnr_retry = bug ? 7 : 6;
	to_rts(&r, q); // FOUND
	drop(&r, q);
}

static void rnr_timer_longest(bool bug)
{
	struct rig r = {0};
	struct ibv_qp *q = fresh(&r);
	struct ibv_qp_attr a = receiving(&r);
	a.min_rnr_timer = bug ? 0 : 31;
	must(ibv_modify_qp(q, &a, TO_RTR) == 0); // FOUND
	drop(&r, q);
}

static void path_mtu_below_port(bool bug)
{
	struct rig r = {0};
	struct ibv_qp *q = fresh(&r);
	struct ibv_qp_attr a = receiving(&r);
	if (bug)
		a.path_mtu = IBV_MTU_512;
	must(ibv_modify_qp(q, &a, TO_RTR) == 0); // FOUND
	drop(&r, q);
}

// The right program sets the alternate path first, and loads it later.
static void path_not_loaded(bool bug)
{
	struct rig r = {0};
	struct ibv_qp *q = fresh(&r);
	struct ibv_qp_attr a = receiving(&r);
	a.alt_ah_attr = to_self(r.ctx), a.alt_port_num = 1, a.alt_timeout = 14;
	must(ibv_modify_qp(q, &a, TO_RTR | IBV_QP_ALT_PATH) == 0); // FOUND
	to_rts(&r, q);
	a.path_mig_state = IBV_MIG_REARM;
	if (!bug)
		must(ibv_modify_qp(q, &a, IBV_QP_PATH_MIG_STATE) == 0);
	drop(&r, q);
}

static void path_loaded_at_once(bool bug)
{
	struct rig r = {0};
	struct ibv_qp *q = fresh(&r);
	struct ibv_qp_attr a = receiving(&r);
	a.alt_ah_attr = to_self(r.ctx), a.alt_port_num = 1, a.alt_timeout = 14, a.path_mig_state = IBV_MIG_REARM;
	must(ibv_modify_qp(q, &a, TO_RTR) == 0);
	to_rts(&r, q);
	must(ibv_modify_qp(q, &a, IBV_QP_ALT_PATH | (bug ? 0 : IBV_QP_PATH_MIG_STATE)) == 0); // FOUND
	drop(&r, q);
}

// The same call sets a path MTU that is advised against: the checker reports both.
static void no_read_resources(bool bug)
{
	struct rig r = {0};
	struct ibv_qp *q = fresh(&r);
	struct ibv_qp_attr a = receiving(&r);
	a.max_dest_rd_atomic = bug ? 0 : 1, a.path_mtu = IBV_MTU_512;
	must(ibv_modify_qp(q, &a, TO_RTR) == 0); // FOUND
	drop(&r, q);
}

// A queue pair that does not allow READs and atomics needs no resources for them.
static void no_resources_for_right(bool bug)
{
	struct rig r = {0};
	struct ibv_qp *q = fresh(&r);
	struct ibv_qp_attr a = receiving(&r);
	a.max_dest_rd_atomic = 0, a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | (bug ? IBV_ACCESS_REMOTE_READ : 0);
	must(ibv_modify_qp(q, &a, TO_RTR | IBV_QP_ACCESS_FLAGS) == 0); // FOUND
	drop(&r, q);
}

const struct bug advice_bugs[] = {
	{"receives-overlap", "receives-overlap", receives_overlap},
	{"srq-receives-overlap", "receives-overlap", srq_receives_overlap},
	{"reads-overlap", "reads-overlap", reads_overlap},
	{"atomics-overlap", "reads-overlap", atomics_overlap},
	{"reads-in-flight-overlap", "reads-overlap", reads_in_flight_overlap},
	{"posted-after-error", "posted-after-error", posted_after_error},
	{"cq-too-small", "cq-too-small", cq_too_small},
	{"reads-one-at-a-time", "reads-one-at-a-time", reads_one_at_a_time},
	{"objects-left-at-exit", "objects-left-at-exit", objects_left_at_exit},
	{"completions-never-polled", "completions-never-polled", completions_never_polled},
	{"message-never-read", "completions-never-polled", message_never_read},
	{"armed-without-channel", "armed-without-channel", armed_without_channel},
	{"timeout-forever", "timeout-forever", timeout_forever},
	{"rnr-retry-forever", "rnr-retry-forever", rnr_retry_forever},
	{"rnr-timer-longest", "rnr-timer-longest", rnr_timer_longest},
	{"path-mtu-below-port", "path-mtu-below-port", path_mtu_below_port},
	{"path-not-loaded", "path-not-loaded", path_not_loaded},
	{"path-loaded-at-once", "path-not-loaded", path_loaded_at_once},
	{"no-read-resources", "no-read-resources", no_read_resources},
	{"no-resources-for-right", "no-read-resources", no_resources_for_right},
	{NULL, NULL, NULL},
};

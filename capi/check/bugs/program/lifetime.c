// Bugs with the end of objects: the order, the number and the process.
#include "bugs.h"

// A completion queue is destroyed before its queue pair.
static void destroy_refused(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_cq *q = ibv_create_cq(r.ctx, 16, NULL, NULL, 0), *first = r.cq[0];
	r.cq[0] = q;
	struct ibv_qp *user = make_qp(&r, IBV_QPT_RC, 0);
	r.cq[0] = first;
	if (!bug)
		must(ibv_destroy_qp(user) == 0);
	must(ibv_destroy_cq(q) == (bug ? EBUSY : 0)); // FOUND
	if (bug)
		must(ibv_destroy_qp(user) == 0 && ibv_destroy_cq(q) == 0);
	rig_close(&r);
}

static void domain_with_region(bool bug)
{
	struct ibv_context *c = open_first();
	char buf[64];
	struct ibv_pd *pd = ibv_alloc_pd(c);
	struct ibv_mr *m = ibv_reg_mr(pd, buf, sizeof buf, 0);
	must(m != NULL);
	if (!bug)
		must(ibv_dereg_mr(m) == 0);
	must(ibv_dealloc_pd(pd) == (bug ? EBUSY : 0)); // FOUND
	if (bug)
		must(ibv_dereg_mr(m) == 0 && ibv_dealloc_pd(pd) == 0);
	must(ibv_close_device(c) == 0);
}

static void domain_with_address_handle(bool bug)
{
	struct rig r = {.ctx = open_first()};
	r.pd = ibv_alloc_pd(r.ctx);
	struct ibv_ah *ah = make_ah(&r, r.pd);
	if (!bug)
		must(ibv_destroy_ah(ah) == 0);
	must(ibv_dealloc_pd(r.pd) == (bug ? EBUSY : 0)); // FOUND
	if (bug)
		must(ibv_destroy_ah(ah) == 0 && ibv_dealloc_pd(r.pd) == 0);
	must(ibv_close_device(r.ctx) == 0);
}

static void domain_with_window(bool bug)
{
	struct ibv_context *c = open_first();
	struct ibv_pd *pd = ibv_alloc_pd(c);
	struct ibv_mw *w = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	must(w != NULL);
	if (!bug)
		must(ibv_dealloc_mw(w) == 0);
	must(ibv_dealloc_pd(pd) == (bug ? EBUSY : 0)); // FOUND
	if (bug)
		must(ibv_dealloc_mw(w) == 0 && ibv_dealloc_pd(pd) == 0);
	must(ibv_close_device(c) == 0);
}

static void srq_with_queue_pair(bool bug)
{
	struct rig r = {.shared = true};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_srq_init_attr a = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
	struct ibv_srq *s = ibv_create_srq(r.pd, &a), *first = r.srq;
	must((r.srq = s) != NULL);
	struct ibv_qp *user = make_qp(&r, IBV_QPT_RC, 1);
	r.srq = first;
	if (!bug)
		must(ibv_destroy_qp(user) == 0);
	must(ibv_destroy_srq(s) == (bug ? EBUSY : 0)); // FOUND
	if (bug)
		must(ibv_destroy_qp(user) == 0 && ibv_destroy_srq(s) == 0);
	rig_close(&r);
}

static void channel_with_queue(bool bug)
{
	struct ibv_context *c = open_first();
	struct ibv_comp_channel *ch = ibv_create_comp_channel(c);
	struct ibv_cq *q = ibv_create_cq(c, 16, NULL, ch, 0);
	must(q != NULL);
	if (!bug)
		must(ibv_destroy_cq(q) == 0);
	must(ibv_destroy_comp_channel(ch) == (bug ? EBUSY : 0)); // FOUND
	if (bug)
		must(ibv_destroy_cq(q) == 0 && ibv_destroy_comp_channel(ch) == 0);
	must(ibv_close_device(c) == 0);
}

// A region with a bound window cannot be deregistered.
static void region_with_window(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_mr *m = ibv_reg_mr(r.pd, r.buf[0], 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *w = ibv_alloc_mw(r.pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind b = {.send_flags = IBV_SEND_SIGNALED, .bind_info = {m, (uintptr_t)r.buf[0], 8, IBV_ACCESS_REMOTE_READ}};
	must(m != NULL && w != NULL && ibv_bind_mw(r.qp[0], w, &b) == 0);
	want(r.cq[0], IBV_WC_SUCCESS);
	if (!bug)
		must(ibv_dealloc_mw(w) == 0);
	must((ibv_dereg_mr(m) != 0) == bug); // FOUND
	if (bug)
		must(ibv_dealloc_mw(w) == 0 && ibv_dereg_mr(m) == 0);
	rig_close(&r);
}

static void objects_left_at_close(bool bug)
{
	struct ibv_context *c = open_first();
	struct ibv_pd *pd = ibv_alloc_pd(c); // FOUND
	must(pd != NULL);
	if (!bug)
		must(ibv_dealloc_pd(pd) == 0);
	must(ibv_close_device(c) == 0);
}

// The program destroys the objects after their device.
static void destroyed_after_close(bool bug)
{
	struct ibv_context *c = open_first();
	struct ibv_cq *q = ibv_create_cq(c, 16, NULL, NULL, 0); // FOUND
	must(q != NULL);
	if (!bug)
		must(ibv_destroy_cq(q) == 0);
	must(ibv_close_device(c) == 0);
	if (bug)
		must(ibv_destroy_cq(q) == 0);
}

// The compiler sees that destroyed objects are used, in functions that it inlines.
#pragma GCC diagnostic ignored "-Wuse-after-free"

static void destroyed_twice(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_qp *q = make_qp(&r, IBV_QPT_RC, 0);
	must(ibv_destroy_qp(q) == 0);
	if (bug)
		ibv_destroy_qp(q); // FOUND
	rig_close(&r);
}

static void queue_destroyed_twice(bool bug)
{
	struct ibv_context *c = open_first();
	struct ibv_cq *q = ibv_create_cq(c, 16, NULL, NULL, 0);
	must(q != NULL && ibv_destroy_cq(q) == 0);
	if (bug)
		ibv_destroy_cq(q); // FOUND
	must(ibv_close_device(c) == 0);
}

static void channel_destroyed_twice(bool bug)
{
	struct ibv_context *c = open_first();
	struct ibv_comp_channel *ch = ibv_create_comp_channel(c);
	must(ch != NULL && ibv_destroy_comp_channel(ch) == 0);
	if (bug)
		ibv_destroy_comp_channel(ch); // FOUND
	must(ibv_close_device(c) == 0);
}

static void region_deregistered_twice(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_mr *m = ibv_reg_mr(r.pd, r.buf[0], 64, 0);
	must(m != NULL && ibv_dereg_mr(m) == 0);
	if (bug)
		ibv_dereg_mr(m); // FOUND
	rig_close(&r);
}

static void domain_deallocated_twice(bool bug)
{
	struct ibv_context *c = open_first();
	struct ibv_pd *pd = ibv_alloc_pd(c);
	must(pd != NULL && ibv_dealloc_pd(pd) == 0);
	if (bug)
		ibv_dealloc_pd(pd); // FOUND
	must(ibv_close_device(c) == 0);
}

static void srq_destroyed_twice(bool bug)
{
	struct rig r = {.shared = true};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_srq_init_attr a = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
	struct ibv_srq *s = ibv_create_srq(r.pd, &a);
	must(s != NULL && ibv_destroy_srq(s) == 0);
	if (bug)
		ibv_destroy_srq(s); // FOUND
	rig_close(&r);
}

static void address_handle_destroyed_twice(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_UD);
	struct ibv_ah *ah = make_ah(&r, r.pd);
	must(ibv_destroy_ah(ah) == 0);
	if (bug)
		ibv_destroy_ah(ah); // FOUND
	rig_close(&r);
}

static void window_deallocated_twice(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_mw *w = ibv_alloc_mw(r.pd, IBV_MW_TYPE_1);
	must(w != NULL && ibv_dealloc_mw(w) == 0);
	if (bug)
		ibv_dealloc_mw(w); // FOUND
	rig_close(&r);
}

// The program posts to a queue pair before or after it destroys that.
static void used_after_destroy(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_qp *q = make_qp(&r, IBV_QPT_RC, 0), *first = r.qp[0];
	connect_qp(&r, q, r.qp[1]);
	if (bug)
		must(ibv_destroy_qp(q) == 0);
	r.qp[0] = q;
	post(&r, 0, IBV_WR_RDMA_WRITE, 0); // FOUND
	r.qp[0] = first;
	if (!bug)
		must(ibv_destroy_qp(q) == 0);
	rig_close(&r);
}

static void received_after_destroy(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_sge s = element(&r, 0, 64);
	struct ibv_recv_wr *bad, wr = {.sg_list = &s, .num_sge = 1};
	struct ibv_qp *q = make_qp(&r, IBV_QPT_RC, 0);
	to_init(q);
	if (bug)
		must(ibv_destroy_qp(q) == 0);
	ibv_post_recv(q, &wr, &bad); // FOUND
	if (!bug)
		must(ibv_destroy_qp(q) == 0);
	rig_close(&r);
}

static void srq_used_after_destroy(bool bug)
{
	struct rig r = {.shared = true};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_srq_init_attr a = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
	struct ibv_srq *s = ibv_create_srq(r.pd, &a);
	struct ibv_sge e = element(&r, 1, 64);
	struct ibv_recv_wr *bad, wr = {.sg_list = &e, .num_sge = 1};
	must(s != NULL);
	if (bug)
		must(ibv_destroy_srq(s) == 0);
	ibv_post_srq_recv(s, &wr, &bad); // FOUND
	if (!bug)
		must(ibv_destroy_srq(s) == 0);
	rig_close(&r);
}

static void extended_after_destroy(bool bug)
{
	struct rig r = {0};
	struct ibv_qp_ex *q = open_extended(&r);
	struct ibv_qp *old = r.qp[0];
	r.qp[0] = make_qp(&r, IBV_QPT_RC, 0);
	if (bug)
		must(ibv_destroy_qp(old) == 0);
	ibv_wr_start(q); // FOUND
	ibv_wr_rdma_write(q, r.mr[1]->rkey, (uintptr_t)r.buf[1]);
	ibv_wr_set_sge(q, r.mr[0]->lkey, (uintptr_t)r.buf[0], 8);
	ibv_wr_complete(q);
	if (!bug)
		must(ibv_destroy_qp(old) == 0);
	rig_close(&r);
}

static void polled_after_destroy(bool bug)
{
	struct ibv_context *c = open_first();
	struct ibv_cq *q = ibv_create_cq(c, 16, NULL, NULL, 0);
	struct ibv_wc wc;
	must(q != NULL);
	if (bug)
		must(ibv_destroy_cq(q) == 0);
	ibv_poll_cq(q, 1, &wc); // FOUND
	if (!bug)
		must(ibv_destroy_cq(q) == 0);
	must(ibv_close_device(c) == 0);
}

static void extended_polled_after_destroy(bool bug)
{
	struct ibv_context *c = open_first();
	struct ibv_cq_init_attr_ex a = {.cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_poll_cq_attr p = {0};
	struct ibv_cq_ex *q = ibv_create_cq_ex(c, &a);
	must(q != NULL);
	if (bug)
		must(ibv_destroy_cq(ibv_cq_ex_to_cq(q)) == 0);
	must(ibv_start_poll(q, &p) != 0); // FOUND
	if (!bug)
		must(ibv_destroy_cq(ibv_cq_ex_to_cq(q)) == 0);
	must(ibv_close_device(c) == 0);
}

static void armed_after_destroy(bool bug)
{
	struct ibv_context *c = open_first();
	struct ibv_comp_channel *ch = ibv_create_comp_channel(c);
	struct ibv_cq *q = ibv_create_cq(c, 16, NULL, ch, 0);
	must(q != NULL);
	if (bug)
		must(ibv_destroy_cq(q) == 0);
	ibv_req_notify_cq(q, 0); // FOUND
	if (!bug)
		must(ibv_destroy_cq(q) == 0);
	must(ibv_destroy_comp_channel(ch) == 0 && ibv_close_device(c) == 0);
}

static void modified_after_destroy(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_qp *q = make_qp(&r, IBV_QPT_RC, 0);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
	if (bug)
		must(ibv_destroy_qp(q) == 0);
	must((ibv_modify_qp(q, &a, IBV_QP_STATE) == 0) == !bug); // FOUND
	if (!bug)
		must(ibv_destroy_qp(q) == 0);
	rig_close(&r);
}

static void registered_in_destroyed_domain(bool bug)
{
	struct ibv_context *c = open_first();
	char buf[64];
	struct ibv_pd *pd = ibv_alloc_pd(c);
	must(pd != NULL);
	if (bug)
		must(ibv_dealloc_pd(pd) == 0);
	struct ibv_mr *m = ibv_reg_mr(pd, buf, sizeof buf, 0); // FOUND
	must((m != NULL) == !bug);
	if (!bug)
		must(ibv_dereg_mr(m) == 0 && ibv_dealloc_pd(pd) == 0);
	must(ibv_close_device(c) == 0);
}

static void queue_pair_of_destroyed_queue(bool bug)
{
	struct rig r = {.ctx = open_first()};
	must((r.pd = ibv_alloc_pd(r.ctx)) != NULL);
	struct ibv_cq *q = ibv_create_cq(r.ctx, 16, NULL, NULL, 0), *other = ibv_create_cq(r.ctx, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr a = {.send_cq = other, .recv_cq = q, .qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
	must(q != NULL && other != NULL);
	if (bug)
		must(ibv_destroy_cq(q) == 0);
	struct ibv_qp *user = ibv_create_qp(r.pd, &a); // FOUND
	must((user != NULL) == !bug);
	if (!bug)
		must(ibv_destroy_qp(user) == 0 && ibv_destroy_cq(q) == 0);
	must(ibv_destroy_cq(other) == 0 && ibv_dealloc_pd(r.pd) == 0 && ibv_close_device(r.ctx) == 0);
}

static void sent_to_destroyed_handle(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_UD);
	struct ibv_ah *ah = make_ah(&r, r.pd);
	if (bug)
		must(ibv_destroy_ah(ah) == 0);
	send_datagram(&r, ah, 64); // FOUND
	wait_wc(r.cq[0]);
	if (!bug)
		must(ibv_destroy_ah(ah) == 0);
	rig_close(&r);
}

static void acknowledged_after_destroy(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	must(ibv_req_notify_cq(r.cq[0], 0) == 0 && post(&r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
	struct ibv_cq *q;
	void *context;
	must(ibv_get_cq_event(r.channel, &q, &context) == 0);
	want(q, IBV_WC_SUCCESS);
	ibv_ack_cq_events(q, 1);
	use_queue(&r, 0, ibv_create_cq(r.ctx, 16, NULL, r.channel, 0));
	ibv_ack_cq_events(bug ? q : r.cq[0], 0); // FOUND
	rig_close(&r);
}

// child runs what the child of a fork does, with the rig of its parent, or with its own.
static void child(bool bug, void (*use)(struct rig *r))
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	pid_t pid = begin_child();
	if (pid == 0) {
		struct rig own = {0};
		if (!bug)
			rig_open(&own, IBV_QPT_RC);
		use(bug ? &r : &own);
		if (!bug)
			rig_close(&own);
		_exit(0);
	}
	ended_well(pid);
	rig_close(&r);
}

static void poll_once(struct rig *r)
{
	struct ibv_wc wc;
	ibv_poll_cq(r->cq[0], 1, &wc); // FOUND
}

static void post_once(struct rig *r)
{
	if (post(r, 0, IBV_WR_RDMA_WRITE, 8) == 0) // FOUND
		want(r->cq[0], IBV_WC_SUCCESS);
}

static void create_once(struct rig *r)
{
	struct ibv_cq *q = ibv_create_cq(r->ctx, 16, NULL, NULL, 0); // FOUND
	if (q != NULL)
		ibv_destroy_cq(q);
}

static void used_in_child(bool bug) { child(bug, poll_once); }
static void posted_in_child(bool bug) { child(bug, post_once); }
static void created_in_child(bool bug) { child(bug, create_once); }

const struct bug lifetime_bugs[] = {
	{"destroy-refused", "destroy-refused", destroy_refused},
	{"domain-with-region", "destroy-refused", domain_with_region},
	{"domain-with-address-handle", "destroy-refused", domain_with_address_handle},
	{"domain-with-window", "destroy-refused", domain_with_window},
	{"srq-with-queue-pair", "destroy-refused", srq_with_queue_pair},
	{"channel-with-queue", "destroy-refused", channel_with_queue},
	{"region-with-window", "destroy-refused", region_with_window},
	{"objects-left-at-close", "objects-left-at-close", objects_left_at_close},
	{"destroyed-after-close", "objects-left-at-close", destroyed_after_close},
	{"destroyed-twice", "destroyed-twice", destroyed_twice},
	{"queue-destroyed-twice", "destroyed-twice", queue_destroyed_twice},
	{"channel-destroyed-twice", "destroyed-twice", channel_destroyed_twice},
	{"region-deregistered-twice", "destroyed-twice", region_deregistered_twice},
	{"domain-deallocated-twice", "destroyed-twice", domain_deallocated_twice},
	{"srq-destroyed-twice", "destroyed-twice", srq_destroyed_twice},
	{"address-handle-destroyed-twice", "destroyed-twice", address_handle_destroyed_twice},
	{"window-deallocated-twice", "destroyed-twice", window_deallocated_twice},
	{"used-after-destroy", "used-after-destroy", used_after_destroy},
	{"received-after-destroy", "used-after-destroy", received_after_destroy},
	{"srq-used-after-destroy", "used-after-destroy", srq_used_after_destroy},
	{"extended-after-destroy", "used-after-destroy", extended_after_destroy},
	{"polled-after-destroy", "used-after-destroy", polled_after_destroy},
	{"extended-polled-after-destroy", "used-after-destroy", extended_polled_after_destroy},
	{"armed-after-destroy", "used-after-destroy", armed_after_destroy},
	{"modified-after-destroy", "used-after-destroy", modified_after_destroy},
	{"registered-in-destroyed-domain", "used-after-destroy", registered_in_destroyed_domain},
	{"queue-pair-of-destroyed-queue", "used-after-destroy", queue_pair_of_destroyed_queue},
	{"sent-to-destroyed-handle", "used-after-destroy", sent_to_destroyed_handle},
	{"acknowledged-after-destroy", "used-after-destroy", acknowledged_after_destroy},
	{"used-in-child", "used-in-child", used_in_child},
	{"posted-in-child", "used-in-child", posted_in_child},
	{"created-in-child", "used-in-child", created_in_child},
	{NULL, NULL, NULL},
};

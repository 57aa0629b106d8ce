// Provokes every completion status, every asynchronous event, and calls that fail: by wrong
// use of the verbs where possible, otherwise by fault rules. For each it prints a line of
// four columns: kind, name, the side or object that reports it, and the cause.
#include "rig.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/syscall.h>

static void say(const char *kind, const char *name, const char *who, const char *how) { printf("%s\t%s\t%s\t%s\n", kind, name, who, how); }

// post_wrong posts a request with a wrong key of a region or, if bytes is not 0, with an
// address that is off by that many bytes.
static void post_wrong(struct rig *r, int whose, int bytes, enum ibv_wr_opcode op)
{
	struct ibv_mr *right = r->mr[whose], wrong = *right;
	if (bytes == 0)
		wrong.lkey ^= 0xff, wrong.rkey ^= 0xff;
	wrong.addr = (char *)wrong.addr + bytes;
	r->mr[whose] = &wrong;
	must(post(r, 0, op, 8) == 0);
	r->mr[whose] = right;
}

static void send_to_receive(struct rig *r)
{
	receive(r, 1, 64);
	must(post(r, 0, IBV_WR_SEND, 64) == 0);
}

static void send_too_much(struct rig *r)
{
	receive(r, 1, 8);
	must(post(r, 0, IBV_WR_SEND, 64) == 0);
}

static void send_by_foreign_handle(struct rig *r)
{
	struct ibv_pd *other = ibv_alloc_pd(r->ctx);
	struct ibv_ah_attr a = to_self(r->ctx);
	must(other != NULL);
	struct ibv_ah *ah = ibv_create_ah(other, &a);
	must(ah != NULL);
	struct ibv_sge s = {(uintptr_t)r->buf[0], 8, r->mr[0]->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .wr.ud = {ah, r->qp[1]->qp_num, QKEY}};
	must(ibv_post_send(r->qp[0], &wr, &bad) == 0);
}

static void write_from_elsewhere(struct rig *r) { post_wrong(r, 0, 0, IBV_WR_RDMA_WRITE); }
static void write_elsewhere(struct rig *r) { post_wrong(r, 1, 0, IBV_WR_RDMA_WRITE); }
static void atomic_between(struct rig *r) { post_wrong(r, 1, 1, IBV_WR_ATOMIC_FETCH_AND_ADD); }

static void write_elsewhere_and_tell(struct rig *r)
{
	receive(r, 1, 8);
	post_wrong(r, 1, 0, IBV_WR_RDMA_WRITE_WITH_IMM);
}

static void receive_elsewhere(struct rig *r)
{
	struct ibv_sge s = {(uintptr_t)r->buf[1], 64, r->mr[1]->lkey ^ 0xff};
	struct ibv_recv_wr *bad, wr = {.sg_list = &s, .num_sge = 1};
	must(ibv_post_recv(r->qp[1], &wr, &bad) == 0 && post(r, 0, IBV_WR_SEND, 64) == 0);
}

static void end_with_receives(struct rig *r)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
	receive(r, 1, 64);
	must(ibv_modify_qp(r->qp[1], &a, IBV_QP_STATE) == 0);
}

// bind_to_no_windows binds a window to a region that does not allow it.
static void bind_to_no_windows(struct rig *r)
{
	struct ibv_mw *w = ibv_alloc_mw(r->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind b = {.bind_info = {r->mr[0], (uintptr_t)r->buf[0], 8, IBV_ACCESS_REMOTE_READ}};
	must(w != NULL && ibv_bind_mw(r->qp[0], w, &b) == 0);
}

static void read_eight(struct rig *r) { must(post(r, 0, IBV_WR_RDMA_READ, 8) == 0); }

static void send_to_nobody(struct rig *r)
{
	must(ibv_destroy_qp(r->qp[1]) == 0);
	must(post(r, 0, IBV_WR_SEND, 8) == 0);
	r->qp[1] = make_qp(r, IBV_QPT_RC, 1);
}

static void send_to_no_receive(struct rig *r) { must(post(r, 0, IBV_WR_SEND, 8) == 0); }

#define STATUS(name) IBV_WC_##name, #name

static const struct {
	enum ibv_wc_status status;
	const char *name;
	int side; // gets the completion: 0 is the requester
	void (*provoke)(struct rig *r);
	const char *how;
	enum ibv_qp_type type;
} statuses[] = {
	{STATUS(SUCCESS), 0, send_to_receive, "SEND to a receive that fits", IBV_QPT_RC},
	{STATUS(LOC_LEN_ERR), 1, send_too_much, "SEND of more than the receive holds", IBV_QPT_RC},
	{STATUS(LOC_QP_OP_ERR), 0, send_by_foreign_handle, "UD SEND by an address handle of another protection domain", IBV_QPT_UD},
	{STATUS(LOC_PROT_ERR), 0, write_from_elsewhere, "an invalid lkey", IBV_QPT_RC},
	{STATUS(WR_FLUSH_ERR), 1, end_with_receives, "the queue pair is moved to ERR with a receive posted", IBV_QPT_RC},
	{STATUS(MW_BIND_ERR), 0, bind_to_no_windows, "a memory window on a region without IBV_ACCESS_MW_BIND", IBV_QPT_RC},
	{STATUS(BAD_RESP_ERR), 0, read_eight, "a rule that changes the opcode of a READ response", IBV_QPT_RC},
	{STATUS(LOC_ACCESS_ERR), 1, write_elsewhere_and_tell, "WRITE with immediate with an invalid rkey", IBV_QPT_RC},
	{STATUS(REM_INV_REQ_ERR), 0, atomic_between, "atomic on an address that is not a multiple of 8", IBV_QPT_RC},
	{STATUS(REM_ACCESS_ERR), 0, write_elsewhere, "an invalid rkey", IBV_QPT_RC},
	{STATUS(REM_OP_ERR), 0, receive_elsewhere, "SEND to a receive with an invalid lkey", IBV_QPT_RC},
	{STATUS(RETRY_EXC_ERR), 0, send_to_nobody, "the peer has destroyed its queue pair", IBV_QPT_RC},
	{STATUS(RNR_RETRY_EXC_ERR), 0, send_to_no_receive, "SEND without a receive, rnr_retry 0", IBV_QPT_RC},
};

static void each_status(void)
{
	for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
		enum ibv_wc_status s = statuses[i].status;
		struct rig r = {.timeout = 14, .retry = 7, .rnr_retry = s == IBV_WC_RNR_RETRY_EXC_ERR ? 0 : 7};
		if (s == IBV_WC_RETRY_EXC_ERR)
			r.timeout = 8, r.retry = 1;
		rig_open(&r, statuses[i].type);
		statuses[i].provoke(&r);
		want(r.cq[statuses[i].side], s);
		say("status", statuses[i].name, statuses[i].side == 0 ? "requester" : "responder", statuses[i].how);
		rig_drop(&r);
	}
}

// The object of an event.
enum about { QP0, QP1, CQ0, SRQ, PORT, DEVICE };

static const char *const about_names[] = {
	[QP0] = "the requester's queue pair", [QP1] = "the responder's queue pair", [CQ0] = "the completion queue",
	[SRQ] = "the SRQ", [PORT] = "the port", [DEVICE] = "the device",
};

static void same_object(struct rig *r, const struct ibv_async_event *e, enum about a)
{
	switch (a) {
	case QP0:
	case QP1:
		must(e->element.qp == r->qp[a]);
		break;
	case CQ0:
		must(e->element.cq == r->cq[0]);
		break;
	case SRQ:
		must(e->element.srq == r->srq);
		break;
	case PORT:
		must(e->element.port_num == 1);
		break;
	case DEVICE:
		break;
	}
}

// take waits for an event of an object, and acknowledges it and all events before it.
static void take(struct rig *r, enum ibv_event_type t, enum about a)
{
	struct pollfd p = {r->ctx->async_fd, POLLIN, 0};
	struct ibv_async_event e;
	do {
		if (poll(&p, 1, 10000) != 1 || ibv_get_async_event(r->ctx, &e) != 0) {
			fprintf(stderr, "there is no event \"%s\"\n", ibv_event_type_str(t));
			exit(1);
		}
		if (e.event_type == t)
			same_object(r, &e, a);
		ibv_ack_async_event(&e);
	} while (e.event_type != t);
}

static void overflow(struct rig *r)
{
	must(r->cq[0]->cqe < DEPTH);
	for (int i = 0; i <= r->cq[0]->cqe; i++)
		must(post(r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
}

static void write_before_ready(struct rig *r)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};
	must(ibv_modify_qp(r->qp[1], &a, IBV_QP_STATE) == 0);
	to_init(r->qp[1]);
	to_rtr(r, r->qp[1], r->qp[0]);
	must(post(r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
}

static void drain(struct rig *r)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	must(post(r, 0, IBV_WR_RDMA_WRITE, BUF) == 0);
	must(ibv_modify_qp(r->qp[0], &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0);
}

// arm loads an alternate path, between entries of the GID table, into both queue pairs, and
// exchanges requests until both are ARMED.
static void arm(struct rig *r, const uint8_t gid[SIDES])
{
	struct ibv_qp_init_attr init;
	for (int i = 0; i < SIDES; i++) {
		struct ibv_qp_attr a = {
			.path_mig_state = IBV_MIG_REARM, .alt_port_num = 1, .alt_timeout = 14,
			.alt_ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64, .sgid_index = gid[i]}},
		};
		must(ibv_query_gid(r->ctx, 1, gid[i], &a.alt_ah_attr.grh.dgid) == 0);
		must(ibv_modify_qp(r->qp[i], &a, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE) == 0);
	}
	for (int i = 0; i < SIDES; i++) {
		struct ibv_qp_attr a = {0};
		do {
			must(post(r, i, IBV_WR_RDMA_WRITE, 8) == 0);
			want(r->cq[i], IBV_WC_SUCCESS);
			must(ibv_query_qp(r->qp[i], &a, IBV_QP_PATH_MIG_STATE, &init) == 0);
		} while (a.path_mig_state != IBV_MIG_ARMED);
	}
}

static void migrate(struct rig *r)
{
	struct ibv_qp_attr a = {.path_mig_state = IBV_MIG_MIGRATED};
	must(ibv_modify_qp(r->qp[0], &a, IBV_QP_PATH_MIG_STATE) == 0);
}

static void migrate_together(struct rig *r)
{
	arm(r, (uint8_t[SIDES]){1, 1});
	migrate(r);
}

static void migrate_apart(struct rig *r)
{
	arm(r, (uint8_t[SIDES]){0, 1});
	migrate(r);
	must(post(r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
}

static void run_low(struct rig *r)
{
	struct ibv_srq_attr limit = {.srq_limit = 2};
	receive(r, 1, 64);
	receive(r, 1, 64);
	must(ibv_modify_srq(r->srq, &limit, IBV_SRQ_LIMIT) == 0);
	must(post(r, 0, IBV_WR_SEND, 8) == 0);
}

#define EVENT(name) IBV_EVENT_##name, #name

static const struct {
	enum ibv_event_type type;
	const char *name;
	enum about about;
	void (*provoke)(struct rig *r);
	const char *how;
} events[] = {
	{EVENT(CQ_ERR), CQ0, overflow, "one completion more than the queue holds"},
	{EVENT(QP_FATAL), QP0, overflow, "one completion more than the queue holds"},
	{EVENT(QP_REQ_ERR), QP1, atomic_between, "atomic on an address that is not a multiple of 8"},
	{EVENT(QP_ACCESS_ERR), QP1, write_elsewhere, "an invalid rkey"},
	{EVENT(COMM_EST), QP1, write_before_ready, "WRITE while the responder is in RTR"},
	{EVENT(SQ_DRAINED), QP0, drain, "the queue pair is moved to SQD with the event requested"},
	{EVENT(PATH_MIG), QP0, migrate_together, "the queue pair is moved to its alternate path"},
	{EVENT(PATH_MIG_ERR), QP1, migrate_apart, "the peer migrates to a path other than the alternate path here"},
	{EVENT(SRQ_LIMIT_REACHED), SRQ, run_low, "a SEND consumes a receive, and fewer than the limit are left"},
	{EVENT(QP_LAST_WQE_REACHED), QP1, end_with_receives, "a queue pair with an SRQ is moved to ERR"},
};

static void each_event(void)
{
	for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
		enum ibv_event_type t = events[i].type;
		struct rig r = {.cqe = t == IBV_EVENT_CQ_ERR || t == IBV_EVENT_QP_FATAL, .shared = t == IBV_EVENT_SRQ_LIMIT_REACHED || t == IBV_EVENT_QP_LAST_WQE_REACHED};
		rig_open(&r, IBV_QPT_RC);
		events[i].provoke(&r);
		take(&r, t, events[i].about);
		say("event", events[i].name, about_names[events[i].about], events[i].how);
		rig_drop(&r);
	}
}

// Events that programs cannot cause, or not on every adapter. Fault rules raise one of
// them, in this order, at each ibv_query_qp.
static const struct {
	enum ibv_event_type type;
	const char *name;
	enum about about;
} raised[] = {
	{EVENT(PORT_ERR), PORT}, {EVENT(PORT_ACTIVE), PORT}, {EVENT(LID_CHANGE), PORT}, {EVENT(PKEY_CHANGE), PORT}, {EVENT(SM_CHANGE), PORT},
	{EVENT(CLIENT_REREGISTER), PORT}, {EVENT(GID_CHANGE), PORT}, {EVENT(SRQ_ERR), SRQ}, {EVENT(WQ_FATAL), QP1}, {EVENT(DEVICE_FATAL), DEVICE},
};

static void raised_events(void)
{
	struct rig r = {.shared = true};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	rig_open(&r, IBV_QPT_RC);
	for (size_t i = 0; i < sizeof raised / sizeof *raised; i++) {
		must(ibv_query_qp(r.qp[1], &a, IBV_QP_STATE, &init) == 0); // raises the event
		take(&r, raised[i].type, raised[i].about);
		say("event", raised[i].name, about_names[raised[i].about], "a rule");
	}
	rig_drop(&r);
}

// Fault rules make each of these calls fail the first time, and failed prints it. ERRNO is
// the errno of a call that failed, 0 if the call succeeded.
#define ERRNO(has_failed) ({ errno = 0; (has_failed) ? errno : 0; })

// CODE is the error code that a call returns. errno must be the same.
#define CODE(call) ({ errno = 0; int code_ = (call); must_be(#call, code_); code_; })

static void must_be(const char *call, int code)
{
	if (errno != code) {
		fprintf(stderr, "%s returns %d, and errno is %d\n", call, code, errno);
		exit(1);
	}
}

static void failed(const char *call, int code, int want)
{
	if (code != want) {
		fprintf(stderr, "%s: errno %d (%s), want %d (%s)\n", call, code, strerror(code), want, strerror(want));
		exit(1);
	}
	say("call", call, strerror(want), "");
}

static void failing_domain(struct rig *r)
{
	struct ibv_xrcd_init_attr a = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1};
	struct ibv_qp_open_attr o = {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE, .qp_num = 2, .qp_type = IBV_QPT_XRC_RECV};
	failed("ibv_open_xrcd", ERRNO(ibv_open_xrcd(r->ctx, &a) == NULL), ENOSPC);
	must((o.xrcd = ibv_open_xrcd(r->ctx, &a)) != NULL);
	failed("ibv_open_qp", ERRNO(ibv_open_qp(r->ctx, &o) == NULL), EACCES);
	failed("ibv_close_xrcd", CODE(ibv_close_xrcd(o.xrcd)), EIO);
	must(ibv_close_xrcd(o.xrcd) == 0);
}

static void failing_queues(struct rig *r)
{
	struct ibv_qp_init_attr q = {.qp_type = IBV_QPT_UD, .cap = {DEPTH, DEPTH, 2, 2, 64}};
	struct ibv_srq_init_attr s = {.attr = {.max_wr = DEPTH, .max_sge = 2}};
	struct ibv_srq_attr limit = {.srq_limit = 1};
	struct ibv_recv_wr *badr, rw = {0};
	failed("ibv_create_cq", ERRNO(ibv_create_cq(r->ctx, DEPTH, NULL, NULL, 0) == NULL), ENOSPC);
	must((r->cq[0] = ibv_create_cq(r->ctx, DEPTH, NULL, NULL, 0)) != NULL);
	failed("ibv_resize_cq", CODE(ibv_resize_cq(r->cq[0], 2 * DEPTH)), EIO);
	struct ibv_modify_cq_attr ma = {.attr_mask = IBV_CQ_ATTR_MODERATE};
	failed("ibv_modify_cq", CODE(ibv_modify_cq(r->cq[0], &ma)), ENODEV);
	failed("ibv_req_notify_cq", CODE(ibv_req_notify_cq(r->cq[0], 0)), EACCES);
	failed("ibv_create_srq", ERRNO(ibv_create_srq(r->pd, &s) == NULL), ENOMEM);
	must((r->srq = ibv_create_srq(r->pd, &s)) != NULL);
	failed("ibv_modify_srq", CODE(ibv_modify_srq(r->srq, &limit, IBV_SRQ_LIMIT)), EPERM);
	limit.max_wr = DEPTH;
	failed("ibv_modify_srq(IBV_SRQ_MAX_WR)", CODE(ibv_modify_srq(r->srq, &limit, IBV_SRQ_MAX_WR)), EFAULT);
	failed("ibv_post_srq_recv", CODE(ibv_post_srq_recv(r->srq, &rw, &badr)), EAGAIN);
	must(badr == &rw && ibv_post_srq_recv(r->srq, &rw, &badr) == 0);
	failed("ibv_destroy_srq", CODE(ibv_destroy_srq(r->srq)), EBUSY);
	must(ibv_destroy_srq(r->srq) == 0);
	failing_domain(r);
	q.send_cq = q.recv_cq = r->cq[0];
	failed("ibv_create_qp", ERRNO(ibv_create_qp(r->pd, &q) == NULL), ENODEV);
	must((r->qp[0] = ibv_create_qp(r->pd, &q)) != NULL);
}

static void failing_pair(struct rig *r)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
	const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
	struct ibv_qp_init_attr qi;
	struct ibv_recv_wr *badr, rw = {0};
	struct ibv_ah_attr aa = to_self(r->ctx);
	union ibv_gid group = {.raw = {[10] = 0xff, 0xff, 239, 1, 2, 3}};
	failed("ibv_modify_qp", CODE(ibv_modify_qp(r->qp[0], &a, init)), EFAULT);
	must(ibv_modify_qp(r->qp[0], &a, init) == 0);
	failed("ibv_query_qp", CODE(ibv_query_qp(r->qp[0], &a, IBV_QP_STATE, &qi)), ENOENT);
	failed("ibv_post_recv", CODE(ibv_post_recv(r->qp[0], &rw, &badr)), ENOMEM);
	must(badr == &rw && ibv_post_recv(r->qp[0], &rw, &badr) == 0);
	failed("ibv_create_ah", ERRNO(ibv_create_ah(r->pd, &aa) == NULL), EOPNOTSUPP);
	struct ibv_ah *ah = ibv_create_ah(r->pd, &aa);
	must(ah != NULL);
	to_rtr(r, r->qp[0], r->qp[0]);
	to_rts(r, r->qp[0]);
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND, .wr.ud = {ah, r->qp[0]->qp_num, QKEY}};
	failed("ibv_post_send", CODE(ibv_post_send(r->qp[0], &wr, &bad)), EIO);
	must(bad == &wr && ibv_post_send(r->qp[0], &wr, &bad) == 0);
	failed("ibv_attach_mcast", CODE(ibv_attach_mcast(r->qp[0], &group, 0)), EACCES);
	failed("ibv_detach_mcast", CODE(ibv_detach_mcast(r->qp[0], &group, 0)), EPERM);
	failed("ibv_destroy_ah", CODE(ibv_destroy_ah(ah)), EBUSY);
	must(ibv_destroy_ah(ah) == 0);
	failed("ibv_destroy_qp", CODE(ibv_destroy_qp(r->qp[0])), EAGAIN);
	must(ibv_destroy_qp(r->qp[0]) == 0);
}

static void failing_calls(void)
{
	struct rig r = {.ctx = open_first()};
	static char buf[64];
	failed("ibv_alloc_pd", ERRNO(ibv_alloc_pd(r.ctx) == NULL), EACCES);
	must((r.pd = ibv_alloc_pd(r.ctx)) != NULL);
	failed("ibv_reg_mr", ERRNO(ibv_reg_mr(r.pd, buf, sizeof buf, 0) == NULL), ENOMEM);
	must((r.mr[0] = ibv_reg_mr(r.pd, buf, sizeof buf, 0)) != NULL);
	failed("ibv_rereg_mr", ERRNO(ibv_rereg_mr(r.mr[0], IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE) != 0), EPERM);
	struct ibv_sge s = {(uintptr_t)buf, sizeof buf, r.mr[0]->lkey};
	failed("ibv_advise_mr", CODE(ibv_advise_mr(r.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &s, 1)), EIO);
	failed("ibv_dereg_mr", CODE(ibv_dereg_mr(r.mr[0])), EBUSY);
	must(ibv_dereg_mr(r.mr[0]) == 0);
	failed("ibv_alloc_mw", ERRNO(ibv_alloc_mw(r.pd, IBV_MW_TYPE_2) == NULL), ENOSPC);
	struct ibv_mw *mw = ibv_alloc_mw(r.pd, IBV_MW_TYPE_2);
	must(mw != NULL);
	failed("ibv_dealloc_mw", CODE(ibv_dealloc_mw(mw)), EAGAIN);
	must(ibv_dealloc_mw(mw) == 0);
	struct ibv_alloc_dm_attr da = {.length = 64};
	failed("ibv_alloc_dm", ERRNO(ibv_alloc_dm(r.ctx, &da) == NULL), EACCES);
	struct ibv_dm *d = ibv_alloc_dm(r.ctx, &da);
	must(d != NULL);
	failed("ibv_free_dm", CODE(ibv_free_dm(d)), EFAULT);
	must(ibv_free_dm(d) == 0);
	failing_queues(&r);
	failing_pair(&r);
	failed("ibv_destroy_cq", CODE(ibv_destroy_cq(r.cq[0])), EINVAL);
	must(ibv_destroy_cq(r.cq[0]) == 0);
	failed("ibv_dealloc_pd", CODE(ibv_dealloc_pd(r.pd)), EFAULT);
	must(ibv_dealloc_pd(r.pd) == 0 && ibv_close_device(r.ctx) == 0);
}

// A fault rule refuses receives; no rule applies to sends.
static void watched_receives(void)
{
	struct rig r = {0};
	struct ibv_recv_wr *bad = NULL, wr[2] = {{.next = &wr[1]}, {0}};
	rig_open(&r, IBV_QPT_RC);
	failed("ibv_post_recv", CODE(ibv_post_recv(r.qp[0], wr, &bad)), ENOMEM);
	must(bad == &wr[1]);
	rig_close(&r);
}

// A query reports a send queue that is still draining, because the peer does not
// answer.
static void draining_told(void)
{
	struct rig r = {0};
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};
	struct ibv_qp_init_attr init;
	rig_open(&r, IBV_QPT_RC);
	must(ibv_modify_qp(r.qp[1], &a, IBV_QP_STATE) == 0 && post(&r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
	a.qp_state = IBV_QPS_SQD;
	must(ibv_modify_qp(r.qp[0], &a, IBV_QP_STATE) == 0 && ibv_query_qp(r.qp[0], &a, IBV_QP_STATE, &init) == 0);
	must(a.qp_state == IBV_QPS_SQD && a.sq_draining == 1);
	rig_close(&r);
}

// KEEPS makes a call, which must succeed and leave errno unchanged.
#define KEEPS(succeeds)                                                                        \
	do {                                                                                   \
		errno = KEPT;                                                                  \
		bool done_ = (succeeds);                                                       \
		if (!done_ || errno != KEPT) {                                                 \
			fprintf(stderr, "%s: %s, and errno is %d\n", #succeeds, done_ ? "succeeds" : "fails", errno); \
			exit(1);                                                               \
		}                                                                              \
	} while (0)

enum { KEPT = 4242 };

static void keep_of_context(struct rig *r)
{
	struct ibv_device_attr d;
	struct ibv_device_attr_ex dx;
	struct ibv_values_ex v = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	struct ibv_port_attr p;
	union ibv_gid gid;
	struct ibv_gid_entry e, table[256];
	__be16 pkey;
	KEEPS(ibv_query_device(r->ctx, &d) == 0);
	KEEPS(ibv_query_device_ex(r->ctx, NULL, &dx) == 0);
	KEEPS(ibv_query_rt_values_ex(r->ctx, &v) == 0);
	KEEPS(ibv_query_port(r->ctx, 1, &p) == 0);
	KEEPS(ibv_query_gid(r->ctx, 1, 0, &gid) == 0);
	KEEPS(ibv_query_gid_ex(r->ctx, 1, 0, &e, 0) == 0);
	KEEPS(ibv_query_gid_table(r->ctx, table, 256, 0) > 0);
	KEEPS(ibv_query_pkey(r->ctx, 1, 0, &pkey) == 0);
	KEEPS(ibv_get_pkey_index(r->ctx, 1, pkey) == 0);
}

static void keep_of_queues(struct rig *r)
{
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq, *told;
	struct ibv_wc wc;
	void *context;
	KEEPS((ch = ibv_create_comp_channel(r->ctx)) != NULL);
	KEEPS((cq = ibv_create_cq(r->ctx, DEPTH, NULL, ch, 0)) != NULL);
	KEEPS(ibv_poll_cq(cq, 1, &wc) == 0);
	KEEPS(ibv_destroy_cq(cq) == 0);
	KEEPS(ibv_destroy_comp_channel(ch) == 0);
	receive(r, 1, 64);
	KEEPS(ibv_req_notify_cq(r->cq[1], 0) == 0);
	KEEPS(post(r, 0, IBV_WR_SEND, 64) == 0);
	KEEPS(ibv_get_cq_event(r->channel, &told, &context) == 0);
	KEEPS((ibv_ack_cq_events(told, 1), true));
	KEEPS(ibv_poll_cq(r->cq[1], 1, &wc) == 1);
}

static void keep_of_objects(struct rig *r)
{
	static char buf[2][64];
	struct ibv_ah_attr aa = to_self(r->ctx);
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = DEPTH, .max_sge = 2}};
	struct ibv_srq_attr limit = {.srq_limit = 1};
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_init_attr qi;
	struct ibv_async_event e;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	struct ibv_srq *srq;
	KEEPS((pd = ibv_alloc_pd(r->ctx)) != NULL);
	KEEPS((mr = ibv_reg_mr(pd, buf[0], sizeof buf[0], 0)) != NULL);
	KEEPS(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, buf[1], sizeof buf[1], 0) == 0);
	KEEPS(ibv_dereg_mr(mr) == 0);
	KEEPS((ah = ibv_create_ah(pd, &aa)) != NULL);
	KEEPS(ibv_destroy_ah(ah) == 0);
	KEEPS((srq = ibv_create_srq(pd, &sa)) != NULL);
	KEEPS(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT) == 0);
	KEEPS(ibv_query_srq(srq, &limit) == 0);
	KEEPS(ibv_destroy_srq(srq) == 0);
	KEEPS(ibv_dealloc_pd(pd) == 0);
	KEEPS(ibv_modify_qp(r->qp[0], &a, IBV_QP_STATE) == 0);
	KEEPS(ibv_query_qp(r->qp[0], &a, IBV_QP_STATE, &qi) == 0);
	must(r->shared && (a.qp_state = IBV_QPS_ERR, ibv_modify_qp(r->qp[1], &a, IBV_QP_STATE) == 0));
	KEEPS(ibv_get_async_event(r->ctx, &e) == 0); // the last WQE of the SRQ
	KEEPS((ibv_ack_async_event(&e), true));
}

// Calls that succeed leave errno unchanged, because some programs check it only once after
// several calls.
static void errno_kept(void)
{
	struct rig r = {.shared = true};
	rig_open(&r, IBV_QPT_RC);
	keep_of_context(&r);
	keep_of_queues(&r);
	keep_of_objects(&r);
	KEEPS(ibv_destroy_qp(r.qp[0]) == 0);
	KEEPS(ibv_close_device(r.ctx) == 0);
	struct ibv_device **list;
	KEEPS((list = ibv_get_device_list(NULL)) != NULL);
	KEEPS((r.ctx = ibv_open_device(list[0])) != NULL);
	ibv_free_device_list(list);
	rig_drop(&r);
}

// fail_unseen moves a queue pair to ERR by an error, without a call that would report the
// new state to the program.
static void fail_unseen(struct rig *r)
{
	write_from_elsewhere(r);
	want(r->cq[0], IBV_WC_LOC_PROT_ERR);
}

// qp->state changes only when the program learns of a new state: by ibv_modify_qp, or by
// ibv_query_qp with IBV_QP_STATE.
static void state_told(void)
{
	struct rig r = {0};
	struct ibv_qp_attr a, wrong = {.qp_state = IBV_QPS_RTR};
	struct ibv_qp_init_attr init;
	rig_open(&r, IBV_QPT_RC);
	must(r.qp[0]->state == IBV_QPS_RTS);
	fail_unseen(&r);
	must(r.qp[0]->state == IBV_QPS_RTS);
	must(ibv_query_qp(r.qp[0], &a, IBV_QP_AV | IBV_QP_DEST_QPN, &init) == 0);
	must(a.qp_state == IBV_QPS_ERR && r.qp[0]->state == IBV_QPS_RTS);
	must(ibv_modify_qp(r.qp[0], &wrong, IBV_QP_STATE) != 0 && r.qp[0]->state == IBV_QPS_RTS);
	must(ibv_query_qp(r.qp[0], &a, IBV_QP_STATE, &init) == 0);
	must(a.qp_state == IBV_QPS_ERR && r.qp[0]->state == IBV_QPS_ERR);
	rig_close(&r);
}

// set_net_raw adds CAP_NET_RAW to the effective capabilities of the thread, or removes it,
// and reports whether the thread has it afterwards.
static bool set_net_raw(bool on)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct c[_LINUX_CAPABILITY_U32S_3] = {{0}};
	must(syscall(SYS_capget, &h, c) == 0);
	uint32_t mask = 1u << CAP_NET_RAW;
	c[0].effective = (c[0].effective & ~mask) | (on ? c[0].permitted & mask : 0);
	must(syscall(SYS_capset, &h, c) == 0);
	return c[0].effective & mask;
}

static int set_qkey(struct ibv_qp *q, uint32_t qkey)
{
	struct ibv_qp_attr a = {.qkey = qkey};
	return CODE(ibv_modify_qp(q, &a, IBV_QP_QKEY));
}

// Only threads with CAP_NET_RAW may set a controlled Q_Key.
static void controlled_qkey(void)
{
	enum { CONTROLLED = (int)0x80010000 };
	struct rig r = {0};
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	rig_open(&r, IBV_QPT_UD);
	set_net_raw(false);
	must(set_qkey(r.qp[0], (uint32_t)CONTROLLED) == EPERM);
	must(ibv_query_qp(r.qp[0], &a, IBV_QP_QKEY, &init) == 0 && a.qkey == QKEY);
	must(set_qkey(r.qp[0], QKEY + 1) == 0);
	if (set_net_raw(true)) {
		must(set_qkey(r.qp[0], (uint32_t)CONTROLLED) == 0);
		must(ibv_query_qp(r.qp[0], &a, IBV_QP_QKEY, &init) == 0 && a.qkey == (uint32_t)CONTROLLED);
	} else {
		puts("without CAP_NET_RAW");
	}
	rig_close(&r);
}

// Another process has opened the address.
static void taken(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	must(list != NULL && list[0] != NULL);
	errno = 0;
	if (ibv_open_device(list[0]) != NULL || errno != EADDRINUSE) {
		fprintf(stderr, "an address that is taken: errno %d, want EADDRINUSE\n", errno);
		exit(1);
	}
	ibv_free_device_list(list);
}

// first_event moves one queue pair to ERR by an error that a completion reports, and the
// other to SQD. The first event must be of the given type.
static void first_event(enum ibv_event_type first)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct ibv_async_event e;
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	write_from_elsewhere(&r);
	want(r.cq[0], IBV_WC_LOC_PROT_ERR);
	must(ibv_modify_qp(r.qp[1], &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0);
	must(ibv_get_async_event(r.ctx, &e) == 0);
	if (e.event_type != first) {
		fprintf(stderr, "the first event is \"%s\", want \"%s\"\n", ibv_event_type_str(e.event_type), ibv_event_type_str(first));
		exit(1);
	}
	ibv_ack_async_event(&e);
	rig_close(&r);
}

static void reported_once(void) { first_event(IBV_EVENT_SQ_DRAINED); }
static void fatal_events(void) { first_event(IBV_EVENT_QP_FATAL); }

const struct scenario errors[] = {
	{"statuses", each_status}, {"events", each_event}, {"raised-events", raised_events}, {"failing-calls", failing_calls}, {"taken", taken},
	{"errno-kept", errno_kept}, {"state-told", state_told}, {"controlled-qkey", controlled_qkey},
	{"reported-once", reported_once}, {"fatal-events", fatal_events}, {"watched-receives", watched_receives}, {"draining-told", draining_told},
	{NULL, NULL},
};

// Extended reliable connections: domains by descriptor, shared receive queues with numbers, an
// initiator, and a target with several handles. They are created, used and destroyed at random.
#define _GNU_SOURCE
#include "link.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	FILES = 2, DOMAINS = 4, NUMBERED = 3, HANDLES = 3, ROUNDS = 24, ROOM = 8, BYTES = 400,
	FD_OFLAGS = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
	SRQ = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	OPEN = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE | IBV_QP_OPEN_ATTR_CONTEXT,
};

// opening is a domain that ibv_open_xrcd has returned. Several openings may be of the same domain.
struct opening {
	struct ibv_xrcd *xrcd;
	int file;  // index of the file that identifies the domain; -1: none
	int users; // queue pairs and shared receive queues
};

// numbered is a shared receive queue with a number.
struct numbered {
	struct ibv_srq *srq;
	struct opening *in;
	uint32_t number, room;
	unsigned posted, taken;
	uint64_t ids[1 << 10]; // of all receives that were posted
};

// handle is a handle of the target. All handles have the same number.
struct handle {
	struct ibv_qp *qp;
	struct opening *in;
};

struct xrc {
	struct ibv_context *ctx[2]; // of the same adapter
	int adapter, file[FILES];
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	uint8_t mem[2 * BYTES]; // data to send, and memory that the initiator reaches
	struct ibv_cq *sends, *receives;
	struct ibv_qp *initiator;
	bool connected;
	struct opening opening[DOMAINS];
	struct numbered srq[NUMBERED];
	struct handle handle[HANDLES];
};

// same reports whether two openings are of the same domain.
static bool same(const struct opening *a, const struct opening *b) { return a == b || (a->file >= 0 && a->file == b->file); }

static struct handle *target(struct xrc *x)
{
	for (int i = 0; i < HANDLES; i++)
		if (x->handle[i].qp != NULL)
			return &x->handle[i];
	return NULL;
}

static bool is_open_file(const struct xrc *x, int file)
{
	for (int i = 0; i < DOMAINS; i++)
		if (x->opening[i].xrcd != NULL && x->opening[i].file == file)
			return true;
	return false;
}

static void open_domain(struct xrc *x, struct opening *o)
{
	int file = (int)draw(FILES + 1) - 1, flags = (chance(70) ? O_CREAT : 0) | (chance(20) ? O_EXCL : 0);
	struct ibv_context *c = x->ctx[draw(2)];
	struct ibv_xrcd_init_attr a = {.comp_mask = FD_OFLAGS, .fd = file < 0 ? -1 : x->file[file], .oflags = flags};
	bool there = file >= 0 && is_open_file(x, file);
	int code = there && flags & O_EXCL ? EINVAL : file >= 0 && !there && !(flags & O_CREAT) ? EAGAIN : 0;
	switch (draw(20)) {
	case 0:
		a.comp_mask |= 4, code = EOPNOTSUPP;
		break;
	case 1:
		a.comp_mask = chance(50) ? IBV_XRCD_INIT_ATTR_FD : IBV_XRCD_INIT_ATTR_OFLAGS, code = EINVAL;
		break;
	case 2:
		a.fd = 1 << 20, code = EBADF;
	}
	if (code != 0) {
		REFUSES_NULL(ibv_open_xrcd(c, &a), code);
		return;
	}
	*o = (struct opening){.xrcd = MADE(ibv_open_xrcd(c, &a)), .file = file};
	WANT("ibv_open_xrcd", o->xrcd->context, c);
}

static void close_domain(struct opening *o)
{
	if (o->users > 0) {
		REFUSES(ibv_close_xrcd(o->xrcd), EBUSY);
		return;
	}
	WORKS(ibv_close_xrcd(o->xrcd));
	o->xrcd = NULL;
}

static void new_srq(struct xrc *x, struct numbered *s, struct opening *in)
{
	struct ibv_srq_init_attr_ex a = {
		.srq_context = s, .attr = {.max_wr = 1 + draw(ROOM), .max_sge = 1}, .srq_type = IBV_SRQT_XRC, .pd = x->pd, .xrcd = in->xrcd,
		.cq = x->receives, .comp_mask = SRQ,
	};
	if (chance(10)) { // without XRC domain, completion queue or protection domain
		a.comp_mask &= ~(unsigned)(chance(50) ? IBV_SRQ_INIT_ATTR_XRCD : chance(50) ? IBV_SRQ_INIT_ATTR_CQ : IBV_SRQ_INIT_ATTR_PD);
		REFUSES_NULL(ibv_create_srq_ex(x->ctx[0], &a), EINVAL);
		return;
	}
	uint32_t asked = a.attr.max_wr;
	*s = (struct numbered){.srq = MADE(ibv_create_srq_ex(x->ctx[0], &a)), .in = in, .room = a.attr.max_wr};
	WANT("ibv_create_srq_ex", a.attr.max_wr >= asked, true);
	WANT("ibv_create_srq_ex", s->srq->pd, x->pd);
	WANT("ibv_create_srq_ex", s->srq->srq_context, s);
	WORKS(ibv_get_srq_num(s->srq, &s->number));
	for (int i = 0; i < NUMBERED; i++)
		if (x->srq[i].srq != NULL && &x->srq[i] != s)
			WANT("ibv_get_srq_num: numbers of two queues are equal", x->srq[i].number == s->number, false);
	in->users++;
}

static void drop_srq(struct numbered *s)
{
	WORKS(ibv_destroy_srq(s->srq));
	s->in->users--;
	s->srq = NULL;
}

static void post_receives(struct xrc *x, struct numbered *s)
{
	struct ibv_sge sge = {(uintptr_t)x->mem + BYTES, BYTES, x->mr->lkey};
	struct ibv_recv_wr *bad = NULL, wr = {.wr_id = draw64(), .sg_list = &sge, .num_sge = 1};
	if (s->posted == sizeof s->ids / sizeof *s->ids)
		return;
	if (s->posted - s->taken == s->room) {
		REFUSES(ibv_post_srq_recv(s->srq, &wr, &bad), ENOMEM);
		WANT("ibv_post_srq_recv", bad, &wr);
		return;
	}
	WORKS(ibv_post_srq_recv(s->srq, &wr, &bad));
	s->ids[s->posted++] = wr.wr_id;
}

static void resize_srq(struct numbered *s)
{
	struct ibv_srq_attr a = {.max_wr = 1 + draw(2 * ROOM)};
	uint32_t size = 1;
	while (size < a.max_wr)
		size *= 2;
	if (size < s->posted - s->taken) {
		REFUSES(ibv_modify_srq(s->srq, &a, IBV_SRQ_MAX_WR), EINVAL);
	} else {
		WORKS(ibv_modify_srq(s->srq, &a, IBV_SRQ_MAX_WR));
		s->room = size;
	}
	WORKS(ibv_query_srq(s->srq, &a));
	WANT("ibv_query_srq", a.max_wr, s->room);
}

static void new_target(struct xrc *x, struct handle *h, struct opening *in)
{
	struct ibv_context *c = in->xrcd->context;
	struct ibv_qp_init_attr_ex a = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = in->xrcd, .qp_context = h};
	if (chance(10)) {
		a.comp_mask = chance(50) ? 0 : IBV_QP_INIT_ATTR_PD, a.pd = x->pd;
		REFUSES_NULL(ibv_create_qp_ex(c, &a), EINVAL);
		return;
	}
	*h = (struct handle){MADE(ibv_create_qp_ex(c, &a)), in};
	WANT("ibv_create_qp_ex", h->qp->qp_type, IBV_QPT_XRC_RECV);
	WANT("ibv_create_qp_ex", h->qp->qp_context, h);
	WANT("ibv_create_qp_ex", h->qp->state, IBV_QPS_RESET);
	WANT("ibv_create_qp_ex", h->qp->pd, NULL);
	in->users++;
}

// another opens the target once more, in an opening that may be of another domain.
static void another(struct xrc *x, struct handle *h, struct opening *in)
{
	struct handle *t = target(x);
	struct ibv_qp_open_attr a = {.comp_mask = OPEN, .qp_num = t->qp->qp_num, .xrcd = in->xrcd, .qp_context = h, .qp_type = IBV_QPT_XRC_RECV};
	struct ibv_context *c = in->xrcd->context;
	int code = same(t->in, in) ? 0 : EINVAL;
	switch (draw(8)) {
	case 0:
		a.comp_mask |= 1 << 10, code = EOPNOTSUPP;
		break;
	case 1:
		a.qp_num = x->initiator->qp_num, code = EINVAL;
		break;
	case 2:
		a.qp_type = IBV_QPT_RC, code = EINVAL;
	}
	if (code != 0) {
		REFUSES_NULL(ibv_open_qp(c, &a), code);
		return;
	}
	*h = (struct handle){MADE(ibv_open_qp(c, &a)), in};
	WANT("ibv_open_qp", h->qp->qp_num, t->qp->qp_num);
	WANT("ibv_open_qp", h->qp->qp_context, h);
	in->users++;
}

static void drop_handle(struct xrc *x, struct handle *h)
{
	WORKS(ibv_destroy_qp(h->qp));
	h->in->users--;
	h->qp = NULL;
	if (target(x) == NULL)
		x->connected = false;
}

// move moves one end from RESET to RTS with the attributes of RC, or only with those of its type.
static void move(struct xrc *x, struct ibv_qp *q, uint32_t peer)
{
	bool sends = q->qp_type == IBV_QPT_XRC_SEND, all = chance(50);
	int responds = all || !sends ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0;
	int requests = all || sends ? IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};
	WORKS(ibv_modify_qp(q, &a, IBV_QP_STATE));
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL_ACCESS, .path_mtu = IBV_MTU_256, .dest_qp_num = peer, .rq_psn = 7, .sq_psn = 7,
		.max_dest_rd_atomic = 4, .max_rd_atomic = 4, .min_rnr_timer = 1, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7,
	};
	fill_av(&a.ah_attr, x->adapter);
	WORKS(ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	a.qp_state = IBV_QPS_RTR;
	WORKS(ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | responds));
	a.qp_state = IBV_QPS_RTS;
	WORKS(ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | requests));
	WANT("ibv_modify_qp", q->state, IBV_QPS_RTS);
}

static void connect_ends(struct xrc *x)
{
	struct handle *t = target(x);
	move(x, x->initiator, t->qp->qp_num);
	move(x, t->qp, x->initiator->qp_num);
	x->connected = true;
}

static struct ibv_wc next_wc(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	waits_for("a completion of XRC");
	while (ibv_poll_cq(cq, 1, &wc) == 0)
		;
	waits_for(NULL);
	return wc;
}

// post posts a request to a shared receive queue, through either posting interface.
static void post(struct xrc *x, enum ibv_wr_opcode op, uint64_t id, uint32_t n, uint32_t number)
{
	struct ibv_qp_ex *q = ibv_qp_to_qp_ex(x->initiator);
	struct ibv_sge sge = {(uintptr_t)x->mem, n, x->mr->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = op, .send_flags = IBV_SEND_SIGNALED};
	wr.wr.rdma.remote_addr = (uintptr_t)x->mem + BYTES, wr.wr.rdma.rkey = x->mr->rkey;
	wr.qp_type.xrc.remote_srqn = number;
	if (chance(50)) {
		WORKS(ibv_post_send(x->initiator, &wr, &bad));
		return;
	}
	ibv_wr_start(q);
	q->wr_id = id, q->wr_flags = IBV_SEND_SIGNALED;
	if (op == IBV_WR_SEND)
		ibv_wr_send(q);
	else
		ibv_wr_rdma_write(q, x->mr->rkey, (uintptr_t)x->mem + BYTES);
	ibv_wr_set_xrc_srqn(q, number);
	ibv_wr_set_sge(q, x->mr->lkey, (uintptr_t)x->mem, n);
	WORKS(ibv_wr_complete(q));
}

// send lets the initiator send or write. The request names a queue of any domain, or no queue.
static void send(struct xrc *x, struct numbered *s)
{
	bool nowhere = chance(5), right = !nowhere && same(s->in, target(x)->in);
	enum ibv_wr_opcode op = chance(60) ? IBV_WR_SEND : IBV_WR_RDMA_WRITE;
	uint64_t id = draw64();
	uint32_t n = draw(BYTES);
	if (right && op == IBV_WR_SEND && s->posted == s->taken)
		return; // it would wait for a receive
	scribble(x->mem, BYTES);
	post(x, op, id, n, nowhere ? 0xffffff : s->number);
	struct ibv_wc wc = next_wc(x->sends);
	WANT("a request of XRC", wc.wr_id, id);
	WANT("a request of XRC", wc.status, right ? IBV_WC_SUCCESS : IBV_WC_REM_INV_REQ_ERR);
	WANT("a request of XRC", wc.qp_num, x->initiator->qp_num);
	x->connected = right;
	if (!right)
		return;
	if (op == IBV_WR_SEND) {
		wc = next_wc(x->receives);
		WANT("a receive of XRC", wc.status, IBV_WC_SUCCESS);
		WANT("a receive of XRC", wc.wr_id, s->ids[s->taken++]);
		WANT("a receive of XRC", wc.byte_len, n);
		WANT("a receive of XRC", wc.qp_num, target(x)->qp->qp_num);
		WANT("a receive of XRC", wc.src_qp, x->initiator->qp_num);
	}
	want_bytes("a request of XRC", "memory", x->mem + BYTES, x->mem, n);
	WANT("completions beyond those of XRC", ibv_poll_cq(x->receives, 1, &wc), 0);
}

// refused_posts checks that the target has no queues of its own, and the initiator no receive queue.
static void refused_posts(struct xrc *x, struct handle *h)
{
	struct ibv_send_wr *bad_send = NULL, send = {.opcode = IBV_WR_SEND};
	struct ibv_recv_wr *bad = NULL, recv = {0};
	REFUSES(ibv_post_send(h->qp, &send, &bad_send), EINVAL);
	WANT("ibv_post_send", bad_send, &send);
	REFUSES(ibv_post_recv(h->qp, &recv, &bad), EINVAL);
	WANT("ibv_post_recv", bad, &recv);
	REFUSES(ibv_post_recv(x->initiator, &recv, &bad), EINVAL);
}

static void on_srq(struct xrc *x, struct numbered *s, struct opening *o)
{
	if (s->srq == NULL) {
		if (o->xrcd != NULL && o->xrcd->context == x->ctx[0])
			new_srq(x, s, o);
		return;
	}
	switch (draw(6)) {
	case 0:
		drop_srq(s);
		break;
	case 1:
		resize_srq(s);
		break;
	case 2:
		REFUSES(ibv_destroy_cq(x->receives), EBUSY);
		break;
	default:
		post_receives(x, s);
	}
}

static void on_handle(struct xrc *x, struct handle *h, struct opening *o)
{
	if (h->qp != NULL && chance(40))
		drop_handle(x, h);
	else if (h->qp != NULL)
		refused_posts(x, h);
	else if (o->xrcd != NULL && target(x) != NULL)
		another(x, h, o);
	else if (o->xrcd != NULL)
		new_target(x, h, o);
}

static void act(struct xrc *x)
{
	struct opening *o = &x->opening[draw(DOMAINS)];
	struct numbered *s = &x->srq[draw(NUMBERED)];
	switch (draw(8)) {
	case 0:
		if (o->xrcd == NULL)
			open_domain(x, o);
		else
			close_domain(o);
		break;
	case 1:
	case 2:
		on_srq(x, s, o);
		break;
	case 3:
		on_handle(x, &x->handle[draw(HANDLES)], o);
		break;
	default:
		if (s->srq == NULL || target(x) == NULL)
			on_srq(x, s, o);
		else if (!x->connected)
			connect_ends(x);
		else
			send(x, s);
	}
}

static void open_all(struct xrc *x)
{
	x->adapter = (int)draw(ADAPTERS);
	for (int i = 0; i < 2; i++)
		x->ctx[i] = MADE(ibv_open_device(me->ctx[x->adapter]->device));
	for (int i = 0; i < FILES; i++)
		x->file[i] = memfd_create("domain", MFD_CLOEXEC);
	x->pd = MADE(ibv_alloc_pd(x->ctx[0]));
	x->mr = MADE(ibv_reg_mr(x->pd, x->mem, sizeof x->mem, ALL_ACCESS));
	x->sends = MADE(ibv_create_cq(x->ctx[0], DEPTH, NULL, NULL, 0));
	x->receives = MADE(ibv_create_cq(x->ctx[0], DEPTH, NULL, NULL, 0));
	struct ibv_qp_init_attr_ex a = {
		.send_cq = x->sends, .cap = {.max_send_wr = DEPTH, .max_send_sge = 1}, .qp_type = IBV_QPT_XRC_SEND, .pd = x->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE,
	};
	x->initiator = MADE(ibv_create_qp_ex(x->ctx[0], &a));
	WANT("ibv_create_qp_ex of an initiator", a.cap.max_recv_wr, 0);
	for (int i = 0; i < DOMAINS; i++)
		x->opening[i].file = -1;
}

// close_all destroys everything, each object before the objects that it uses.
static void close_all(struct xrc *x)
{
	for (int i = 0; i < HANDLES; i++)
		if (x->handle[i].qp != NULL)
			drop_handle(x, &x->handle[i]);
	for (int i = 0; i < NUMBERED; i++)
		if (x->srq[i].srq != NULL)
			drop_srq(&x->srq[i]);
	for (int i = 0; i < DOMAINS; i++)
		if (x->opening[i].xrcd != NULL)
			close_domain(&x->opening[i]);
	WORKS(ibv_destroy_qp(x->initiator));
	WORKS(ibv_destroy_cq(x->receives));
	WORKS(ibv_destroy_cq(x->sends));
	WORKS(ibv_dereg_mr(x->mr));
	WORKS(ibv_dealloc_pd(x->pd));
}

static void step_xrc(void)
{
	struct xrc *x = MADE(calloc(1, sizeof *x));
	open_all(x);
	for (int n = 0; n < ROUNDS; n++)
		act(x);
	if (chance(50))
		close_all(x); // otherwise the objects are left when the contexts close
	for (int i = 0; i < 2; i++)
		WORKS(ibv_close_device(x->ctx[i]));
	for (int i = 0; i < FILES; i++) {
		struct ibv_xrcd_init_attr a = {.comp_mask = FD_OFLAGS, .fd = x->file[i]};
		REFUSES_NULL(ibv_open_xrcd(me->ctx[x->adapter], &a), EAGAIN); // no opening is left
		close(x->file[i]);
	}
	free(x);
}

const struct step xrc_steps[] = {{"xrc", 6, step_xrc}, {NULL, 0, NULL}};

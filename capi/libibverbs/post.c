// Posting: the library writes requests where the engine reads them.
#define _GNU_SOURCE
#include "check.h"
#include "operations.h"

#include <arpa/inet.h>

// A message has at most 2^31 bytes.
#define MAX_MESSAGE ((uint64_t)1 << 31)

enum { KNOWN_FLAGS = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE };

// has reports whether queue pairs of a type take a request.
static bool has(const struct operation *o, enum ibv_qp_type t) { return (unsigned)t < 32 && (o->services >> t & 1) != 0; }

// operation_of returns the row of an entry, which other threads of the program may overwrite.
static const struct operation *operation_of(const struct ring_send *e) { return &operations[e->opcode % 32]; }

// suits reports whether n bytes of payload are as many as an operation with payload carries.
static bool suits(const struct operation *o, uint64_t n) { return !o->carries || o->size == 0 || n == o->size; }

static bool full(const struct ring *r, uint32_t prod)
{
	return prod - atomic_load_explicit(&r->cons, memory_order_acquire) > r->mask;
}

// no_room reports whether a send queue takes no request at index prod.
static bool no_room(struct qp *q, uint32_t prod)
{
	return (UNLIKELY(checking) && check_full_sends(q, prod - atomic_load_explicit(&q->send->prod, memory_order_relaxed))) || full(q->send, prod);
}

// put_list and put_inline write a payload after an entry.
static int put_list(struct qp *q, struct ring_send *e, const struct ibv_sge *list, size_t n)
{
	uint64_t length = 0;
	if (n > q->cap.send_sge)
		return EINVAL;
	for (size_t i = 0; i < n; i++)
		length += list[i].length;
	if (length > MAX_MESSAGE || length < operation_of(e)->size || !suits(operation_of(e), length))
		return EINVAL;
	if (n > 0)
		memcpy(e + 1, list, n * sizeof *list);
	e->num_sge = (uint8_t)n;
	e->length = (uint32_t)length;
	return 0;
}

static int put_inline(struct qp *q, struct ring_send *e, uint32_t *at, const void *data, size_t n)
{
	if (!operation_of(e)->carries || n > q->cap.inline_data - *at)
		return EINVAL;
	if (n > 0)
		memcpy((uint8_t *)(e + 1) + *at, data, n);
	*at += (uint32_t)n;
	e->num_sge = 0;
	e->length = *at;
	return 0;
}

// put_bind writes what a request binds to a window.
static int put_bind(struct ring_send *e, const struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *b)
{
	if (b->mr == NULL && b->length != 0)
		return EINVAL;
	e->remote_addr = b->addr;
	e->compare_add = b->length;
	e->swap = (uint64_t)b->mw_access_flags << 32 | (b->mr != NULL ? b->mr->lkey : 0);
	e->rkey = mw->rkey;
	e->imm = rkey;
	return 0;
}

// put_local writes a request that sends nothing.
static int put_local(struct ring_send *e, const struct ibv_send_wr *wr)
{
	e->length = 0, e->num_sge = 0;
	if (wr->num_sge != 0 || wr->send_flags & IBV_SEND_INLINE)
		return EINVAL;
	if (wr->opcode == IBV_WR_LOCAL_INV) {
		e->imm = wr->invalidate_rkey;
		return 0;
	}
	if (wr->bind_mw.mw->type != IBV_MW_TYPE_2)
		return EINVAL; // ibv_bind_mw binds windows of type 1
	return put_bind(e, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
}

// put_send writes a request into the entry of index prod.
static int put_send(struct qp *q, uint32_t prod, const struct ibv_send_wr *wr)
{
	struct ring_send *e = ring_entry(q->send, prod);
	if ((unsigned)wr->opcode > 31 || !has(&operations[wr->opcode], q->ibv.qp_type) || wr->num_sge < 0)
		return EINVAL;
	if (UNLIKELY((unsigned)wr->opcode == WR_FLUSH))
		return EINVAL; // struct ibv_send_wr has no type and level
	e->wr_id = wr->wr_id;
	e->opcode = (uint8_t)wr->opcode;
	e->flags = (uint8_t)(wr->send_flags & KNOWN_FLAGS);
	if (UNLIKELY(operation_of(e)->local))
		return put_local(e, wr);
	e->imm = operation_of(e)->invalidates ? wr->invalidate_rkey : ntohl(wr->imm_data);
	if (operation_of(e)->atomic) {
		e->remote_addr = wr->wr.atomic.remote_addr;
		e->rkey = wr->wr.atomic.rkey;
		e->compare_add = wr->wr.atomic.compare_add;
		e->swap = wr->wr.atomic.swap;
	} else if (q->ibv.qp_type == IBV_QPT_UD) {
		const struct ah *a = CONTAINER(wr->wr.ud.ah, struct ah, ibv);
		if (UNLIKELY(checking))
			check_ah(a);
		*ring_to(q->send, e) = (struct ring_to){a->handle, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey};
	} else {
		e->remote_addr = wr->wr.rdma.remote_addr;
		e->rkey = wr->wr.rdma.rkey;
	}
	if (q->ibv.qp_type == IBV_QPT_XRC_SEND)
		*ring_to(q->send, e) = (struct ring_to){.ah = wr->qp_type.xrc.remote_srqn};
	if (!(e->flags & IBV_SEND_INLINE))
		return put_list(q, e, wr->sg_list, (size_t)wr->num_sge);
	uint32_t at = 0;
	e->length = 0, e->num_sge = 0;
	for (int i = 0; i < wr->num_sge; i++) {
		int code = put_inline(q, e, &at, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		if (code != 0)
			return code;
	}
	return suits(operation_of(e), at) ? 0 : EINVAL;
}

// The largest number of requests, and of payload bytes, that a producer posts without ringing
// the doorbell: half of the amount at which the engine sends by itself.
enum { SUPPRESSED_REQUESTS = 32, SUPPRESSED_BYTES = 8 << 10 };

// publish makes the requests before index prod visible to the engine, and reports whether the
// caller has to ring the doorbell: not while the engine suppresses it, unless it has been
// suppressed for too long. p counts the posted requests; publish adds those of suppressed
// doorbells. The lock is held.
static bool publish(struct qp *q, uint32_t prod, struct softhca_posted *p)
{
	if (UNLIKELY(checking))
		check_sends(q, atomic_load_explicit(&q->send->prod, memory_order_relaxed), prod);
	atomic_store(&q->send->prod, prod);
	if (atomic_load(&q->send->flags) & RING_SUPPRESS) {
		uint64_t since = atomic_load_explicit(&q->dev->waits, memory_order_relaxed);
		p->requests += q->suppressed.requests;
		p->bytes += q->suppressed.bytes;
		if (p->requests < SUPPRESSED_REQUESTS && p->bytes < SUPPRESSED_BYTES && now_ns() - since < OVERDUE) {
			q->suppressed = *p;
			return false;
		}
	}
	q->suppressed = (struct softhca_posted){0};
	return p->requests > 0;
}

int ring_doorbell(struct qp *q, struct softhca_posted *p)
{
	int waits = 0;
	int code = HOT(q->dev, doorbell, q->handle, p, &waits);
	if (waits && atomic_load_explicit(&q->dev->waits, memory_order_relaxed) == 0)
		atomic_store_explicit(&q->dev->waits, now_ns(), memory_order_relaxed);
	return code;
}

// post_list posts a list. It reports whether to ring the doorbell, and the arguments for it.
static int post_list(struct qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad, struct softhca_posted *p, bool *ring)
{
	int code = 0;
	spin_lock(SEND_LOCK, &q->send_lock);
	uint32_t prod = atomic_load_explicit(&q->send->prod, memory_order_relaxed);
	p->behind = prod != atomic_load_explicit(&q->send->cons, memory_order_relaxed);
	for (; wr != NULL; wr = wr->next) {
		if (UNLIKELY(q->ibv.state < IBV_QPS_RTS))
			code = EINVAL;
		else if (UNLIKELY(no_room(q, prod)))
			code = ENOMEM;
		else
			code = put_send(q, prod, wr);
		if (UNLIKELY(code != 0)) {
			*bad = wr;
			break;
		}
		p->bytes += ((struct ring_send *)ring_entry(q->send, prod))->length;
		p->requests++;
		prod++;
	}
	*ring = publish(q, prod, p);
	spin_unlock(&q->send_lock);
	return code;
}

// post_watched posts and sends one request at a time, so that a fault rule for one request
// finds the previous ones in flight.
static int post_watched(struct qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	for (struct ibv_send_wr *next; wr != NULL; wr = next) {
		struct softhca_posted p = {0}, none = {0};
		struct ibv_send_wr one = *wr, *refused;
		bool ring;
		next = wr->next;
		one.next = NULL;
		int code = ENGINE(q->dev, check, q->handle, SOFTHCA_SEND);
		if (code == 0 && (code = post_list(q, &one, &refused, &p, &ring)) == EINVAL)
			refused_send(q, "ibv_post_send", wr);
		if (code != 0) {
			*bad = wr;
			return code;
		}
		ring_doorbell(q, &none);
	}
	return 0;
}

VERB(int, post_send, (struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad), ibv, wr, bad)
{
	struct qp *q = CONTAINER(ibv, struct qp, ibv);
	struct softhca_posted p = {0};
	if (UNLIKELY(q->watched))
		return post_watched(q, wr, bad);
	bool ring;
	int code = post_list(q, wr, bad, &p, &ring);
	if (UNLIKELY(code == EINVAL))
		refused_send(q, "ibv_post_send", *bad);
	if (ring) {
		int dead = ring_doorbell(q, &p);
		if (code == 0 && dead != 0) {
			*bad = wr; // none of the list is sent
			code = dead;
		}
	}
	return code;
}

// put_recv writes a receive into the entry of index prod.
static int put_recv(struct ring *r, uint32_t prod, const struct ibv_recv_wr *wr, uint32_t max_sge)
{
	uint64_t length = 0;
	if (full(r, prod))
		return ENOMEM;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > max_sge)
		return EINVAL;
	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	if (length > MAX_MESSAGE)
		return EINVAL;
	struct ring_recv *e = ring_entry(r, prod);
	*e = (struct ring_recv){wr->wr_id, (uint32_t)length, (uint32_t)wr->num_sge};
	if (wr->num_sge > 0)
		memcpy(e + 1, wr->sg_list, (size_t)wr->num_sge * sizeof *wr->sg_list);
	return 0;
}

VERB(int, post_recv, (struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad), ibv, wr, bad)
{
	struct qp *q = CONTAINER(ibv, struct qp, ibv);
	int code = 0, rule = 0;
	if (q->recv == NULL) {
		*bad = wr;
		refused_recv(q, wr);
		return EINVAL;
	}
	spin_lock(RECV_LOCK, &q->recv_lock);
	uint32_t prod = atomic_load_explicit(&q->recv->prod, memory_order_relaxed);
	for (; wr != NULL; wr = wr->next) {
		if (q->ibv.state == IBV_QPS_RESET)
			code = EINVAL;
		else if (!UNLIKELY(q->watched) || (code = rule = ENGINE(q->dev, check, q->handle, SOFTHCA_RECV)) == 0)
			code = UNLIKELY(checking) && check_full_receives(q) ? ENOMEM : put_recv(q->recv, prod, wr, q->cap.recv_sge);
		if (code != 0) {
			*bad = wr;
			break;
		}
		if (UNLIKELY(checking))
			check_receives(q, prod);
		atomic_store(&q->recv->prod, ++prod);
	}
	spin_unlock(&q->recv_lock);
	if (UNLIKELY(code == EINVAL && rule == 0)) // the engine has told of a rule
		refused_recv(q, wr);
	if (UNLIKELY(atomic_load(&q->recv->flags) & RING_DOORBELL)) {
		struct softhca_posted none = {0};
		ring_doorbell(q, &none);
	}
	return code;
}

VERB(int, post_srq_recv, (struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad), ibv, wr, bad)
{
	struct srq *s = CONTAINER(ibv, struct srq, ibv);
	int code = 0, rule = 0;
	spin_lock(RECV_LOCK, &s->lock);
	uint32_t prod = atomic_load_explicit(&s->ring->prod, memory_order_relaxed);
	for (; wr != NULL; wr = wr->next) {
		if (!UNLIKELY(s->watched) || (code = rule = ENGINE(device_of(ibv->context), check_srq, s->handle)) == 0)
			code = UNLIKELY(checking) && check_full_srq(s) ? ENOMEM : put_recv(s->ring, prod, wr, s->max_sge);
		if (code != 0) {
			*bad = wr;
			break;
		}
		if (UNLIKELY(checking))
			check_srq_receives(s, prod);
		atomic_store(&s->ring->prod, ++prod);
	}
	spin_unlock(&s->lock);
	if (UNLIKELY(code == EINVAL && rule == 0)) // as above
		refused_srq_recv(s, wr);
	return code;
}

// With the extended calls a program writes a request in pieces: the operation first, then
// destination and payload in any order. wr_complete publishes all requests since wr_start.

// begin starts a request, or records why the whole list fails.
static struct ring_send *begin(struct ibv_qp_ex *ex, uint8_t opcode)
{
	static __thread struct ring_send nowhere; // takes the rest of a list that has failed
	struct qp *q = CONTAINER(ex, struct qp, ex);
	if (q->failed == 0 && no_room(q, q->prod))
		q->failed = ENOMEM;
	struct ring_send *e = q->failed == 0 ? ring_entry(q->send, q->prod++) : &nowhere;
	e->wr_id = ex->wr_id;
	e->opcode = opcode;
	e->flags = (uint8_t)(ex->wr_flags & (KNOWN_FLAGS & ~IBV_SEND_INLINE));
	e->length = 0, e->num_sge = 0;
	return e;
}

static struct ring_send *current(struct qp *q) { return q->failed == 0 ? ring_entry(q->send, q->prod - 1) : NULL; }

static void wr_rdma(struct ibv_qp_ex *q, uint8_t opcode, uint32_t rkey, uint64_t addr, __be32 imm)
{
	struct ring_send *e = begin(q, opcode);
	e->rkey = rkey, e->remote_addr = addr, e->imm = ntohl(imm);
}

static void wr_send(struct ibv_qp_ex *q) { begin(q, IBV_WR_SEND); }
static void wr_send_imm(struct ibv_qp_ex *q, __be32 imm) { begin(q, IBV_WR_SEND_WITH_IMM)->imm = ntohl(imm); }
static void wr_send_inv(struct ibv_qp_ex *q, uint32_t rkey) { begin(q, IBV_WR_SEND_WITH_INV)->imm = rkey; }
static void wr_rdma_write(struct ibv_qp_ex *q, uint32_t rkey, uint64_t addr) { wr_rdma(q, IBV_WR_RDMA_WRITE, rkey, addr, 0); }
static void wr_rdma_read(struct ibv_qp_ex *q, uint32_t rkey, uint64_t addr) { wr_rdma(q, IBV_WR_RDMA_READ, rkey, addr, 0); }
static void wr_rdma_write_imm(struct ibv_qp_ex *q, uint32_t rkey, uint64_t addr, __be32 imm)
{
	wr_rdma(q, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr, imm);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *q, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap)
{
	struct ring_send *e = begin(q, IBV_WR_ATOMIC_CMP_AND_SWP);
	e->rkey = rkey, e->remote_addr = addr, e->compare_add = compare, e->swap = swap;
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *q, uint32_t rkey, uint64_t addr, uint64_t add)
{
	struct ring_send *e = begin(q, IBV_WR_ATOMIC_FETCH_AND_ADD);
	e->rkey = rkey, e->remote_addr = addr, e->compare_add = add, e->swap = 0;
}

static void wr_local_inv(struct ibv_qp_ex *q, uint32_t rkey) { begin(q, IBV_WR_LOCAL_INV)->imm = rkey; }

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *b)
{
	struct qp *q = CONTAINER(ex, struct qp, ex);
	int code = put_bind(begin(ex, IBV_WR_BIND_MW), mw, rkey, b);
	if (q->failed == 0)
		q->failed = code;
}

// The 8 bytes are the payload, so no other call sets it.
static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, const void *value)
{
	struct qp *q = CONTAINER(ex, struct qp, ex);
	uint32_t at = 0;
	wr_rdma(ex, IBV_WR_ATOMIC_WRITE, rkey, addr, 0);
	struct ring_send *e = current(q);
	if (e == NULL)
		return;
	e->flags |= IBV_SEND_INLINE;
	q->failed = put_inline(q, e, &at, value, 8);
	q->bytes += at;
}

static void wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, size_t length, uint8_t type, uint8_t level)
{
	struct qp *q = CONTAINER(ex, struct qp, ex);
	struct ring_send *e = begin(ex, WR_FLUSH);
	e->rkey = rkey, e->remote_addr = addr, e->compare_add = length, e->imm = type | (uint32_t)level << 4;
	if (q->failed == 0 && ((type & ~FLUSH_TYPES) != 0 || type == 0 || level > FLUSH_MR || length > MAX_MESSAGE))
		q->failed = EINVAL;
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct qp *q = CONTAINER(ex, struct qp, ex);
	struct ring_send *e = current(q);
	if (UNLIKELY(checking))
		check_ah(CONTAINER(ah, struct ah, ibv));
	if (e != NULL)
		*ring_to(q->send, e) = (struct ring_to){CONTAINER(ah, struct ah, ibv)->handle, qpn, qkey};
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
	struct qp *q = CONTAINER(ex, struct qp, ex);
	struct ring_send *e = current(q);
	if (e != NULL)
		*ring_to(q->send, e) = (struct ring_to){.ah = srqn};
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
	struct qp *q = CONTAINER(ex, struct qp, ex);
	struct ring_send *e = current(q);
	if (e != NULL && (q->failed = put_list(q, e, list, n)) == 0)
		q->bytes += e->length;
}

static void wr_set_sge(struct ibv_qp_ex *q, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge one = {addr, length, lkey};
	wr_set_sge_list(q, 1, &one);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list)
{
	struct qp *q = CONTAINER(ex, struct qp, ex);
	struct ring_send *e = current(q);
	uint32_t at = 0;
	if (e == NULL)
		return;
	e->flags |= IBV_SEND_INLINE;
	for (size_t i = 0; i < n && q->failed == 0; i++)
		q->failed = put_inline(q, e, &at, list[i].addr, list[i].length);
	q->bytes += at;
}

static void wr_set_inline_data(struct ibv_qp_ex *q, void *addr, size_t length)
{
	struct ibv_data_buf one = {addr, length};
	wr_set_inline_data_list(q, 1, &one);
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct qp *q = CONTAINER(ex, struct qp, ex);
	spin_lock(SEND_LOCK, &q->send_lock);
	q->first = q->prod = atomic_load_explicit(&q->send->prod, memory_order_relaxed);
	q->failed = q->ibv.state < IBV_QPS_RTS ? EINVAL : 0;
	q->bytes = 0;
}

static void wr_abort(struct ibv_qp_ex *ex) { spin_unlock(&CONTAINER(ex, struct qp, ex)->send_lock); }

// A list is posted as a whole or not at all, so the library asks the fault rules first.
static VERB(int, wr_complete, (struct ibv_qp_ex *ex), ex)
{
	struct qp *q = CONTAINER(ex, struct qp, ex);
	int code = q->failed;
	for (uint32_t i = q->first; UNLIKELY(q->watched) && code == 0 && i != q->prod; i++)
		code = ENGINE(q->dev, check, q->handle, SOFTHCA_SEND);
	if (code != 0) {
		wr_abort(ex);
		if (q->failed == EINVAL)
			refused_send(q, "ibv_wr_complete", NULL);
		return code;
	}
	struct softhca_posted p = {
		.requests = q->prod - q->first, .bytes = q->bytes,
		.behind = q->first != atomic_load_explicit(&q->send->cons, memory_order_relaxed),
	};
	bool ring = publish(q, q->prod, &p);
	spin_unlock(&q->send_lock);
	return ring ? ring_doorbell(q, &p) : 0;
}

uint64_t wr_ops(enum ibv_qp_type t)
{
	uint64_t ops = 0;
	for (int i = 0; i < 32; i++)
		if (has(&operations[i], t))
			ops |= operations[i].extended;
	return ops;
}

void fill_wr_ops(struct qp *q, uint64_t ops)
{
	struct ibv_qp_ex *x = &q->ex;
	q->extended = true;
	x->wr_start = wr_start, x->wr_complete = wr_complete, x->wr_abort = wr_abort;
	x->wr_set_sge = wr_set_sge, x->wr_set_sge_list = wr_set_sge_list;
	x->wr_set_inline_data = wr_set_inline_data, x->wr_set_inline_data_list = wr_set_inline_data_list;
	if (q->ibv.qp_type == IBV_QPT_UD)
		x->wr_set_ud_addr = wr_set_ud_addr;
	if (q->ibv.qp_type == IBV_QPT_XRC_SEND)
		x->wr_set_xrc_srqn = wr_set_xrc_srqn;
#define OFFER(flag, call)                                                                      \
	if (ops & (flag))                                                                      \
	x->call = call
	OFFER(IBV_QP_EX_WITH_SEND, wr_send);
	OFFER(IBV_QP_EX_WITH_SEND_WITH_IMM, wr_send_imm);
	OFFER(IBV_QP_EX_WITH_SEND_WITH_INV, wr_send_inv);
	OFFER(IBV_QP_EX_WITH_RDMA_WRITE, wr_rdma_write);
	OFFER(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, wr_rdma_write_imm);
	OFFER(IBV_QP_EX_WITH_RDMA_READ, wr_rdma_read);
	OFFER(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, wr_atomic_cmp_swp);
	OFFER(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, wr_atomic_fetch_add);
	OFFER(IBV_QP_EX_WITH_LOCAL_INV, wr_local_inv);
	OFFER(IBV_QP_EX_WITH_BIND_MW, wr_bind_mw);
	OFFER(IBV_QP_EX_WITH_ATOMIC_WRITE, wr_atomic_write);
	if (ops & QP_EX_WITH_FLUSH)
		q->wr_flush = wr_flush;
#undef OFFER
}

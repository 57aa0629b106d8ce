// Requests: drawing them, posting them by ibv_post_send or the extended calls, and
// predicting their effect on memory.
#define _GNU_SOURCE
#include "link.h"

#include <sched.h>
#include <stddef.h>

// The member of struct ibv_qp_ex that headers before rdma-core 46 lack.
struct flusher {
	char up_to_flush[offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void (*)(void))];
	void (*wr_flush)(struct ibv_qp_ex *q, uint32_t rkey, uint64_t addr, size_t length, uint8_t type, uint8_t level);
};

bool is_answered(enum ibv_wr_opcode op) { return op == IBV_WR_RDMA_READ || op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD; }

bool is_received(enum ibv_wr_opcode op) { return op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM; }

static bool is_atomic(enum ibv_wr_opcode op) { return is_answered(op) && op != IBV_WR_RDMA_READ; }

static bool is_flush(enum ibv_wr_opcode op) { return (unsigned)op == WR_FLUSH; }

// is_word reports whether an operation is on 8 bytes at a multiple of 8.
static bool is_word(enum ibv_wr_opcode op) { return is_atomic(op) || op == IBV_WR_ATOMIC_WRITE; }

static enum ibv_wr_opcode draw_op(enum ibv_qp_type t)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_WRITE,
	};
	return ops[draw(t == IBV_QPT_UD ? 2 : t == IBV_QPT_UC ? 4 : 8)];
}

// Data to send may start at any address, also inline data.
static void draw_source(struct end *e, struct request *r)
{
	uint32_t most = r->flags & IBV_SEND_INLINE ? INLINE : r->op == IBV_WR_RDMA_WRITE ? MOST_WRITTEN : MOST;
	r->num_sge = (int)draw(MAX_SGE + 1);
	for (int i = 0; i < r->num_sge; i++) {
		uint32_t n = draw(most / MAX_SGE + 1);
		r->sge[i] = (struct ibv_sge){(uintptr_t)e->buf + SENT + draw(PART - n), n, e->mr->lkey};
		if (r->flags & IBV_SEND_INLINE) // inline data needs no region
			r->sge[i].addr = (uintptr_t)r->data + r->length + 3 * (unsigned)i, r->sge[i].lkey = 0xbad;
		r->length += n;
	}
	scribble(r->data, sizeof r->data);
}

// The value of an ATOMIC WRITE is one element of 8 bytes.
static void draw_value(struct end *e, struct request *r)
{
	r->num_sge = 1, r->length = 8;
	r->sge[0] = (struct ibv_sge){(uintptr_t)e->buf + SENT + draw(PART - 8), 8, e->mr->lkey};
	scribble(r->data, sizeof r->data);
	if (r->flags & IBV_SEND_INLINE)
		r->sge[0].addr = (uintptr_t)r->data, r->sge[0].lkey = 0xbad;
}

// A read stores its data in the request's slot, the second element at the lower address.
static void draw_target(struct end *e, struct request *r, unsigned i)
{
	uintptr_t at = (uintptr_t)e->buf + READ + i * SLOT;
	r->length = is_atomic(r->op) ? 8 : draw(MOST + 1);
	uint32_t first = is_atomic(r->op) ? 8 : draw(r->length + 1);
	r->sge[0] = (struct ibv_sge){at + r->length - first, first, e->mr->lkey};
	r->sge[1] = (struct ibv_sge){at, r->length - first, e->mr->lkey};
	r->num_sge = first == r->length ? 1 : 2;
}

void draw_request(struct link *l, struct end *e, struct request *r, unsigned i)
{
	struct end *to = peer_of(l, e);
	*r = (struct request){
		.op = draw_op(l->type), .wr_id = draw64(), .imm = (__be32)draw64(), .compare = draw(3), .swap = draw64(), .rkey = to->mr->rkey,
		.flags = (chance(40) ? IBV_SEND_SIGNALED : 0) | (chance(20) ? IBV_SEND_SOLICITED : 0),
	};
	if (is_answered(r->op)) {
		draw_target(e, r, i);
	} else {
		r->flags |= chance(40) ? IBV_SEND_INLINE : 0;
		(r->op == IBV_WR_ATOMIC_WRITE ? draw_value : draw_source)(e, r);
	}
	r->remote = (uintptr_t)to->buf + REACHED + draw(PART - MOST_WRITTEN) / 8 * 8;
	if (!is_word(r->op))
		r->remote += draw(8);
	else if (is_atomic(r->op) && chance(50)) // the comparison succeeds unless another request changes the value
		memcpy(&r->compare, to->shadow + (r->remote - (uintptr_t)to->buf), sizeof r->compare);
}

// draw_flush makes a request a FLUSH of a range, or of the whole region; then its length is arbitrary.
void draw_flush(struct link *l, struct end *e, struct request *r)
{
	struct end *to = peer_of(l, e);
	r->op = (enum ibv_wr_opcode)WR_FLUSH, r->flags &= ~IBV_SEND_INLINE;
	r->num_sge = 0, r->length = draw(MOST_WRITTEN);
	r->placement = FLUSH_GLOBAL, r->whole = chance(50);
	r->remote = (uintptr_t)to->buf + REACHED + draw(PART - MOST_WRITTEN);
	if (r->whole && chance(50))
		r->length += BUF;
}

// spoil_word makes a request an ATOMIC WRITE of another size than 8 bytes, or an invalid FLUSH.
static void spoil_word(struct link *l, struct end *e, struct request *r, bool extended)
{
	if (extended) { // ibv_wr_atomic_write has no parameter for the size
		draw_flush(l, e, r);
		r->placement = chance(50) ? 0 : 4;
		return;
	}
	r->op = IBV_WR_ATOMIC_WRITE, r->num_sge = 1;
	r->sge[0] = (struct ibv_sge){(uintptr_t)r->data, chance(50) ? 4 : 12, e->mr->lkey};
}

// spoil_request changes a request so that posting refuses it.
void spoil_request(struct link *l, struct end *e, struct request *r, bool extended)
{
	const enum ibv_qp_type t = l->type;
	if (t == IBV_QPT_RC && chance(30)) {
		spoil_word(l, e, r, extended);
		return;
	}
	switch (draw(extended ? 3 : 4)) { // the extended calls have no functions for invalid operations
	case 3:
		r->op = t == IBV_QPT_UD ? IBV_WR_RDMA_WRITE : t == IBV_QPT_UC ? IBV_WR_RDMA_READ : chance(50) ? IBV_WR_TSO : (enum ibv_wr_opcode)WR_FLUSH;
		break;
	case 0:
		if (r->op == IBV_WR_ATOMIC_WRITE || is_flush(r->op))
			r->op = IBV_WR_SEND; // the extended calls for these take no list of elements
		for (int i = r->num_sge; i <= MAX_SGE; i++)
			r->sge[i] = (struct ibv_sge){(uintptr_t)e->buf, 1, e->mr->lkey};
		r->num_sge = (int)e->cap.max_send_sge + 1;
		r->flags &= ~IBV_SEND_INLINE;
		break;
	case 1: // inline data one byte too long, in two elements, or an inline read
		r->op = t == IBV_QPT_RC && chance(50) ? IBV_WR_RDMA_READ : IBV_WR_SEND;
		r->flags |= IBV_SEND_INLINE;
		r->num_sge = 2;
		r->sge[0] = (struct ibv_sge){(uintptr_t)e->buf, r->op == IBV_WR_SEND ? e->cap.max_inline_data : 1, 0};
		r->sge[1] = (struct ibv_sge){(uintptr_t)e->buf, 1, 0};
		break;
	case 2: // more than 2^31 bytes
		r->op = IBV_WR_SEND;
		r->flags &= ~IBV_SEND_INLINE;
		r->num_sge = 2;
		r->sge[0] = (struct ibv_sge){(uintptr_t)e->buf, 1u << 31, e->mr->lkey};
		r->sge[1] = (struct ibv_sge){(uintptr_t)e->buf, 1, e->mr->lkey};
		break;
	}
}

// gather and scatter copy between a plain buffer and the shadow of the listed elements.
static void gather(const struct end *e, const struct request *r, uint8_t *to)
{
	for (int i = 0; i < r->num_sge; to += r->sge[i++].length) {
		const uint8_t *from = r->flags & IBV_SEND_INLINE ? (const uint8_t *)(uintptr_t)r->sge[i].addr : e->shadow + (r->sge[i].addr - (uintptr_t)e->buf);
		memcpy(to, from, r->sge[i].length);
	}
}

static void scatter(struct end *e, const struct ibv_sge *list, const uint8_t *from, uint32_t n)
{
	for (; n > 0; list++) {
		uint32_t part = n < list->length ? n : list->length;
		memcpy(e->shadow + (list->addr - (uintptr_t)e->buf), from, part);
		from += part, n -= part;
	}
}

static enum ibv_wc_opcode completed_as(enum ibv_wr_opcode op)
{
	switch (op) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_ATOMIC_WRITE:
		return IBV_WC_ATOMIC_WRITE;
	default:
		return is_flush(op) ? (enum ibv_wc_opcode)WC_FLUSH : IBV_WC_SEND;
	}
}

// foresee_receive predicts the completion and the contents of a receive.
static void foresee_receive(struct link *l, struct end *e, const struct request *r, const struct ibv_recv_wr *into)
{
	enum { UDP_IPV4 = 8 | 2 }; // in sl: the type of network header of the datagram
	struct end *to = peer_of(l, e);
	uint8_t data[GRH + MOST + 8] = {0};
	struct expected *x = expect(&to->recv, into->wr_id, r->op == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
	uint32_t grh = l->type == IBV_QPT_UD ? GRH : 0;
	x->wc.qp_num = to->qp->qp_num, x->wc.src_qp = e->qp->qp_num;
	x->wc.byte_len = grh + r->length;
	x->wc.sl = grh != 0 ? UDP_IPV4 : to->av.sl;
	x->wc.wc_flags = grh != 0 ? IBV_WC_GRH : 0;
	if (r->op != IBV_WR_SEND)
		x->wc.wc_flags |= IBV_WC_WITH_IMM, x->wc.imm_data = r->imm;
	if (r->op == IBV_WR_RDMA_WRITE_WITH_IMM)
		return;
	gather(e, r, data + grh);
	scatter(to, into->sg_list, data, grh + r->length);
}

static void foresee_atomic(const struct request *r, uint8_t *there)
{
	uint64_t word;
	memcpy(&word, there, sizeof word);
	if (r->op == IBV_WR_ATOMIC_FETCH_AND_ADD)
		word += r->compare;
	else if (word == r->compare)
		word = r->swap;
	memcpy(there, &word, sizeof word);
}

// foresee predicts the effects of a request; into is the receive that it consumes, if any.
void foresee(struct link *l, struct end *e, struct request *r, struct ibv_recv_wr *into)
{
	struct end *to = peer_of(l, e);
	uint8_t data[MOST_WRITTEN + 8];
	uint8_t *there = to->shadow + (r->remote - (uintptr_t)to->buf);
	if (l->sig_all || r->flags & IBV_SEND_SIGNALED) {
		struct expected *x = expect(&e->send, r->wr_id, completed_as(r->op));
		x->wc.byte_len = is_flush(r->op) ? 0 : r->length, x->wc.qp_num = e->qp->qp_num;
	}
	if (is_received(r->op))
		foresee_receive(l, e, r, into);
	if (is_answered(r->op)) {
		memcpy(data, there, r->length);
		scatter(e, r->sge, data, r->length);
	}
	if (r->op == IBV_WR_RDMA_WRITE || r->op == IBV_WR_RDMA_WRITE_WITH_IMM || r->op == IBV_WR_ATOMIC_WRITE) {
		gather(e, r, data);
		memcpy(there, data, r->length);
	}
	if (is_atomic(r->op))
		foresee_atomic(r, there);
}

// post_old and post_new post a list. They return the result of the call, and in bad the
// index of the first request that was not posted.
int post_old(struct link *l, struct end *e, struct request *r, unsigned n, unsigned *bad)
{
	struct ibv_send_wr wr[2 * DEPTH], *refused = NULL;
	struct end *to = peer_of(l, e);
	for (unsigned i = 0; i < n; i++) {
		wr[i] = (struct ibv_send_wr){
			.wr_id = r[i].wr_id, .next = i + 1 < n ? &wr[i + 1] : NULL, .sg_list = r[i].sge, .num_sge = r[i].num_sge, .opcode = r[i].op,
			.send_flags = (unsigned)r[i].flags, .imm_data = r[i].imm,
		};
		if (r[i].op == IBV_WR_SEND_WITH_INV)
			wr[i].invalidate_rkey = r[i].rkey;
		if (l->type == IBV_QPT_UD) {
			wr[i].wr.ud.ah = e->ah, wr[i].wr.ud.remote_qpn = to->qp->qp_num, wr[i].wr.ud.remote_qkey = QKEY;
		} else if (is_atomic(r[i].op)) {
			wr[i].wr.atomic.remote_addr = r[i].remote, wr[i].wr.atomic.rkey = r[i].rkey;
			wr[i].wr.atomic.compare_add = r[i].compare, wr[i].wr.atomic.swap = r[i].swap;
		} else {
			wr[i].wr.rdma.remote_addr = r[i].remote, wr[i].wr.rdma.rkey = r[i].rkey;
		}
	}
	errno = 0;
	int code = ibv_post_send(e->qp, wr, &refused);
	*bad = code != 0 ? (unsigned)(refused - wr) : n;
	return code;
}

// value_of returns the value of an ATOMIC WRITE, which is in the element or inline data.
static const void *value_of(const struct request *r, uint8_t *to)
{
	return memcpy(to, (const void *)(uintptr_t)r->sge[0].addr, 8);
}

static void build(struct ibv_qp_ex *q, const struct request *r)
{
	uint8_t value[8];
	q->wr_id = r->wr_id;
	q->wr_flags = (unsigned)r->flags & ~(unsigned)IBV_SEND_INLINE;
	switch (r->op) {
	case IBV_WR_SEND:
		ibv_wr_send(q);
		break;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(q, r->imm);
		break;
	case IBV_WR_SEND_WITH_INV:
		ibv_wr_send_inv(q, r->rkey);
		break;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(q, r->rkey, r->remote);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(q, r->rkey, r->remote, r->imm);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(q, r->rkey, r->remote);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(q, r->rkey, r->remote, r->compare, r->swap);
		break;
	case IBV_WR_ATOMIC_WRITE:
		ibv_wr_atomic_write(q, r->rkey, r->remote, value_of(r, value));
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(q, r->rkey, r->remote, r->compare);
		break;
	default:
		((struct flusher *)q)->wr_flush(q, r->rkey, r->remote, r->length, r->placement, r->whole);
	}
	memset(value, 0, sizeof value); // the call has copied it
}

static void build_payload(struct ibv_qp_ex *q, const struct request *r)
{
	struct ibv_data_buf list[MAX_SGE + 1];
	if (r->op == IBV_WR_ATOMIC_WRITE || is_flush(r->op))
		return; // the call that builds them takes everything
	for (int i = 0; i < r->num_sge; i++)
		list[i] = (struct ibv_data_buf){(void *)(uintptr_t)r->sge[i].addr, r->sge[i].length};
	if (r->flags & IBV_SEND_INLINE && r->num_sge == 1 && chance(50))
		ibv_wr_set_inline_data(q, list[0].addr, list[0].length);
	else if (r->flags & IBV_SEND_INLINE)
		ibv_wr_set_inline_data_list(q, (size_t)r->num_sge, list);
	else if (r->num_sge == 1 && chance(50))
		ibv_wr_set_sge(q, r->sge[0].lkey, r->sge[0].addr, r->sge[0].length);
	else
		ibv_wr_set_sge_list(q, (size_t)r->num_sge, r->sge);
}

int post_new(struct link *l, struct end *e, struct request *r, unsigned n, unsigned *bad)
{
	struct end *to = peer_of(l, e);
	while (chance(20)) { // ibv_wr_abort discards these requests
		ibv_wr_start(e->qpx);
		build(e->qpx, &r[0]);
		build_payload(e->qpx, &r[0]);
		ibv_wr_abort(e->qpx);
	}
	ibv_wr_start(e->qpx);
	if (chance(20))
		sched_yield(); // lets another thread wait in ibv_wr_start
	for (unsigned i = 0; i < n; i++) {
		bool first = chance(50);
		build(e->qpx, &r[i]);
		if (l->type == IBV_QPT_UD && first)
			ibv_wr_set_ud_addr(e->qpx, e->ah, to->qp->qp_num, QKEY);
		build_payload(e->qpx, &r[i]);
		if (l->type == IBV_QPT_UD && !first)
			ibv_wr_set_ud_addr(e->qpx, e->ah, to->qp->qp_num, QKEY);
	}
	errno = 0;
	int code = ibv_wr_complete(e->qpx);
	*bad = code != 0 ? 0 : n;
	return code;
}

// Memory windows: windows of both types are bound, bound again, invalidated and deallocated at
// random, and the peer uses their keys.
#define _GNU_SOURCE
#include "link.h"

enum { REGIONS = 2, WINDOWS = 3, SIZE = 512, ROUNDS = 12 };

// region is a region with windows.
struct region {
	struct ibv_mr *mr;
	uint8_t *mem;
	int access;
	bool ours; // it is in the queue pair's domain
	int bound; // number of windows
};

struct window {
	struct ibv_mw *mw;
	bool ours;
	struct region *on; // NULL: it is not bound
	uint32_t key;    // the key that the adapter knows; after a failed bind of type 1, mw->rkey is ahead of it
	uint64_t from;   // the first address of the window
	uint32_t at, length; // in the region
	unsigned access;
};

// windows is the link of a step, with the end that binds and the end that uses the windows.
struct windows {
	struct link *l;
	struct end *e, *peer;
	struct ibv_pd *other; // a domain without the queue pair
	struct region region[REGIONS];
	struct window window[WINDOWS];
	uint64_t began; // when the current round began, in ns
};

// fault returns the status of a request that the peer refuses. A queue pair that is its own peer
// is flushed, because its responder has moved it to ERR.
static enum ibv_wc_status fault(const struct link *l) { return l->self ? IBV_WC_WR_FLUSH_ERR : IBV_WC_REM_ACCESS_ERR; }

// finish waits for the completion of a signaled request that an end has posted in this round.
static void finish(struct windows *s, struct end *e, const struct ibv_wc *want)
{
	bool failed = want->status != IBV_WC_SUCCESS;
	struct expected *x = expect(&e->send, want->wr_id, want->opcode);
	x->posted = s->began, x->failed = failed;
	x->wc = *want;
	x->wc.qp_num = e->qp->qp_num;
	drain(s->l);
	if (failed)
		reset_link(s->l);
}

static void new_region(struct windows *s, struct region *d)
{
	static const int rights[] = {
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND, ALL_ACCESS | IBV_ACCESS_MW_BIND, ALL_ACCESS | IBV_ACCESS_MW_BIND | ACCESS_FLUSH_GLOBAL,
		IBV_ACCESS_MW_BIND, IBV_ACCESS_LOCAL_WRITE,
	};
	d->access = rights[chance(60) ? draw(3) : draw(5)];
	d->ours = chance(85);
	d->mr = MADE(ibv_reg_mr(d->ours ? s->e->pd : s->other, d->mem, SIZE, d->access));
	d->bound = 0;
}

static void new_window(struct windows *s, struct window *w)
{
	enum ibv_mw_type type = chance(50) ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2;
	struct ibv_pd *pd;
	*w = (struct window){.ours = chance(85)};
	pd = w->ours ? s->e->pd : s->other;
	w->mw = MADE(ibv_alloc_mw(pd, type));
	WANT("ibv_alloc_mw", w->mw->context, s->e->ctx);
	WANT("ibv_alloc_mw", w->mw->pd, pd);
	WANT("ibv_alloc_mw", w->mw->type, type);
	w->key = w->mw->rkey;
}

static void unbind(struct window *w)
{
	if (w->on != NULL)
		w->on->bound--;
	w->on = NULL;
}

// draw_bind draws the region and the range for a bind; NULL for a bind to no memory.
static struct region *draw_bind(struct windows *s, struct ibv_mw_bind_info *b)
{
	static const unsigned rights[] = {
		IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE, ALL_ACCESS, ACCESS_FLUSH_GLOBAL, 0,
	};
	struct region *d = &s->region[draw(REGIONS)];
	uint32_t at = draw(SIZE), n = 1 + draw(SIZE - at);
	if (chance(5))
		n = SIZE - at + 1; // ends behind the region
	*b = (struct ibv_mw_bind_info){.mr = d->mr, .addr = (uintptr_t)d->mem + at, .length = n, .mw_access_flags = rights[draw(6)]};
	if (chance(15))
		b->mw_access_flags |= IBV_ACCESS_ZERO_BASED;
	if (!chance(10))
		return d;
	*b = (struct ibv_mw_bind_info){.mw_access_flags = b->mw_access_flags};
	return NULL;
}

// binds reports whether the adapter binds a window under a key.
static bool binds(const struct window *w, const struct region *d, const struct ibv_mw_bind_info *b, uint32_t key)
{
	enum { WRITES = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC };
	bool second = w->mw->type == IBV_MW_TYPE_2;
	if ((uint8_t)key == (uint8_t)w->key || !w->ours || (second && (w->on != NULL || d == NULL)))
		return false;
	if (d == NULL)
		return true;
	return d->ours && d->access & IBV_ACCESS_MW_BIND && (!(b->mw_access_flags & WRITES) || d->access & IBV_ACCESS_LOCAL_WRITE) &&
	       b->addr - (uintptr_t)d->mem + b->length <= SIZE;
}

// bound updates the model after a bind, and waits for the completion of the bind.
static void bound(struct windows *s, struct window *w, struct region *d, const struct ibv_mw_bind_info *b, uint64_t id, uint32_t key)
{
	struct ibv_wc x = {.wr_id = id, .opcode = IBV_WC_BIND_MW, .status = IBV_WC_MW_BIND_ERR};
	if (binds(w, d, b, key)) {
		unbind(w);
		w->key = key;
		x.status = IBV_WC_SUCCESS;
		if ((w->on = d) != NULL) {
			d->bound++;
			w->at = (uint32_t)(b->addr - (uintptr_t)d->mem), w->length = (uint32_t)b->length, w->access = b->mw_access_flags;
			w->from = b->mw_access_flags & IBV_ACCESS_ZERO_BASED ? 0 : b->addr;
		}
	}
	finish(s, s->e, &x);
}

static void bind_first(struct windows *s, struct window *w)
{
	struct ibv_mw_bind b = {.wr_id = draw64(), .send_flags = IBV_SEND_SIGNALED};
	struct region *d = draw_bind(s, &b.bind_info);
	uint32_t before = w->mw->rkey;
	if (d != NULL && d->ours != w->ours) {
		WANT("ibv_bind_mw of another domain's region", ibv_bind_mw(s->e->qp, w->mw, &b), EPERM);
	} else if (b.bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED) {
		REFUSES(ibv_bind_mw(s->e->qp, w->mw, &b), EINVAL);
	} else {
		WORKS(ibv_bind_mw(s->e->qp, w->mw, &b));
		WANT("ibv_bind_mw: the index of the key", w->mw->rkey >> 8, before >> 8);
		WANT("ibv_bind_mw: another tag", w->mw->rkey != before, true);
		WANT("ibv_bind_mw", w->mw->type, IBV_MW_TYPE_1);
		bound(s, w, d, &b.bind_info, b.wr_id, w->mw->rkey);
		return;
	}
	WANT("ibv_bind_mw that is refused: the key", w->mw->rkey, before);
}

// bind_second binds a window of type 2, through either posting interface.
static void bind_second(struct windows *s, struct window *w)
{
	struct ibv_mw_bind_info b;
	struct region *d = draw_bind(s, &b);
	uint64_t id = draw64();
	uint32_t key = chance(95) ? (w->key & ~0xffu) | draw(256) : w->key;
	struct ibv_send_wr *bad = NULL, wr = {
		.wr_id = id, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED, .bind_mw = {.mw = w->mw, .rkey = key, .bind_info = b},
	};
	if (chance(5)) {
		wr.bind_mw.bind_info.mr = NULL, wr.bind_mw.bind_info.length = 1;
		REFUSES(ibv_post_send(s->e->qp, &wr, &bad), EINVAL);
		WANT("ibv_post_send", bad, &wr);
		return;
	}
	if (s->e->qpx != NULL && chance(60)) {
		ibv_wr_start(s->e->qpx);
		s->e->qpx->wr_id = id, s->e->qpx->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_bind_mw(s->e->qpx, w->mw, key, &b);
		WORKS(ibv_wr_complete(s->e->qpx));
	} else {
		WORKS(ibv_post_send(s->e->qp, &wr, &bad));
	}
	bound(s, w, d, &b, id, key);
	w->mw->rkey = w->key; // the program has to update it
}

static void bind(struct windows *s, struct window *w)
{
	struct ibv_mw_bind b = {.send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad = NULL, wr = {.opcode = IBV_WR_BIND_MW, .bind_mw = {.mw = w->mw, .rkey = ibv_inc_rkey(w->key)}};
	if (chance(10)) { // the call for the other type
		if (w->mw->type == IBV_MW_TYPE_2)
			WANT("ibv_bind_mw of type 2", ibv_bind_mw(s->e->qp, w->mw, &b), EINVAL);
		else
			REFUSES(ibv_post_send(s->e->qp, &wr, &bad), EINVAL);
	} else if (w->mw->type == IBV_MW_TYPE_1) {
		bind_first(s, w);
	} else {
		bind_second(s, w);
	}
}

// some_key draws the key of a window, the key of a region, or an unused key.
static uint32_t some_key(struct windows *s, struct window **w)
{
	*w = NULL;
	if (chance(10))
		return s->region[draw(REGIONS)].mr->rkey;
	struct window *of = &s->window[draw(WINDOWS)];
	if (chance(10))
		return of->key ^ (1 + draw(255));
	*w = of;
	return of->key;
}

// invalidate ends a window by its key, from either end.
static void invalidate(struct windows *s)
{
	struct window *w;
	uint32_t key = some_key(s, &w);
	uint64_t id = draw64();
	bool may = w != NULL && w->ours && w->on != NULL && w->mw->type == IBV_MW_TYPE_2;
	struct ibv_wc x = {.wr_id = id, .opcode = IBV_WC_LOCAL_INV, .status = may ? IBV_WC_SUCCESS : IBV_WC_MW_BIND_ERR};
	struct ibv_send_wr *bad = NULL, wr = {.wr_id = id, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = key};
	if (s->e->qpx != NULL && chance(60)) {
		ibv_wr_start(s->e->qpx);
		s->e->qpx->wr_id = id, s->e->qpx->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_local_inv(s->e->qpx, key);
		WORKS(ibv_wr_complete(s->e->qpx));
	} else {
		WORKS(ibv_post_send(s->e->qp, &wr, &bad));
	}
	if (may)
		unbind(w);
	finish(s, s->e, &x);
}

// invalidate_there lets the peer invalidate a window by a message.
static void invalidate_there(struct windows *s)
{
	struct window *w;
	struct ibv_recv_wr *bad_recv, recv = {.wr_id = draw64()};
	struct request r = {.op = IBV_WR_SEND_WITH_INV, .wr_id = draw64(), .flags = IBV_SEND_SIGNALED, .rkey = some_key(s, &w)};
	struct ibv_wc x = {.wr_id = r.wr_id, .opcode = IBV_WC_SEND};
	struct expected *got;
	unsigned bad;
	if (w == NULL || !w->ours || w->on == NULL || w->mw->type != IBV_MW_TYPE_2)
		return; // scenarios check what happens to the receive of an invalid request
	WORKS(s->e->srq != NULL ? ibv_post_srq_recv(s->e->srq, &recv, &bad_recv) : ibv_post_recv(s->e->qp, &recv, &bad_recv));
	got = expect(&s->e->recv, recv.wr_id, IBV_WC_RECV);
	got->wc.qp_num = s->e->qp->qp_num, got->wc.src_qp = s->peer->qp->qp_num, got->wc.sl = s->e->av.sl;
	got->wc.wc_flags = IBV_WC_WITH_INV, got->wc.invalidated_rkey = r.rkey;
	WANT("posting an invalidation", (s->peer->qpx != NULL && chance(60) ? post_new : post_old)(s->l, s->peer, &r, 1, &bad), 0);
	unbind(w);
	finish(s, s->peer, &x);
}

// needs returns the right that a request needs.
static unsigned needs(enum ibv_wr_opcode op)
{
	if (op == IBV_WR_RDMA_READ)
		return IBV_ACCESS_REMOTE_READ;
	return op == IBV_WR_ATOMIC_FETCH_AND_ADD ? IBV_ACCESS_REMOTE_ATOMIC : IBV_ACCESS_REMOTE_WRITE;
}

// reached returns the memory that a request reaches through a window, or NULL if it is refused.
static uint8_t *reached(const struct window *w, const struct request *r)
{
	if (w == NULL || !w->ours || w->on == NULL || !(w->access & needs(r->op)))
		return NULL;
	uint64_t off = r->remote - w->from;
	return off <= w->length && r->length <= w->length - off ? w->on->mem + w->at + off : NULL;
}

// draw_use draws a WRITE, READ or FETCH ADD of the peer by a key.
static void draw_use(struct windows *s, const struct window *w, struct request *r)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
	bool on = w != NULL && w->on != NULL;
	uint32_t room = on ? w->length : SIZE, off = draw(room);
	r->op = ops[draw(3)], r->wr_id = draw64(), r->flags = IBV_SEND_SIGNALED, r->compare = draw64();
	r->remote = (on ? w->from : (uintptr_t)s->region[0].mem) + off;
	r->length = 1 + draw(room - off) + chance(10); // the last byte may be behind the window
	if (r->op == IBV_WR_ATOMIC_FETCH_AND_ADD)
		r->remote = (r->remote + 7) & ~7ull, r->length = 8;
	r->num_sge = 1;
	r->sge[0] = (struct ibv_sge){(uintptr_t)s->peer->buf + READ, r->length, s->peer->mr->lkey};
}

// use lets the peer write, read or add by a key.
static void use(struct windows *s)
{
	struct window *w;
	struct request r = {.rkey = some_key(s, &w)};
	uint8_t want[SIZE + 1], *mine = s->peer->buf + READ;
	uint64_t sum = 0;
	unsigned bad;
	if (w == NULL && (r.rkey == s->region[0].mr->rkey || r.rkey == s->region[1].mr->rkey))
		return; // another step uses the keys of regions
	draw_use(s, w, &r);
	uint8_t *there = reached(w, &r);
	scribble(mine, r.length);
	memcpy(want, there != NULL && r.op != IBV_WR_RDMA_WRITE ? there : mine, r.length);
	struct ibv_wc x = {.wr_id = r.wr_id, .byte_len = r.length, .status = there != NULL ? IBV_WC_SUCCESS : fault(s->l)};
	x.opcode = r.op == IBV_WR_RDMA_WRITE ? IBV_WC_RDMA_WRITE : r.op == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_FETCH_ADD;
	WANT("posting by a window's key", (s->peer->qpx != NULL && chance(60) ? post_new : post_old)(s->l, s->peer, &r, 1, &bad), 0);
	finish(s, s->peer, &x);
	if (there != NULL)
		want_bytes("a request through a window", "memory of the peer", mine, want, r.length);
	if (there != NULL && r.op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		memcpy(&sum, want, sizeof sum);
		sum += r.compare;
		memcpy(want, &sum, sizeof sum);
	}
	if (there != NULL)
		want_bytes("a request through a window", "memory behind it", there, want, r.length);
	memcpy(s->peer->shadow + READ, s->peer->buf + READ, PART);
}

// change replaces a region without windows, and checks that one with windows cannot be changed.
static void change(struct windows *s, struct region *d)
{
	if (d->bound == 0) {
		WORKS(ibv_dereg_mr(d->mr));
		new_region(s, d);
		return;
	}
	uint32_t lkey = d->mr->lkey;
	REFUSES(ibv_dereg_mr(d->mr), EINVAL);
	errno = 0;
	WANT("ibv_rereg_mr of a region with windows", ibv_rereg_mr(d->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, d->access), IBV_REREG_MR_ERR_CMD);
	WANT("ibv_rereg_mr of a region with windows: errno", errno, EINVAL);
	WANT("ibv_rereg_mr of a region with windows", d->mr->lkey, lkey);
}

// act makes one random call, or a few that belong together.
static void act(struct windows *s)
{
	struct window *w = &s->window[draw(WINDOWS)];
	s->began = now_ns();
	switch (draw(10)) {
	case 0:
		invalidate(s);
		break;
	case 1:
		invalidate_there(s);
		break;
	case 2:
		change(s, &s->region[draw(REGIONS)]);
		break;
	case 3:
		WORKS(ibv_dealloc_mw(w->mw));
		unbind(w);
		new_window(s, w);
		break;
	case 4:
	case 5:
	case 6:
		use(s);
		break;
	default:
		bind(s, w);
	}
}

static void step_window(void)
{
	struct windows s = {.l = some_link()};
	if (s.l->type != IBV_QPT_RC)
		return;
	s.e = &s.l->end[s.l->self ? 0 : draw(2)], s.peer = peer_of(s.l, s.e);
	s.other = MADE(ibv_alloc_pd(s.e->ctx));
	for (int i = 0; i < REGIONS; i++) {
		s.region[i].mem = MADE(calloc(1, SIZE));
		new_region(&s, &s.region[i]);
	}
	for (int i = 0; i < WINDOWS; i++)
		new_window(&s, &s.window[i]);
	for (int n = 0; n < ROUNDS; n++)
		act(&s);
	for (int i = 0; i < WINDOWS; i++) {
		if (!s.window[i].ours)
			REFUSES(ibv_dealloc_pd(s.other), EBUSY);
		WORKS(ibv_dealloc_mw(s.window[i].mw));
	}
	for (int i = 0; i < REGIONS; i++) {
		WORKS(ibv_dereg_mr(s.region[i].mr));
		free(s.region[i].mem);
	}
	WORKS(ibv_dealloc_pd(s.other));
}

const struct step window_steps[] = {{"window", 12, step_window}, {NULL, 0, NULL}};

// Completion queues: the library reads entries where the engine writes them. A poll of an empty
// queue enters the engine, which then receives and sends.
#define _GNU_SOURCE
#include "check.h"

#include <arpa/inet.h>
#include <sched.h>
#include <time.h>

// After this number of empty polls in a row, the thread yields the processor: on a single
// processor, the thread that would produce the completion may be waiting for it.
enum { IDLE_POLLS = 32 };

// After this number of empty polls, the library looks whether the program catches signals,
// which takes as long as a few polls.
enum { SEEK_POLLS = 32 << 10 };

static int end_cq(struct cq *q, bool wait)
{
	if (outlived(&q->o, q))
		return 0;
	struct unpolled u = {0};
	if (UNLIKELY(checking) && wait)
		u = check_ends(q);
	atomic_store(&q->ending, true); // from here on the ring may be gone
	int code = ENGINE(q->dev, destroy_cq, q->handle);
	if (UNLIKELY(checking) && code == EBUSY)
		check_busy(&q->o, q->ibv.context);
	if (code != 0) {
		atomic_store(&q->ending, false);
		return code;
	}
	if (UNLIKELY(checking) && wait)
		check_destroys(q, &u);
	forget_async(q->ibv.context, q);
	if (!wait)
		q->ibv.comp_events_completed = q->taken;
	forget_completions(q);
	mutex_lock(OBJECT_LOCK, &q->ibv.mutex);
	while (wait && q->ibv.async_events_completed != q->async_taken)
		await_ack(&q->o, &q->ibv.cond, &q->ibv.mutex, ASYNC_EVENTS_NOT_ACKNOWLEDGED);
	mutex_unlock(&q->ibv.mutex);
	return_room(&q->room, !wait);
	if (q->domain != NULL)
		q->domain->children--;
	release_object(q->ibv.context, &q->o, q);
	return 0;
}

static int free_cq(struct object *o) { return end_cq(CONTAINER(o, struct cq, o), false); }

const struct kind cq_kind = {"completion queue", 2, free_cq};

void queue_in_child(struct object *o)
{
	if (o->kind != &cq_kind || o->outlives)
		return;
	struct cq *q = CONTAINER(o, struct cq, o);
	atomic_store(&q->pollers, 0); // the threads that poll are the parent's
	if (!atomic_load(&q->ending))
		atomic_store(&q->ring->mirror, 0);
}

// cq_room asks the program for the memory of a queue, unless the adapter will refuse the queue.
static int cq_room(struct cq *q, struct pd *domain, struct softhca_cq *a)
{
	if (domain == NULL || domain->alloc == NULL || a->cqe > q->dev->info.max_cqe)
		return 0;
	int code = ENGINE(q->dev, size_cq, a);
	return code != 0 ? code : take_room(domain, &q->room, RESOURCE_CQ, &a->room);
}

static struct cq *create(struct ibv_context *c, uint32_t cqe, void *cq_context, struct ibv_comp_channel *channel, bool timed, struct pd *domain)
{
	struct device *d = device_of(c);
	struct cq *q = calloc(1, sizeof *q);
	if (q == NULL)
		return fail(ENOMEM);
	q->dev = d;
	q->ibv.context = c, q->ibv.channel = channel, q->ibv.cq_context = cq_context;
	pthread_mutex_init(&q->ibv.mutex, NULL);
	pthread_cond_init(&q->ibv.cond, NULL);
	struct softhca_cq a = {.object = q, .cqe = cqe, .timed = timed};
	int code = cq_room(q, domain, &a);
	if (code != 0)
		return abandon(q, code);
	code = ENGINE(d, create_cq, d->handle, &a);
	if (code != 0) {
		return_room(&q->room, false);
		return abandon(q, code);
	}
	if ((q->domain = domain) != NULL)
		domain->children++;
	q->handle = a.handle, q->ring = a.ring, q->timed = timed;
	q->ibv.handle = visible(q->dev, a.handle), q->ibv.cqe = (int)a.cqe;
	if (channel != NULL) {
		struct channel *ch = CONTAINER(channel, struct channel, ibv);
		mutex_lock(SOURCE_LOCK, &ch->source.mu);
		ch->ibv.refcnt++;
		mutex_unlock(&ch->source.mu);
	}
	add_object(c, &q->o, &cq_kind, q->ibv.handle);
	return q;
}

EXPORT VERB(struct ibv_cq *, ibv_create_cq, (struct ibv_context *c, int cqe, void *cq_context,
	struct ibv_comp_channel *channel, int vector), c, cqe, cq_context, channel, vector)
{
	if (cqe <= 0 || vector < 0 || vector >= c->num_comp_vectors)
		return fail(EINVAL);
	struct cq *q = create(c, (uint32_t)cqe, cq_context, channel, false, NULL);
	return q != NULL ? &q->ibv : NULL;
}

EXPORT VERB(int, ibv_resize_cq, (struct ibv_cq *ibv, int cqe), ibv, cqe)
{
	struct cq *q = CONTAINER(ibv, struct cq, ibv);
	uint32_t n = (uint32_t)cqe;
	if (cqe <= 0)
		return EINVAL;
	int code = ENGINE(q->dev, resize_cq, q->handle, &n);
	if (code == 0)
		ibv->cqe = (int)n;
	return code;
}

VERB(int, modify_cq, (struct ibv_cq *ibv, struct ibv_modify_cq_attr *a), ibv, a)
{
	struct cq *q = CONTAINER(ibv, struct cq, ibv);
	if (a->attr_mask == 0)
		return EINVAL;
	if (a->attr_mask & ~(uint32_t)IBV_CQ_ATTR_MODERATE)
		return EOPNOTSUPP;
	int code = ENGINE(q->dev, moderate_cq, q->handle, a->moderate.cq_count, a->moderate.cq_period);
	if (code == 0)
		atomic_store(&q->moderated, a->moderate.cq_count > 1 && a->moderate.cq_period > 0);
	return code;
}

EXPORT VERB(int, ibv_destroy_cq, (struct ibv_cq *q), q)
{
	return end_cq(CONTAINER(q, struct cq, ibv), true);
}

// disarmed shows other processes that the queue is not armed: in the word after that for cons.
static void disarmed(struct ring *r)
{
	uint64_t mirror = atomic_load_explicit(&r->mirror, memory_order_relaxed);
	if (mirror != 0)
		atomic_store_explicit((_Atomic uint64_t *)(uintptr_t)mirror + 1, 0, memory_order_relaxed);
}

VERB(int, req_notify_cq, (struct ibv_cq *ibv, int solicited), ibv, solicited)
{
	struct cq *q = CONTAINER(ibv, struct cq, ibv);
	uint32_t any = RING_ARMED;
	if (UNLIKELY(checking))
		check_arms(q);
	atomic_store_explicit(&q->armed, 1, memory_order_relaxed);
	int code = HOT(q->dev, arm_cq, q->handle, solicited);
	// Entries that arrived before, and that no event has announced, raise an event at once.
	// The verbs do not promise it, but adapters do it and programs rely on it: UCX does not
	// poll again before it sleeps; perftest polls one queue after an event of another, and
	// needs an event for each entry. If events are delayed, these entries count like later
	// ones.
	uint32_t prod = atomic_load(&q->ring->prod), cons = atomic_load(&q->ring->cons);
	bool told = q->told && q->told_to == prod;
	if (code != 0 || solicited || told || prod == cons)
		return code;
	if (atomic_load(&q->moderated))
		return ENGINE(q->dev, await_cq, q->handle, prod - (q->told ? q->told_to : cons));
	if (atomic_compare_exchange_strong(&q->ring->armed, &any, 0)) {
		disarmed(q->ring);
		completed(q);
	}
	return 0;
}

// looked notes that the program polls: entries from now on count as new.
static inline void looked(struct cq *q)
{
	if (UNLIKELY(atomic_load_explicit(&q->told, memory_order_relaxed)))
		atomic_store(&q->told, 0);
}

// next removes the oldest entry, if there is one. The lock is held.
static inline const struct ring_cqe *next(struct ring *r, uint32_t cons)
{
	const struct ring_cqe *e = ring_entry(r, cons);
	return atomic_load_explicit(&e->valid, memory_order_acquire) == cons + 1 ? e : NULL;
}

// taken ends a reader's turn, in which it took all entries before index cons. The caller holds the
// readers' lock. Other processes see the word at mirror.
static inline void taken(struct ring *r, uint32_t cons)
{
	uint64_t mirror = atomic_load_explicit(&r->mirror, memory_order_relaxed);
	if (mirror != 0)
		atomic_store_explicit((_Atomic uint64_t *)(uintptr_t)mirror, cons, memory_order_relaxed);
	atomic_store(&r->cons, cons);
}

static inline __be32 imm_of(const struct ring_cqe *e) { return e->wc_flags & IBV_WC_WITH_INV ? e->inv_rkey : htonl(e->imm_data); }

// opcode_of returns the opcode that programs get. In an entry with an error it says whether the completion is
// of a receive, which is for the checker.
static inline enum ibv_wc_opcode opcode_of(const struct ring_cqe *e) { return UNLIKELY(e->status != IBV_WC_SUCCESS) ? (enum ibv_wc_opcode)0 : (enum ibv_wc_opcode)e->opcode; }

static int take(struct cq *q, int n, struct ibv_wc *wc)
{
	struct ring *r = q->ring;
	int got = 0;
	if (atomic_load_explicit(&r->prod, memory_order_acquire) == atomic_load_explicit(&r->cons, memory_order_relaxed))
		return 0;
	spin_lock(RING_LOCK, &r->lock);
	uint32_t cons = atomic_load_explicit(&r->cons, memory_order_relaxed);
	for (const struct ring_cqe *e; got < n && (e = next(r, cons)) != NULL; got++, cons++, wc++) {
		wc->wr_id = e->wr_id;
		wc->status = (enum ibv_wc_status)e->status;
		wc->opcode = opcode_of(e);
		wc->vendor_err = e->vendor_err;
		wc->byte_len = e->byte_len;
		wc->imm_data = imm_of(e);
		wc->qp_num = e->qp_num;
		wc->src_qp = e->src_qp;
		wc->wc_flags = e->wc_flags;
		wc->pkey_index = e->pkey_index;
		wc->slid = e->slid;
		wc->sl = e->sl;
		wc->dlid_path_bits = e->dlid_path_bits;
		if (UNLIKELY(checking)) {
			check_completes(q, e);
			check_hides(wc);
		}
	}
	taken(r, cons);
	spin_unlock(&r->lock);
	return got;
}

// waiting records since when requests wait to be sent together with later ones.
static inline void waiting(struct device *d, int waits)
{
	uint64_t since = atomic_load_explicit(&d->waits, memory_order_relaxed);
	if (!waits && since != 0)
		atomic_store_explicit(&d->waits, 0, memory_order_relaxed);
	else if (waits && since == 0)
		atomic_store_explicit(&d->waits, now_ns(), memory_order_relaxed);
}

void overdue(struct device *d)
{
	uint64_t since = atomic_load_explicit(&d->waits, memory_order_relaxed);
	int waits = 0;
	if (since == 0 || now_ns() - since < OVERDUE)
		return;
	HOT(d, overdue, d->handle, &waits);
	atomic_store_explicit(&d->waits, 0, memory_order_relaxed);
	waiting(d, waits);
}

int empty_poll(struct cq *q)
{
	int waits = 0;
	// A program that arms the queue polls once more before it sleeps.
	if (atomic_load_explicit(&q->armed, memory_order_relaxed) && atomic_exchange(&q->armed, 0))
		return 0;
	int code = HOT(q->dev, progress, q->handle, &waits);
	if (code == 0)
		waiting(q->dev, waits);
	unsigned idle = atomic_fetch_add_explicit(&q->idle, 1, memory_order_relaxed);
	if (idle % IDLE_POLLS == IDLE_POLLS - 1) {
		keep_faults();
		if (idle % SEEK_POLLS == SEEK_POLLS - 1)
			seek_handlers();
		sched_yield();
	}
	return code;
}

static inline int poll(struct cq *q, int n, struct ibv_wc *wc)
{
	looked(q);
	int got = take(q, n, wc);
	if (got > 0) {
		if (UNLIKELY(atomic_load_explicit(&q->dev->waits, memory_order_relaxed) != 0))
			overdue(q->dev);
		return got;
	}
	if (n <= 0)
		return 0;
	if (empty_poll(q) != 0)
		return -1;
	return take(q, n, wc);
}

int poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	struct cq *q = CONTAINER(ibv, struct cq, ibv);
	if (!UNLIKELY(checking))
		return poll(q, n, wc);
	if (!check_polls(q, __builtin_frame_address(0)))
		return -1;
	int got = poll(q, n, wc);
	check_polled(q);
	return got;
}

// A program reads an extended queue one entry at a time, from a copy: no lock is held while it
// looks at the entry.
static bool take_one(struct cq *q)
{
	struct ring *r = q->ring;
	if (atomic_load_explicit(&r->prod, memory_order_acquire) == atomic_load_explicit(&r->cons, memory_order_relaxed))
		return false;
	spin_lock(RING_LOCK, &r->lock);
	uint32_t cons = atomic_load_explicit(&r->cons, memory_order_relaxed);
	const struct ring_cqe *e = next(r, cons);
	if (e != NULL) {
		memcpy(&q->cqe, e, offsetof(struct ring_cqe, valid));
		if (UNLIKELY(checking)) {
			check_completes(q, e);
			check_hides_entry(&q->cqe);
		}
		if (q->timed)
			q->time = q->dev->info.clock + (uint64_t)((const struct ring_timed_cqe *)e)->time;
		taken(r, cons + 1);
	}
	spin_unlock(&r->lock);
	if (e == NULL)
		return false;
	q->ex.status = (enum ibv_wc_status)q->cqe.status;
	q->ex.wr_id = q->cqe.wr_id;
	return true;
}

static VERB(int, start_poll, (struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *a), ex, a)
{
	struct cq *q = CONTAINER(ex, struct cq, ex);
	if (a->comp_mask != 0)
		return EINVAL;
	int code = 0;
	if (UNLIKELY(checking) && !check_polls(q, __builtin_frame_address(0)))
		return EINVAL;
	if (q->shared)
		spin_lock(POLLING_LOCK, &q->polling);
	looked(q);
	if (!take_one(q) && (code = empty_poll(q)) == 0 && !take_one(q))
		code = ENOENT;
	if (code != 0 && q->shared)
		spin_unlock(&q->polling);
	if (UNLIKELY(checking) && code != 0)
		check_polled(q);
	return code;
}

static VERB(int, next_poll, (struct ibv_cq_ex *ex), ex)
{
	struct cq *q = CONTAINER(ex, struct cq, ex);
	if (UNLIKELY(checking))
		poll_frame = __builtin_frame_address(0);
	return take_one(q) ? 0 : ENOENT;
}

static void end_poll(struct ibv_cq_ex *ex)
{
	struct cq *q = CONTAINER(ex, struct cq, ex);
	if (q->shared)
		spin_unlock(&q->polling);
	if (UNLIKELY(checking))
		check_polled(q);
	overdue(q->dev);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *q) { return opcode_of(&CONTAINER(q, struct cq, ex)->cqe); }
static uint32_t read_vendor_err(struct ibv_cq_ex *q) { return CONTAINER(q, struct cq, ex)->cqe.vendor_err; }
static uint32_t read_byte_len(struct ibv_cq_ex *q) { return CONTAINER(q, struct cq, ex)->cqe.byte_len; }
static __be32 read_imm_data(struct ibv_cq_ex *q) { return imm_of(&CONTAINER(q, struct cq, ex)->cqe); }
static uint32_t read_qp_num(struct ibv_cq_ex *q) { return CONTAINER(q, struct cq, ex)->cqe.qp_num; }
static uint32_t read_src_qp(struct ibv_cq_ex *q) { return CONTAINER(q, struct cq, ex)->cqe.src_qp; }
static unsigned read_wc_flags(struct ibv_cq_ex *q) { return CONTAINER(q, struct cq, ex)->cqe.wc_flags; }
static uint32_t read_slid(struct ibv_cq_ex *q) { return CONTAINER(q, struct cq, ex)->cqe.slid; }
static uint8_t read_sl(struct ibv_cq_ex *q) { return CONTAINER(q, struct cq, ex)->cqe.sl; }
static uint8_t read_dlid_path_bits(struct ibv_cq_ex *q) { return CONTAINER(q, struct cq, ex)->cqe.dlid_path_bits; }

// The raw clock of the adapter is CLOCK_MONOTONIC: a tick is a nanosecond.
static uint64_t read_ts(struct ibv_cq_ex *ex) { return CONTAINER(ex, struct cq, ex)->time; }

static uint64_t read_wallclock(struct ibv_cq_ex *ex)
{
	struct timespec t;
	uint64_t since = now_ns() - read_ts(ex);
	clock_gettime(CLOCK_REALTIME, &t); // last, so that a thread that is preempted in between does not report a time before the completion
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec - since;
}

enum { TIMES = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK };

// fill_read_ops sets the functions that read an entry. Those for times are only for programs that
// ask for them at creation, as with other adapters.
static void fill_read_ops(struct ibv_cq_ex *x, uint64_t wc_flags)
{
	x->start_poll = start_poll, x->next_poll = next_poll, x->end_poll = end_poll;
	x->read_opcode = read_opcode, x->read_vendor_err = read_vendor_err, x->read_byte_len = read_byte_len;
	x->read_imm_data = read_imm_data, x->read_qp_num = read_qp_num, x->read_src_qp = read_src_qp;
	x->read_wc_flags = read_wc_flags, x->read_slid = read_slid, x->read_sl = read_sl;
	x->read_dlid_path_bits = read_dlid_path_bits;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		x->read_completion_ts = read_ts;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		x->read_completion_wallclock_ns = read_wallclock;
}

VERB(struct ibv_cq_ex *, create_cq_ex, (struct ibv_context *c, struct ibv_cq_init_attr_ex *a), c, a)
{
	const uint32_t masks = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
	if (a->comp_mask & ~masks || a->wc_flags & ~(uint64_t)(IBV_WC_STANDARD_FLAGS | TIMES))
		return fail(EOPNOTSUPP);
	uint32_t flags = a->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? a->flags : 0;
	if (flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED)
		return fail(EOPNOTSUPP);
	if (a->cqe == 0 || a->cqe > INT32_MAX || (int)a->comp_vector >= c->num_comp_vectors)
		return fail(EINVAL);
	struct pd *domain = NULL;
	if (a->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) {
		if (a->parent_domain == NULL || (domain = CONTAINER(a->parent_domain, struct pd, ibv))->parent == NULL)
			return fail(EINVAL); // a protection domain is not a parent domain
	}
	struct cq *q = create(c, a->cqe, a->cq_context, a->channel, a->wc_flags & TIMES, domain);
	if (q == NULL)
		return NULL;
	// The objects of a thread domain are used by one thread at a time.
	q->shared = !(flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) && (domain == NULL || domain->td == NULL);
	fill_read_ops(&q->ex, a->wc_flags);
	return &q->ex;
}

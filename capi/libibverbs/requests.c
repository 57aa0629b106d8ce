// The requests of a program that is checked: what it has posted, and not yet polled a completion for.
#define _GNU_SOURCE
#include "check.h"
#include "operations.h"
#include "requests.h"

#include <stdio.h>

enum { GRH = 40, ATOMIC = 8, NUMBERS = 1024, NEIGHBOURS = 64 };

static pthread_mutex_t numbers_mu = PTHREAD_MUTEX_INITIALIZER; // guards numbers, and qp.numbered
static struct qp *numbers[NUMBERS];

// due counts the completions that a queue is to get for posted requests.
static void due(struct ibv_cq *ibv, int n, const struct request *r)
{
	if (ibv == NULL || n == 0)
		return;
	struct cq *q = CONTAINER(ibv, struct cq, ibv);
	int now = atomic_fetch_add(&q->due, n) + n;
	if (n > 0 && now > ibv->cqe)
		found(CQ_TOO_SMALL, CALLED({"posted here", r->posted}, {"created here", q->o.made}),
			"completion queue %u has %d entries, and %d requests are posted whose completions go to it", q->o.number, ibv->cqe, now);
}

static struct requests *new_requests(uint32_t limit, uint32_t max_sge)
{
	uint32_t n = 16;
	struct requests *rs = calloc(1, sizeof *rs);
	if (rs == NULL)
		return NULL;
	while (n < 2 * limit && n < 1u << 20)
		n *= 2;
	rs->limit = limit, rs->mask = n - 1;
	rs->size = sizeof(struct request) + max_sge * sizeof(struct ring_sge);
	pthread_mutex_init(&rs->mu, NULL);
	tsan_begins();
	if ((rs->entries = calloc(n, rs->size)) != NULL)
		return rs;
	free(rs);
	return NULL;
}

static void free_requests(struct requests *rs)
{
	if (rs == NULL)
		return;
	free(rs->entries);
	free(rs);
}

void check_new_qp(struct qp *q)
{
	if (q->ibv.qp_type == IBV_QPT_XRC_RECV)
		return; // it takes its receives from queues of other processes, too
	if ((q->sends = new_requests(q->cap.send_wr, q->cap.send_sge)) != NULL)
		q->sends->cq = q->ibv.send_cq;
	if (q->recv != NULL && (q->receives = new_requests(q->cap.recv_wr, q->cap.recv_sge)) != NULL)
		q->receives->cq = q->ibv.recv_cq;
	check_links(q);
}

// The receives of XRC complete on queue pairs that may belong to other processes.
void check_new_srq(struct srq *s, uint32_t max_wr)
{
	if (s->xrcd == NULL)
		s->receives = new_requests(max_wr, s->max_sge);
}

// check_resizes makes the number of receives unknown, because those of before may be more than fit.
void check_resizes(struct srq *s)
{
	if (s->receives == NULL)
		return;
	mutex_lock(REQUESTS_LOCK, &s->receives->mu);
	s->receives->off = true;
	mutex_unlock(&s->receives->mu);
}

// forget_receives makes the number of receives of a shared receive queue unknown, because a queue pair has
// taken some whose completions do not come.
static void forget_receives(const struct qp *q)
{
	if (q->ibv.srq != NULL)
		check_resizes(CONTAINER(q->ibv.srq, struct srq, ibv));
}

void check_unlinks(struct qp *q)
{
	forget_receives(q);
	mutex_lock(NUMBERS_LOCK, &numbers_mu);
	for (struct qp **p = &numbers[q->ibv.qp_num % NUMBERS]; *p != NULL; p = &(*p)->numbered)
		if (*p == q) {
			*p = q->numbered;
			break;
		}
	mutex_unlock(&numbers_mu);
}

void check_links(struct qp *q)
{
	struct qp **bucket = &numbers[q->ibv.qp_num % NUMBERS];
	mutex_lock(NUMBERS_LOCK, &numbers_mu);
	q->numbered = *bucket;
	*bucket = q;
	mutex_unlock(&numbers_mu);
}

const struct stack *qp_made(const struct device *d, uint32_t qpn)
{
	const struct stack *made = NULL;
	mutex_lock(NUMBERS_LOCK, &numbers_mu);
	for (const struct qp *q = numbers[qpn % NUMBERS]; q != NULL && made == NULL; q = q->numbered)
		if (q->ibv.qp_num == qpn && q->dev == d)
			made = q->o.made;
	mutex_unlock(&numbers_mu);
	return made;
}

void request_changed(const struct device *d, uint32_t qpn, uint32_t index)
{
	mutex_lock(NUMBERS_LOCK, &numbers_mu);
	for (const struct qp *q = numbers[qpn % NUMBERS]; q != NULL; q = q->numbered) {
		if (q->ibv.qp_num != qpn || q->dev != d || q->sends == NULL)
			continue;
		mutex_lock(REQUESTS_LOCK, &q->sends->mu);
		for (uint32_t i = q->sends->head; i != q->sends->tail; i++)
			if (at(q->sends, i)->index == index)
				at(q->sends, i)->changed = true;
		mutex_unlock(&q->sends->mu);
	}
	mutex_unlock(&numbers_mu);
}

void check_frees_qp(struct qp *q)
{
	struct requests *both[] = {q->sends, q->receives};
	for (int i = 0; i < 2; i++) {
		if (both[i] != NULL)
			due(both[i]->cq, -(int)both[i]->signaled, NULL);
		free_requests(both[i]);
	}
	q->sends = q->receives = NULL;
}

void check_frees_srq(struct srq *s)
{
	free_requests(s->receives);
	s->receives = NULL;
}

// The child of a fork may hold a copy of a locked mutex. It has no requests of its own in these queues.
void requests_in_child(void)
{
	pthread_mutex_init(&numbers_mu, NULL);
	memset(numbers, 0, sizeof numbers);
}

enum { LANES = 8 };

// step adds a word to a lane.
static uint64_t step(uint64_t lane, uint64_t word)
{
	lane = (lane ^ word) * 0x9e3779b97f4a7c15u;
	return lane << 32 | lane >> 32;
}

// mix adds bytes to a sum. The lanes keep the processor busy while it multiplies.
static void mix(uint64_t lanes[LANES], const uint8_t *p, size_t n)
{
	uint64_t l[LANES], w[LANES]; // copies: the bytes could be those of lanes, for all that the compiler knows
	memcpy(l, lanes, sizeof l);
	for (; n >= sizeof w; p += sizeof w, n -= sizeof w) {
		for (int i = 0; i < LANES; i++)
			memcpy(&w[i], p + i * sizeof *w, sizeof *w); // not one copy, which may become a call that TSan sees
		l[0] = step(l[0], w[0]), l[1] = step(l[1], w[1]), l[2] = step(l[2], w[2]), l[3] = step(l[3], w[3]);
		l[4] = step(l[4], w[4]), l[5] = step(l[5], w[5]), l[6] = step(l[6], w[6]), l[7] = step(l[7], w[7]);
	}
	for (; n >= sizeof *w; p += sizeof *w, n -= sizeof *w) {
		memcpy(w, p, sizeof *w);
		l[0] = step(l[0], *w);
	}
	for (; n > 0; p++, n--)
		l[0] = step(l[0], *p);
	memcpy(lanes, l, sizeof l);
}

// range is memory of the program that is added to a sum.
struct range {
	uint64_t *lanes;
	const uint8_t *at;
	size_t n;
};

static void mix_range(void *arg)
{
	const struct range *r = arg;
	mix(r->lanes, r->at, r->n);
}

// sum computes a sum of the payload of a request. It reports false if there is none.
static bool sum(const struct device *d, const struct request *r, uint64_t *out)
{
	uint64_t lanes[LANES] = {1, 2, 3, 4, 5, 6, 7, 8};
	for (int i = 0; i < r->num_sge; i++) {
		const struct ring_sge *g = &r->list[i];
		struct region in;
		uintptr_t addr;
		if (g->length == 0)
			continue;
		if (!region_of(d, g->lkey, &in) || in.ended != NULL || !address_of(&in, g->addr, g->length, &addr))
			return false;
		tsan_shows(); // because a fault that guarded catches makes TSan show what is hidden
		bool mapped = guarded(mix_range, &(struct range){lanes, (const uint8_t *)addr, g->length}, (const void *)addr, g->length);
		tsan_hides();
		if (!mapped)
			return false;
	}
	for (int i = 1; i < LANES; i++)
		lanes[0] = step(lanes[0], lanes[i]);
	*out = lanes[0];
	return true;
}

// written reports whether the adapter has written to the payload of a request since that was posted, or
// whether it may have.
static bool written(const struct device *d, const struct request *r)
{
	uint64_t end = atomic_load(&adapter_writes.count), from = r->writes;
	if (end - from > SOFTHCA_WRITES / 2)
		return true;
	for (; from != end; from++) {
		const struct softhca_write *w = &adapter_writes.last[from % SOFTHCA_WRITES];
		if (atomic_load(&w->turn) != from + 1)
			return true; // it is being recorded
		for (int i = 0; i < r->num_sge; i++) {
			struct region in;
			uintptr_t addr;
			if (!region_of(d, r->list[i].lkey, &in) || !address_of(&in, r->list[i].addr, r->list[i].length, &addr))
				return true;
			if (w->addr < addr + r->list[i].length && addr < w->addr + w->length)
				return true;
		}
	}
	return false;
}

// an_operation returns the name of what a request does, with an article, and operation_name returns it without.
static const char *an_operation(const struct request *r)
{
	static const char *const names[32] = {
		[IBV_WR_RDMA_WRITE] = "an RDMA WRITE", [IBV_WR_RDMA_WRITE_WITH_IMM] = "an RDMA WRITE", [IBV_WR_SEND] = "a SEND", [IBV_WR_SEND_WITH_IMM] = "a SEND",
		[IBV_WR_RDMA_READ] = "an RDMA READ", [IBV_WR_ATOMIC_CMP_AND_SWP] = "an atomic", [IBV_WR_ATOMIC_FETCH_AND_ADD] = "an atomic",
		[IBV_WR_LOCAL_INV] = "a LOCAL_INV", [IBV_WR_BIND_MW] = "a BIND_MW", [IBV_WR_SEND_WITH_INV] = "a SEND", [WR_FLUSH] = "a FLUSH",
		[IBV_WR_ATOMIC_WRITE] = "an ATOMIC WRITE",
	};
	if (r->opcode >= IBV_WC_RECV)
		return "a receive";
	return names[r->opcode % 32] != NULL ? names[r->opcode % 32] : "a request";
}

static const char *operation_name(const struct request *r) { return strchr(an_operation(r), ' ') + 1; }

// check_entry records what is wrong with an element of a request's list, and reports whether it is right.
static bool check_entry(const struct device *d, struct request *r, int i, handle_t pd)
{
	const struct ring_sge *g = &r->list[i];
	struct region in;
	uintptr_t addr;
	const char *op = an_operation(r);
	if (g->length == 0)
		return true;
	if (!region_of(d, g->lkey, &in)) {
		found(KEY_UNKNOWN, CALLED({"posted here", r->posted}), "element %d of %s has the lkey 0x%x, and no region has this key%s", i, op, g->lkey,
			forgets_regions() ? "; the checker has forgotten the regions that were deregistered first" : " or had it");
		return false;
	}
	if (in.ended != NULL) {
		found(KEY_DEREGISTERED, CALLED({"posted here", r->posted}, {"deregistered here", in.ended}, {"registered here", in.made}),
			"element %d of %s has the lkey 0x%x of a region that was deregistered %.1f ms before", i, op, g->lkey,
			(double)(now_ns() - in.ended_ns) / 1e6);
		return false;
	}
	const struct call calls[CALLS] = {{"posted here", r->posted}, {"region registered here", in.made}};
	if (in.pd != pd) {
		found(REGION_OF_ANOTHER_DOMAIN, calls, "element %d of %s has the lkey 0x%x of a region of another protection domain than the queue's", i, op, g->lkey);
		return false;
	}
	if (r->writes_list && !(in.access & IBV_ACCESS_LOCAL_WRITE)) {
		found(NO_LOCAL_WRITE, calls, "the adapter is to write element %d of %s, and the region with lkey 0x%x lacks IBV_ACCESS_LOCAL_WRITE", i, op, g->lkey);
		return false;
	}
	if (in.memory == SOFTHCA_PROGRAM && !address_of(&in, g->addr, g->length, &addr)) {
		uint64_t end = in.iova + in.length;
		found(BEYOND_REGION, calls, "element %d of %s has %u bytes at 0x%llx, and the region with lkey 0x%x has %llu bytes at 0x%llx: %llu bytes are outside", i, op,
			g->length, (unsigned long long)g->addr, g->lkey, (unsigned long long)in.length, (unsigned long long)in.iova,
			(unsigned long long)(g->addr < in.iova ? in.iova - g->addr : g->addr + g->length - end));
		return false;
	}
	if (address_of(&in, g->addr, g->length, &addr)) {
		r->lo = r->hi == 0 || addr < r->lo ? addr : r->lo;
		r->hi = addr + g->length > r->hi ? addr + g->length : r->hi;
	}
	return true;
}

// poisoned records an element whose memory AddressSanitizer has poisoned: it was freed, or never belonged to
// an object of the program.
static void poisoned(const struct device *d, const struct request *r, const char *when)
{
	for (int i = 0; asan_poisoned != NULL && i < r->num_sge; i++) {
		struct region in;
		uintptr_t addr;
		if (!region_of(d, r->list[i].lkey, &in) || !address_of(&in, r->list[i].addr, r->list[i].length, &addr))
			continue;
		const char *bad = asan_poisoned((void *)addr, r->list[i].length);
		if (bad != NULL)
			found(POISONED_MEMORY, CALLED({"posted here", r->posted}, {when, stack_here()}),
				"AddressSanitizer says that the program must not use byte %lu of element %d of %s: it was freed, or is beyond an object",
				(unsigned long)((uintptr_t)bad - addr), i, an_operation(r));
	}
}

// overlaps records requests whose results the adapter writes to the same memory.
static void overlaps(const struct requests *rs, const struct request *r, enum finding what)
{
	if (!advises)
		return;
	for (uint32_t i = rs->tail; i != rs->head && rs->tail - i < NEIGHBOURS; i--) {
		const struct request *o = at(rs, i - 1);
		for (int a = 0; o != r && o->writes_list && a < o->num_sge; a++)
			for (int b = 0; b < r->num_sge; b++) {
				const struct ring_sge *x = &o->list[a], *y = &r->list[b];
				if (x->length == 0 || y->length == 0 || x->lkey != y->lkey || x->addr >= y->addr + y->length || y->addr >= x->addr + x->length)
					continue;
				found(what, CALLED({"posted here", r->posted}, {"the earlier one here", o->posted}),
					"two outstanding %ss write to the same memory: %u bytes at 0x%llx and %u bytes at 0x%llx", operation_name(r), x->length,
					(unsigned long long)x->addr, y->length, (unsigned long long)y->addr);
				return;
			}
	}
}

// add makes room for a request. The lock is held.
static struct request *add(struct requests *rs)
{
	if (rs->tail - rs->head > rs->mask) {
		struct request *oldest = at(rs, rs->head++);
		rs->signaled -= oldest->signaled, rs->lost += oldest->signaled;
		due(rs->cq, -oldest->signaled, oldest);
		rs->off = true;
	}
	struct request *r = at(rs, rs->tail);
	memset(r, 0, sizeof *r);
	r->posted = stack_here(), r->thread = pthread_self(), r->frame = (uintptr_t)__builtin_frame_address(0);
	r->writes = atomic_load(&adapter_writes.count);
	r->turn = rs->turns++;
	tsan_posts(rs, r);
	return r;
}

// unfinished reports whether the engine still works on a send request of a queue pair.
static bool unfinished(const struct qp *q, const struct request *r)
{
	return (int32_t)(r->index - atomic_load(&q->send->cons)) >= 0 && (q->ibv.state == IBV_QPS_RTS || q->ibv.state == IBV_QPS_SQD);
}

// one_at_a_time records a READ or an atomic that is posted while another one is not finished, and max_rd_atomic is 1. The
// lock is held.
static void one_at_a_time(struct qp *q, const struct request *r)
{
	if (!advises || q->ibv.qp_type != IBV_QPT_RC || q->max_rd_atomic != 1 || !r->writes_list)
		return;
	for (uint32_t i = q->sends->head; i + 1 != q->sends->tail; i++)
		if (at(q->sends, i)->writes_list && unfinished(q, at(q->sends, i))) {
			found(READS_ONE_AT_A_TIME, CALLED({"posted here", r->posted}, {"the earlier one here", at(q->sends, i)->posted}, {"queue pair created here", q->o.made}),
				"max_rd_atomic of queue pair 0x%06x is 1: %s waits until an earlier one has its answer", q->ibv.qp_num, an_operation(r));
			return;
		}
}

static __thread bool ended_ah; // the request that the thread posts has a destroyed address handle

void check_ah(const struct ah *a)
{
	if (check_ended(&a->o))
		ended_ah = true;
}

// check_send looks at a request before the engine sees it. The lock is held.
static void check_send(struct qp *q, uint32_t index, const struct operation *o)
{
	const struct ring_send *e = ring_entry(q->send, index);
	handle_t pd = CONTAINER(q->ibv.pd, struct pd, ibv)->handle;
	struct request *r = add(q->sends);
	bool right = true;
	r->wr_id = e->wr_id, r->index = index, r->length = e->length, r->opcode = e->opcode;
	r->signaled = q->sig_all || e->flags & IBV_SEND_SIGNALED;
	r->writes_list = !o->carries && !o->local;
	r->num_sge = e->flags & IBV_SEND_INLINE || o->local ? 0 : e->num_sge;
	memcpy(r->list, e + 1, r->num_sge * sizeof *r->list);
	q->sends->tail++, q->sends->signaled += r->signaled;
	due(q->sends->cq, r->signaled, r);
	one_at_a_time(q, r);
	for (int i = 0; i < r->num_sge; i++)
		right = check_entry(q->dev, r, i, pd) && right;
	bool aligned = !o->atomic || e->remote_addr % ATOMIC == 0, fits_mtu = q->ibv.qp_type != IBV_QPT_UD || e->length <= 128u << q->dev->info.active_mtu;
	if (!aligned)
		found(ATOMIC_NOT_ALIGNED, CALLED({"posted here", r->posted}), "an atomic has the remote address 0x%llx, which is not a multiple of 8",
			(unsigned long long)e->remote_addr);
	if (!fits_mtu)
		found(MESSAGE_LONGER_THAN_MTU, CALLED({"posted here", r->posted}), "a message of %u bytes on a UD queue pair, and the MTU of the port is %u", e->length,
			128u << q->dev->info.active_mtu);
	if (q->error_polled != NULL)
		found(POSTED_AFTER_ERROR, CALLED({"posted here", r->posted}, {"the error was polled here", q->error_polled}),
			"the program has polled an error of queue pair 0x%06x, and posts to it without a new state: the request cannot be sent", q->ibv.qp_num);
	if (r->writes_list && right)
		overlaps(q->sends, r, READS_OVERLAP);
	poisoned(q->dev, r, "at the post");
	r->told = !right || !aligned || !fits_mtu || ended_ah, r->datagram = q->ibv.qp_type == IBV_QPT_UD;
	tsan_sends(r->datagram ? ring_to(q->send, e)->qpn : q->peer);
	ended_ah = false;
	// The adapter reads a datagram once, so a program may also learn from the peer's answer that it was sent.
	r->summed = right && !r->datagram && o->carries && r->num_sge > 0 && sum(q->dev, r, &r->sum);
}

void check_sends(struct qp *q, uint32_t first, uint32_t end)
{
	if (q->sends == NULL)
		return;
	tsan_hides();
	mutex_lock(REQUESTS_LOCK, &q->sends->mu);
	for (; first != end; first++)
		check_send(q, first, &operations[((struct ring_send *)ring_entry(q->send, first))->opcode % 32]);
	mutex_unlock(&q->sends->mu);
	tsan_shows();
}

// check_receive looks at a receive before the engine sees it.
static void check_receive(struct requests *rs, const struct ring *ring, uint32_t index, const struct device *d, struct ibv_pd *domain)
{
	const struct ring_recv *e = ring_entry(ring, index);
	handle_t pd = CONTAINER(domain, struct pd, ibv)->handle;
	bool right = true;
	tsan_hides();
	mutex_lock(REQUESTS_LOCK, &rs->mu);
	struct request *r = add(rs);
	r->wr_id = e->wr_id, r->index = index, r->length = e->length, r->opcode = IBV_WC_RECV, r->num_sge = (uint8_t)e->num_sge;
	r->writes_list = r->signaled = true;
	memcpy(r->list, e + 1, r->num_sge * sizeof *r->list);
	rs->tail++, rs->signaled++;
	due(rs->cq, 1, r);
	for (int i = 0; i < r->num_sge; i++)
		right = check_entry(d, r, i, pd) && right;
	if (right)
		overlaps(rs, r, RECEIVES_OVERLAP);
	poisoned(d, r, "at the post");
	r->told = !right;
	mutex_unlock(&rs->mu);
	tsan_shows();
}

void check_receives(struct qp *q, uint32_t index)
{
	if (q->receives == NULL)
		return;
	const struct ring_recv *e = ring_entry(q->recv, index);
	if (q->ibv.qp_type == IBV_QPT_UD && q->ibv.state != IBV_QPS_ERR && e->length < GRH)
		found(NO_ROOM_FOR_GRH, CALLED({"posted here", stack_here()}), "a receive of %u bytes on a UD queue pair: the first 40 bytes are for the GRH", e->length);
	check_receive(q->receives, q->recv, index, q->dev, q->ibv.pd);
}

void check_srq_receives(struct srq *s, uint32_t index)
{
	if (s->receives != NULL)
		check_receive(s->receives, s->ring, index, device_of(s->ibv.context), s->ibv.pd);
}

// on_stack reports whether an address is on the stack of the calling thread. The stacks of coroutines are not.
static bool on_stack(uintptr_t addr)
{
	static __thread uintptr_t start, end;
	pthread_attr_t a;
	void *from;
	size_t size;
	int cancels;
	if (end == 0) {
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels); // pthread_getattr_np reads a file, and the caller has a lock
		if (pthread_getattr_np(pthread_self(), &a) == 0) {
			if (pthread_attr_getstack(&a, &from, &size) == 0)
				start = (uintptr_t)from, end = start + size;
			pthread_attr_destroy(&a);
		}
		pthread_setcancelstate(cancels, NULL);
	}
	return addr >= start && addr < end;
}

// gone records memory of a request that was in the frame of a function that has returned since, and reports
// whether there is such memory.
static bool gone(const struct device *d, const struct request *r)
{
	if (!pthread_equal(r->thread, pthread_self()) || !on_stack(r->frame) || !on_stack((uintptr_t)poll_frame))
		return false;
	for (int i = 0; i < r->num_sge; i++) {
		const struct ring_sge *g = &r->list[i];
		struct region in;
		uintptr_t addr;
		if (g->length == 0 || !region_of(d, g->lkey, &in) || !address_of(&in, g->addr, g->length, &addr))
			continue;
		if (addr < r->frame || addr + g->length > (uintptr_t)poll_frame) // both frames are on the stack
			continue;
		found(STACK_MEMORY_GONE, CALLED({"posted here", r->posted}, {"polled here", stack_here()}),
			"element %d of %s is on the stack of a function that returned before the program polled the completion", i, an_operation(r));
		return true;
	}
	return false;
}

// check_memory looks at the memory of a request whose completion the program polls.
static void check_memory(const struct device *d, const struct request *r, bool success)
{
	uint64_t now;
	poisoned(d, r, "at the poll");
	if (gone(d, r) || !r->summed)
		return;
	bool differs = r->changed || (success && sum(d, r, &now) && now != r->sum);
	if (differs && !written(d, r))
		found(SEND_BUFFER_CHANGED, CALLED({"posted here", r->posted}, {"polled here", stack_here()}),
			"the payload of %s of %u bytes changed between the post and the poll of its completion", an_operation(r), r->length);
}

// check_status records errors that the program's own requests have caused.
static void check_status(const struct request *r, const struct ring_cqe *e)
{
	if (e->status == IBV_WC_SUCCESS || e->vendor_err == SOFTHCA_VENDOR_ERR_FAULT || r->told)
		return;
	const struct call calls[CALLS] = {{"posted here", r->posted}, {"polled here", stack_here()}};
	const char *op = an_operation(r), *status = ibv_wc_status_str((enum ibv_wc_status)e->status);
	if (r->opcode >= IBV_WC_RECV && e->status != IBV_WC_LOC_LEN_ERR && e->status != IBV_WC_LOC_PROT_ERR)
		return; // what the peer sent was wrong
	switch (e->status) {
	case IBV_WC_REM_ACCESS_ERR:
		found(REMOTE_ACCESS_ERROR, calls, "the peer refused the access of %s of %u bytes: %s", op, r->length, status);
		break;
	case IBV_WC_REM_INV_REQ_ERR:
		found(REMOTE_REQUEST_INVALID, calls, "the peer refused %s of %u bytes: %s", op, r->length, status);
		break;
	case IBV_WC_LOC_LEN_ERR:
		if (r->opcode >= IBV_WC_RECV) {
			found(RECEIVE_TOO_SMALL, calls, "a message came that does not fit into the receive of %u bytes", r->length);
			break;
		}
		// fall through
	case IBV_WC_LOC_QP_OP_ERR:
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_MW_BIND_ERR:
	case IBV_WC_LOC_ACCESS_ERR:
		found(LOCAL_OPERATION_ERROR, calls, "the adapter could not execute %s of %u bytes: %s", op, r->length, status);
		break;
	default:
		break;
	}
}

// index_of returns the request that a completion is for. In a queue that completes in order, all before it are
// done. It reports false if there is none. The lock is held.
static bool index_of(struct requests *rs, const struct ring_cqe *e, bool in_order, uint32_t *out)
{
	bool success = e->status == IBV_WC_SUCCESS;
	if (rs->lost > 0 && in_order) {
		rs->lost--;
		return false;
	}
	for (uint32_t i = rs->head; i != rs->tail; i++) {
		const struct request *r = at(rs, i);
		if ((!success || !in_order || r->signaled) && r->wr_id == e->wr_id) {
			*out = i;
			return true;
		}
		if (success && in_order && r->signaled)
			break;
	}
	rs->off = true;
	return false;
}

// remove takes the request with an index from a shared receive queue, whose receives complete in any order.
static void remove_at(struct requests *rs, uint32_t i)
{
	for (; i != rs->head; i--)
		memcpy(at(rs, i), at(rs, i - 1), rs->size);
	rs->head++, rs->signaled--;
}

static void complete(struct requests *rs, const struct device *d, const struct ring_cqe *e, bool in_order)
{
	uint32_t last;
	mutex_lock(REQUESTS_LOCK, &rs->mu);
	if (index_of(rs, e, in_order, &last)) {
		for (uint32_t i = in_order ? rs->head : last; i != last + 1; i++)
			check_memory(d, at(rs, i), e->status == IBV_WC_SUCCESS);
		if (UNLIKELY(tsan_runs))
			tsan_completes(rs, d, e, in_order ? rs->head : last, last);
		check_status(at(rs, last), e);
		if (!in_order)
			remove_at(rs, last);
		while (in_order && rs->head != last + 1) {
			const struct request *r = at(rs, rs->head++);
			rs->signaled -= r->signaled;
			due(rs->cq, -r->signaled, r);
		}
	} else {
		tsan_completes_any(rs);
	}
	mutex_unlock(&rs->mu);
}

// find_numbered returns the queue pair of a completion. The lock of numbers is held.
static struct qp *find_numbered(const struct cq *c, const struct ring_cqe *e)
{
	struct qp *q = numbers[e->qp_num % NUMBERS];
	while (q != NULL && !(q->ibv.qp_num == e->qp_num && q->dev == c->dev))
		q = q->numbered;
	return q;
}

void check_completes(struct cq *c, const struct ring_cqe *e)
{
	bool receive = e->opcode & IBV_WC_RECV;
	tsan_hides();
	mutex_lock(NUMBERS_LOCK, &numbers_mu); // until the end, because another thread may destroy the queue pair
	struct qp *q = find_numbered(c, e);
	if (receive)
		tsan_receives(e->qp_num);
	if (q != NULL) {
		bool shared = receive && q->ibv.srq != NULL;
		struct requests *receives = shared ? CONTAINER(q->ibv.srq, struct srq, ibv)->receives : q->receives, *rs = receive ? receives : q->sends;
		if (rs != NULL)
			complete(rs, c->dev, e, !shared);
		if (e->status != IBV_WC_SUCCESS && e->status != IBV_WC_WR_FLUSH_ERR && q->ibv.qp_type != IBV_QPT_UD)
			q->error_polled = stack_here();
	}
	mutex_unlock(&numbers_mu);
	tsan_shows();
}

void check_state(struct qp *q, enum ibv_qp_state to)
{
	q->error_polled = NULL;
	if (to != IBV_QPS_RESET)
		return;
	forget_receives(q);
	struct requests *both[] = {q->sends, q->receives};
	for (int i = 0; i < 2; i++) {
		if (both[i] == NULL)
			continue;
		mutex_lock(REQUESTS_LOCK, &both[i]->mu);
		due(both[i]->cq, -(int)both[i]->signaled, NULL);
		both[i]->head = both[i]->tail, both[i]->signaled = both[i]->lost = 0, both[i]->off = false;
		mutex_unlock(&both[i]->mu);
	}
}

// unfilled reports whether a message may still come for a receive of a queue pair.
static bool unfilled(const struct qp *q, const struct request *r)
{
	return (int32_t)(r->index - atomic_load(&q->recv->cons)) >= 0 && q->ibv.state >= IBV_QPS_RTR && q->ibv.state <= IBV_QPS_SQE;
}

// find_user copies the first unfinished send request that uses memory of a region. Its completion is not looked
// at any more. The lock of numbers is held.
static bool find_user(const struct qp *q, uint32_t key, struct request *out)
{
	bool is = false;
	mutex_lock(REQUESTS_LOCK, &q->sends->mu);
	for (uint32_t i = q->sends->head; i != q->sends->tail && !is; i++) {
		struct request *o = at(q->sends, i);
		for (int g = 0; g < o->num_sge && !is && !o->ended && unfinished(q, o); g++)
			if (o->list[g].lkey == key && o->list[g].length > 0)
				o->told = is = true, *out = *o;
	}
	mutex_unlock(&q->sends->mu);
	return is;
}

struct user check_region_goes(const struct mr *m)
{
	struct user u = {0};
	struct request r;
	mutex_lock(NUMBERS_LOCK, &numbers_mu);
	for (int i = 0; i < NUMBERS && u.posted == NULL; i++)
		for (const struct qp *q = numbers[i]; q != NULL && u.posted == NULL; q = q->numbered)
			if (q->sends != NULL && q->dev == device_of(m->ibv.context) && find_user(q, m->ibv.lkey, &r))
				u = (struct user){r.posted, an_operation(&r), r.length};
	mutex_unlock(&numbers_mu);
	return u;
}

void check_region_went(const struct mr *m, uint32_t key, const struct user *u, const char *how)
{
	if (u->posted != NULL)
		found(REGION_DEREGISTERED_IN_USE, CALLED({how, stack_here()}, {"posted here", u->posted}, {"registered here", m->o.made}),
			"the region with lkey 0x%x is in use: %s of %u bytes is not finished", key, u->operation, u->length);
}

// in_memory reports whether an outstanding request of a queue uses memory of a range. The lock is held.
static struct request *in_memory(const struct qp *q, const struct requests *rs, uintptr_t p, size_t n)
{
	for (uint32_t i = rs->head; i != rs->tail; i++) {
		struct request *r = at(rs, i);
		for (int g = 0; g < r->num_sge && !r->ended && r->lo < p + n && p < r->hi; g++) {
			struct region in;
			uintptr_t addr;
			if (r->opcode < IBV_WC_RECV ? !unfinished(q, r) : !unfilled(q, r))
				break;
			if (region_of(q->dev, r->list[g].lkey, &in) && in.ended == NULL && address_of(&in, r->list[g].addr, r->list[g].length, &addr) &&
			    r->list[g].length > 0 && addr < p + n && p < addr + r->list[g].length)
				return r;
		}
	}
	return NULL;
}

// goes_of looks for a request of a queue pair that uses memory of a range. It copies the request.
static bool goes_of(const struct qp *q, uintptr_t p, size_t n, struct request *out)
{
	struct requests *both[] = {q->sends, q->receives};
	bool is = false;
	for (int i = 0; i < 2 && !is; i++) {
		if (both[i] == NULL || !mutex_try(&both[i]->mu))
			continue;
		struct request *r = in_memory(q, both[i], p, n);
		if (r != NULL) {
			r->ended = r->told = true, r->summed = false;
			*out = *r, is = true;
		}
		mutex_untry(&both[i]->mu);
	}
	return is;
}

// may_go is the request whose memory the calling thread may free or unmap.
static __thread struct request may_go;

void check_memory_goes(const void *p, size_t n, int step)
{
	enum { FREES, MAY_GO, FREED, UNMAPPED };
	struct softhca_thread *t = this_thread();
	struct request r; // and not may_go: see check.h
	if (n == 0 || t->in_checker > 0)
		return;
	if (step == FREES || step == MAY_GO) {
		t->has_goes = false;
		if (!registered(p, n) || !mutex_try(&numbers_mu))
			return;
		for (int i = 0; i < NUMBERS && !t->has_goes; i++)
			for (const struct qp *q = numbers[i]; q != NULL && !t->has_goes; q = q->numbered)
				t->has_goes = goes_of(q, (uintptr_t)p, n, &r);
		mutex_untry(&numbers_mu);
		if (t->has_goes)
			may_go = r;
	}
	if (!t->has_goes || step == MAY_GO || may_go.lo >= (uintptr_t)p + n || may_go.hi <= (uintptr_t)p)
		return;
	t->has_goes = false;
	bool unmapped = step == UNMAPPED;
	found(unmapped ? MEMORY_UNMAPPED : MEMORY_FREED, CALLED({unmapped ? "unmapped here" : "freed here", stack_here()}, {"posted here", may_go.posted}),
		"the program %s memory of %s of %u bytes with wr_id 0x%llx that is not finished", unmapped ? "unmaps" : "frees", an_operation(&may_go), may_go.length,
		(unsigned long long)may_go.wr_id);
}

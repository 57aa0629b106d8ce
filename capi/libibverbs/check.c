// The checks of objects, events and settings, and the checker's start and end.
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { KEPT = 256, LEFT = 64, ACK_S = 3 };

bool checking;
struct softhca_writes adapter_writes;
void *(*asan_poisoned)(void *addr, size_t n);
__thread bool was_gone;

static bool forked; // this process is the child of a fork
static _Atomic bool exiting; // the program has returned from main, called exit, or crashes
static _Atomic bool crashes; // it crashes, and what was found before is not recorded yet

static pthread_mutex_t kept_mu = PTHREAD_MUTEX_INITIALIZER; // guards what follows
static void *kept[KEPT]; // memory of the newest destroyed objects
static unsigned keeps;

void checks_in_child(void)
{
	stacks_in_child();
	if (!checking)
		return;
	forked = true;
	pthread_mutex_init(&kept_mu, NULL);
	findings_in_child();
	regions_in_child();
	notes_in_child();
	requests_in_child();
	tsan_in_child();
}

// Destroyed objects.

// The context and the device of destroyed objects: the functions of the context record the use, and the device
// refuses all calls.
static struct device no_device = {.gone = 1};
static struct context nowhere = {.dev = &no_device};

static int used(const struct object *o)
{
	check_ended(o);
	return EINVAL;
}

static int send_to_ended(struct ibv_qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	*bad = wr;
	return used(&CONTAINER(q, struct qp, ibv)->o);
}

static int receive_to_ended(struct ibv_qp *q, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	*bad = wr;
	return used(&CONTAINER(q, struct qp, ibv)->o);
}

static int receive_to_ended_srq(struct ibv_srq *s, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	*bad = wr;
	return used(&CONTAINER(s, struct srq, ibv)->o);
}

static int poll_ended(struct ibv_cq *q, int n, struct ibv_wc *wc)
{
	(void)n, (void)wc;
	return -used(&CONTAINER(q, struct cq, ibv)->o);
}

static int arm_ended(struct ibv_cq *q, int solicited)
{
	(void)solicited;
	return used(&CONTAINER(q, struct cq, ibv)->o);
}

static int start_ended(struct ibv_cq_ex *q, struct ibv_poll_cq_attr *a)
{
	(void)a;
	return used(&CONTAINER(q, struct cq, ex)->o);
}

static void begin_ended(struct ibv_qp_ex *ex)
{
	struct qp *q = CONTAINER(ex, struct qp, ex);
	spin_lock(SEND_LOCK, &q->send_lock);
	used(&q->o);
	q->failed = EBADF;
}

bool check_ended(const struct object *o)
{
	if (o->ended == NULL)
		return false;
	struct name name = name_of(o);
	found(USED_AFTER_DESTROY, CALLED({"used here", stack_here()}, {"destroyed here", o->ended}, {"created here", o->made}),
		"the program uses %s after it has destroyed it", name.text);
	return true;
}

bool check_uses_ended(const struct ibv_pd *pd, const struct ibv_qp_init_attr *a)
{
	return check_ended(&CONTAINER(pd, struct pd, ibv)->o) || (a->send_cq != NULL && check_ended(&CONTAINER(a->send_cq, struct cq, ibv)->o)) ||
	       (a->recv_cq != NULL && check_ended(&CONTAINER(a->recv_cq, struct cq, ibv)->o)) ||
	       (a->srq != NULL && check_ended(&CONTAINER(a->srq, struct srq, ibv)->o));
}

bool check_ended_twice(const struct object *o)
{
	if (o->ended == NULL)
		return false;
	struct name name = name_of(o);
	found(DESTROYED_TWICE, CALLED({"destroyed again here", stack_here()}, {"destroyed here", o->ended}, {"created here", o->made}),
		"the program destroys %s twice", name.text);
	return true;
}

void check_forgets(struct object *o)
{
	if (o->kind == &qp_kind)
		check_frees_qp(CONTAINER(o, struct qp, o));
	if (o->kind == &srq_kind)
		check_frees_srq(CONTAINER(o, struct srq, o));
}

void check_keeps(struct object *o, void *memory)
{
	void *oldest;
	o->ended = stack_here();
	check_forgets(o);
	mutex_lock(KEPT_LOCK, &kept_mu);
	oldest = kept[keeps % KEPT];
	kept[keeps++ % KEPT] = memory;
	mutex_unlock(&kept_mu);
	if (o->kind == &cq_kind)
		CONTAINER(o, struct cq, o)->ex.start_poll = start_ended, CONTAINER(o, struct cq, o)->dev = &no_device;
	if (o->kind == &qp_kind)
		CONTAINER(o, struct qp, o)->ex.wr_start = begin_ended, CONTAINER(o, struct qp, o)->dev = &no_device;
	*(struct ibv_context **)memory = &nowhere.v.context; // all structures of verbs begin with their context
	free(oldest);
}

// uses reports whether an object uses another one, so that this one cannot be destroyed.
static bool uses(const struct object *o, const struct object *other)
{
	const struct ibv_pd *pd = other->kind == &pd_kind ? &CONTAINER(other, struct pd, o)->ibv : NULL;
	const struct ibv_cq *cq = other->kind == &cq_kind ? &CONTAINER(other, struct cq, o)->ibv : NULL;
	if (o->kind == &qp_kind) {
		const struct ibv_qp *q = &CONTAINER(o, struct qp, o)->ibv;
		return (pd != NULL && q->pd == pd) || (cq != NULL && (q->send_cq == cq || q->recv_cq == cq)) ||
		       (other->kind == &srq_kind && q->srq == &CONTAINER(other, struct srq, o)->ibv);
	}
	if (o->kind == &mr_kind)
		return pd != NULL && CONTAINER(o, struct mr, o)->ibv.pd == pd;
	if (o->kind == &ah_kind)
		return pd != NULL && CONTAINER(o, struct ah, o)->ibv.pd == pd;
	if (o->kind == &srq_kind)
		return pd != NULL && CONTAINER(o, struct srq, o)->ibv.pd == pd;
	if (o->kind == &pd_kind)
		return pd != NULL && CONTAINER(o, struct pd, o)->parent == CONTAINER(other, struct pd, o);
	if (o->kind == &cq_kind)
		return other->kind == &channel_kind && CONTAINER(o, struct cq, o)->ibv.channel == &CONTAINER(other, struct channel, o)->ibv;
	return false;
}

void check_busy(const struct object *o, struct ibv_context *in)
{
	struct context *c = context_of(in);
	struct name name = name_of(o), first = {"an object of another context or kind"};
	const struct stack *made = NULL;
	int n = 0;
	mutex_lock(SOURCE_LOCK, &c->source.mu);
	for (const struct object *u = c->objects; u != NULL; u = u->next)
		if (uses(u, o) && n++ == 0)
			first = name_of(u), made = u->made;
	mutex_unlock(&c->source.mu);
	if (n == 0 && *setting("SOFTHCA_FAULTS") != '\0')
		return; // a fault on demand may have refused it
	found(DESTROY_REFUSED, CALLED({"destroyed here", stack_here()}, {"the user was created here", made}, {"created here", o->made}),
		n > 1 ? "%s cannot be destroyed: %s uses it, and %d more" : "%s cannot be destroyed: %s uses it", name.text, first.text, n - 1);
}

// left records the objects that are left in a context.
static void left(const struct context *c, enum finding what, const char *when, const struct stack *at)
{
	int n = 0;
	for (const struct object *o = c->objects; o != NULL && n < LEFT; o = o->next, n++) {
		struct name name = name_of(o);
		found(what, at != NULL ? CALLED({"created here", o->made}, {"closed here", at}) : CALLED({"created here", o->made}), "%s is left %s", name.text, when);
	}
}

void check_closes(const struct context *c)
{
	if (!atomic_load(&exiting))
		left(c, OBJECTS_LEFT_AT_CLOSE, "in a device that the program closes", stack_here());
}

void check_refused(const char *call, const char *why)
{
	found(CALL_REFUSED, CALLED({"called here", stack_here()}), "%s returned EINVAL: %s", call, why);
}

// Events.

void check_arms(const struct cq *q)
{
	if (q->ibv.channel == NULL)
		found(ARMED_WITHOUT_CHANNEL, CALLED({"armed here", stack_here()}, {"created here", q->o.made}),
			"completion queue %u has no channel, so arming it has no effect", q->o.number);
}

// acked records that a program acknowledges more events of an object than it has read.
static void acked(const struct object *o, uint32_t completed, uint32_t taken, enum finding what)
{
	if ((int32_t)(completed - taken) <= 0)
		return;
	struct name name = name_of(o);
	found(what, CALLED({"acknowledged here", stack_here()}, {"created here", o->made}),
		"the program has acknowledged %u events of %s, and has read %u", completed, name.text, taken);
}

void check_acks(struct ibv_cq *ibv, unsigned n)
{
	struct cq *q = CONTAINER(ibv, struct cq, ibv);
	unsigned taken = 0, completed = __atomic_load_n(&ibv->comp_events_completed, __ATOMIC_ACQUIRE); // first: both only grow
	if (check_ended(&q->o))
		return;
	if (ibv->channel != NULL) {
		struct channel *ch = CONTAINER(ibv->channel, struct channel, ibv);
		mutex_lock(SOURCE_LOCK, &ch->source.mu);
		taken = q->taken;
		mutex_unlock(&ch->source.mu);
	}
	acked(&q->o, completed + n, taken, ACKNOWLEDGED_TWICE);
}

void check_async_acks(struct ibv_context *in, const struct object *o, const uint32_t *completed, const unsigned *taken)
{
	struct context *c = context_of(in);
	uint32_t n = __atomic_load_n(completed, __ATOMIC_ACQUIRE) + 1; // first: both only grow
	mutex_lock(SOURCE_LOCK, &c->source.mu);
	unsigned read = *taken;
	mutex_unlock(&c->source.mu);
	acked(o, n, read, ASYNC_ACKNOWLEDGED_TWICE);
}

// NOTHING is what meaningless members of completions become.
enum { NOTHING = 0x5a5a5a5a };

void check_hides_entry(struct ring_cqe *e)
{
	if (e->status == IBV_WC_SUCCESS)
		return;
	e->opcode = (uint8_t)NOTHING, e->byte_len = e->imm_data = e->inv_rkey = e->src_qp = NOTHING, e->wc_flags = (uint8_t)NOTHING;
	e->slid = e->pkey_index = (uint16_t)NOTHING, e->sl = e->dlid_path_bits = (uint8_t)NOTHING;
}

void check_hides(struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_SUCCESS)
		return;
	wc->opcode = (enum ibv_wc_opcode)NOTHING, wc->byte_len = NOTHING, wc->imm_data = NOTHING, wc->src_qp = NOTHING, wc->wc_flags = NOTHING;
	wc->pkey_index = wc->slid = (uint16_t)NOTHING, wc->sl = wc->dlid_path_bits = (uint8_t)NOTHING;
}

void await_ack(const struct object *o, pthread_cond_t *cond, pthread_mutex_t *mu, enum finding what)
{
	struct timespec until;
	if (!checking || atomic_load(&o->told_waiting)) {
		pthread_cond_wait(cond, mu);
		return;
	}
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += ACK_S;
	if (pthread_cond_timedwait(cond, mu, &until) != ETIMEDOUT)
		return;
	struct name name = name_of(o);
	atomic_store(&((struct object *)o)->told_waiting, true);
	found(what, CALLED({"destroyed here", stack_here()}, {"created here", o->made}),
		"the call that destroys %s waits, because the program has not acknowledged all events that it has read", name.text);
}

struct waited check_sleeps(const struct channel *ch)
{
	struct context *c = context_of(ch->ibv.context);
	struct waited w = {.at = now_ns()};
	mutex_lock(SOURCE_LOCK, &c->source.mu);
	for (struct object *o = c->objects; o != NULL; o = o->next) {
		const struct cq *q = CONTAINER(o, struct cq, o);
		if (o->kind != &cq_kind || q->ibv.channel != &ch->ibv || atomic_load(&q->ending))
			continue;
		uint32_t cons = atomic_load(&q->ring->cons), prod = atomic_load(&q->ring->prod);
		if (cons == prod && atomic_load(&q->ring->armed) != 0) { // its next completion wakes the thread
			w.q = NULL;
			break;
		}
		// Another thread that has read the event may still poll.
		if (cons != prod && w.q == NULL && pthread_equal(q->taker, pthread_self()) && !atomic_load(&q->polled_elsewhere))
			w.q = q, w.cons = cons, w.prod = prod;
	}
	mutex_unlock(&c->source.mu);
	return w;
}

void check_slept(const struct channel *ch, const struct waited *before)
{
	struct waited now = check_sleeps(ch);
	if (now.at - before->at < SLOW_NS / 10 * 9 || now.q == NULL || now.q != before->q || now.cons != before->cons || now.prod != before->prod || ch->head != NULL)
		return;
	found(WAITS_WITHOUT_POLLING, CALLED({"waits here", stack_here()}, {"queue created here", now.q->o.made}),
		"a thread waits for an event, and completion queue %u has %u completions that came before; the program has read their event and does not poll",
		now.q->o.number, now.prod - now.cons);
}

void check_overran(const struct cq *q)
{
	found(CQ_OVERRUN, CALLED({"created here", q->o.made}), "completion queue %u has %d entries, and more completions came than it holds", q->o.number, q->ibv.cqe);
}

void check_blocks(const struct channel *ch)
{
	struct pollfd p = {.fd = ch->ibv.fd, .events = POLLIN};
	struct waited w = check_sleeps(ch);
	if (!(fcntl(p.fd, F_GETFL) & O_NONBLOCK) && w.q != NULL && poll(&p, 1, SLOW_NS / 1000000) == 0)
		check_slept(ch, &w);
}

// add_rest counts the completions in a queue that the program has not polled; of a queue pair, unless it is NULL.
static void add_rest(const struct cq *c, const struct qp *q, struct unpolled *u)
{
	const struct ring *r = c->ring;
	uint32_t cons = atomic_load(&r->cons), prod = atomic_load(&r->prod);
	for (uint32_t i = cons; i != prod && i - cons <= r->mask; i++) {
		const struct ring_cqe *e = ring_entry(r, i);
		if (q != NULL && e->qp_num != q->ibv.qp_num)
			continue;
		u->all++;
		u->errors += e->status != IBV_WC_SUCCESS && e->status != IBV_WC_WR_FLUSH_ERR;
	}
}

// never_polled records completions that are lost with an object, or at the end of the program if at is NULL.
static void never_polled(const struct object *o, const struct unpolled *u, const struct stack *at)
{
	struct call calls[CALLS] = {{"created here", o->made}, {at != NULL ? "destroyed here" : NULL, at}};
	struct name name = name_of(o);
	if (u->errors > 0)
		found(ERROR_NEVER_POLLED, calls, "completions of %s with an error that the program has never polled: %u", name.text, u->errors);
	else if (u->all > 0)
		found(COMPLETIONS_NEVER_POLLED, calls, "completions of %s that the program has never polled: %u", name.text, u->all);
}

struct unpolled check_unpolled_qp(const struct qp *q)
{
	struct ibv_cq *both[] = {q->ibv.send_cq, q->ibv.recv_cq};
	struct unpolled u = {0};
	for (int i = 0; i < 2 && q->ibv.qp_type != IBV_QPT_XRC_RECV; i++)
		if (both[i] != NULL && (i == 0 || both[1] != both[0]))
			add_rest(CONTAINER(both[i], struct cq, ibv), q, &u);
	return u;
}

// path_unused records an alternate path that a queue pair which ends has never armed.
static void path_unused(const struct qp *q)
{
	if (q->path_set != NULL)
		found(PATH_NOT_LOADED, CALLED({"set here", q->path_set}, {"created here", q->o.made}),
			"queue pair 0x%06x ends, and its alternate path was never armed by the migration state REARM", q->ibv.qp_num);
}

void check_destroys_qp(const struct qp *q, const struct unpolled *u)
{
	if (atomic_load(&exiting))
		return;
	path_unused(q);
	never_polled(&q->o, u, stack_here());
}

static void polls_ending(const struct cq *q, const struct stack *poll)
{
	found(POLLED_WHILE_DESTROYED, CALLED({"destroyed here", q->destroying}, {poll != NULL ? "polled here" : NULL, poll}), "a thread polls completion queue %u while another destroys it",
		q->o.number);
}

struct unpolled check_ends(struct cq *q)
{
	struct context *c = context_of(q->ibv.context);
	struct unpolled u = {0};
	uint64_t until = now_ns() + SLOW_NS;
	q->destroying = stack_here();
	mutex_lock(SOURCE_LOCK, &c->source.mu); // no thread looks at the ring from here on
	atomic_store(&q->ending, true);
	mutex_unlock(&c->source.mu);
	if (q->dev->gone)
		return u;
	if (atomic_load(&q->pollers) > 0)
		polls_ending(q, NULL);
	while (atomic_load(&q->pollers) > 0 && now_ns() < until)
		sched_yield();
	add_rest(q, NULL, &u);
	return u;
}

void check_destroys(const struct cq *q, const struct unpolled *u)
{
	if (!atomic_load(&exiting))
		never_polled(&q->o, u, stack_here());
}

void used_in_child(void)
{
	if (checking && forked)
		found(USED_IN_CHILD, CALLED({"used here", stack_here()}), "the child of a fork uses an adapter of its parent");
}

__thread void *poll_frame;

bool check_polls(struct cq *q, void *frame)
{
	poll_frame = frame;
	check_notes();
	if (q->taken > 0 && !pthread_equal(q->taker, pthread_self()))
		atomic_store_explicit(&q->polled_elsewhere, true, memory_order_relaxed);
	atomic_fetch_add(&q->pollers, 1);
	if (!atomic_load(&q->ending))
		return true;
	check_polled(q);
	polls_ending(q, stack_here());
	return false;
}

void check_polled(struct cq *q) { atomic_fetch_sub(&q->pollers, 1); }

// Settings.

void check_settings(struct qp *q, const struct ibv_qp_attr *a, int mask)
{
	const struct call calls[CALLS] = {{"set here", stack_here()}};
	uint32_t n = q->ibv.qp_num, mtu = q->dev->info.active_mtu;
	if (mask & IBV_QP_TIMEOUT && a->timeout == 0)
		found(TIMEOUT_FOREVER, calls, "the timeout of queue pair 0x%06x is 0: it waits for a lost acknowledgement without end", n);
	if (mask & IBV_QP_RNR_RETRY && a->rnr_retry == 7)
		found(RNR_RETRY_FOREVER, calls, "rnr_retry of queue pair 0x%06x is 7: it waits without end for a peer that posts no receives", n);
	if (mask & IBV_QP_MIN_RNR_TIMER && a->min_rnr_timer == 0)
		found(RNR_TIMER_LONGEST, calls, "min_rnr_timer of queue pair 0x%06x is 0, which is 655 ms, the longest", n);
	if (mask & IBV_QP_PATH_MTU && (uint32_t)a->path_mtu < mtu)
		found(PATH_MTU_BELOW_PORT, calls, "the path MTU of queue pair 0x%06x is %u, and the MTU of the port is %u", n, 128u << a->path_mtu, 128u << mtu);
	if (mask & IBV_QP_ACCESS_FLAGS)
		q->access = (unsigned)a->qp_access_flags;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		q->max_rd_atomic = a->max_rd_atomic;
	if (mask & IBV_QP_DEST_QPN)
		q->peer = a->dest_qp_num;
	if (mask & IBV_QP_ALT_PATH)
		q->path_set = stack_here();
	if (mask & IBV_QP_PATH_MIG_STATE && a->path_mig_state == IBV_MIG_REARM)
		q->path_set = NULL;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC && a->max_dest_rd_atomic == 0 && q->access & (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC))
		found(NO_READ_RESOURCES, calls, "max_dest_rd_atomic of queue pair 0x%06x is 0: it refuses each READ and atomic of the peer, which has the right", n);
}

// The end.

static void lost_at_exit(const struct cq *q)
{
	struct unpolled u = {0};
	add_rest(q, NULL, &u);
	never_polled(&q->o, &u, NULL);
}

static void exit_of(struct device *d)
{
	mutex_lock(DEVICE_LOCK, &d->mu);
	for (struct context *c = d->first; c != NULL; c = c->next) {
		mutex_lock(SOURCE_LOCK, &c->source.mu);
		for (const struct object *o = c->objects; o != NULL; o = o->next)
			if (o->kind == &cq_kind && !atomic_load(&CONTAINER(o, struct cq, o)->ending))
				lost_at_exit(CONTAINER(o, struct cq, o));
			else if (o->kind == &qp_kind)
				path_unused(CONTAINER(o, struct qp, o));
		left(c, OBJECTS_LEFT_AT_EXIT, "at the end of the program", NULL);
		mutex_unlock(&c->source.mu);
	}
	mutex_unlock(&d->mu);
}

struct softhca_thread *(*this_thread)(void);

void enter_checker(void)
{
	if (this_thread != NULL)
		this_thread()->in_checker++;
}

void leave_checker(void)
{
	if (this_thread != NULL)
		this_thread()->in_checker--;
}

void check_ends_at_once(void) { atomic_store(&exiting, true); }

void check_crashes(void)
{
	if (!atomic_exchange(&exiting, true))
		atomic_store(&crashes, true);
}

void check_exit(void)
{
	bool first = !atomic_exchange(&exiting, true), crashed = atomic_exchange(&crashes, false);
	if (!first && !crashed)
		return;
	hold_fatal();
	check_notes();
	if (crashed) {
		count_findings();
		return;
	}
	check_unread_cm();
	each_device(exit_of);
	count_findings();
}

// at_exit makes the exit code that of a fatal error. The handlers that are left run, and the output is flushed.
static void at_exit(void)
{
	check_exit();
	if (fatal_exit() != 0)
		exit(fatal_exit());
}

__attribute__((constructor)) static void start(void)
{
	if (!start_findings())
		return;
	start_stacks();
	void (*watch)(void (*)(const void *, size_t, int)) = (void (*)(void (*)(const void *, size_t, int)))dlsym(RTLD_DEFAULT, "softhca_watch_memory");
	this_thread = (struct softhca_thread *(*)(void))dlsym(RTLD_DEFAULT, "softhca_this_thread");
	if (watch != NULL && this_thread != NULL)
		watch(check_memory_goes);
	asan_poisoned = (void *(*)(void *, size_t))dlsym(RTLD_DEFAULT, "__asan_region_is_poisoned");
	set_ops(&nowhere);
	nowhere.v.sz = sizeof nowhere.v, nowhere.v.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	struct ibv_context_ops *ops = &nowhere.v.context.ops;
	ops->post_send = send_to_ended, ops->post_recv = receive_to_ended, ops->post_srq_recv = receive_to_ended_srq;
	ops->poll_cq = poll_ended, ops->req_notify_cq = arm_ended;
	checking = true;
	atexit(at_exit);
}

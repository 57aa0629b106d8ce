// Completion events and asynchronous events: lists, each with a descriptor that is readable
// while the list is not empty.
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

// note is an asynchronous event that the program has not read yet.
struct note {
	struct note *next;
	void *object;
	struct ibv_async_event e;
};

// MAX_NOTES bounds the pending events of a program that reads none.
enum { MAX_NOTES = 65536 };

int source_init(struct source *s)
{
	pthread_mutex_init(&s->mu, NULL);
	s->fd = eventfd(0, EFD_CLOEXEC);
	return s->fd < 0 ? errno : 0;
}

void source_free(struct source *s) { close(s->fd); }

// raise_fd makes the descriptor readable. The lock is held.
static void raise_fd(struct source *s)
{
	uint64_t one = 1;
	while (write(s->fd, &one, sizeof one) < 0 && errno == EINTR) {
	}
}

// lower_fd makes the descriptor unreadable once the list is empty. A thread in wait_fd may have
// read it in the meantime; that thread then finds the list empty. The lock is held.
static void lower_fd(struct source *s)
{
	uint64_t n;
	struct iovec v = {&n, sizeof n};
	while (preadv2(s->fd, &v, 1, -1, RWF_NOWAIT) < 0 && errno == EINTR) {
	}
}

// wait_fd waits until the list has an entry. If the program has made the descriptor
// nonblocking, it does not wait. A signal handler interrupts it as it interrupts any read.
static int wait_fd(struct source *s)
{
	uint64_t n;
	return read(s->fd, &n, sizeof n) < 0 ? -1 : 0;
}

// set_head makes q the oldest queue with an event of a channel; NULL stands for none. The lock
// is held.
static void set_head(struct channel *ch, struct cq *q)
{
	ch->head = q;
	__atomic_store_n(&ch->ready, q != NULL, __ATOMIC_SEQ_CST);
	if (q == NULL)
		lower_fd(&ch->source);
}

// completed is called by the engine when an armed queue has a completion.
void completed(void *p)
{
	struct cq *q = p;
	if (q->ibv.channel == NULL)
		return;
	struct channel *ch = CONTAINER(q->ibv.channel, struct channel, ibv);
	q->told_to = atomic_load(&q->ring->prod);
	q->told = 1;
	tsan_hides_accesses();
	mutex_lock(SOURCE_LOCK, &ch->source.mu);
	if (q->pending++ == 0) {
		q->next = NULL;
		if (ch->head == NULL) {
			set_head(ch, q);
			raise_fd(&ch->source);
			ready_set(ch);
		} else {
			ch->tail->next = q;
		}
		ch->tail = q;
	}
	mutex_unlock(&ch->source.mu);
	tsan_shows_accesses();
}

// take_completion removes the oldest event from a channel. The lock is held.
static struct cq *take_completion(struct channel *ch)
{
	struct cq *q = ch->head;
	if (q == NULL)
		return NULL;
	struct cq *next = q->next;
	q->taken++;
	q->taker = pthread_self();
	if (--q->pending > 0) { // armed again before the program read this event
		q->next = NULL;
		if (next == NULL)
			next = q;
		else
			ch->tail->next = q;
		ch->tail = q;
	}
	set_head(ch, next);
	return q;
}

enum sleep { SLEPT, NOT_HERE, INTERRUPTED };

// sleep_in_engine waits for the network on the calling thread until there is a completion, so
// no other thread has to wake this one. A thread that must not block, and a second thread on
// the channel, wait for the descriptor instead.
static enum sleep sleep_in_engine(struct channel *ch)
{
	struct device *d = device_of(ch->ibv.context);
	enum sleep how = NOT_HERE;
	sigset_t old = {0}; // the kernel writes only a part of it
	if (d->gone || fcntl(ch->ibv.fd, F_GETFL) & O_NONBLOCK || !enter_sleep())
		return NOT_HERE;
	if (atomic_exchange(&ch->asleep, 1)) {
		leave_sleep();
		return NOT_HERE;
	}
	pthread_sigmask(SIG_SETMASK, engine_mask(), &old);
	struct softhca_sleep s = {.awake = &ch->ready, .channel = ch->ibv.fd, .set = -1, .ends = ends_of(&ch->ends, &old, -1), .limit = -1};
	struct waited w = {0};
	if (UNLIKELY(checking))
		w = check_sleeps(ch), s.limit = SLOW_NS;
	if (s.ends >= 0 && d->calls->sleep(d->handle, &s) == 0)
		how = !__atomic_load_n(&ch->ready, __ATOMIC_SEQ_CST) && interrupts(&old, false) ? INTERRUPTED : SLEPT;
	if (UNLIKELY(checking))
		check_slept(ch, &w);
	atomic_store(&ch->asleep, 0);
	leave_sleep();
	pthread_sigmask(SIG_SETMASK, &old, NULL); // delivers pending signals
	return how;
}

// more makes the descriptor readable again for the next waiting thread, after one thread has
// consumed the readability. The lock is held.
static void more(struct source *s, const void *head, bool waited)
{
	if (waited && head != NULL)
		raise_fd(s);
}

EXPORT VERB(int, ibv_get_cq_event, (struct ibv_comp_channel *ibv, struct ibv_cq **cq, void **cq_context),
	ibv, cq, cq_context)
{
	struct channel *ch = CONTAINER(ibv, struct channel, ibv);
	for (bool waited = false;;) {
		// The thread that raises the descriptor, and so wakes this one, still has the lock.
		mutex_lock_soon(SOURCE_LOCK, &ch->source.mu);
		struct cq *q = take_completion(ch);
		more(&ch->source, ch->head, waited);
		waited = false;
		mutex_unlock(&ch->source.mu);
		if (q != NULL) {
			*cq = &q->ibv;
			*cq_context = q->ibv.cq_context;
			return 0;
		}
		switch (sleep_in_engine(ch)) {
		case SLEPT:
			break;
		case INTERRUPTED:
			return failure(EINTR);
		case NOT_HERE:
			if (UNLIKELY(checking))
				check_blocks(ch);
			if (wait_fd(&ch->source) < 0)
				return -1;
			waited = true;
		}
	}
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *q, unsigned int n)
{
	if (UNLIKELY(checking))
		check_acks(q, n);
	mutex_lock(OBJECT_LOCK, &q->mutex);
	q->comp_events_completed += n;
	pthread_cond_signal(&q->cond);
	mutex_unlock(&q->mutex);
}

// forget_completions removes the events of a queue that is being destroyed from its channel,
// and waits until the program has acknowledged the events that it has read.
void forget_completions(struct cq *q)
{
	unsigned taken = 0;
	if (q->ibv.channel != NULL) {
		struct channel *ch = CONTAINER(q->ibv.channel, struct channel, ibv);
		mutex_lock(SOURCE_LOCK, &ch->source.mu);
		struct cq *before = NULL;
		for (struct cq *at = ch->head; at != NULL; before = at, at = at->next) {
			if (at != q)
				continue;
			if (ch->tail == q)
				ch->tail = before;
			if (before == NULL)
				set_head(ch, q->next);
			else
				before->next = q->next;
			break;
		}
		taken = q->taken;
		ch->ibv.refcnt--;
		mutex_unlock(&ch->source.mu);
	}
	mutex_lock(OBJECT_LOCK, &q->ibv.mutex);
	while (q->ibv.comp_events_completed != taken)
		await_ack(&q->o, &q->ibv.cond, &q->ibv.mutex, EVENTS_NOT_ACKNOWLEDGED);
	mutex_unlock(&q->ibv.mutex);
}

static int free_channel(struct object *o)
{
	struct channel *ch = CONTAINER(o, struct channel, o);
	if (outlived(o, ch))
		return 0;
	mutex_lock(SOURCE_LOCK, &ch->source.mu);
	int users = ch->ibv.refcnt;
	mutex_unlock(&ch->source.mu);
	// In the child of a fork, the queues of a channel are the parent's: they remain when a context closes.
	if (users != 0 && !context_of(ch->ibv.context)->closing) {
		if (UNLIKELY(checking))
			check_busy(o, ch->ibv.context);
		return EBUSY;
	}
	forget_channel(ch);
	source_free(&ch->source);
	close_ends(&ch->ends);
	release_object(ch->ibv.context, o, ch);
	return 0;
}

const struct kind channel_kind = {"completion channel", 1, free_channel};

// channel_in_child resets a channel to the state in which no thread has slept yet.
static void channel_in_child(struct channel *ch)
{
	pthread_mutex_init(&ch->source.mu, NULL);
	close_ends(&ch->ends);
	forget_in_child(ch);
}

// events_in_child makes new locks for the objects that the child of a fork may close: the
// thread that held them in the parent, such as one of the engine, does not exist in the child.
void events_in_child(struct device *d)
{
	pthread_mutex_init(&d->mu, NULL);
	for (struct context *c = d->first; c != NULL; c = c->next) {
		pthread_mutex_init(&c->source.mu, NULL);
		for (struct object *o = c->objects; o != NULL; o = o->next)
			if (o->kind == &channel_kind)
				channel_in_child(CONTAINER(o, struct channel, o));
			else
				queue_in_child(o);
	}
}

EXPORT VERB(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context *c), c)
{
	struct channel *ch = calloc(1, sizeof *ch);
	if (ch == NULL)
		return fail(ENOMEM);
	int code = source_init(&ch->source);
	if (code != 0)
		return abandon(ch, code);
	ch->ends.fd = -1;
	ch->ibv.context = c;
	ch->ibv.fd = ch->source.fd;
	add_object(c, &ch->o, &channel_kind, (uint32_t)ch->ibv.fd);
	watch_channel(ch);
	return &ch->ibv;
}

EXPORT VERB(int, ibv_destroy_comp_channel, (struct ibv_comp_channel *ibv), ibv)
{
	return free_channel(&CONTAINER(ibv, struct channel, ibv)->o);
}

// about names the object of an event: which counters its acknowledgement changes.
struct about {
	pthread_mutex_t *mu;
	pthread_cond_t *cond;
	uint32_t *completed;
	unsigned *taken;
	const struct object *o;
	struct ibv_context *in;
};

static struct about about(struct ibv_async_event *e)
{
	switch (e->event_type) {
	case IBV_EVENT_CQ_ERR: {
		struct cq *q = CONTAINER(e->element.cq, struct cq, ibv);
		return (struct about){&q->ibv.mutex, &q->ibv.cond, &q->ibv.async_events_completed, &q->async_taken, &q->o, q->ibv.context};
	}
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED: {
		struct qp *q = CONTAINER(e->element.qp, struct qp, ibv);
		return (struct about){&q->ibv.mutex, &q->ibv.cond, &q->ibv.events_completed, &q->async_taken, &q->o, q->ibv.context};
	}
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED: {
		struct srq *s = CONTAINER(e->element.srq, struct srq, ibv);
		return (struct about){&s->ibv.mutex, &s->ibv.cond, &s->ibv.events_completed, &s->async_taken, &s->o, s->ibv.context};
	}
	default:
		return (struct about){0};
	}
}

// notify_context appends an event to the list of a context.
static void notify_context(struct context *c, void *object, uint32_t type)
{
	struct note *n = calloc(1, sizeof *n);
	if (n == NULL)
		return;
	n->object = object;
	n->e.event_type = (enum ibv_event_type)type;
	if (object != NULL)
		n->e.element.qp = object; // all members of the union are pointers
	else
		n->e.element.port_num = PORT;
	mutex_lock(SOURCE_LOCK, &c->source.mu);
	if (c->notes >= MAX_NOTES) {
		free(n);
	} else {
		c->notes++;
		if (c->head == NULL) {
			c->head = n;
			raise_fd(&c->source);
		} else {
			c->tail->next = n;
		}
		c->tail = n;
	}
	mutex_unlock(&c->source.mu);
}

// event is called by the engine. Objects begin with their context.
void event(void *device, void *object, uint32_t type)
{
	struct device *d = device;
	tsan_hides_accesses();
	if (UNLIKELY(checking) && object != NULL && type == IBV_EVENT_CQ_ERR)
		check_overran(object);
	if (object != NULL) {
		notify_context(context_of(*(struct ibv_context **)object), object, type);
	} else {
		mutex_lock(DEVICE_LOCK, &d->mu);
		for (struct context *c = d->first; c != NULL; c = c->next)
			notify_context(c, NULL, type);
		mutex_unlock(&d->mu);
	}
	tsan_shows_accesses();
}

EXPORT VERB(int, ibv_get_async_event, (struct ibv_context *ibv, struct ibv_async_event *e), ibv, e)
{
	struct context *c = context_of(ibv);
	for (bool waited = false;; waited = true) {
		if (UNLIKELY(checking))
			check_notes();
		mutex_lock(SOURCE_LOCK, &c->source.mu);
		struct note *n = c->head;
		if (n != NULL) {
			c->notes--;
			struct about a = about(&n->e);
			if (a.taken != NULL)
				++*a.taken;
			if ((c->head = n->next) == NULL)
				lower_fd(&c->source);
		}
		more(&c->source, c->head, waited);
		mutex_unlock(&c->source.mu);
		if (n != NULL) {
			*e = n->e;
			free(n);
			return 0;
		}
		if (wait_fd(&c->source) < 0)
			return -1;
	}
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *e)
{
	struct about a = about(e);
	if (a.mu == NULL)
		return;
	if (UNLIKELY(checking))
		check_async_acks(a.in, a.o, a.completed, a.taken);
	mutex_lock(OBJECT_LOCK, a.mu);
	++*a.completed;
	pthread_cond_signal(a.cond);
	mutex_unlock(a.mu);
}

// drop_where removes the events about an object from the list, or all events if it is NULL. The
// lock is held.
static void drop_where(struct context *c, const void *object)
{
	struct note **at = &c->head;
	c->tail = NULL;
	while (*at != NULL) {
		struct note *n = *at;
		if (object != NULL && n->object != object) {
			c->tail = n;
			at = &n->next;
			continue;
		}
		*at = n->next;
		c->notes--;
		free(n);
	}
	if (c->head == NULL)
		lower_fd(&c->source);
}

// forget_async removes the events of an object that is being destroyed from the list.
void forget_async(struct ibv_context *ibv, void *object)
{
	struct context *c = context_of(ibv);
	mutex_lock(SOURCE_LOCK, &c->source.mu);
	if (c->head != NULL)
		drop_where(c, object);
	mutex_unlock(&c->source.mu);
}

void drop_notes(struct context *c)
{
	mutex_lock(SOURCE_LOCK, &c->source.mu);
	drop_where(c, NULL);
	mutex_unlock(&c->source.mu);
}

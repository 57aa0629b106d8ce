// The program's epoll sets with the descriptor of a completion channel. A thread that waits for such
// a set serves the port meanwhile, in the engine, so that no other thread has to wake it. Its wait
// ends as without this library: when a descriptor of the set is ready, when the time is over, or
// when a signal handler has run. The descriptor of a channel is still readable, in every set and for
// every thread, exactly while the channel has an event.
#define _GNU_SOURCE
#include "../preload/epoll.h"
#include "softhca.h"

#include <dlfcn.h>
#include <sys/eventfd.h>
#include <unistd.h>

// The kernel's default for the highest limit of descriptors of a process.
enum { MAX_FILES = 1 << 20, MS = 1000000 };

// set is an epoll set. It stays allocated, for the next set with the same number.
struct set {
	struct set *next; // of all
	// The device whose port a thread serves that waits for the set; NULL: none. Threads read it
	// after they have set asleep.
	struct device *_Atomic device;
	unsigned channels;  // of the device, in the set; guarded by changing, as the next
	unsigned served;    // counts the periods in which the set was served
	int ready;          // an event since the thread began to wait; atomic
	_Atomic int asleep; // a thread sleeps in the engine, or is about to, and uses what follows
	int kick;           // an eventfd that makes the thread leave the engine; -1: not created yet
	struct ends ends;
};

static void *_Atomic sets[MAX_FILES];     // by descriptor
static void *_Atomic channels[MAX_FILES]; // by descriptor
static _Atomic uint32_t changing;         // the lock of threads that change sets
static __thread bool changes;             // this thread has that lock
static struct set *_Atomic all;

// begin_change takes the lock. It fails in a signal handler if the interrupted code holds the lock.
__attribute__((warn_unused_result)) static bool begin_change(void)
{
	if (changes)
		return false;
	changes = true;
	spin_lock(SETS_LOCK, &changing);
	return true;
}

static void end_change(void)
{
	spin_unlock(&changing);
	changes = false;
}

// empty ends the service of a set, and makes a thread that serves the port leave. The lock is held.
static void empty(struct set *s)
{
	uint64_t one = 1;
	s->channels = 0;
	s->served++;
	atomic_store(&s->device, NULL);
	while (atomic_load(&s->asleep) && (write(s->kick, &one, sizeof one) > 0 || errno == EAGAIN || errno == EINTR))
		sched_yield();
	close_ends(&s->ends);
	if (s->kick >= 0)
		close_kept(s->kick);
	s->kick = -1;
}

// fill begins the service of a set for a device. The lock is held.
static bool fill(struct set *s, struct device *d)
{
	int kick = -1;
	empty(s); // a set with this number may have been closed unseen
	if ((kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
		return false;
	s->kick = keep_open(kick);
	atomic_store(&s->device, d);
	return true;
}

// set_of returns the set with a number, NULL without memory. The lock is held.
static struct set *set_of(int number)
{
	struct set *s = atomic_load(&sets[number]);
	if (s != NULL || (s = calloc(1, sizeof *s)) == NULL)
		return s;
	s->kick = -1, s->ends.fd = -1;
	s->next = atomic_load(&all);
	atomic_store(&all, s);
	atomic_store(&sets[number], s);
	return s;
}

// leave_set removes a channel from its set. The lock is held.
static void leave_set(struct channel *ch)
{
	struct set *s = atomic_exchange(&ch->set, NULL);
	if (s != NULL && ch->served == s->served && --s->channels == 0)
		empty(s);
}

// join_set adds a channel to a set, unless another device is served there. The lock is held.
static void join_set(struct channel *ch, struct set *s)
{
	struct device *d = device_of(ch->ibv.context), *has = atomic_load(&s->device);
	struct set *in = atomic_load(&ch->set);
	if ((in != NULL && in->served == ch->served) || (has == NULL ? !fill(s, d) : has != d))
		return;
	s->channels++;
	ch->served = s->served;
	atomic_store(&ch->set, s);
}

// changed is called when the program has added the descriptor of a channel to a set or removed it.
static void changed(int number, int fd, bool added)
{
	int had = errno;
	if (number < 0 || number >= MAX_FILES || !owns_engine() || !begin_change())
		return;
	struct channel *ch = atomic_load(&channels[fd]);
	struct set *s = ch != NULL ? set_of(number) : NULL;
	if (s != NULL && added)
		join_set(ch, s);
	else if (s != NULL && atomic_load(&ch->set) == s)
		leave_set(ch);
	end_change();
	errno = had;
}

// closed is called before the program closes a set.
static void closed(int number)
{
	struct set *s = atomic_load(&sets[number]);
	int had = errno;
	if (s == NULL || !owns_engine())
		return;
	atomic_store(&s->device, NULL);
	if (!begin_change())
		return;
	empty(s);
	end_change();
	errno = had;
}

// watch_channel makes the preload library report the sets to which the program adds a channel.
void watch_channel(struct channel *ch)
{
	if (ch->ibv.fd < MAX_FILES)
		atomic_store(&channels[ch->ibv.fd], ch);
}

void forget_channel(struct channel *ch)
{
	if (ch->ibv.fd >= MAX_FILES || !begin_change())
		return;
	atomic_store(&channels[ch->ibv.fd], NULL);
	leave_set(ch);
	end_change();
}

// ready_set tells the thread that waits for the set of a channel that the channel has an event.
void ready_set(struct channel *ch)
{
	struct set *s = atomic_load(&ch->set);
	if (s != NULL)
		__atomic_store_n(&s->ready, 1, __ATOMIC_SEQ_CST);
}

// serve sleeps in the engine until the set may be ready. asleep is set.
static enum lent serve(struct set *s, int number, int64_t limit)
{
	struct device *d = atomic_load(&s->device);
	enum lent how = LENT_NOT;
	sigset_t old = {0}; // the kernel writes only a part of it
	if (d == NULL || d->gone)
		return LENT_NOT;
	pthread_sigmask(SIG_SETMASK, engine_mask(), &old);
	atomic_store_explicit(&d->waits, 0, memory_order_relaxed); // the sleep sends what waits
	__atomic_store_n(&s->ready, 0, __ATOMIC_SEQ_CST);
	struct softhca_sleep z = {.awake = &s->ready, .channel = -1, .set = number, .ends = ends_of(&s->ends, &old, s->kick), .limit = limit};
	if (z.ends >= 0 && d->calls->sleep(d->handle, &z) == 0)
		how = !__atomic_load_n(&s->ready, __ATOMIC_SEQ_CST) && interrupts(&old, true) ? LENT_INTERRUPTED : LENT_READY;
	pthread_sigmask(SIG_SETMASK, &old, NULL); // delivers pending signals
	return how;
}

static enum lent lend(int number, int *timeout, uint64_t *end)
{
	struct set *s = atomic_load(&sets[number]);
	enum lent how = LENT_NOT;
	uint64_t now = *timeout > 0 ? now_ns() : 0;
	if (*timeout > 0 && *end == 0)
		*end = now + (uint64_t)*timeout * MS;
	if (!enter_sleep())
		return LENT_NOT;
	if (!atomic_exchange(&s->asleep, 1)) {
		how = serve(s, number, *timeout < 0 ? -1 : *end > now ? (int64_t)(*end - now) : 0);
		atomic_store(&s->asleep, 0);
	}
	leave_sleep();
	if (*timeout > 0) {
		now = now_ns();
		*timeout = now < *end ? (int)((*end - now + MS - 1) / MS) : 0;
	}
	return how;
}

void forget_in_child(struct channel *ch)
{
	if (ch->ibv.fd < MAX_FILES)
		atomic_store(&channels[ch->ibv.fd], NULL);
	atomic_store(&ch->set, NULL);
}

// sets_in_child ends the service of the parent's sets: their device is the parent's.
void sets_in_child(void)
{
	atomic_store(&changing, 0);
	for (struct set *s = atomic_load(&all); s != NULL; s = s->next) {
		atomic_store(&s->asleep, 0);
		empty(s);
	}
}

static const struct epoll_calls calls = {.sets = sets, .channels = channels, .max = MAX_FILES, .changed = changed, .closed = closed, .lend = lend};

__attribute__((constructor)) static void tell_preload(void)
{
	void (*tell)(const struct epoll_calls *) = dlsym(RTLD_DEFAULT, "softhca_tell_epoll");
	if (tell != NULL)
		tell(&calls);
}

// The order of all locks. With -DLOCK_ORDER, as tests compile the library, a thread that takes a
// lock in another order ends the program; otherwise the ranks cost nothing.
#ifndef SOFTHCA_LOCK_H
#define SOFTHCA_LOCK_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// rank is the place of a lock in the order, outermost first: a thread that holds one takes only
// locks of larger ranks.
enum rank {
	LOADING_LOCK = 1, // of loader.c: while an engine is loaded, an adapter is opened or closed, and during fork
	CM_LOCK,          // of ucm.c: during the calls of the connection manager, and during fork
	POLLING_LOCK,     // cq.polling: from start_poll to end_poll
	SEND_LOCK,        // qp.send_lock: while requests are written; from wr_start to wr_complete
	RECV_LOCK,        // qp.recv_lock, srq.lock: while receives are written
	DOMAINS_LOCK,     // of xrc.c: while XRC domains are opened and closed
	ENGINE_LOCKS,     // in the order of internal/lock/order.go
	DEVICE_LOCK,      // device.mu
	SOURCE_LOCK,      // source.mu of a context or of a channel
	RING_LOCK,        // ring.lock: while entries are read
	OBJECT_LOCK,      // the mutexes in the structures of verbs.h: the counts of acknowledged events
	FAULTS_LOCK,      // of fault.c: while handlers change
	SETS_LOCK,        // of epoll.c: while the program's epoll sets change
	KEPT_LOCK,        // of check.c: while an object is destroyed
	NOTES_LOCK,       // of notes.c: while a note is kept; the engine takes it, too
	NUMBERS_LOCK,     // of requests.c: while a queue pair is looked up by its number
	REQUESTS_LOCK,    // of requests.c: while the requests of a queue are looked at
	REGIONS_LOCK,     // of regions.c: while a region is looked up by its key
	STACKS_LOCK,      // of stack.c: while a stack is looked up
	FINDINGS_LOCK,    // of findings.c: while a finding is recorded
	FIBER_LOCK,       // of tsan.c: while TSan is told of an access
};

// The engine calls completed and event with its locks held, so no thread calls the engine with
// a lock of a larger rank. It calls gone of ucm.c without any.

#ifdef LOCK_ORDER
// take_rank ends the program if the calling thread holds a lock of this or a larger rank, and
// records the lock. drop_rank forgets it. may_enter ends the program if the thread must not call
// the engine.
void take_rank(enum rank r, const void *lock);
void drop_rank(const void *lock);
void may_enter(void);
#else
static inline void take_rank(enum rank r, const void *lock) { (void)r, (void)lock; }
static inline void drop_rank(const void *lock) { (void)lock; }
static inline void may_enter(void) {}
#endif

static inline void mutex_lock(enum rank r, pthread_mutex_t *m)
{
	take_rank(r, m);
	pthread_mutex_lock(m);
}

// YIELDS is how often mutex_lock_soon yields the processor.
enum { YIELDS = 32 };

// mutex_lock_soon is mutex_lock for a lock that another thread is about to release. It yields the
// processor to that thread, if it has none, instead of sleeping until the other wakes it.
static inline void mutex_lock_soon(enum rank r, pthread_mutex_t *m)
{
	take_rank(r, m);
	for (int i = 0; i < YIELDS; i++) {
		if (pthread_mutex_trylock(m) == 0)
			return;
		sched_yield();
	}
	pthread_mutex_lock(m);
}

static inline void mutex_unlock(pthread_mutex_t *m)
{
	drop_rank(m);
	pthread_mutex_unlock(m);
}

// mutex_try takes a lock if it is free. It never waits, so it may be called with any locks held. mutex_untry
// releases the lock.
static inline bool mutex_try(pthread_mutex_t *m) { return pthread_mutex_trylock(m) == 0; }
static inline void mutex_untry(pthread_mutex_t *m) { pthread_mutex_unlock(m); }

// ThreadSanitizer's functions, if the program has it; otherwise NULL. It sees the order of threads by mutexes by itself,
// but not the order by spin locks.
extern void (*tsan_acquire)(void *what), (*tsan_release)(void *what);

// A spin lock is held only for short copies.
static inline void spin_lock(enum rank r, _Atomic uint32_t *l)
{
	uint32_t free = 0;
	take_rank(r, l);
	while (__builtin_expect(!atomic_compare_exchange_weak(l, &free, 1), 0)) {
		free = 0;
		sched_yield();
	}
	if (__builtin_expect(tsan_acquire != NULL, 0))
		tsan_acquire(l);
}

static inline void spin_unlock(_Atomic uint32_t *l)
{
	drop_rank(l);
	if (__builtin_expect(tsan_release != NULL, 0))
		tsan_release(l);
	atomic_store_explicit(l, 0, memory_order_release);
}

#endif

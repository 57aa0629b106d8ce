// Threads that are cancelled while they wait for a completion. Cancellation ends a read of the
// channel's descriptor, as it must, but not a sleep in the engine, which knows nothing of it.
// So threads sleep in the engine only until the program first cancels a thread. The preload
// library sees that and delays pthread_cancel until no thread sleeps in the engine.
#define _GNU_SOURCE
#include "softhca.h"

#include <dlfcn.h>
#include <sys/eventfd.h>
#include <unistd.h>

// cancels is set before the program cancels its first thread, and stays set. Without the
// preload library the program's cancellations are unknown.
static _Atomic bool cancels = true;
static _Atomic int sleepers; // threads that sleep in the engine, or are about to
static int off = -1;         // readable once all sleepers are to wake, and from then on; -1: no descriptor

enum { MAX_WAIT = 1000000000 }; // ns: bound of the delay of pthread_cancel

bool enter_sleep(void)
{
	if (atomic_load(&cancels))
		return false;
	atomic_fetch_add(&sleepers, 1);
	if (!UNLIKELY(atomic_load(&cancels)))
		return true;
	leave_sleep();
	return false;
}

void leave_sleep(void) { atomic_fetch_sub(&sleepers, 1); }

int sleep_off(void) { return off; }

// cancelled is called before the program cancels a thread.
static void cancelled(void)
{
	uint64_t from = now_ns();
	if (atomic_exchange(&cancels, true))
		return;
	eventfd_write(off, 1);
	while (atomic_load(&sleepers) > 0 && now_ns() - from < MAX_WAIT)
		sched_yield();
}

// seek_cancels asks the preload library to report cancellations once an engine is loaded.
void seek_cancels(void)
{
	void (*tell)(void (*)(void)) = dlsym(RTLD_DEFAULT, "softhca_tell_cancels");
	if (tell == NULL || (off = eventfd(0, EFD_CLOEXEC)) < 0)
		return;
	off = keep_open(off);
	atomic_store(&cancels, false);
	tell(cancelled);
}

// cancels_in_child forgets the sleepers of the parent. Their descriptor is not for the child's
// threads, which sleep in the engine again once the child has its own.
void cancels_in_child(void)
{
	if (off >= 0)
		close_kept(off);
	off = -1;
	atomic_store(&cancels, true);
	atomic_store(&sleepers, 0);
}

// Threads that are cancelled while they wait for a completion. A read of the channel's
// descriptor ends then, as it has to; a sleep in the engine does not, and nobody tells
// the engine. So threads sleep there as long as the program is known to cancel none,
// and the preload library, which sees the first one being cancelled, has who cancels
// wait until all are out.
#define _GNU_SOURCE
#include "softhca.h"

#include <dlfcn.h>
#include <sys/eventfd.h>
#include <unistd.h>

// cancels is set before the program cancels a thread, for good. Without the preload
// library nobody would say so.
static _Atomic bool cancels = true;
static _Atomic int sleepers; // threads that sleep in the engine, or are about to
static int off = -1;         // is readable when they are to wake, for good; -1: there is none

enum { PATIENCE = 1000000000 }; // ns: who cancels does not wait for ever

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

// cancelled is told before the program cancels a thread.
static void cancelled(void)
{
	uint64_t from = now_ns();
	if (atomic_exchange(&cancels, true))
		return;
	eventfd_write(off, 1);
	while (atomic_load(&sleepers) > 0 && now_ns() - from < PATIENCE)
		sched_yield();
}

// seek_cancels has the preload library tell when an engine is loaded.
void seek_cancels(void)
{
	void (*tell)(void (*)(void)) = dlsym(RTLD_DEFAULT, "softhca_tell_cancels");
	if (tell == NULL || (off = eventfd(0, EFD_CLOEXEC)) < 0)
		return;
	off = keep_open(off);
	atomic_store(&cancels, false);
	tell(cancelled);
}

// cancels_in_child forgets who slept in the parent, whose descriptor is not for the
// child's threads. These sleep when the child has an engine of its own.
void cancels_in_child(void)
{
	if (off >= 0)
		close_kept(off);
	off = -1;
	atomic_store(&cancels, true);
	atomic_store(&sleepers, 0);
}

// Signals while a thread is in the engine. A handler of the program's must not run
// then: it would do so on a stack of Go's, which is small. To block signals and to
// unblock them takes two system calls, too many around each empty poll; and most
// programs catch no signals. So a thread goes in bare as long as the program is known
// to catch none, and the preload library, which sees handlers being set, has who sets
// the first one wait until all threads are out that went in so.
#define _GNU_SOURCE
#include "softhca.h"

#include <dlfcn.h>

// catches is set before the program has a handler, for good. Without the preload
// library nobody would say so.
static _Atomic bool catches = true;
static _Atomic int bare; // threads in the engine

// Nobody is in a hot call for so long, in ns, but by mischance: who sets a handler
// does not wait for ever.
enum { PATIENCE = 1000000000 };

bool enter_bare(void)
{
	if (atomic_load_explicit(&catches, memory_order_relaxed))
		return false;
	atomic_fetch_add(&bare, 1);
	if (!UNLIKELY(atomic_load(&catches)))
		return true;
	leave_bare();
	return false;
}

void leave_bare(void) { atomic_fetch_sub(&bare, 1); }

// caught is told before the program sets a handler.
static void caught(void)
{
	uint64_t from = now_ns();
	if (sets_engines())
		return;
	atomic_store(&catches, true);
	while (atomic_load(&bare) > 0 && now_ns() - from < PATIENCE)
		sched_yield();
}

// seek_handlers looks for handlers that the preload library has not seen being set:
// those of programs that ask the kernel themselves, or the C library past it.
void seek_handlers(void)
{
	struct sigaction now;
	if (atomic_load_explicit(&catches, memory_order_relaxed))
		return;
	for (int sig = 1; sig < NSIG; sig++) {
		bool asked = sigismember(engine_mask(), sig) == 1 && sigaction(sig, NULL, &now) == 0;
		if (asked && now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN && !of_engine((uintptr_t)now.sa_handler)) {
			caught();
			return;
		}
	}
}

// seek_signals finds out what the program catches when the engine is loaded first.
void seek_signals(void)
{
	static bool sought;
	void (*tell)(void (*)(void)) = dlsym(RTLD_DEFAULT, "softhca_tell_signals");
	if (tell == NULL || sought)
		return;
	sought = true;
	atomic_store(&catches, false);
	tell(caught);
	seek_handlers();
}

void signals_in_child(void) { atomic_store(&bare, 0); }

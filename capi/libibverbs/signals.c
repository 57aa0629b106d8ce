// Signals while a thread is in the engine. A handler of the program must not run there: it
// would run on one of Go's stacks, which are small. Blocking and unblocking signals takes two
// system calls, too many around each empty poll, and most programs catch no signals. So threads
// enter with signals unblocked until the program installs its first handler. The preload
// library sees that, and delays the call that installs it until all such threads have left the
// engine.
#define _GNU_SOURCE
#include "softhca.h"

#include <dlfcn.h>

// catches is set before the program has its first handler, and stays set. Without the preload
// library the program's handlers are unknown.
static _Atomic bool catches = true;
static _Atomic int unblocked; // threads in the engine with signals unblocked

// ns: bound of the delay of a call that installs a handler. No hot call takes that long, except
// by mischance.
enum { MAX_WAIT = 1000000000 };

bool enter_unblocked(void)
{
	if (atomic_load_explicit(&catches, memory_order_relaxed))
		return false;
	atomic_fetch_add(&unblocked, 1);
	if (!UNLIKELY(atomic_load(&catches)))
		return true;
	leave_unblocked();
	return false;
}

void leave_unblocked(void) { atomic_fetch_sub(&unblocked, 1); }

// caught is called before the program sets a handler.
static void caught(void)
{
	uint64_t from = now_ns();
	if (sets_engines())
		return;
	atomic_store(&catches, true);
	while (atomic_load(&unblocked) > 0 && now_ns() - from < MAX_WAIT)
		sched_yield();
}

// seek_handlers looks for handlers that the preload library has not seen: programs may install
// them by a system call or by a function that bypasses the library.
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

// seek_signals finds out which signals the program catches when the engine is first loaded.
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

void signals_in_child(void) { atomic_store(&unblocked, 0); }

/* Handlers of faults. The adapter's own faults, of memory that the program has taken
 * away from it, must reach the adapter also when the program sets a handler:
 * libibverbs keeps one in front of the program's, and is told here of what is set. */

#define _GNU_SOURCE
#include "preload.h"

#include "next.h"

#include <stdatomic.h>

static _Atomic(next_sigaction *) told;

/* softhca_tell_handlers has f called in the place of sigaction for the signals of
 * faults, and says where the next sigaction is. */
SHOWN void softhca_tell_handlers(next_sigaction *f, next_sigaction **next)
{
	*next = NEXT_CALL(sigaction);
	atomic_store_explicit(&told, f, memory_order_release);
}

static inline next_sigaction *told_of(int sig)
{
	if (likely(sig != SIGSEGV && sig != SIGBUS))
		return NULL;
	return atomic_load_explicit(&told, memory_order_acquire);
}

#define SIGACTION(name) \
	SHOWN int name(int sig, const struct sigaction *act, struct sigaction *old) \
	{ \
		next_sigaction *f = told_of(sig); \
		return likely(f == NULL) ? NEXT_CALL(name)(sig, act, old) : f(sig, act, old); \
	}

SIGACTION(sigaction)
SIGACTION(__sigaction)

#define SIGNAL(name) \
	SHOWN sighandler_t name(int sig, sighandler_t handler) \
	{ \
		next_sigaction *f = told_of(sig); \
		struct sigaction old, act = { .sa_handler = handler, .sa_flags = SA_RESTART }; \
		if (likely(f == NULL) || handler == SIG_ERR) \
			return NEXT_CALL(name)(sig, handler); \
		sigaddset(&act.sa_mask, sig); \
		return f(sig, &act, &old) == 0 ? old.sa_handler : SIG_ERR; \
	}

SIGNAL(signal)
SIGNAL(bsd_signal)
SIGNAL(ssignal)

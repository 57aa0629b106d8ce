// Signal handlers. The adapter must get its own faults (memory that the program has
// unmapped) even if the program sets a handler, so libibverbs keeps its handler in
// front of the program's, and this library reports to it which handlers the program
// sets. For signals other than those of faults it only reports that there is a
// handler.

#define _GNU_SOURCE
#include "preload.h"

#include "next.h"

#include <signal.h>

typedef __typeof__(sigaction) next_sigaction;

static _Atomic(next_sigaction *) told;

// softhca_tell_handlers registers f, which replaces sigaction for the fault
// signals, and returns the next sigaction.
SHOWN void softhca_tell_handlers(next_sigaction *f, next_sigaction **next)
{
	*next = NEXT_CALL(sigaction);
	atomic_store_explicit(&told, f, memory_order_release);
}

// Called before the program sets a handler for a signal that is not a fault signal.
TELL(signals, call_before)

static inline void catches(int sig, sighandler_t handler)
{
	bool fault = sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL || sig == SIGTRAP;
	const call_before f = told_signals();
	if (f != NULL && !fault && handler != SIG_DFL && handler != SIG_IGN)
		f();
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
		if (act != NULL) \
			catches(sig, act->sa_handler); \
		return likely(f == NULL) ? NEXT_CALL(name)(sig, act, old) : f(sig, act, old); \
	}

SIGACTION(sigaction)
SIGACTION(__sigaction)

#define SIGNAL(name) \
	SHOWN sighandler_t name(int sig, sighandler_t handler) \
	{ \
		next_sigaction *f = told_of(sig); \
		struct sigaction old, act = { .sa_handler = handler, .sa_flags = SA_RESTART }; \
		catches(sig, handler); \
		if (likely(f == NULL) || handler == SIG_ERR) \
			return NEXT_CALL(name)(sig, handler); \
		sigaddset(&act.sa_mask, sig); \
		return f(sig, &act, &old) == 0 ? old.sa_handler : SIG_ERR; \
	}

SIGNAL(signal)
SIGNAL(bsd_signal)
SIGNAL(ssignal)

// Old functions that set handlers; libibverbs finds their handlers of fault signals
// itself.
#define OLD_SIGNAL(name) \
	SHOWN sighandler_t name(int sig, sighandler_t handler) \
	{ \
		catches(sig, handler); \
		return NEXT_CALL(name)(sig, handler); \
	}

// Headers declare sigset as deprecated; programs call it.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
OLD_SIGNAL(sysv_signal)
OLD_SIGNAL(__sysv_signal)
OLD_SIGNAL(sigset)

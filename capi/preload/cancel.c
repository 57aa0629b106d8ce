// Thread cancellation: libibverbs may let threads sleep where cancellation does not end the
// sleep.

#define _GNU_SOURCE
#include "preload.h"

#include "next.h"

#include <pthread.h>
#include <stdatomic.h>

static _Atomic(void (*)(void)) told_cancel;

// softhca_tell_cancels registers f, which is called before the program cancels
// a thread.
SHOWN void softhca_tell_cancels(void (*f)(void))
{
	atomic_store_explicit(&told_cancel, f, memory_order_release);
}

SHOWN int pthread_cancel(pthread_t thread)
{
	void (*f)(void) = atomic_load_explicit(&told_cancel, memory_order_acquire);

	if (f != NULL)
		f();
	return NEXT_CALL(pthread_cancel)(thread);
}

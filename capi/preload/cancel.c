// Thread cancellation: libibverbs may let threads sleep where cancellation does not end the
// sleep.

#define _GNU_SOURCE
#include "preload.h"

#include "next.h"

#include <pthread.h>

// Called before the program cancels a thread.
TELL(cancels, call_before)

SHOWN int pthread_cancel(pthread_t thread)
{
	const call_before f = told_cancels();

	if (f != NULL)
		f();
	return NEXT_CALL(pthread_cancel)(thread);
}

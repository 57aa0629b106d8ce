// Ends of a program that run no destructors of libraries. The library calls libibverbs,
// which must then notify the program's peers as the kernel would.

#define _GNU_SOURCE
#include "preload.h"

#include "next.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static _Atomic(void (*)(void)) told_end;

// softhca_tell_end registers f, which is called before the program ends by _exit: by
// any thread, in a signal handler, or in the child of a fork or vfork.
SHOWN void softhca_tell_end(void (*f)(void))
{
	atomic_store_explicit(&told_end, f, memory_order_release);
}

#define EXIT(name) \
	SHOWN void name(int status) \
	{ \
		void (*f)(void) = atomic_load_explicit(&told_end, memory_order_acquire); \
		if (f != NULL) \
			f(); \
		NEXT_CALL(name)(status); \
		__builtin_unreachable(); \
	}

EXIT(_exit)
EXIT(_Exit)

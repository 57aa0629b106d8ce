// Ends of a program that run no destructors of libraries. The library calls libibverbs,
// which must then notify the program's peers as the kernel would.

#define _GNU_SOURCE
#include "preload.h"

#include "next.h"

#include <stdlib.h>
#include <unistd.h>

// Called before the program ends by _exit: by any thread, in a signal handler, or in the
// child of a fork or vfork.
TELL(end, call_before)

#define EXIT(name) \
	SHOWN void name(int status) \
	{ \
		const call_before f = told_end(); \
		if (f != NULL) \
			f(); \
		NEXT_CALL(name)(status); \
		__builtin_unreachable(); \
	}

EXIT(_exit)
EXIT(_Exit)

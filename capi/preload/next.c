// Look-up of the functions that this library replaces.

#define _GNU_SOURCE
#include "preload.h"

#include "next.h"

#include <dlfcn.h>
#include <stdatomic.h>

static _Atomic(void *) functions[NEXT_COUNT];

#define NEXT_NAME(name) #name,
static const char *const names[NEXT_COUNT] = { NEXT_FUNCTIONS(NEXT_NAME) };

// find stores a pointer that is the same for all threads, so they need no lock.
static COLD void *find(int number)
{
	void *f = dlsym(RTLD_NEXT, names[number]);

	atomic_store_explicit(&functions[number], f, memory_order_relaxed);
	return f;
}

void *next_function(int number)
{
	void *f = atomic_load_explicit(&functions[number], memory_order_relaxed);

	return likely(f != NULL) ? f : find(number);
}

// All functions are looked up before the program starts, because a look-up is not
// allowed in a signal handler or after a fork of a threaded process.
__attribute__((constructor)) static void find_all(void)
{
	for (int i = 0; i < NEXT_COUNT; i++)
		find(i);
}

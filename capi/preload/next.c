/* Where the functions are that ours take the place of. */

#define _GNU_SOURCE
#include "preload.h"

#include "next.h"

#include <dlfcn.h>
#include <stdatomic.h>

static _Atomic(void *) functions[NEXT_COUNT];

#define NEXT_NAME(result, name, parameters) #name,
static const char *const names[NEXT_COUNT] = { NEXT_FUNCTIONS(NEXT_NAME) };

/* find stores what everybody finds, so it does not matter who is first. */
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

/* The program's own calls find everything in its place, even in a signal handler or
 * after a fork of many threads, where nothing may be looked for. */
__attribute__((constructor)) static void find_all(void)
{
	for (int i = 0; i < NEXT_COUNT; i++)
		find(i);
}

// The check of the order of locks, in the builds of tests.
#include "lock.h"

void (*tsan_acquire)(void *what), (*tsan_release)(void *what);

#ifdef LOCK_ORDER
#include <stdio.h>
#include <stdlib.h>

enum { HELD_MAX = 16 };

// The locks that the calling thread holds, in the order in which it took them.
static __thread struct {
	enum rank rank;
	const void *lock;
} held[HELD_MAX];
static __thread int holds;

static _Noreturn void refuse(const char *what)
{
	fprintf(stderr, "libibverbs: %s while the thread holds the ranks", what);
	for (int i = 0; i < holds; i++)
		fprintf(stderr, " %d", (int)held[i].rank);
	fprintf(stderr, ": see enum rank in lock.h\n");
	abort();
}

static enum rank innermost(void) { return holds == 0 ? 0 : held[holds - 1].rank; }

void take_rank(enum rank r, const void *lock)
{
	if (innermost() >= r || holds == HELD_MAX) {
		char what[40];
		snprintf(what, sizeof what, "takes a lock of rank %d", (int)r);
		refuse(what);
	}
	held[holds].rank = r;
	held[holds++].lock = lock;
}

void drop_rank(const void *lock)
{
	int i = holds;
	while (i > 0 && held[i - 1].lock != lock)
		i--;
	if (i == 0)
		refuse("releases another lock");
	for (; i < holds; i++)
		held[i - 1] = held[i];
	holds--;
}

void may_enter(void)
{
	if (innermost() > ENGINE_LOCKS)
		refuse("calls the engine");
}
#endif

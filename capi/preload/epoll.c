// epoll sets. The thread of a program that waits for a set with the descriptor of a completion
// channel waits for the network too: then no other thread has to wake it for each message.

#define _GNU_SOURCE
#include "epoll.h"

#include "next.h"
#include "preload.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>

typedef const struct epoll_calls *epoll_calls;

TELL(epoll, epoll_calls)

static inline bool in_table(const struct epoll_calls *calls, void *_Atomic *table, int fd)
{
	return fd >= 0 && fd < calls->max && atomic_load_explicit(&table[fd], memory_order_relaxed) != NULL;
}

// serving returns the calls for a set with the descriptor of a channel, NULL for other sets.
static inline const struct epoll_calls *serving(int set)
{
	const epoll_calls calls = told_epoll();

	return unlikely(calls != NULL) && in_table(calls, calls->sets, set) ? calls : NULL;
}

SHOWN int epoll_ctl(int set, int op, int fd, struct epoll_event *event)
{
	const epoll_calls calls = told_epoll();
	const int result = NEXT_CALL(epoll_ctl)(set, op, fd, event);

	if (unlikely(calls != NULL) && result == 0 && op != EPOLL_CTL_MOD && in_table(calls, calls->channels, fd))
		calls->changed(set, fd, op == EPOLL_CTL_ADD);
	return result;
}

// wait_lent lends the thread and then looks at the set, until the time is over.
static COLD int wait_lent(const struct epoll_calls *calls, int set, struct epoll_event *events, int max, int timeout)
{
	uint64_t end = 0;
	int n;

	do {
		switch (calls->lend(set, &timeout, &end)) {
		case LENT_NOT:
			return NEXT_CALL(epoll_wait)(set, events, max, timeout);
		case LENT_INTERRUPTED:
			errno = EINTR;
			return -1;
		default:
			n = NEXT_CALL(epoll_wait)(set, events, max, 0);
		}
	} while (n == 0 && timeout != 0);
	return n;
}

SHOWN int epoll_wait(int set, struct epoll_event *events, int max, int timeout)
{
	const struct epoll_calls *calls = serving(set);

	if (unlikely(calls != NULL) && timeout != 0 && max > 0)
		return wait_lent(calls, set, events, max, timeout);
	return NEXT_CALL(epoll_wait)(set, events, max, timeout);
}

SHOWN int epoll_pwait(int set, struct epoll_event *events, int max, int timeout, const sigset_t *mask)
{
	const struct epoll_calls *calls = serving(set);

	if (unlikely(calls != NULL) && timeout != 0 && max > 0 && mask == NULL)
		return wait_lent(calls, set, events, max, timeout);
	return NEXT_CALL(epoll_pwait)(set, events, max, timeout, mask);
}

void close_epoll(int fd)
{
	const struct epoll_calls *calls = serving(fd);

	if (unlikely(calls != NULL))
		calls->closed(fd);
}

// The calls that libibverbs registers by softhca_tell_epoll with the preload library, which reports
// the program's epoll sets to it. A thread that waits for a set with the descriptor of a completion
// channel serves the adapter meanwhile.

#ifndef SOFTHCA_EPOLL_H
#define SOFTHCA_EPOLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// lent says how a thread has waited for a set.
enum lent {
	LENT_NOT,         // not at all: the caller waits
	LENT_READY,       // until the set may be ready, or the time is over
	LENT_INTERRUPTED, // until a signal handler ran: EINTR
};

struct epoll_calls {
	// By descriptor number: not NULL if it may be a set with the descriptor of a channel, or
	// such a descriptor.
	void *_Atomic *sets, *_Atomic *channels;
	int max;

	// changed is called after epoll_ctl has added a descriptor of a channel to a set or removed
	// it.
	void (*changed)(int set, int fd, bool added);
	// closed is called before a descriptor of a set is closed.
	void (*closed)(int set);
	// lend waits at most timeout milliseconds, not 0, negative for no limit. It sets timeout to
	// what is left of them. The caller sets end to 0 before its first call.
	enum lent (*lend)(int set, int *timeout, uint64_t *end);
};

#endif

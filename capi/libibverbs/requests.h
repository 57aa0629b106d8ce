// The requests that a program which is checked has posted, and not yet polled a completion for.
#ifndef SOFTHCA_REQUESTS_H
#define SOFTHCA_REQUESTS_H

#include "check.h"

// request is a posted request. Its memory belongs to the adapter until the program has polled a completion
// that covers it.
struct request {
	uint64_t wr_id, sum;
	uint64_t writes; // how many times the adapter had written to memory before it was posted
	const struct stack *posted;
	pthread_t thread;
	uintptr_t frame; // of the thread's stack, when it posted
	uintptr_t lo, hi; // all of its memory is in this range
	uint32_t index, length;
	uint32_t turn; // of the requests of the queue
	uint8_t opcode, num_sge;
	bool signaled, writes_list, summed, told, datagram;
	bool ended;   // its memory is gone, which was recorded
	bool changed; // before the adapter repeated a packet
	struct ring_sge list[];
};

// requests are those of a queue, oldest first. It holds more than the queue, because the engine frees an
// entry of the queue before the program polls. Beyond that it forgets the oldest.
struct requests {
	pthread_mutex_t mu; // guards what follows
	uint32_t limit;     // entries of the queue, as the program knows it
	bool off;           // completions came that were not expected: the number of requests is not known
	// The first post that was refused since completions wait that the program does not poll.
	const struct stack *refused; // NULL: none
	uint64_t refused_ns;
	uint32_t refused_cons; // of the completion queue
	uint32_t head, tail, mask;
	uint32_t signaled; // of those from head to tail
	uint32_t lost;     // completions that will come for forgotten requests
	uint32_t turns;    // requests that were posted
	size_t size;
	char *entries;
	struct ibv_cq *cq; // of the completions; NULL for a shared receive queue
};

static inline struct request *at(const struct requests *rs, uint32_t i) { return (struct request *)(rs->entries + (size_t)(i & rs->mask) * rs->size); }

// tsan.c

// tsan_posts notes what happens before a request, in its queue, and tsan_sends what happens before a message to a queue
// pair. These and the next functions are called between tsan_hides and tsan_shows.
void tsan_posts(const struct requests *rs, const struct request *r);
void tsan_sends(uint32_t to);

// tsan_completes tells TSan what the adapter has done for the requests with the indexes from first to last, which a completion
// covers. It happens before what the thread does next, as do the posts. tsan_completes_any is for a completion of
// which the request is not known, tsan_receives for that of a message to a queue pair.
void tsan_completes(const struct requests *rs, const struct device *d, const struct ring_cqe *e, uint32_t first, uint32_t last);
void tsan_completes_any(const struct requests *rs);
void tsan_receives(uint32_t at);

#endif

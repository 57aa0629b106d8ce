// The queues of the engines in C, and their calls that do nothing.
#ifndef QUEUES_H
#define QUEUES_H

#include "../../../internal/ring/cpeer/ring.h"
#include "../../engine/engine.h"

#include <stdlib.h>

// The calls of these engines look at few of their parameters.
#pragma GCC diagnostic ignored "-Wunused-parameter"

static inline struct ring *new_ring(uint32_t entries, size_t stride)
{
	uint32_t n = 1;
	while (n < entries)
		n *= 2;
	struct ring *r = calloc(1, sizeof *r + (size_t)n * stride);
	r->mask = n - 1, r->stride = (uint32_t)stride, r->entries = (uintptr_t)(r + 1);
	return r;
}

static inline struct ring *new_recv_ring(uint32_t wr, uint32_t sge)
{
	return new_ring(wr, sizeof(struct ring_recv) + sge * sizeof(struct ring_sge));
}

static inline struct ring *new_send_ring(const struct softhca_cap *c)
{
	size_t room = c->send_sge * sizeof(struct ring_sge);
	if (room < c->inline_data)
		room = c->inline_data;
	return new_ring(c->send_wr, (sizeof(struct ring_send) + sizeof(struct ring_to) + room + 7) & ~(size_t)7);
}

#endif

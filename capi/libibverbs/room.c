// Memory of queues that a program allocates, through the functions of a parent domain. They are
// called outside of the engine, without a lock: they may call the library.
#define _GNU_SOURCE
#include "softhca.h"

enum { ALIGNMENT = 64 }; // a cache line

// take_room asks the program for out->size bytes: 0, or ENOMEM. The parent domain exists until
// return_room. If it is none, or has no functions, the engine allocates.
int take_room(struct pd *d, struct room *r, enum resource type, struct softhca_room *out)
{
	*r = (struct room){0};
	out->addr = NULL;
	if (d == NULL || d->alloc == NULL)
		return 0;
	void *addr = d->alloc(&d->ibv, d->pd_context, out->size, ALIGNMENT, type);
	if (addr == NULL)
		return ENOMEM;
	if (addr == IBV_ALLOCATOR_USE_DEFAULT)
		return 0;
	d->children++;
	*r = (struct room){d, addr, type};
	out->addr = addr;
	return 0;
}

// return_room ends the use of memory, and returns it to the program unless its queue is one that is
// left when a context closes: the program may have no functions any more.
void return_room(struct room *r, bool left)
{
	struct pd *d = r->domain;
	if (d == NULL)
		return;
	if (!left)
		d->free(&d->ibv, d->pd_context, r->addr, r->type);
	d->children--;
}

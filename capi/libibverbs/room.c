// Memory of queues that a program allocates, through the functions of a parent domain. The library
// calls these functions outside of the engine and without a lock, so they may call the library.
#define _GNU_SOURCE
#include "softhca.h"

enum { ALIGNMENT = 64 }; // a cache line

// take_room asks the program for out->size bytes, and returns 0 or ENOMEM. The engine allocates the
// memory if d is not a parent domain with functions, or if the program leaves it to the library.
// Memory of the program keeps d from being deallocated until return_room.
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

// return_room ends the use of memory, and returns it to the program. Left means that the queue was
// left when its context closed: the program's functions may be gone then, so they are not called.
void return_room(struct room *r, bool left)
{
	struct pd *d = r->domain;
	if (d == NULL)
		return;
	if (!left)
		d->free(&d->ibv, d->pd_context, r->addr, r->type);
	d->children--;
}

// Parent domains whose functions allocate the memory of queues.
#include "link.h"

enum { GUARD = 64, MOST_TYPES = 4 };

// header precedes each block.
struct header {
	size_t size, alignment;
	uint64_t type;
	struct rooms *of;
};

static void *allocate(struct ibv_pd *pd, void *context, size_t size, size_t alignment, uint64_t type)
{
	const char *call = "a call for the memory of a queue";
	struct rooms *m = context;
	WANT(call, pd, m->pd);
	WANT(call, size > 0, true);
	WANT(call, alignment >= sizeof(void *) && (alignment & (alignment - 1)) == 0, true);
	WANT(call, type >= 1 && type <= MOST_TYPES, true);
	if (++m->calls == m->refuse)
		return NULL;
	if (chance(20))
		return IBV_ALLOCATOR_USE_DEFAULT;
	size_t before = (sizeof(struct header) + alignment - 1) / alignment * alignment;
	char *block = NULL;
	if (posix_memalign((void **)&block, alignment, before + size + GUARD) != 0)
		abort();
	struct header *h = (struct header *)(block + before) - 1;
	*h = (struct header){size, alignment, type, m};
	poison(block + before, size + GUARD); // the adapter clears what it uses
	m->live++;
	return block + before;
}

static void release_block(struct ibv_pd *pd, void *context, void *at, uint64_t type)
{
	const char *call = "the return of a queue's memory";
	struct rooms *m = context;
	struct header *h = (struct header *)at - 1;
	WANT(call, h->of, m);
	WANT(call, pd, m->pd);
	WANT(call, type, h->type);
	WANT("memory behind that of a queue", is_poison((char *)at + h->size, GUARD), true);
	if (m->refuse == 0) // otherwise the queue was never created
		WANT("the memory of a queue is unused", is_poison(at, h->size), false);
	m->live--;
	char *block = (char *)at - (sizeof(struct header) + h->alignment - 1) / h->alignment * h->alignment;
	poison(at, h->size); // nothing uses it any more
	h->of = NULL;
	free(block);
}

// open_pd makes the domain of an end: a protection domain, or a parent domain with or without
// functions for memory.
void open_pd(struct end *e)
{
	struct ibv_parent_domain_init_attr a = {.alloc = allocate, .free = release_block, .pd_context = &e->rooms};
	e->rooms = (struct rooms){0}, e->allocates = false;
	e->pd = e->root = MADE(ibv_alloc_pd(e->ctx));
	if (chance(50))
		return;
	a.pd = e->root;
	e->allocates = chance(80);
	a.comp_mask = e->allocates ? IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT : 0;
	e->pd = e->rooms.pd = MADE(ibv_alloc_parent_domain(e->ctx, &a));
}

// close_pd is called when nothing is left in the domain.
void close_pd(struct end *e)
{
	WANT("blocks of a parent domain without queues", e->rooms.live, 0);
	if (e->pd != e->root)
		WORKS(ibv_dealloc_pd(e->pd));
	WORKS(ibv_dealloc_pd(e->root));
}

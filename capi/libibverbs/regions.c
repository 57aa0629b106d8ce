// The regions of a program that is checked, by key, also some of those that it has deregistered.
#define _GNU_SOURCE
#include "check.h"

enum { BUCKETS = 1024, ENDED = 1024 };

static pthread_mutex_t regions_mu = PTHREAD_MUTEX_INITIALIZER; // guards what follows
static struct region *buckets[BUCKETS];
static struct region *ended[ENDED]; // the newest deregistered ones
static unsigned ends;

// changes counts the changes of the regions. It changes with the lock held.
static _Atomic uint64_t changes;

// A thread remembers the regions that it has looked up last. They are valid while there is no change.
enum { RECENT = 8 };
static __thread struct recent {
	uint64_t changes; // plus 1; 0: none
	struct region r;
} recent[RECENT];

void regions_in_child(void) { pthread_mutex_init(&regions_mu, NULL); }

// A bit for each page of a region; pages share bits. Bits are never cleared.
enum { PAGE_BITS = 12, PAGES = 1 << 16 };
static _Atomic uint64_t pages[PAGES / 64];

static void mark(uintptr_t addr, uint64_t length)
{
	uint64_t first = addr >> PAGE_BITS, n = ((addr + length - 1) >> PAGE_BITS) - first + 1;
	for (uint64_t i = 0; i < n && i < PAGES; i++)
		atomic_fetch_or(&pages[(first + i) % PAGES / 64], 1ull << (first + i) % 64);
}

bool registered(const void *p, size_t n)
{
	uintptr_t first = (uintptr_t)p >> PAGE_BITS, last = ((uintptr_t)p + n - 1) >> PAGE_BITS;
	if (last - first >= PAGES)
		return true;
	for (; n > 0 && first <= last; first++)
		if (atomic_load_explicit(&pages[first % PAGES / 64], memory_order_relaxed) >> first % 64 & 1)
			return true;
	return false;
}

static struct region **place_of(const struct device *d, uint32_t key)
{
	struct region **at = &buckets[(key >> 8 ^ key) % BUCKETS];
	while (*at != NULL && !((*at)->key == key && (*at)->dev == d))
		at = &(*at)->next;
	return at;
}

// end notes that a key is invalid from now on. It returns memory to be freed without the lock, which is held.
static void *end(const struct device *d, uint32_t key)
{
	struct region *r = *place_of(d, key), **oldest = &ended[ends++ % ENDED];
	atomic_fetch_add(&changes, 1);
	if (r == NULL || r->ended != NULL)
		return NULL;
	r->ended = stack_here(), r->ended_ns = now_ns();
	void *old = *oldest;
	if (old != NULL) {
		struct region **at = &buckets[((*oldest)->key >> 8 ^ (*oldest)->key) % BUCKETS];
		while (*at != old)
			at = &(*at)->next;
		*at = (*oldest)->next;
	}
	*oldest = r;
	return old;
}

// begin adds a region. The lock is held.
static void begin(const struct region *as)
{
	struct region *r, **at = place_of(as->dev, as->key);
	atomic_fetch_add(&changes, 1);
	if ((r = *at) == NULL && (r = malloc(sizeof *r)) != NULL) {
		*r = *as;
		r->next = NULL;
		*at = r;
		return;
	}
	if (r == NULL)
		return;
	for (unsigned i = 0; i < ENDED; i++) // the key of an ended region is used again
		if (ended[i] == r)
			ended[i] = NULL;
	struct region *next = r->next;
	*r = *as;
	r->next = next;
}

void check_registers(const struct mr *m, const struct softhca_mr *a)
{
	struct region r = {
		.dev = device_of(m->ibv.context), .key = m->ibv.lkey, .iova = a->access & IBV_ACCESS_ZERO_BASED ? 0 : a->iova, .length = a->length,
		.addr = (uintptr_t)a->addr, .access = a->access, .pd = CONTAINER(m->ibv.pd, struct pd, ibv)->handle, .memory = (enum softhca_memory)a->memory,
		.made = stack_here(),
	};
	if (r.memory == SOFTHCA_IMPLICIT)
		mark(0, UINT64_MAX);
	else if (r.memory == SOFTHCA_PROGRAM && r.length > 0)
		mark(r.addr, r.length);
	enter_checker(); // it allocates memory with the lock held
	mutex_lock(REGIONS_LOCK, &regions_mu);
	begin(&r);
	mutex_unlock(&regions_mu);
	leave_checker();
}

void check_reregisters(const struct mr *m, uint32_t old, const struct softhca_mr *a, bool moves)
{
	struct device *d = device_of(m->ibv.context);
	void *old_one = NULL;
	enter_checker(); // as above
	mutex_lock(REGIONS_LOCK, &regions_mu);
	struct region *had = *place_of(d, old);
	if (had != NULL) {
		struct region r = *had;
		if (m->ibv.lkey != old)
			old_one = end(d, old);
		r.key = m->ibv.lkey, r.access = a->access, r.pd = CONTAINER(m->ibv.pd, struct pd, ibv)->handle, r.ended = NULL;
		if (moves)
			mark((uintptr_t)a->addr, a->length), r.addr = (uintptr_t)a->addr, r.length = a->length, r.iova = a->iova, r.memory = SOFTHCA_PROGRAM;
		begin(&r);
	}
	mutex_unlock(&regions_mu);
	leave_checker();
	free(old_one);
}

void check_deregisters(const struct mr *m)
{
	mutex_lock(REGIONS_LOCK, &regions_mu);
	void *old = end(device_of(m->ibv.context), m->ibv.lkey);
	mutex_unlock(&regions_mu);
	free(old);
}

bool region_of(const struct device *d, uint32_t key, struct region *out)
{
	struct recent *c = &recent[(key >> 8 ^ key) % RECENT];
	if (c->changes == atomic_load(&changes) + 1 && c->r.key == key && c->r.dev == d) {
		*out = c->r;
		return true;
	}
	mutex_lock(REGIONS_LOCK, &regions_mu);
	const struct region *r = *place_of(d, key);
	if (r != NULL)
		*out = c->r = *r, c->changes = atomic_load(&changes) + 1;
	mutex_unlock(&regions_mu);
	return r != NULL;
}

bool forgets_regions(void)
{
	mutex_lock(REGIONS_LOCK, &regions_mu);
	bool does = ends > ENDED;
	mutex_unlock(&regions_mu);
	return does;
}

bool address_of(const struct region *r, uint64_t addr, uint64_t length, uintptr_t *out)
{
	if (r->memory == SOFTHCA_IMPLICIT) {
		*out = (uintptr_t)addr;
		return true;
	}
	if (r->memory != SOFTHCA_PROGRAM || addr < r->iova || addr - r->iova > r->length || length > r->length - (addr - r->iova))
		return false;
	*out = r->addr + (addr - r->iova);
	return true;
}

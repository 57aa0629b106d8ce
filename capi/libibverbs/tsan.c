// ThreadSanitizer (TSan), if the program is compiled with -fsanitize=thread. It sees what the program accesses,
// and the calls of the C library's functions, also those of this library and of the engine. It does not see that
// the adapter reads and writes the program's memory, nor how threads are ordered by this library. The functions
// here tell it. They do nothing without TSan.
//
// An access of the adapter is told when the program polls the completion, as one by a fiber: a thread that TSan
// knows, and that runs when the library says. The fiber knows what happened before the post, and the polling
// thread then knows the access. So an access by the program is ordered with that of the adapter before the post and
// after the poll, and in between TSan reports it, also if the same thread has posted, accessed and polled.
#define _GNU_SOURCE
#include "requests.h"

#include <dlfcn.h>

// A byte of memory belongs to one fiber, so accesses of the adapter never race with each other. A fiber knows what
// happened before the post of each access that it was told of. With many fibers, few of these hide a race. One
// takes up to a megabyte. They never end.
enum { FIBER_BITS = 5, FIBERS = 1 << FIBER_BITS, PAGE_BITS = 12, NO_SYNC = 1 };

// DONE is the distance between the two tokens of a request: of its post and of the accesses.
enum { DONE = 8 };

bool tsan_runs;

// peers has a token for queue pairs with the same last bits of their number. GROUP is the number to which messages for
// multicast groups are sent.
enum { PEERS = 1024, GROUP = 0xffffff };
static uint64_t peers[PEERS];

static struct fiber {
	void *of_tsan;
	_Atomic uint32_t lock; // while a thread runs the fiber
} fibers[FIBERS];
static pthread_once_t fibers_once = PTHREAD_ONCE_INIT;

// TSan's functions.
static void *(*current_fiber)(void);
static void *(*create_fiber)(unsigned flags);
static void (*name_fiber)(void *fiber, const char *name);
static void (*switch_to)(void *fiber, unsigned flags);
static void (*enters)(void *pc);
static void (*leaves)(void);
static void (*reads)(const void *addr, unsigned long n);
static void (*writes)(const void *addr, unsigned long n);
static void (*ignore_accesses)(const char *file, int line), (*heed_accesses)(const char *file, int line);
static void (*ignore_order)(const char *file, int line), (*heed_order)(const char *file, int line);

static const struct {
	const char *name;
	void *to;
} functions[] = {
	{"__tsan_acquire", &tsan_acquire}, {"__tsan_release", &tsan_release},
	{"__tsan_get_current_fiber", &current_fiber}, {"__tsan_create_fiber", &create_fiber},
	{"__tsan_set_fiber_name", &name_fiber}, {"__tsan_switch_to_fiber", &switch_to},
	{"__tsan_func_entry", &enters}, {"__tsan_func_exit", &leaves},
	{"__tsan_read_range", &reads}, {"__tsan_write_range", &writes},
	{"AnnotateIgnoreReadsBegin", &ignore_accesses}, {"AnnotateIgnoreReadsEnd", &heed_accesses},
	{"AnnotateIgnoreSyncBegin", &ignore_order}, {"AnnotateIgnoreSyncEnd", &heed_order},
};

__attribute__((constructor)) static void seek(void)
{
	enum { COUNT = sizeof functions / sizeof *functions };
	void *found[COUNT];
	for (int i = 0; i < COUNT; i++)
		if ((found[i] = dlsym(RTLD_DEFAULT, functions[i].name)) == NULL)
			return;
	for (int i = 0; i < COUNT; i++)
		memcpy(functions[i].to, &found[i], sizeof found[i]);
	tsan_runs = true;
}

static void create_fibers(void)
{
	for (int i = 0; i < FIBERS; i++) {
		fibers[i].of_tsan = create_fiber(0);
		name_fiber(fibers[i].of_tsan, "softhca adapter");
	}
}

// A fiber knows what happened before it was created, so they are created before the first post.
void tsan_begins(void)
{
	if (tsan_runs)
		pthread_once(&fibers_once, create_fibers);
}

void tsan_in_child(void)
{
	for (int i = 0; i < FIBERS; i++)
		atomic_store(&fibers[i].lock, 0);
}

void tsan_hides_accesses(void)
{
	if (UNLIKELY(tsan_runs))
		ignore_accesses(__FILE__, __LINE__);
}

void tsan_shows_accesses(void)
{
	if (UNLIKELY(tsan_runs))
		heed_accesses(__FILE__, __LINE__);
}

void tsan_hides(void)
{
	if (UNLIKELY(tsan_runs))
		ignore_accesses(__FILE__, __LINE__), ignore_order(__FILE__, __LINE__);
}

void tsan_shows(void)
{
	if (UNLIKELY(tsan_runs))
		heed_order(__FILE__, __LINE__), heed_accesses(__FILE__, __LINE__);
}

// before and after: what the thread has done before the first one for a token happens before what follows the second
// one. A token is an address in memory of the library. They are called while TSan does not see the order of threads.
static void before(const void *token)
{
	if (!UNLIKELY(tsan_runs))
		return;
	heed_order(__FILE__, __LINE__);
	tsan_release((void *)token);
	ignore_order(__FILE__, __LINE__);
}

static void after(const void *token)
{
	if (!UNLIKELY(tsan_runs))
		return;
	heed_order(__FILE__, __LINE__);
	tsan_acquire((void *)token);
	ignore_order(__FILE__, __LINE__);
}

// The next two are the innermost functions in the stacks that TSan reports. They are not tail calls, so that they are.
__attribute__((noinline)) static void adapter_reads_payload(uintptr_t at, size_t n)
{
	reads((const void *)at, n);
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void adapter_writes_payload(uintptr_t at, size_t n)
{
	writes((const void *)at, n);
	__asm__ volatile("" ::: "memory");
}

// access is an access of the adapter to memory of a request.
struct access {
	uintptr_t addr;
	size_t length;
	bool writes;
	const struct stack *stack; // of the post
	const void *posted, *done; // tokens
};

// fiber_of returns the fiber to which a page belongs. Buffers are often a power of 2 apart.
static unsigned fiber_of(uintptr_t page) { return (unsigned)(page * 0x9e3779b97f4a7c15u >> (64 - FIBER_BITS)); }

// access_in tells TSan of the part of an access that is in the pages of a fiber, of which page is the first.
__attribute__((no_sanitize("thread"))) static void access_in(unsigned fiber, uintptr_t page, const struct access *a)
{
	struct fiber *f = &fibers[fiber];
	uintptr_t end = a->addr + a->length;
	void *self = current_fiber();
	spin_lock(FIBER_LOCK, &f->lock);
	switch_to(f->of_tsan, NO_SYNC);
	tsan_acquire((void *)a->posted);
	for (unsigned i = a->stack->n; i > 0; i--)
		enters((void *)a->stack->pc[i - 1]);
	for (; page <= (end - 1) >> PAGE_BITS; page++) {
		uintptr_t from = page << PAGE_BITS, to = (page + 1) << PAGE_BITS;
		from = from < a->addr ? a->addr : from, to = to > end ? end : to;
		if (fiber_of(page) == fiber)
			(a->writes ? adapter_writes_payload : adapter_reads_payload)(from, to - from);
	}
	for (unsigned i = 0; i < a->stack->n; i++)
		leaves();
	tsan_release((void *)a->done);
	switch_to(self, NO_SYNC);
	spin_unlock(&f->lock);
}

// tell tells TSan of an access, which happens before what the thread does next.
static void tell(const struct access *a)
{
	bool told[FIBERS] = {0};
	for (uintptr_t page = a->addr >> PAGE_BITS; page <= (a->addr + a->length - 1) >> PAGE_BITS; page++)
		if (!told[fiber_of(page)])
			told[fiber_of(page)] = true, access_in(fiber_of(page), page, a);
	after(a->done);
}

// token_of returns the token of a request. No other outstanding request has it, except in
// a shared receive queue; requests with the same token only make TSan find less.
static const char *token_of(const struct requests *rs, const struct request *r) { return (const char *)at(rs, r->turn); }

// accesses tells TSan that the adapter has read or written the memory of a request, which happens before its
// completion is polled.
static void accesses(const struct requests *rs, const struct device *d, const struct request *r, const struct ring_cqe *e)
{
	bool receive = r->opcode >= IBV_WC_RECV;
	uint64_t left = receive ? e->byte_len : UINT64_MAX;
	// A datagram may have been read before the peer answers, as for its sum.
	if (r->told || r->ended || e->status != IBV_WC_SUCCESS || (r->datagram && !receive) || (receive && e->opcode == IBV_WC_RECV_RDMA_WITH_IMM))
		return;
	for (int i = 0; i < r->num_sge && left > 0; i++) {
		struct region in;
		struct access a = {.length = r->list[i].length, .writes = r->writes_list, .stack = r->posted, .posted = token_of(rs, r), .done = token_of(rs, r) + DONE};
		if (a.length > left)
			a.length = left;
		left -= a.length;
		if (a.length > 0 && region_of(d, r->list[i].lkey, &in) && in.ended == NULL && address_of(&in, r->list[i].addr, a.length, &a.addr))
			tell(&a);
	}
}

void tsan_posts(const struct requests *rs, const struct request *r)
{
	before(token_of(rs, r));
	before(rs);
}

void tsan_sends(uint32_t to) { before(&peers[to % PEERS]); }

void tsan_completes(const struct requests *rs, const struct device *d, const struct ring_cqe *e, uint32_t first, uint32_t last)
{
	for (uint32_t i = first; i != last + 1; i++) {
		accesses(rs, d, at(rs, i), e);
		after(token_of(rs, at(rs, i)));
	}
}

void tsan_completes_any(const struct requests *rs) { after(rs); }

void tsan_receives(uint32_t at)
{
	after(&peers[at % PEERS]);
	after(&peers[GROUP % PEERS]);
}

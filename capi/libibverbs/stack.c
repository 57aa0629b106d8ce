// Stacks of calls. libgcc's unwinder finds them by .eh_frame, which compilers write for C, C++ and Rust, also
// without frame pointers. To unwind takes microseconds, so each thread remembers where its newest stacks have
// their return addresses: if these are the same, the stack is.
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BUCKETS = 4096, STACKS = 16384, REMEMBERED = 64 };

static pthread_mutex_t stacks_mu = PTHREAD_MUTEX_INITIALIZER; // guards what follows
static struct stack *buckets[BUCKETS];
static unsigned stacks;

static struct stack unknown; // for stacks beyond the limit, and without an unwinder

// The unwinder, from libgcc_s.so.1; NULL without it.
struct _Unwind_Context;
typedef int tracer(struct _Unwind_Context *c, void *arg);
static int (*backtrace_of)(tracer *f, void *arg);
static uintptr_t (*ip_of)(struct _Unwind_Context *c);
static uintptr_t (*cfa_of)(struct _Unwind_Context *c);

// own has the code of this library, and of the one that reports freed memory, whose calls are not the program's.
static struct code {
	uintptr_t in, start, end;
} own[2];

// remembered is a stack, and where its return addresses are.
struct remembered {
	uintptr_t frame; // of the function that unwound it; 0: none
	unsigned n;
	uintptr_t at[STACK_MAX + 8], pc[STACK_MAX + 8];
	const struct stack *stack;
};

static pthread_key_t remembers; // an array of REMEMBERED for each thread that has made one
static __thread struct remembered *of_thread;

// walk is a stack that is being unwound.
struct walk {
	struct remembered r;
	struct stack s;
	bool exact; // each return address is where it is expected
};

// find_code finds the code around an address.
static int find_code(struct dl_phdr_info *o, size_t size, void *arg)
{
	struct code *c = arg;
	(void)size;
	for (int i = 0; i < o->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &o->dlpi_phdr[i];
		uintptr_t from = o->dlpi_addr + p->p_vaddr;
		if (p->p_type == PT_LOAD && (p->p_flags & PF_X) && c->in - from < p->p_memsz) {
			c->start = from, c->end = from + p->p_memsz;
			return 1;
		}
	}
	return 0;
}

void stacks_in_child(void) { pthread_mutex_init(&stacks_mu, NULL); }

// forget frees what a thread that ends has remembered.
static void forget(void *p)
{
	of_thread = NULL;
	free(p);
}

void start_stacks(void)
{
	if (backtrace_of != NULL)
		return;
	void *lib = dlopen("libgcc_s.so.1", RTLD_NOW);
	own[0].in = (uintptr_t)find_code, own[1].in = (uintptr_t)dlsym(RTLD_DEFAULT, "softhca_watch_memory");
	for (int i = 0; i < 2; i++)
		dl_iterate_phdr(find_code, &own[i]);
	if (lib == NULL || pthread_key_create(&remembers, forget) != 0)
		return;
	ip_of = (uintptr_t(*)(struct _Unwind_Context *))dlsym(lib, "_Unwind_GetIP");
	cfa_of = (uintptr_t(*)(struct _Unwind_Context *))dlsym(lib, "_Unwind_GetCFA");
	if (ip_of != NULL && cfa_of != NULL)
		backtrace_of = (int (*)(tracer *, void *))dlsym(lib, "_Unwind_Backtrace");
}

// Where the processor or a function stores the return address.
#if defined(__x86_64__)
#define RETURN_ADDRESS(cfa) ((cfa) - sizeof(uintptr_t))
#else
#define RETURN_ADDRESS(cfa) ((uintptr_t)0)
#endif

// visit adds a call to a stack.
static int visit(struct _Unwind_Context *c, void *arg)
{
	enum { GO_ON = 0, STOP = 4 };
	struct walk *w = arg;
	uintptr_t pc = ip_of(c), at = RETURN_ADDRESS(cfa_of(c));
	bool here = pc - own[0].start < own[0].end - own[0].start || pc - own[1].start < own[1].end - own[1].start;
	if (pc == 0)
		return STOP;
	if (w->r.n > 0 || here) { // the first is that of a function here, which no return address is of
		if (w->r.n == sizeof w->r.pc / sizeof *w->r.pc)
			return STOP;
		if (w->r.n > 0 && (at == 0 || *(const uintptr_t *)at != pc))
			w->exact = false;
		w->r.at[w->r.n] = at, w->r.pc[w->r.n++] = pc;
	}
	if (here && w->s.n == 0)
		return GO_ON;
	if (w->s.n == STACK_MAX)
		return STOP;
	w->s.pc[w->s.n++] = pc;
	return GO_ON;
}

// intern returns the unique copy of a stack.
static const struct stack *intern(struct stack *s)
{
	s->hash = 14695981039346656037u;
	for (unsigned i = 0; i < s->n; i++)
		s->hash = (s->hash ^ s->pc[i]) * 1099511628211u;
	mutex_lock(STACKS_LOCK, &stacks_mu);
	struct stack **bucket = &buckets[s->hash % BUCKETS], *at = *bucket;
	while (at != NULL && !(at->hash == s->hash && at->n == s->n && memcmp(at->pc, s->pc, s->n * sizeof *s->pc) == 0))
		at = at->next;
	if (at == NULL && stacks < STACKS && (at = malloc(sizeof *at)) != NULL) {
		*at = *s;
		at->next = *bucket;
		*bucket = at;
		stacks++;
	}
	mutex_unlock(&stacks_mu);
	return at != NULL ? at : &unknown;
}

// same reports whether the thread's stack has the return addresses of a remembered one.
static bool same(const struct remembered *r, uintptr_t frame)
{
	if (r->frame != frame)
		return false;
	for (unsigned i = 1; i < r->n; i++)
		if (*(const uintptr_t *)r->at[i] != r->pc[i])
			return false;
	return true;
}

__attribute__((noinline)) const struct stack *stack_here(void)
{
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	struct walk w = {.exact = true};
	if (backtrace_of == NULL)
		return &unknown;
	if (of_thread == NULL && (of_thread = calloc(REMEMBERED, sizeof *of_thread)) != NULL)
		pthread_setspecific(remembers, of_thread);
	struct remembered *r = of_thread != NULL ? &of_thread[frame / 16 % REMEMBERED] : NULL;
	if (r != NULL && same(r, frame))
		return r->stack;
	enter_checker(); // what follows may allocate memory with a lock held
	backtrace_of(visit, &w);
	const struct stack *s = intern(&w.s);
	leave_checker();
	if (r != NULL) {
		*r = w.r;
		r->stack = s;
		r->frame = w.exact && w.r.n > 1 ? frame : 0;
	}
	return s;
}

void find_place(uintptr_t pc, struct place *p)
{
	Dl_info i = {0};
	struct link_map *m = NULL;
	*p = (struct place){.offset = --pc}; // in the call, behind which it returns
	if (dladdr1((void *)pc, &i, (void **)&m, RTLD_DL_LINKMAP) == 0 || m == NULL)
		return;
	ssize_t n = m->l_name[0] == '\0' ? readlink("/proc/self/exe", p->file, sizeof p->file - 1) : -1;
	if (n <= 0)
		snprintf(p->file, sizeof p->file, "%s", i.dli_fname);
	p->offset = pc - m->l_addr;
	p->symbol = i.dli_sname, p->symbol_offset = pc - (uintptr_t)i.dli_saddr;
}

bool explaining;

void explained_here(struct place *p)
{
	const struct stack *s = stack_here();
	*p = (struct place){0};
	if (s->n > 0)
		find_place(s->pc[0], p);
}

// is_set reports whether a variable of the environment has a value.
static bool is_set(const char *name)
{
	const char *value = secure_getenv(name);
	return value != NULL && *value != '\0';
}

__attribute__((constructor)) static void start(void)
{
	explaining = is_set("SOFTHCA_CAPTURE") || is_set("SOFTHCA_LOG_LEVEL") || is_set("SOFTHCA_LOG_FORMAT") || is_set("SOFTHCA_CHECK");
	if (explaining)
		start_stacks();
}

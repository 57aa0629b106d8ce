// A library that `softhca run --check` preloads: it tells the checker of libibverbs what memory the program
// frees or unmaps. It is a library of its own, so that programs that are not checked call the C library's
// functions directly.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

// step is what a watcher is called for: memory is about to be freed; it may be about to be freed or unmapped; it
// was freed, or was unmapped, after that.
enum step { FREES, MAY_GO, FREED, UNMAPPED };

typedef void watcher(const void *p, size_t n, int step);

static _Atomic(watcher *) watching; // NULL: no checker is loaded

// AT_ONCE is for variables of a thread. The dynamic linker frees memory while it makes room for those of libraries that
// were loaded later; to use one of them in free would make it free the same memory again. This library is loaded at the start.
#define AT_ONCE _Thread_local __attribute__((tls_model("initial-exec")))

// thread is what the checker knows of a thread.
static AT_ONCE struct softhca_thread {
	int in_checker; // not 0: the checker itself allocates memory
	bool has_goes;  // it has found a request whose memory may go
} thread;

// softhca_this_thread returns that of the calling thread.
EXPORT struct softhca_thread *softhca_this_thread(void) { return &thread; }
static void (*next_free)(void *);
static void *(*next_realloc)(void *, size_t);
static void *(*next_reallocarray)(void *, size_t, size_t);
static int (*next_munmap)(void *, size_t);
static void *(*next_mremap)(void *, size_t, size_t, int, ...);

// For calls while the next functions are not found: the C library's own, and those of a sanitizer, which cannot
// find functions before it has started.
extern void __libc_free(void *p);
extern void *__libc_realloc(void *p, size_t n);
extern void __interceptor_free(void *p) __attribute__((weak));
extern void *__interceptor_realloc(void *p, size_t n) __attribute__((weak));

// Blocks that were freed before the next functions are found. dlsym frees its last error, and must not be called again
// then: it would free the same error once more.
enum { EARLY = 64 };
static void *_Atomic early[EARLY];
static _Atomic unsigned earlies;

// keep_early keeps a block to free it later, and reports whether there was room.
static bool keep_early(void *p)
{
	unsigned i = atomic_fetch_add(&earlies, 1);
	if (i < EARLY)
		early[i] = p;
	return i < EARLY;
}

// find finds the next functions: those of the C library, or of an allocator. A constructor of another library may
// free memory before this one runs.
__attribute__((constructor)) static void find(void)
{
	static AT_ONCE volatile bool finds; // volatile: dlsym is declared as a function that does not call back
	if (finds || next_free != NULL)
		return;
	finds = true;
	next_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
	next_reallocarray = (void *(*)(void *, size_t, size_t))dlsym(RTLD_NEXT, "reallocarray");
	next_munmap = (int (*)(void *, size_t))dlsym(RTLD_NEXT, "munmap");
	next_mremap = (void *(*)(void *, size_t, size_t, int, ...))dlsym(RTLD_NEXT, "mremap");
	next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free"); // last: others look whether it is there
	finds = false;
	for (unsigned i = 0; next_free != NULL && i < EARLY && i < earlies; i++)
		next_free(atomic_exchange(&early[i], NULL)); // another thread may do the same
}

// softhca_watch_memory has f called for the steps above. f may run in any thread, and must not wait for a lock that
// its thread may have.
EXPORT void softhca_watch_memory(watcher *f) { atomic_store(&watching, f); }

static void goes(const void *p, size_t n, enum step s)
{
	watcher *f = atomic_load_explicit(&watching, memory_order_relaxed);
	if (f != NULL && p != NULL)
		f(p, n, s);
}

// size_of returns the size of a block, 0 if no checker is loaded.
static size_t size_of(void *p) { return atomic_load_explicit(&watching, memory_order_relaxed) != NULL ? malloc_usable_size(p) : 0; }

EXPORT void free(void *p)
{
	if (atomic_load_explicit(&watching, memory_order_relaxed) != NULL)
		goes(p, malloc_usable_size(p), FREES);
	if (next_free == NULL && __interceptor_free != NULL) {
		__interceptor_free(p);
		return;
	}
	if (next_free == NULL && keep_early(p))
		return;
	find();
	if (next_free != NULL)
		next_free(p);
	else
		__libc_free(p);
}

static void *reallocate(void *p, size_t n)
{
	if (next_realloc == NULL && __interceptor_realloc != NULL)
		return __interceptor_realloc(p, n);
	find();
	return next_realloc != NULL ? next_realloc(p, n) : __libc_realloc(p, n);
}

EXPORT void *realloc(void *p, size_t n)
{
	size_t had = size_of(p);
	goes(p, had, MAY_GO);
	void *q = reallocate(p, n);
	if (had > 0 && q != p && (q != NULL || n == 0))
		goes(p, had, FREED);
	return q;
}

EXPORT void *reallocarray(void *p, size_t count, size_t n)
{
	size_t size, had = size_of(p);
	if (next_reallocarray == NULL)
		return __builtin_mul_overflow(count, n, &size) ? NULL : realloc(p, size);
	goes(p, had, MAY_GO);
	void *q = next_reallocarray(p, count, n);
	if (had > 0 && q != NULL && q != p)
		goes(p, had, FREED);
	return q;
}

EXPORT int munmap(void *p, size_t n)
{
	goes(p, n, MAY_GO);
	int code = next_munmap != NULL ? next_munmap(p, n) : (int)syscall(SYS_munmap, p, n);
	if (code == 0)
		goes(p, n, UNMAPPED);
	return code;
}

EXPORT void *mremap(void *p, size_t old, size_t new, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	void *to = flags & MREMAP_FIXED ? va_arg(args, void *) : NULL;
	va_end(args);
	bool moves = flags & MREMAP_MAYMOVE; // or may
	char *from = moves || new >= old ? p : (char *)p + new;
	goes(from, (size_t)((char *)p + old - from), MAY_GO);
	void *q = next_mremap != NULL ? next_mremap(p, old, new, flags, to) : (void *)syscall(SYS_mremap, p, old, new, flags, to);
	if (q != MAP_FAILED && q != p)
		goes(p, old, UNMAPPED);
	else if (q == p && new < old)
		goes((char *)p + new, old - new, UNMAPPED);
	return q;
}

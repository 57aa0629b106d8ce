// A library that `softhca run --check` preloads: it tells the checker of libibverbs what memory the program
// frees or unmaps. It is a library of its own, so that programs that are not checked call the C library's
// functions directly.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

typedef void watcher(const void *p, size_t n, int unmapped);

static _Atomic(watcher *) watching; // NULL: nobody asks
static void (*next_free)(void *);
static void *(*next_realloc)(void *, size_t);
static void *(*next_reallocarray)(void *, size_t, size_t);
static int (*next_munmap)(void *, size_t);
static void *(*next_mremap)(void *, size_t, size_t, int, ...);

// For calls before the constructor has found the next functions: the C library's own, and those of a sanitizer,
// which the program may have.
extern void __libc_free(void *p);
extern void *__libc_realloc(void *p, size_t n);
extern void __interceptor_free(void *p) __attribute__((weak));
extern void *__interceptor_realloc(void *p, size_t n) __attribute__((weak));

__attribute__((constructor)) static void find(void)
{
	next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
	next_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
	next_reallocarray = (void *(*)(void *, size_t, size_t))dlsym(RTLD_NEXT, "reallocarray");
	next_munmap = (int (*)(void *, size_t))dlsym(RTLD_NEXT, "munmap");
	next_mremap = (void *(*)(void *, size_t, size_t, int, ...))dlsym(RTLD_NEXT, "mremap");
}

// softhca_watch_memory has f called before memory is freed or unmapped, and after it was moved. f may run in any
// thread, and must not wait for a lock that its thread may have.
EXPORT void softhca_watch_memory(watcher *f) { atomic_store(&watching, f); }

static void goes(const void *p, size_t n, int unmapped)
{
	watcher *f = atomic_load_explicit(&watching, memory_order_relaxed);
	if (f != NULL && p != NULL)
		f(p, n, unmapped);
}

EXPORT void free(void *p)
{
	if (atomic_load_explicit(&watching, memory_order_relaxed) != NULL)
		goes(p, malloc_usable_size(p), 0);
	if (next_free != NULL)
		next_free(p);
	else if (__interceptor_free != NULL)
		__interceptor_free(p);
	else
		__libc_free(p);
}

static void *reallocate(void *p, size_t n)
{
	if (next_realloc != NULL)
		return next_realloc(p, n);
	return __interceptor_realloc != NULL ? __interceptor_realloc(p, n) : __libc_realloc(p, n);
}

EXPORT void *realloc(void *p, size_t n)
{
	size_t had = atomic_load_explicit(&watching, memory_order_relaxed) != NULL ? malloc_usable_size(p) : 0;
	void *q = reallocate(p, n);
	if (had > 0 && q != p && (q != NULL || n == 0))
		goes(p, had, 0);
	return q;
}

EXPORT void *reallocarray(void *p, size_t count, size_t n)
{
	size_t size, had = atomic_load_explicit(&watching, memory_order_relaxed) != NULL ? malloc_usable_size(p) : 0;
	if (next_reallocarray == NULL)
		return __builtin_mul_overflow(count, n, &size) ? NULL : realloc(p, size);
	void *q = next_reallocarray(p, count, n);
	if (had > 0 && q != NULL && q != p)
		goes(p, had, 0);
	return q;
}

EXPORT int munmap(void *p, size_t n)
{
	goes(p, n, 1);
	return next_munmap != NULL ? next_munmap(p, n) : (int)syscall(SYS_munmap, p, n);
}

EXPORT void *mremap(void *p, size_t old, size_t new, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	void *to = flags & MREMAP_FIXED ? va_arg(args, void *) : NULL;
	va_end(args);
	if (new < old) // what is cut off; the rest may move, too
		goes((char *)p + new, old - new, 1);
	void *q = next_mremap != NULL ? next_mremap(p, old, new, flags, to) : (void *)syscall(SYS_mremap, p, old, new, flags, to);
	if (q != MAP_FAILED && q != p)
		goes(p, old, 1);
	return q;
}

// Shared by all steps: messages, random numbers, patterns, waiting.
#define _GNU_SOURCE
#include "../program/asleep.h"
#include "model.h"

#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

__thread struct thread *me;

static const char *where(char *to, size_t size)
{
	if (me == NULL)
		snprintf(to, size, "main");
	else
		snprintf(to, size, "thread %d, step %lu (%s)", me->id, me->steps, me->step);
	return to;
}

void differs(const char *call, const char *field, uint64_t got, uint64_t want)
{
	char at[100];
	fprintf(stderr, "%s: %s: %s is %#llx (%lld), want %#llx (%lld)\n", where(at, sizeof at), call, field, (unsigned long long)got, (long long)got,
		(unsigned long long)want, (long long)want);
	_exit(1);
}

void fails(const char *call, const char *format, ...)
{
	char at[100], text[400];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	fprintf(stderr, "%s: %s: %s\n", where(at, sizeof at), call, text);
	_exit(1);
}

void want_bytes(const char *call, const char *field, const void *got, const void *want, size_t n)
{
	const uint8_t *g = got, *w = want;
	for (size_t i = 0; i < n; i++)
		if (g[i] != w[i])
			fails(call, "%s differs at byte %zu of %zu: got %#x, want %#x", field, i, n, g[i], w[i]);
}

void refused(const char *call, long got, int error, int want)
{
	if (got != want)
		fails(call, "returned %ld, want %d (%s)", got, want, strerror(want));
	if (error != want)
		fails(call, "errno is %d, want %d (%s)", error, want, strerror(want));
}

void refused_null(const char *call, const void *got, int error, int want)
{
	if (got != NULL)
		fails(call, "returned an object, want NULL and errno %d (%s)", want, strerror(want));
	if (error != want)
		fails(call, "errno is %d, want %d (%s)", error, want, strerror(want));
}

void refused_minus(const char *call, long got, int error, int want)
{
	if (got != -1)
		fails(call, "returned %ld, want -1 and errno %d (%s)", got, want, strerror(want));
	if (error != want)
		fails(call, "errno is %d, want %d (%s)", error, want, strerror(want));
}

// draw64 returns the next number of the thread's stream (splitmix64).
uint64_t draw64(void)
{
	uint64_t z = me->random += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

unsigned draw(unsigned n) { return (unsigned)(draw64() % n); }
bool chance(unsigned percent) { return draw(100) < percent; }

// scribble fills memory with random bytes.
void scribble(void *p, size_t n)
{
	uint8_t *b = p;
	uint64_t r = draw64();
	for (size_t i = 0; i < n; i++)
		b[i] = (uint8_t)((r = r * 6364136223846793005 + 1442695040888963407) >> 56);
}

// poison fills memory that a call should write with a byte that no correct value has.
enum { POISON = 0xa5 };

void poison(void *p, size_t n) { memset(p, POISON, n); }

bool is_poison(const void *p, size_t n)
{
	const uint8_t *b = p;
	for (size_t i = 0; i < n; i++)
		if (b[i] != POISON)
			return false;
	return true;
}

void waits_for(const char *what)
{
	atomic_store(&me->waits, what);
	atomic_fetch_add(&me->moves, 1);
}

uint64_t now_in(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t now_ns(void) { return now_in(CLOCK_MONOTONIC); }

static void *run_helper(void *arg)
{
	struct helper *h = arg;
	me = h->of;
	atomic_store(&h->tid, gettid());
	h->call(h->arg);
	atomic_store(&h->returned, true);
	return NULL;
}

// start_helper starts a helper of the calling thread, and returns when it is blocked.
void start_helper(struct helper *h)
{
	h->of = me;
	if (pthread_create(&h->handle, NULL, run_helper, h) != 0)
		abort();
	while (atomic_load(&h->tid) == 0)
		sched_yield();
	until_blocked(h->tid);
}

bool has_returned(struct helper *h) { return atomic_load(&h->returned); }
void join_helper(struct helper *h) { pthread_join(h->handle, NULL); }

// until_blocked returns when another thread of the program sleeps in the kernel, or has
// ended.
void until_blocked(pid_t tid)
{
	const char *had = atomic_load(&me->waits);
	waits_for("another thread to block");
	while (sleeps_in(tid) == RUNS)
		sched_yield();
	waits_for(had);
}

bool readable(int fd)
{
	struct pollfd p = {fd, POLLIN, 0};
	int n = poll(&p, 1, 0);
	if (n < 0 || (n == 1 && p.revents != POLLIN))
		fails("poll", "returned %d with revents %#x", n, p.revents);
	return n == 1;
}

// watch_open returns an epoll descriptor by which is_open tells whether the file of fd is
// still open. The number fd may belong to another file by then.
int watch_open(int fd)
{
	struct epoll_event out = {.events = EPOLLOUT};
	int ep = epoll_create1(EPOLL_CLOEXEC);
	if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, fd, &out) != 0)
		fails("epoll", "errno %d", errno);
	return ep;
}

bool is_open(int ep)
{
	struct epoll_event e;
	int n = epoll_wait(ep, &e, 1, 0);
	close(ep);
	return n > 0;
}

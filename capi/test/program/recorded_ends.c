// The ends of sleeps, closed descriptors, and the longest waits of the program's calls.
#define _GNU_SOURCE
#include "recorded.h"
#include "count.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

// The library waits for at most a second. PROMPT_NS is less than that, and more than the time of
// a call that does not wait.
enum { PROMPT_NS = 900000000 };

// LINGER_NS is long enough for another thread to see that a call into the engine has not returned,
// on a busy machine, too.
enum { LINGER_NS = 100000000 };

static volatile sig_atomic_t handled;
static void handle(int sig) { handled = sig; }

static void set(int sig, int flags)
{
	struct sigaction a = {.sa_handler = handle, .sa_flags = flags};
	must(sigaction(sig, &a, NULL) == 0);
}

static void mask(int how, int sig)
{
	sigset_t s;
	sigemptyset(&s);
	sigaddset(&s, sig);
	must(pthread_sigmask(how, &s, NULL) == 0);
}

// sleep_once waits for an event of the queue, which sleep raises.
static int sleep_once(struct recording *r)
{
	struct ibv_cq *q = NULL;
	void *context = NULL;
	errno = 0;
	if (ibv_get_cq_event(r->channel, &q, &context) != 0)
		return errno;
	must(q == r->cq && context == r);
	ibv_ack_cq_events(q, 1);
	return 0;
}

// The signals that end a sleep in the engine, and how they do. Without the preload library,
// threads do not sleep there.
static void sleeps(void)
{
	struct recording r = {0};
	recording_open(&r);
	SAME(sleep_once(&r), 0);
	SAME(sleep_once(&r), 0);
	SAME(rec->sleeps, 2);
	set(SIGUSR1, 0);
	rec->raise = SIGUSR1, rec->early = 1;
	SAME(sleep_once(&r), EINTR);
	SAME(handled, SIGUSR1);
	SAME(rec->ended, 1);
	SAME(sleep_once(&r), 0);
	mask(SIG_BLOCK, SIGUSR1); // the program blocks it: the sleep goes on
	unsigned had = rec->sleeps;
	handled = 0, rec->raise = SIGUSR1, rec->early = 1;
	SAME(sleep_once(&r), 0);
	SAME(rec->sleeps, had + 2);
	SAME(rec->ended, 0);
	SAME(handled, 0);
	mask(SIG_UNBLOCK, SIGUSR1);
	SAME(handled, SIGUSR1);
	set(SIGUSR2, SA_RESTART);
	had = rec->sleeps, rec->raise = SIGUSR2, rec->early = 1;
	SAME(sleep_once(&r), 0);
	SAME(rec->sleeps, had + 2);
	SAME(handled, SIGUSR2);
	must(fcntl(r.channel->fd, F_SETFL, O_NONBLOCK) == 0);
	had = rec->sleeps;
	SAME(sleep_once(&r), EAGAIN);
	SAME(rec->sleeps, had);
	recording_close(&r);
}

// child_keeps opens files in a child of a process that has slept in the engine, and closes the
// parent's adapter. The files stay open: the library no longer uses the numbers of its own
// descriptors.
static void child_keeps(struct recording *r)
{
	enum { FILES = 64 };
	int fd[FILES];
	pid_t pid = begin_child();
	if (pid == 0) {
		for (int i = 0; i < FILES; i++)
			must((fd[i] = memfd_create("file", MFD_CLOEXEC)) >= 0);
		must(ibv_close_device(r->ctx) == 0);
		for (int i = 0; i < FILES; i++)
			must(fcntl(fd[i], F_GETFD) == FD_CLOEXEC);
		_exit(0);
	}
	ended_well(pid);
}

// marked returns a descriptor that the library has marked, which the program cannot close.
static int marked(void)
{
	for (int fd = 3; fd < 1024; fd++)
		if (fcntl(fd, F_GETSIG) == SOFTHCA_MARK)
			return fd;
	fprintf(stderr, "no descriptor is marked\n");
	exit(1);
}

// The descriptors that the program may close: not those of the library, but its own with the
// same signal, and, in a child created without fork handlers, those of its parent.
static void closable(void)
{
	int p[2], fd = marked();
	must(close(fd) == -1 && errno == EBADF);
	must(pipe(p) == 0 && fcntl(p[0], F_SETSIG, SOFTHCA_MARK) == 0 && fcntl(p[0], F_SETFL, O_ASYNC) == 0);
	must(close(p[0]) == 0 && close(p[1]) == 0);
	pid_t pid = _Fork();
	must(pid >= 0);
	if (pid == 0)
		_exit(close(fd) != 0);
	ended_well(pid);
}

// Closing an adapter and its objects closes all their descriptors, and so does a failed
// open.
static void descriptors(void)
{
	struct recording r = {0};
	recording_open(&r);
	recording_close(&r); // the first one opens some permanently
	int had = count_descriptors();
	recording_open(&r);
	SAME(sleep_once(&r), 0);
	child_keeps(&r);
	closable();
	recording_close(&r);
	SAME(count_descriptors(), had);
	recording_open(&r);
	must(ibv_close_device(r.ctx) == 0);
	SAME(count_descriptors(), had);
	struct ibv_device **list = ibv_get_device_list(NULL);
	rec->code = ENODEV;
	errno = 0;
	must(list != NULL && ibv_open_device(list[0]) == NULL && errno == ENODEV);
	SAME(count_descriptors(), had);
	rec->code = EIO; // a failed adapter can be closed
	must(ibv_open_device(list[0]) == NULL && errno == EIO);
	rec->code = 0;
	struct ibv_context *c = ibv_open_device(list[0]);
	rec->code = EIO;
	must(c != NULL && ibv_close_device(c) == 0);
	rec->code = 0;
	must((c = ibv_open_device(list[0])) != NULL && ibv_close_device(c) == 0);
	SAME(count_descriptors(), had);
	ibv_free_device_list(list);
}

// try runs a part of a scenario in child processes, until one succeeds: a busy machine may delay
// some of them.
static void try(const char *wrong, bool (*run)(void))
{
	enum { TRIES = 3 };
	for (int i = 0; i < TRIES; i++) {
		pid_t pid = begin_child();
		if (pid == 0) {
			unsetenv("SOFTHCA_ADDR");
			alarm(60);
			_exit(run() ? 0 : 1);
		}
		int code = exit_code(pid);
		if (code == 0)
			return;
		must(code == 1);
	}
	fprintf(stderr, "failed: %s\n", wrong);
	exit(1);
}

static bool took_long(int64_t from) { return now_ns() - from >= PROMPT_NS; }

// The program sets a handler after calls into the engine.
static bool handler_is_set(void)
{
	struct recording r = {0};
	struct ibv_wc wc;
	recording_open(&r);
	for (int i = 0; i < 100; i++)
		must(ibv_poll_cq(r.cq, 1, &wc) == 0);
	int64_t from = now_ns();
	set(SIGUSR1, 0);
	return !took_long(from);
}

static struct recording common;

static void *poll_one(void *arg)
{
	struct ibv_wc wc;
	ibv_poll_cq(common.cq, 1, &wc);
	return arg;
}

// A child sets a handler while a thread of the parent is in the engine.
static bool child_sets_handler(void)
{
	pthread_t t;
	recording_open(&common);
	rec->hold_progress = 1;
	must(pthread_create(&t, NULL, poll_one, NULL) == 0);
	while (!rec->in_progress)
		sched_yield();
	pid_t pid = begin_child();
	if (pid == 0) {
		int64_t from = now_ns();
		set(SIGUSR1, 0);
		_exit(took_long(from));
	}
	int code = exit_code(pid);
	rec->hold_progress = 0;
	must(pthread_join(t, NULL) == 0);
	return code == 0;
}

static _Atomic bool handler_set;

static void *set_handler(void *arg)
{
	set(SIGUSR1, 0);
	handler_set = true;
	return arg;
}

// tries reports whether a thread that sets a handler still tries to, after it has run for some time.
static bool tries(pthread_t t)
{
	static const int64_t RUN_NS = 3000000;
	struct timespec ran = {0};
	clockid_t clock;
	must(pthread_getcpuclockid(t, &clock) == 0);
	while (!handler_set && clock_gettime(clock, &ran) == 0 && ran.tv_sec * 1000000000LL + ran.tv_nsec < RUN_NS)
		sched_yield();
	return !handler_set;
}

// The program sets a handler while a thread is in the engine: the call returns when the thread
// has left, or after the longest wait.
static bool handler_waits(void)
{
	pthread_t in, out;
	recording_open(&common);
	rec->hold_progress = 1;
	must(pthread_create(&in, NULL, poll_one, NULL) == 0);
	while (!rec->in_progress)
		sched_yield();
	int64_t from = now_ns();
	must(pthread_create(&out, NULL, set_handler, NULL) == 0);
	bool right = tries(out) || took_long(from);
	rec->hold_progress = 0;
	must(pthread_join(in, NULL) == 0 && pthread_join(out, NULL) == 0);
	return right && handler_set;
}

static void *sleep_always(void *arg)
{
	for (;;)
		sleep_once(&common);
	return arg;
}

static void *hold_still(void *arg)
{
	pause();
	return arg;
}

// cancel_one cancels a thread, and reports whether pthread_cancel returned at
// once.
static bool cancel_one(pthread_t t)
{
	void *how;
	int64_t from = now_ns();
	must(pthread_cancel(t) == 0);
	bool quick = !took_long(from);
	must(pthread_join(t, &how) == 0 && how == PTHREAD_CANCELED);
	return quick;
}

// The program cancels a thread after another one slept in the engine.
static bool cancel_after_sleep(void)
{
	pthread_t t;
	recording_open(&common);
	SAME(sleep_once(&common), 0);
	must(pthread_create(&t, NULL, hold_still, NULL) == 0);
	return cancel_one(t);
}

static void start_sleeper(pthread_t *t)
{
	recording_open(&common);
	rec->sleep_on = 1, rec->early = 1u << 30;
	must(pthread_create(t, NULL, sleep_always, NULL) == 0);
	while (*(volatile unsigned *)&rec->sleeps == 0)
		sched_yield();
}

// The program cancels a thread that sleeps in the engine: it is woken.
static bool cancel_sleeper(void)
{
	pthread_t t;
	start_sleeper(&t);
	return cancel_one(t);
}

// The thread leaves the engine before it ends, unless that takes longer than the
// longest wait.
static bool cancel_outside(void)
{
	pthread_t t;
	start_sleeper(&t);
	rec->linger = LINGER_NS;
	bool quick = cancel_one(t);
	return !quick || rec->slept == rec->sleeps;
}

// A child cancels a thread, after a thread of the parent slept in the engine.
static bool child_cancels(void)
{
	pthread_t t, own;
	start_sleeper(&t);
	pid_t pid = begin_child();
	if (pid == 0) {
		must(open_first() != NULL); // loads an engine for the child
		must(pthread_create(&own, NULL, hold_still, NULL) == 0);
		_exit(!cancel_one(own));
	}
	return exit_code(pid) == 0;
}

// The end of a program flushes each adapter, and does not wait for one that hangs.
static void ends(void)
{
	static const int64_t LONGEST_NS = 5000000000LL;
	char b[4];
	for (int hangs = 0; hangs < 2; hangs++) {
		int p[2];
		must(pipe(p) == 0);
		pid_t pid = begin_child();
		if (pid == 0) {
			setenv("SOFTHCA_ADDR", "one;two", 1);
			find_recorder();
			struct ibv_device **list = ibv_get_device_list(NULL);
			must(ibv_open_device(list[0]) != NULL && ibv_open_device(list[1]) != NULL);
			rec->flushed = p[1], rec->hold_flush = hangs;
			exit(0);
		}
		close(p[1]);
		int64_t from = now_ns();
		ended_well(pid);
		SAME(now_ns() - from < LONGEST_NS, true);
		SAME(read(p[0], b, sizeof b), hangs ? 1 : 2);
		close(p[0]);
	}
}

static void waits(void)
{
	try("setting a handler waits for a second", handler_is_set);
	try("a handler is set while a thread is in the engine", handler_waits);
	try("setting a handler in a child waits for a second", child_sets_handler);
	try("cancelling a thread after a sleep waits for a second", cancel_after_sleep);
	try("cancelling a thread that sleeps waits for a second", cancel_sleeper);
	try("a thread is cancelled inside the engine", cancel_outside);
	try("cancelling a thread of a child waits for a second", child_cancels);
}

const struct scenario recorded_ends[] = {
	{"recorded-sleeps", sleeps}, {"recorded-descriptors", descriptors}, {"recorded-waits", waits}, {"recorded-ends", ends}, {NULL, NULL},
};

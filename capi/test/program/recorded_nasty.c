// What softhca run --nasty asks of the library itself.
#define _GNU_SOURCE
#include "recorded.h"

#include <fcntl.h>

static void nothing(int sig) { (void)sig; }

static void set(int sig, void (*handler)(int), int flags)
{
	struct sigaction a = {.sa_handler = handler, .sa_flags = flags};
	must(sigaction(sig, &a, NULL) == 0);
}

// interrupted waits for some events, which come at once, and returns how many waits fail with EINTR. No two
// in a row do.
static int interrupted(struct recording *r)
{
	enum { WAITS = 400 };
	int n = 0;
	for (int i = 0, failed = 0; i < WAITS; i++) {
		struct ibv_cq *q = NULL;
		void *context = NULL;
		errno = 0;
		if (ibv_get_cq_event(r->channel, &q, &context) != 0) {
			SAME(errno, EINTR);
			must(!failed);
			failed = 1, n++;
			continue;
		}
		must(q == r->cq);
		ibv_ack_cq_events(q, 1);
		failed = 0;
	}
	return n;
}

// Waits fail with EINTR if the program has a handler that interrupts the thread's system calls, and otherwise
// not.
static void nasty_signals(void)
{
	struct recording r = {0};
	find_recorder();
	rec->adapter.nasty_signals = 7;
	recording_open(&r);
	SAME(interrupted(&r), 0);
	set(SIGUSR1, nothing, SA_RESTART);
	set(SIGSEGV, nothing, 0); // of faults, which interrupt no call
	set(SIGUSR2, SIG_IGN, 0);
	SAME(interrupted(&r), 0);
	set(SIGALRM, nothing, 0);
	int n = interrupted(&r);
	must(n > 40 && n < 160);
	sigset_t s;
	sigemptyset(&s);
	sigaddset(&s, SIGALRM);
	must(pthread_sigmask(SIG_BLOCK, &s, NULL) == 0);
	SAME(interrupted(&r), 0);
	must(pthread_sigmask(SIG_UNBLOCK, &s, NULL) == 0);
	must(fcntl(r.channel->fd, F_SETFL, O_NONBLOCK) == 0);
	for (int i = 0; i < 100; i++) {
		struct ibv_cq *q;
		void *context;
		must(ibv_get_cq_event(r.channel, &q, &context) != 0);
		SAME(errno, EAGAIN);
	}
	recording_close(&r);
	rec->adapter.nasty_signals = 0;
	recording_open(&r);
	SAME(interrupted(&r), 0);
	recording_close(&r);
}

// The handles of objects are unique, some are larger than a signed number holds, and they are in no order.
static void nasty_numbers(void)
{
	enum { OBJECTS = 200 };
	struct ibv_pd *pd[OBJECTS];
	uint32_t handle[OBJECTS];
	int large = 0, falls = 0;
	find_recorder();
	rec->adapter.nasty_numbers = 7;
	struct ibv_context *c = open_first();
	for (int i = 0; i < OBJECTS; i++) {
		must((pd[i] = ibv_alloc_pd(c)) != NULL);
		handle[i] = pd[i]->handle;
		large += handle[i] > INT32_MAX;
		falls += i > 0 && handle[i] < handle[i - 1];
		for (int k = 0; k < i; k++)
			must(handle[k] != handle[i]);
	}
	must(large > OBJECTS / 4 && large < OBJECTS * 3 / 4);
	must(falls > OBJECTS / 4 && falls < OBJECTS * 3 / 4);
	struct ibv_pd *again = ibv_import_pd(c, handle[3]);
	must(again != NULL && again->handle == handle[3]);
	ibv_unimport_pd(again);
	for (int i = 0; i < OBJECTS; i++)
		must(ibv_dealloc_pd(pd[i]) == 0);
	must(ibv_close_device(c) == 0);
}

const struct scenario recorded_nasty[] = {
	{"recorded-nasty-signals", nasty_signals},
	{"recorded-nasty-numbers", nasty_numbers},
	{NULL, NULL},
};

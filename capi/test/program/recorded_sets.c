// What the library passes to the engine while the program waits for an epoll set.
#define _GNU_SOURCE
#include "recorded.h"
#include "count.h"

#include <fcntl.h>
#include <sys/epoll.h>

enum { MS = 1000000, LONG_MS = 10000 };

static volatile sig_atomic_t handled;
static void handle(int sig) { handled = sig; }

// new_set returns a set with the channel of a recording.
static int new_set(const struct recording *r)
{
	struct epoll_event in = {.events = EPOLLIN, .data.ptr = r->channel};
	int set = epoll_create1(EPOLL_CLOEXEC);
	must(set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, r->channel->fd, &in) == 0);
	return set;
}

static void take(const struct recording *r)
{
	struct ibv_cq *q;
	void *context;
	must(ibv_get_cq_event(r->channel, &q, &context) == 0 && q == r->cq);
	ibv_ack_cq_events(q, 1);
}

// waits waits for a set, checks how often the engine was asked to sleep, and takes the event if there
// is one.
static void waits(const struct recording *r, int set, int timeout, unsigned sleeps, int result)
{
	struct epoll_event out;
	unsigned had = rec->sleeps;
	int n = epoll_wait(set, &out, 1, timeout);
	SAME(n < 0 ? -errno : n, result);
	SAME(rec->sleeps - had, sleeps);
	if (n == 1)
		take(r);
}

// arguments checks what sleep gets.
static void arguments(const struct recording *r, int set)
{
	waits(r, set, -1, 1, 1);
	SAME(rec->sleep.set, set);
	SAME(rec->sleep.channel, -1);
	SAME(rec->sleep.limit, -1);
	must(rec->sleep.ends >= 0 && *rec->sleep.awake == 1);
	waits(r, set, LONG_MS, 1, 1);
	must(rec->sleep.limit > 0 && rec->sleep.limit <= LONG_MS * (int64_t)MS);
	rec->early = 3; // returns without an event
	waits(r, set, LONG_MS, 4, 1);
	must(rec->sleep.limit < LONG_MS * (int64_t)MS); // what was left
	rec->early = 3;
	waits(r, set, -1, 4, 1);
	SAME(rec->sleep.limit, -1);
	waits(r, set, 0, 0, 0);
	rec->code = EIO;
	waits(r, set, 1, 1, 1); // the recorder fails after the event
	rec->code = EIO, rec->early = 1;
	waits(r, set, 1, 1, 0); // waits without the engine
	rec->code = 0, rec->early = 0;
}

// by_signals checks which signals end a wait.
static void by_signals(const struct recording *r, int set)
{
	struct sigaction a = {.sa_handler = handle, .sa_flags = SA_RESTART};
	sigset_t one;
	must(sigaction(SIGUSR1, &a, NULL) == 0);
	rec->raise = SIGUSR1, rec->early = 1;
	waits(r, set, -1, 1, -EINTR);
	SAME(rec->ended, 1);
	SAME(handled, SIGUSR1);
	rec->raise = SIGUSR1; // there is an event too
	handled = 0;
	waits(r, set, -1, 1, 1);
	SAME(handled, SIGUSR1);
	rec->raise = SIGCHLD, rec->early = 1; // ignored
	waits(r, set, -1, 2, 1);
	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	must(pthread_sigmask(SIG_BLOCK, &one, NULL) == 0);
	handled = 0, rec->raise = SIGUSR1, rec->early = 1;
	waits(r, set, -1, 2, 1);
	SAME(rec->ended, 0);
	SAME(handled, 0);
	must(pthread_sigmask(SIG_UNBLOCK, &one, NULL) == 0);
	SAME(handled, SIGUSR1);
}

// members checks which sets are served: a set that has the channel at present, one set at a time.
static void members(const struct recording *r, int set)
{
	struct epoll_event in = {.events = EPOLLIN};
	int second = new_set(r), before = count_descriptors();
	waits(r, second, 1, 0, 0);
	must(epoll_ctl(set, EPOLL_CTL_DEL, r->channel->fd, NULL) == 0);
	SAME(count_descriptors(), before - 3); // what ends the sleeps is closed
	waits(r, set, 1, 0, 0);
	must(epoll_ctl(set, EPOLL_CTL_ADD, r->channel->fd, &in) == 0);
	waits(r, set, 1, 1, 1);
	must(close(set) == 0);
	set = epoll_create1(EPOLL_CLOEXEC); // has the same number
	waits(r, set, 1, 0, 0);
	must(epoll_ctl(set, EPOLL_CTL_ADD, r->channel->fd, &in) == 0);
	waits(r, set, 1, 1, 1);
	must(close(set) == 0 && close(second) == 0);
}

static void recorded_waits(void)
{
	struct recording r = {0};
	int before = count_descriptors();
	recording_open(&r);
	must(fcntl(r.channel->fd, F_SETFL, O_NONBLOCK) == 0);
	int set = new_set(&r);
	arguments(&r, set);
	by_signals(&r, set);
	members(&r, set);
	set = new_set(&r);
	waits(&r, set, -1, 1, 1);
	recording_close(&r);
	struct epoll_event out;
	unsigned had = rec->sleeps;
	must(epoll_wait(set, &out, 1, 1) == 0); // the channel is gone
	SAME(rec->sleeps, had);
	must(close(set) == 0);
	recording_open(&r);
	set = new_set(&r);
	waits(&r, set, -1, 1, 1);
	recording_close(&r);
	must(close(set) == 0);
	SAME(count_descriptors(), before + 1); // the descriptor that ends all sleeps stays
}

const struct scenario recorded_sets[] = {{"recorded-sets", recorded_waits}, {NULL, NULL}};

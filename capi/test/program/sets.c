// Programs that wait for the descriptor of a completion channel together with others, in an epoll
// set. Each scenario runs with and without the preload library, which makes the waiting thread serve
// the port, and passes in the same way.
#define _GNU_SOURCE
#include "asleep.h"
#include "rig.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { WAIT_MS = 30000, LEAST_MS = 20, TRIPS = 300, THREADS = 4 };

// view is an epoll set with the descriptors of a channel and of a pipe.
struct view {
	struct rig r;
	int set, pipe[2];
	uint32_t events; // for which the set waits
};

enum { CHANNEL = 1, PIPE = 2 };

static void add(int set, int fd, uint32_t events, uint64_t what)
{
	struct epoll_event in = {.events = events, .data.u64 = what};
	must(epoll_ctl(set, EPOLL_CTL_ADD, fd, &in) == 0);
}

static void fill(struct view *v)
{
	must((v->set = epoll_create1(EPOLL_CLOEXEC)) >= 0);
	add(v->set, v->r.channel->fd, v->events, CHANNEL);
	add(v->set, v->pipe[0], v->events, PIPE);
}

static void view_open(struct view *v, uint32_t events)
{
	v->events = events;
	rig_open(&v->r, IBV_QPT_RC);
	must(pipe2(v->pipe, O_NONBLOCK | O_CLOEXEC) == 0 && fcntl(v->r.channel->fd, F_SETFL, O_NONBLOCK) == 0);
	fill(v);
}

static void view_close(struct view *v)
{
	must(close(v->set) == 0 && close(v->pipe[0]) == 0 && close(v->pipe[1]) == 0);
	rig_close(&v->r);
}

// ready waits for the set and returns what is ready in it.
static int ready(const struct view *v, int timeout)
{
	struct epoll_event out[4];
	int all = 0, n = epoll_wait(v->set, out, 4, timeout);
	must(n >= 0);
	for (int i = 0; i < n; i++) {
		must(out[i].events == EPOLLIN);
		all |= (int)out[i].data.u64;
	}
	return all;
}

// take reads the event of side 0 and its completion. Then the channel has no event.
static void take(struct view *v)
{
	struct ibv_cq *q;
	void *context;
	must(ibv_get_cq_event(v->r.channel, &q, &context) == 0 && q == v->r.cq[0] && context == &v->r);
	ibv_ack_cq_events(q, 1);
	want(q, IBV_WC_SUCCESS);
	must(ibv_get_cq_event(v->r.channel, &q, &context) == -1 && errno == EAGAIN);
}

static void arm(struct view *v) { must(ibv_req_notify_cq(v->r.cq[0], 0) == 0); }

static void read_pipe(struct view *v)
{
	char byte;
	must(read(v->pipe[0], &byte, 1) == 1);
}

static void write_pipe(struct view *v) { must(write(v->pipe[1], "", 1) == 1); }

// later is a thread that acts when the main thread waits for the set.
struct later {
	struct view *v;
	void (*act)(struct view *v);
	int times;
	_Atomic int acted;
	_Atomic int wanted; // how often it may act
};

static void *act_later(void *arg)
{
	struct later *l = arg;
	for (; l->acted < l->times; l->acted++) {
		while (l->wanted <= l->acted)
			sched_yield();
		until_reading(getpid());
		l->act(l->v);
	}
	return NULL;
}

static void write_memory(struct view *v) { must(post(&v->r, 0, IBV_WR_RDMA_WRITE, 8) == 0); }

static void write_both(struct view *v)
{
	write_pipe(v);
	write_memory(v);
}

// trips waits for events of the channel, of the pipe, and of both.
static void trips(struct view *v)
{
	void (*const acts[])(struct view *) = {write_memory, write_pipe, write_both};
	for (int i = 0; i < 3; i++) {
		struct later l = {.v = v, .act = acts[i], .times = TRIPS};
		pthread_t t;
		must(pthread_create(&t, NULL, act_later, &l) == 0);
		for (int n = 0; n < TRIPS; n++) {
			int left = i + 1;
			arm(v);
			for (l.wanted = n + 1; left != 0;) {
				int what = ready(v, n % 2 == 0 ? WAIT_MS : -1);
				must(what != 0 && (what & ~left) == 0);
				if (what & CHANNEL)
					take(v);
				if (what & PIPE)
					read_pipe(v);
				left &= ~what;
			}
		}
		must(pthread_join(t, NULL) == 0);
	}
}

// waits_at_least waits until the time is over, although packets arrive that complete nothing for
// which the program waits.
static void waits_at_least(struct view *v)
{
	int64_t from = now_ns();
	must(ready(v, LEAST_MS) == 0 && now_ns() - from >= LEAST_MS * (int64_t)1000000);
	struct later l = {.v = v, .act = write_memory, .times = 1, .wanted = 1};
	pthread_t t;
	must(pthread_create(&t, NULL, act_later, &l) == 0);
	for (from = now_ns(); l.acted == 0;)
		must(ready(v, LEAST_MS) == 0 && now_ns() - from < WAIT_MS * (int64_t)1000000);
	must(pthread_join(t, NULL) == 0);
	want(v->r.cq[0], IBV_WC_SUCCESS);
	must(ready(v, 0) == 0);
}

// in_sets waits for level-triggered sets, and for an edge-triggered one.
static void in_sets(void)
{
	struct view v = {0};
	view_open(&v, EPOLLIN);
	trips(&v);
	waits_at_least(&v);
	arm(&v);
	write_memory(&v);
	for (int i = 0; i < 3; i++) // the event was not read
		must(ready(&v, WAIT_MS) == CHANNEL);
	take(&v);
	must(ready(&v, 0) == 0);
	view_close(&v);
	view_open(&v, EPOLLIN | EPOLLET);
	trips(&v);
	arm(&v);
	write_memory(&v);
	must(ready(&v, WAIT_MS) == CHANNEL);
	must(ready(&v, LEAST_MS) == 0);
	take(&v);
	view_close(&v);
}

static volatile sig_atomic_t handled;
static void handle(int sig) { handled = sig; }

static void interrupted_by(struct view *v, int sig)
{
	struct epoll_event out;
	pthread_t t = interrupt(sig);
	handled = 0;
	must(epoll_wait(v->set, &out, 1, WAIT_MS) == -1 && errno == EINTR && handled == sig);
	must(pthread_join(t, NULL) == 0);
}

// interrupted has signals end the waits, with and without SA_RESTART, but not those that the program
// ignores or blocks.
static void interrupted(void)
{
	struct view v = {0};
	struct sigaction again = {.sa_handler = handle, .sa_flags = SA_RESTART}, once = {.sa_handler = handle};
	sigset_t blocked, none;
	view_open(&v, EPOLLIN);
	must(sigaction(SIGUSR1, &again, NULL) == 0 && sigaction(SIGUSR2, &once, NULL) == 0);
	for (int i = 0; i < 10; i++) {
		interrupted_by(&v, SIGUSR1);
		interrupted_by(&v, SIGUSR2);
	}
	pthread_t t = interrupt(SIGCHLD);
	must(ready(&v, LEAST_MS * 10) == 0 && pthread_join(t, NULL) == 0);
	sigemptyset(&none);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	must(pthread_sigmask(SIG_BLOCK, &blocked, NULL) == 0);
	handled = 0;
	t = interrupt(SIGUSR1);
	must(ready(&v, LEAST_MS * 10) == 0 && pthread_join(t, NULL) == 0 && handled == 0);
	struct epoll_event out;
	must(epoll_pwait(v.set, &out, 1, WAIT_MS, &none) == -1 && errno == EINTR && handled == SIGUSR1);
	must(pthread_sigmask(SIG_UNBLOCK, &blocked, NULL) == 0);
	arm(&v);
	write_memory(&v);
	must(epoll_pwait(v.set, &out, 1, WAIT_MS, NULL) == 1 && out.data.u64 == CHANNEL);
	take(&v);
	view_close(&v);
}

// member is a thread that waits for a set.
struct member {
	struct view *v;
	pthread_t handle;
	_Atomic pid_t thread;
	int saw;
};

static void *wait_once(void *arg)
{
	struct member *m = arg;
	atomic_store(&m->thread, gettid());
	m->saw = ready(m->v, -1);
	return NULL;
}

static void begin(struct member *m, struct view *v)
{
	*m = (struct member){.v = v};
	must(pthread_create(&m->handle, NULL, wait_once, m) == 0);
	while (m->thread == 0)
		sched_yield();
	until_reading(m->thread);
}

static int end(struct member *m)
{
	must(pthread_join(m->handle, NULL) == 0);
	return m->saw;
}

// shared has several threads wait for one set, and the descriptors be ready one after the other.
static void shared(void)
{
	struct view v = {0};
	struct member m[THREADS];
	view_open(&v, EPOLLIN);
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < THREADS; i++)
			begin(&m[i], &v);
		arm(&v);
		write_memory(&v); // no thread reads the event, so all see it
		for (int i = 0; i < THREADS; i++)
			must(end(&m[i]) == CHANNEL);
		take(&v);
		for (int i = 0; i < THREADS; i++)
			begin(&m[i], &v);
		write_pipe(&v);
		for (int i = 0; i < THREADS; i++)
			must(end(&m[i]) == PIPE);
		read_pipe(&v);
	}
	view_close(&v);
}

// replaced closes sets, with and without the knowledge of the preload library, and makes new ones
// with the same numbers. The first has no channel.
static void replaced(void)
{
	struct view v = {0};
	view_open(&v, EPOLLIN);
	for (int way = 0; way < 4; way++) {
		struct later l = {.v = &v, .act = write_pipe, .times = 1, .wanted = 1};
		pthread_t t;
		int had = v.set, other = epoll_create1(EPOLL_CLOEXEC);
		must(other >= 0 && ready(&v, 1) == 0);
		if (way < 2)
			must((way == 0 ? dup2(other, had) : (int)syscall(SYS_dup3, other, had, 0)) == had && close(other) == 0);
		else
			must((way == 2 ? close(had) : (int)syscall(SYS_close, had)) == 0 && (v.set = fcntl(other, F_DUPFD, had)) == had && close(other) == 0);
		add(v.set, v.pipe[0], EPOLLIN, PIPE);
		must(pthread_create(&t, NULL, act_later, &l) == 0);
		must(ready(&v, WAIT_MS) == PIPE && pthread_join(t, NULL) == 0);
		read_pipe(&v);
		must(close(v.set) == 0);
		fill(&v);
		trips(&v);
	}
	must(epoll_ctl(v.set, EPOLL_CTL_DEL, v.r.channel->fd, NULL) == 0);
	arm(&v);
	write_memory(&v);
	want(v.r.cq[0], IBV_WC_SUCCESS);
	must(ready(&v, 1) == 0);
	add(v.set, v.r.channel->fd, EPOLLIN, CHANNEL);
	must(ready(&v, 0) == CHANNEL);
	must(close(v.set) == 0 && (v.set = epoll_create1(0)) >= 0);
	view_close(&v);
}

// left destroys a channel and closes the adapter while a thread waits for the set, which still waits
// for the pipe.
static void left(void)
{
	for (int i = 0; i < 10; i++) {
		struct view v = {0};
		struct member m;
		view_open(&v, EPOLLIN);
		trips(&v);
		begin(&m, &v);
		rig_close(&v.r);
		write_pipe(&v);
		must(end(&m) == PIPE);
		must(close(v.set) == 0 && close(v.pipe[0]) == 0 && close(v.pipe[1]) == 0);
	}
}

// of_child has the child of a fork wait for its parent's set, and for one of its own.
static void of_child(void)
{
	struct view v = {0}, own = {0};
	view_open(&v, EPOLLIN);
	must(ready(&v, 1) == 0);
	pid_t pid = begin_child();
	if (pid == 0) {
		must(ready(&v, LEAST_MS) == 0);
		write_pipe(&v);
		must(ready(&v, WAIT_MS) == PIPE);
		read_pipe(&v);
		view_open(&own, EPOLLIN);
		trips(&own);
		view_close(&own);
		_exit(0);
	}
	ended_well(pid);
	trips(&v);
	view_close(&v);
}

// cancels cancels threads that wait for sets.
static void cancels(void)
{
	struct view v = {0};
	struct member m[2];
	void *how;
	view_open(&v, EPOLLIN);
	for (int i = 0; i < 2; i++)
		begin(&m[i], &v);
	for (int i = 0; i < 2; i++)
		must(pthread_cancel(m[i].handle) == 0 && pthread_join(m[i].handle, &how) == 0 && how == PTHREAD_CANCELED);
	begin(&m[0], &v);
	write_pipe(&v);
	must(end(&m[0]) == PIPE);
	read_pipe(&v);
	trips(&v);
	view_close(&v);
}

// server is a thread that handles the events of a channel until the pipe is ready.
struct server {
	struct view *v;
	_Atomic pid_t thread;
	_Atomic int events;
};

static void *serve(void *arg)
{
	struct server *s = arg;
	s->thread = gettid();
	for (; ready(s->v, -1) == CHANNEL; s->events++)
		take(s->v);
	return NULL;
}

// serving checks that a waiting thread serves the port: it sleeps in the engine, which waits with
// ppoll. The first events find the engine's own thread at the port, which leaves it to a thread that
// waits again at once.
static void serving(void)
{
	struct view v = {0};
	struct server s = {.v = &v};
	pthread_t handle;
	view_open(&v, EPOLLIN);
	must(pthread_create(&handle, NULL, serve, &s) == 0);
	while (s.thread == 0)
		sched_yield();
	long call = RUNS;
	for (int64_t end_ns = now_ns() + WAIT_MS * (int64_t)1000000; call != SYS_ppoll;) {
		int before = s.events;
		arm(&v);
		write_memory(&v);
		while (s.events == before || (call = sleeps_in(s.thread)) == RUNS) {
			must(now_ns() < end_ns);
			sched_yield();
		}
	}
	write_pipe(&v);
	must(pthread_join(handle, NULL) == 0);
	read_pipe(&v);
	view_close(&v);
}

const struct scenario sets[] = {
	{"sets", in_sets}, {"sets-interrupted", interrupted}, {"sets-shared", shared}, {"sets-replaced", replaced}, {"sets-left", left},
	{"sets-of-child", of_child}, {"sets-cancelled", cancels}, {"sets-served", serving}, {NULL, NULL},
};

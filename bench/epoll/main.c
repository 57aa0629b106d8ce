// Options, threads and the measurement.
#define _GNU_SOURCE
#include "epoll.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 64 };

// The client counts answers from this share of the measuring time on.
static const double warm_up = 0.1;

void watch(struct worker *w, struct source *s)
{
	struct epoll_event in = {.events = EPOLLIN, .data.ptr = s};
	need(epoll_ctl(w->epoll, EPOLL_CTL_ADD, s->fd, &in) == 0);
}

static void stop_workers(struct program *p)
{
	for (unsigned i = 0; i < p->threads; i++)
		need(eventfd_write(p->worker[i].stop.fd, 1) == 0);
}

// opened counts a connection of the server.
void opened(struct program *p) { atomic_fetch_add(&p->left, 1); }

// closed ends the server after its last connection.
void closed(struct program *p)
{
	if (atomic_fetch_sub(&p->left, 1) == 1)
		stop_workers(p);
}

// answered counts an answer and reports whether the client sends the next request.
bool answered(struct worker *w)
{
	atomic_fetch_add_explicit(&w->answers, 1, memory_order_relaxed);
	if (!atomic_load_explicit(&w->program->stopping, memory_order_relaxed))
		return true;
	w->ended = --w->in_flight == 0;
	return false;
}

// stop_ready ends a worker that waits for no answer.
static void stop_ready(struct source *s)
{
	struct worker *w = OF(s, struct worker, stop);
	eventfd_t n;
	need(eventfd_read(s->fd, &n) == 0);
	w->ended = w->in_flight == 0;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct epoll_event events[EVENTS];
	if (w->program->server != NULL)
		w->program->transport->begin(w);
	while (!w->ended) {
		int n = epoll_wait(w->epoll, events, EVENTS, -1);
		need(n >= 0);
		for (int i = 0; i < n; i++) {
			struct source *s = events[i].data.ptr;
			s->ready(s);
		}
	}
	return NULL;
}

static uint64_t total(struct program *p)
{
	uint64_t n = 0;
	for (unsigned i = 0; i < p->threads; i++)
		n += atomic_load(&p->worker[i].answers);
	return n;
}

static double now(void)
{
	struct timespec t;
	need(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void pause_until(double end)
{
	for (double left = end - now(); left > 0; left = end - now()) {
		struct timespec t = {.tv_sec = (time_t)left, .tv_nsec = (long)((left - (double)(time_t)left) * 1e9)};
		nanosleep(&t, NULL);
	}
}

// report prints what a request has cost this process.
static void report(const char *what, double n, double seconds, const struct rusage *from)
{
	struct rusage to;
	need(getrusage(RUSAGE_SELF, &to) == 0);
	double cpu = (double)(to.ru_utime.tv_sec + to.ru_stime.tv_sec - from->ru_utime.tv_sec - from->ru_stime.tv_sec) +
		(double)(to.ru_utime.tv_usec + to.ru_stime.tv_usec - from->ru_utime.tv_usec - from->ru_stime.tv_usec) * 1e-6;
	if (seconds > 0)
		printf("%.0f requests/s, ", n / seconds);
	printf("%s: %.0f requests, each %.2f us of processor time and %.2f waits\n", what, n, cpu * 1e6 / n,
		(double)(to.ru_nvcsw - from->ru_nvcsw) / n);
}

static void start_workers(struct program *p, pthread_t *t)
{
	for (unsigned i = 0; i < p->threads; i++)
		need(pthread_create(&t[i], NULL, work, &p->worker[i]) == 0);
}

static void join_workers(struct program *p, pthread_t *t)
{
	for (unsigned i = 0; i < p->threads; i++)
		need(pthread_join(t[i], NULL) == 0);
}

static void run_client(struct program *p)
{
	pthread_t t[MAX_THREADS];
	struct rusage before;
	p->transport->connect(p);
	start_workers(p, t);
	pause_until(now() + p->seconds * warm_up);
	need(getrusage(RUSAGE_SELF, &before) == 0);
	double from = now();
	uint64_t first = total(p);
	pause_until(from + p->seconds);
	double n = (double)(total(p) - first), took = now() - from;
	need(n > 0);
	report("client", n, took, &before);
	atomic_store(&p->stopping, true);
	stop_workers(p);
	join_workers(p, t);
	p->transport->end(p);
}

static void run_server(struct program *p)
{
	pthread_t t[MAX_THREADS];
	struct rusage before;
	p->transport->listen(p);
	need(getrusage(RUSAGE_SELF, &before) == 0);
	start_workers(p, t);
	join_workers(p, t);
	report("server", (double)atomic_load(&p->served), 0, &before);
}

static unsigned number(const char *text, unsigned least, unsigned most)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);
	if (*text == 0 || *end != 0 || n < least || n > most) {
		fprintf(stderr, "epoll: %s is not a number from %u to %u\n", text, least, most);
		exit(2);
	}
	return (unsigned)n;
}

static const char usage[] =
	"usage: epoll tcp|rdma [-b BYTES] [-c CONNECTIONS] [-t THREADS] [-g SENDS-PER-SIGNAL] [-d MILLISECONDS] [-p PORT] [SERVER]\n"
	"Without the address of a server, it is one, and ends after its last connection.\n";

static void parse(struct program *p, int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	p->transport = strcmp(name, tcp.name) == 0 ? &tcp : strcmp(name, rdma.name) == 0 ? &rdma : NULL;
	int c = 0;
	optind = 2;
	while (p->transport != NULL && (c = getopt(argc, argv, "b:c:t:g:d:p:")) != -1) {
		switch (c) {
		case 'b': p->size = number(optarg, MIN_SIZE, MAX_SIZE); break;
		case 'c': p->connections = number(optarg, 1, MAX_CONNECTIONS); break;
		case 't': p->threads = number(optarg, 1, MAX_THREADS); break;
		case 'g': p->signal = number(optarg, 1, 64); break;
		case 'd': p->seconds = number(optarg, 1, 1000000) / 1e3; break;
		case 'p': p->port = (uint16_t)number(optarg, 1, 65535); break;
		default: p->transport = NULL;
		}
	}
	if (p->transport == NULL || argc > optind + 1) {
		fputs(usage, stderr);
		exit(2);
	}
	p->server = argv[optind];
}

int main(int argc, char **argv)
{
	static struct program p = {.port = 7480, .size = 64, .connections = 1, .threads = 1, .signal = 16, .seconds = 1};
	parse(&p, argc, argv);
	for (unsigned i = 0; i < p.threads; i++) {
		struct worker *w = &p.worker[i];
		w->program = &p;
		w->stop.ready = stop_ready;
		need((w->epoll = epoll_create1(EPOLL_CLOEXEC)) >= 0 && (w->stop.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) >= 0);
		watch(w, &w->stop);
	}
	if (p.server != NULL)
		run_client(&p);
	else
		run_server(&p);
	return 0;
}

// Starts the threads of the test and watches them.
#define _GNU_SOURCE
#include "model.h"

#include <getopt.h>
#include <time.h>
#include <unistd.h>

static struct thread threads[MAX_THREADS];
static struct {
	unsigned long seed, steps, threads, hang;
	const char *only; // the only step to run; NULL: all
} options = {.seed = 1, .steps = 200, .threads = 3, .hang = 20};

static const struct step *const tables[] = {object_steps, queue_steps, link_steps, event_steps, waiter_steps, async_steps, ask_steps, word_steps, break_steps, region_steps, share_steps, window_steps, dm_steps, xrc_steps};
enum { TABLES = sizeof tables / sizeof *tables };

// pick draws a step by weight.
static const struct step *pick(void)
{
	unsigned all = 0, at;
	for (int pass = 0;; pass++) {
		at = pass > 0 ? draw(all) : 0;
		for (int i = 0; i < TABLES; i++) {
			for (const struct step *s = tables[i]; s->name != NULL; s++) {
				if (options.only != NULL && strcmp(s->name, options.only) != 0)
					continue;
				if (pass == 0)
					all += s->weight;
				else if (at < s->weight)
					return s;
				else
					at -= s->weight;
			}
		}
		if (all == 0) {
			fprintf(stderr, "no step %s\n", options.only);
			exit(2);
		}
	}
}

static void open_adapters(void)
{
	int n;
	struct ibv_device **list = MADE(ibv_get_device_list(&n));
	for (int i = 0; i < ADAPTERS; i++)
		me->ctx[i] = MADE(ibv_open_device(list[i % n]));
	ibv_free_device_list(list);
	WORKS(ibv_query_device(me->ctx[0], &me->dev));
}

static void *work(void *arg)
{
	me = arg;
	me->step = "open";
	open_adapters();
	zoo_open();
	links_open();
	for (; me->steps < options.steps; me->steps++) {
		const struct step *s = pick();
		me->step = s->name;
		waits_for(NULL);
		s->run();
	}
	me->step = "close";
	links_close();
	zoo_close();
	for (int i = 0; i < ADAPTERS; i++)
		WORKS(ibv_close_device(me->ctx[i]));
	return NULL;
}

// watch waits for a thread to end. It ends the program if the thread makes no progress for
// options.hang seconds.
static void watch(struct thread *t)
{
	enum { PARTS = 4 };
	unsigned long seen = 0;
	for (int still = 0; still <= PARTS; still++) {
		struct timespec end;
		clock_gettime(CLOCK_REALTIME, &end);
		end.tv_nsec += (long)(options.hang * 1000000000 / PARTS % 1000000000);
		end.tv_sec += (time_t)(options.hang / PARTS) + end.tv_nsec / 1000000000;
		end.tv_nsec %= 1000000000;
		if (pthread_timedjoin_np(t->handle, NULL, &end) == 0)
			return;
		unsigned long moves = atomic_load(&t->moves);
		if (moves != seen)
			still = 0;
		seen = moves;
	}
	const char *waits = atomic_load(&t->waits);
	fprintf(stderr, "thread %d, step %lu (%s): hangs, waiting for %s\n", t->id, t->steps, t->step, waits != NULL ? waits : "a call to return");
	_exit(1);
}

static unsigned long number(const char *name, const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 0);
	if (*text == 0 || *end != 0) {
		fprintf(stderr, "-%s %s: not a number\n", name, text);
		exit(2);
	}
	return n;
}

static void parse(int argc, char **argv)
{
	static const struct option known[] = {
		{"seed", required_argument, NULL, 's'}, {"steps", required_argument, NULL, 'n'}, {"threads", required_argument, NULL, 't'},
		{"hang", required_argument, NULL, 'h'}, {"only", required_argument, NULL, 'o'}, {0},
	};
	for (int c, i; (c = getopt_long_only(argc, argv, "", known, &i)) != -1;) {
		switch (c) {
		case 's':
			options.seed = number("seed", optarg);
			break;
		case 'n':
			options.steps = number("steps", optarg);
			break;
		case 't':
			options.threads = number("threads", optarg);
			break;
		case 'h':
			options.hang = number("hang", optarg);
			break;
		case 'o':
			options.only = optarg;
			break;
		default:
			exit(2);
		}
	}
	if (optind != argc || options.threads == 0 || options.threads > MAX_THREADS) {
		fprintf(stderr, "usage: model [-seed N] [-steps N] [-threads 1..%d] [-hang SECONDS] [-only STEP]\n", MAX_THREADS);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	printf("again with: -seed %lu -steps %lu -threads %lu\n", options.seed, options.steps, options.threads);
	fflush(stdout);
	for (unsigned long i = 0; i < options.threads; i++) {
		struct thread *t = &threads[i];
		t->id = (int)i, t->random = options.seed * 1000003 + i;
		if (pthread_create(&t->handle, NULL, work, t) != 0)
			abort();
	}
	for (unsigned long i = 0; i < options.threads; i++)
		watch(&threads[i]);
	puts("ok");
	return 0;
}

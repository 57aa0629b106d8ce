// Processes that a signal ends while findings and a note wait.
#define _GNU_SOURCE
#include "limits.h"

static void find_some(struct rig *r)
{
	rig_open(r, IBV_QPT_RC);
	for (volatile int i = 0; i < 3; i++) // volatile: each call has the same stack
		wrong_call(r);
	refuse(r);
}

static void crash(void)
{
	struct rig r = {0};
	find_some(&r);
	*(volatile int *)NULL = 1;
}

static void *crash_now(void *nothing)
{
	*(volatile int *)nothing = 1;
	return NULL;
}

static void crash_in_thread(void)
{
	struct rig r = {0};
	pthread_t t;
	find_some(&r);
	must(pthread_create(&t, NULL, crash_now, NULL) == 0);
	pthread_join(t, NULL);
}

static void abort_now(void)
{
	struct rig r = {0};
	find_some(&r);
	abort();
}

static void kill_now(void)
{
	struct rig r = {0};
	find_some(&r);
	must(kill(getpid(), SIGKILL) == 0);
}

const struct scenario crashes[] = {
	{"crash", crash}, {"crash-in-thread", crash_in_thread}, {"abort", abort_now}, {"kill", kill_now}, {NULL, NULL},
};

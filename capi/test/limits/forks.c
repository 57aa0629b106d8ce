// Processes that fork while a note waits. Each prints its PID and its child's.
#define _GNU_SOURCE
#include "limits.h"

// fork_while_a_note_waits runs f in a child, and polls in the parent after its end.
static void fork_while_a_note_waits(void (*f)(struct rig *r))
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	wrong_call(&r);
	refuse(&r);
	pid_t pid = begin_child();
	if (pid == 0)
		f(&r);
	ended_well(pid);
	printf("%d %d\n", (int)getpid(), (int)pid);
	want(r.cq[0], IBV_WC_REM_ACCESS_ERR);
	rig_close(&r);
}

static void ends_at_once(struct rig *r)
{
	(void)r;
	_exit(0);
}

static void ends(struct rig *r)
{
	(void)r;
	exit(0);
}

static void executes(struct rig *r)
{
	(void)r;
	execl("/proc/self/exe", "limits", "right", (char *)NULL);
	_exit(1);
}

// has_adapter opens an adapter of the child, makes the same mistakes again, and polls.
static void has_adapter(struct rig *r)
{
	struct rig own = {0};
	(void)r;
	rig_open(&own, IBV_QPT_RC);
	wrong_call(&own);
	refuse(&own);
	want(own.cq[0], IBV_WC_REM_ACCESS_ERR);
	rig_close(&own);
	exit(0);
}

static void fork_exit_at_once(void) { fork_while_a_note_waits(ends_at_once); }
static void fork_exit(void) { fork_while_a_note_waits(ends); }
static void fork_exec(void) { fork_while_a_note_waits(executes); }
static void fork_verbs(void) { fork_while_a_note_waits(has_adapter); }

static void right(void)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	must(post(&r, 0, IBV_WR_RDMA_WRITE, 64) == 0);
	want(r.cq[0], IBV_WC_SUCCESS);
	rig_close(&r);
}

const struct scenario forks[] = {
	{"fork-_exit", fork_exit_at_once}, {"fork-exit", fork_exit}, {"fork-exec", fork_exec}, {"fork-verbs", fork_verbs}, {"right", right}, {NULL, NULL},
};

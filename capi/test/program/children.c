// Children of a process with an adapter, and their children.
#include "rig.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

// Of each process its child makes an adapter of its own, though all descriptors of it
// and of those that were before it have the same numbers.
static void generation(int n)
{
	struct rig r = {0};
	int status;
	rig_open(&r, IBV_QPT_RC);
	must(post(&r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
	want(r.cq[0], IBV_WC_SUCCESS);
	rig_close(&r);
	if (n == 0)
		return;
	pid_t pid = fork();
	must(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (int fd = 3; fd < 256; fd++)
			close(fd);
		generation(n - 1);
		_exit(0);
	}
	// The signal that would end a child which hangs is blocked in the engine.
	time_t end = time(NULL) + 60;
	pid_t ended;
	while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && time(NULL) < end)
		usleep(1000);
	if (ended == 0)
		kill(pid, SIGKILL);
	must(ended == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void generations(void) { generation(3); }

const struct scenario children[] = {
	{"generations", generations}, {NULL, NULL},
};

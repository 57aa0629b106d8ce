// Children of a process with an adapter, and their children.
#define _GNU_SOURCE
#include "rig.h"

#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

// Each process opens an adapter and forks a child that does the same. The descriptors of
// the child's adapter have the numbers of its ancestors'.
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
	pid_t pid = begin_child();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (int fd = 3; fd < 256; fd++)
			close(fd);
		generation(n - 1);
		_exit(0);
	}
	// alarm cannot end a child that hangs in the engine, where SIGALRM is blocked.
	time_t end = time(NULL) + 60;
	pid_t ended;
	while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && time(NULL) < end)
		usleep(1000);
	if (ended == 0)
		kill(pid, SIGKILL);
	must(ended == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void generations(void) { generation(3); }

// have_events keeps raising and reading completion events.
static void *have_events(void *arg)
{
	struct rig *r = arg;
	for (;;) {
		struct ibv_cq *q;
		struct ibv_wc wc[16];
		void *context;
		must(ibv_req_notify_cq(r->cq[0], 0) == 0);
		post(r, 0, IBV_WR_RDMA_WRITE, 8);
		must(ibv_get_cq_event(r->channel, &q, &context) == 0);
		ibv_ack_cq_events(q, 1);
		must(ibv_poll_cq(q, 16, wc) >= 0);
	}
	return NULL;
}

// close_in_child closes the child's copy of the parent's device, and then its objects, as
// Python's garbage collector does.
static void close_in_child(struct rig *r)
{
	mallopt(M_PERTURB, 0x5a); // overwrite freed memory, so that a use of it fails
	const int fds[] = {r->channel->fd, r->ctx->async_fd, r->ctx->cmd_fd};
	ibv_close_device(r->ctx);
	for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
		must(fcntl(fds[i], F_GETFD) < 0 && errno == EBADF);
	for (int i = 0; i < SIDES; i++)
		must(ibv_destroy_qp(r->qp[i]) == 0 && ibv_destroy_cq(r->cq[i]) == 0 && ibv_dereg_mr(r->mr[i]) == 0);
	must(ibv_destroy_comp_channel(r->channel) == 0 && ibv_dealloc_pd(r->pd) == 0);
}

// A child may close its copy of the parent's device, as libraries do at exit, whatever the
// parent's other threads were doing at the fork.
static void fork_closes(void)
{
	enum { FORKS = 150, HANGS_S = 20 };
	struct rig r = {0};
	pthread_t t;
	rig_open(&r, IBV_QPT_RC);
	must(pthread_create(&t, NULL, have_events, &r) == 0);
	for (int i = 0; i < FORKS; i++) {
		pid_t pid = begin_child();
		if (pid == 0) {
			alarm(HANGS_S);
			close_in_child(&r);
			_exit(0);
		}
		ended_well(pid);
	}
	puts("ok");
	fflush(stdout);
	_exit(0);
}

// table reads the table of objects of this process.
static size_t table(const char *dir, char *to, size_t size)
{
	char path[512] = "";
	DIR *d = opendir(dir);
	must(d != NULL);
	for (struct dirent *e; (e = readdir(d)) != NULL;)
		if (e->d_name[0] != '.')
			snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
	closedir(d);
	int fd = open(path, O_RDONLY);
	must(fd >= 0);
	ssize_t n = read(fd, to, size);
	must(n > 0 && (size_t)n < size && close(fd) == 0);
	return (size_t)n;
}

// A child that polls its copies of the parent's queues, and asks for events of them, changes nothing
// in the parent's table of objects.
static void fork_polls(void)
{
	static char before[1 << 20], after[sizeof before];
	const char *dir = getenv("SOFTHCA_TABLES");
	struct rig r = {0};
	struct ibv_wc wc;
	must(dir != NULL);
	rig_open(&r, IBV_QPT_RC);
	for (int i = 0; i < 2; i++) {
		must(post(&r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
		want(r.cq[0], IBV_WC_SUCCESS);
	}
	must(ibv_req_notify_cq(r.cq[0], 0) == 0 && post(&r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
	struct ibv_cq *q;
	void *context;
	must(ibv_get_cq_event(r.channel, &q, &context) == 0);
	ibv_ack_cq_events(q, 1);
	size_t n = table(dir, before, sizeof before), same;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	do { // until the adapter is at rest: a query waits for the thread that works for it
		memcpy(after, before, n);
		must(ibv_query_qp(r.qp[0], &attr, IBV_QP_STATE, &init) == 0);
		same = table(dir, before, sizeof before);
	} while (same != n || memcmp(before, after, n) != 0);
	pid_t pid = begin_child();
	if (pid == 0) {
		must(ibv_poll_cq(r.cq[0], 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
		ibv_req_notify_cq(r.cq[0], 0);
		ibv_poll_cq(r.cq[0], 1, &wc);
		_exit(0);
	}
	ended_well(pid);
	must(table(dir, after, sizeof after) == n && memcmp(before, after, n) == 0);
	want(r.cq[0], IBV_WC_SUCCESS);
	must(table(dir, after, sizeof after) == n && memcmp(before, after, n) != 0); // the parent's poll is in the table
	rig_close(&r);
}

enum { REFUSED = 77, SHORT_NS = 900000000 };

// in_child runs f in a child process and returns its exit status.
static int in_child(int (*f)(void))
{
	pid_t pid = begin_child();
	if (pid == 0)
		exit(f());
	return exit_code(pid);
}

// next_number sets the PID of the next process in a PID namespace.
static bool next_number(pid_t pid)
{
	int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
	return fd >= 0 && dprintf(fd, "%d", pid - 1) > 0 && close(fd) == 0;
}

// open_and_fork opens an adapter, forks and exits. Its child reads the PID of the exited
// process from told, and forks a process with that PID.
static void open_and_fork(int told)
{
	struct rig r = {0};
	pid_t number;
	rig_open(&r, IBV_QPT_RC);
	if (fork() > 0)
		_exit(0);
	must(read(told, &number, sizeof number) == sizeof number);
	if (!next_number(number))
		_exit(REFUSED);
	int64_t from = now_ns();
	pid_t pid = begin_child();
	if (pid == 0)
		exit(getpid() != number);
	ended_well(pid);
	_exit(now_ns() - from < SHORT_NS ? 0 : 1);
}

// as_first is the first process of a PID namespace: orphans become its children.
static int as_first(void)
{
	int tell[2], status;
	must(getpid() == 1 && pipe(tell) == 0);
	pid_t pid = begin_child();
	if (pid == 0)
		open_and_fork(tell[0]);
	ended_well(pid);
	must(write(tell[1], &pid, sizeof pid) == sizeof pid);
	must(wait(&status) > 0 && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int in_container(void) { return unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0 ? in_child(as_first) : REFUSED; }

// A child that has no adapter ends without an exit handshake, even if its PID was that of
// an ancestor with an adapter. The handshake would last a second on any machine.
static void same_number(void)
{
	int status = 1;
	for (int i = 0; i < 3 && status == 1; i++)
		status = in_child(in_container);
	if (status == REFUSED)
		puts("this user may not set the PID of the next process: nothing was tried");
	must(status == 0 || status == REFUSED);
}

const struct scenario children[] = {
	{"generations", generations}, {"fork-closes", fork_closes}, {"fork-polls", fork_polls}, {"same-number", same_number}, {NULL, NULL},
};

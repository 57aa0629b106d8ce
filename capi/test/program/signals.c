// Signals that the program catches: its handlers run on its own stacks, and may use much
// of them.
#define _GNU_SOURCE
#include "asleep.h"
#include "rig.h"

#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

static _Atomic int ticks;
static void deep(int sig)
{
	volatile char room[48 << 10];
	for (size_t i = 0; i < sizeof room; i += 512)
		room[i] = (char)sig;
	ticks++;
}

// A signal arrives 5,000 times a second. Its handler runs on the thread's own stack, and
// uses much of it.
static void signals(void)
{
	struct rig r = {0};
	struct sigaction a = {.sa_handler = deep, .sa_flags = SA_RESTART};
	struct itimerval every = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
	rig_open(&r, IBV_QPT_RC);
	must(sigaction(SIGALRM, &a, NULL) == 0 && setitimer(ITIMER_REAL, &every, NULL) == 0);
	for (int i = 0; i < 1000 || ticks < 2500; i++) {
		receive(&r, 1, 64);
		must(post(&r, 0, IBV_WR_SEND, 64) == 0);
		want(r.cq[0], IBV_WC_SUCCESS);
		want(r.cq[1], IBV_WC_SUCCESS);
	}
	for (int i = 0; i < 50; i++) {
		struct ibv_mr *m = ibv_reg_mr(r.pd, r.buf[0], 100, 0);
		must(m != NULL && ibv_dereg_mr(m) == 0);
	}
	must(setitimer(ITIMER_REAL, &never, NULL) == 0);
	rig_close(&r);
}

// Signals while the program sleeps for a completion: a signal whose handler was set without
// SA_RESTART ends the sleep, one with SA_RESTART does not, and one without a handler ends
// the program.
static void *write_later(void *arg)
{
	while (ticks < 2)
		sched_yield();
	until_reading(getpid());
	must(post(arg, 0, IBV_WR_RDMA_WRITE, 8) == 0);
	return NULL;
}

static void asleep(void)
{
	struct rig r = {0};
	struct ibv_cq *q;
	void *context;
	pthread_t t, writer;
	int status;
	pid_t pid = begin_child();
	if (pid == 0)
		unsetenv("SOFTHCA_ADDR");
	rig_open(&r, IBV_QPT_RC);
	must(ibv_req_notify_cq(r.cq[0], 0) == 0);
	if (pid == 0) {
		interrupt(SIGINT);
		ibv_get_cq_event(r.channel, &q, &context);
		_exit(0);
	}
	must(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);

	struct sigaction a = {.sa_handler = deep};
	must(sigaction(SIGALRM, &a, NULL) == 0);
	t = interrupt(SIGALRM);
	int rc = ibv_get_cq_event(r.channel, &q, &context), why = errno;
	must(rc == -1 && ticks == 1 && pthread_join(t, NULL) == 0);
	errno = why;
	if (errno != EINTR) {
		fprintf(stderr, "a signal ends the sleep with errno %d, want EINTR\n", errno);
		exit(1);
	}
	a.sa_flags = SA_RESTART;
	must(sigaction(SIGALRM, &a, NULL) == 0 && pthread_create(&writer, NULL, write_later, &r) == 0);
	t = interrupt(SIGALRM);
	must(ibv_get_cq_event(r.channel, &q, &context) == 0 && q == r.cq[0] && ticks == 2);
	ibv_ack_cq_events(q, 1);
	want(r.cq[0], IBV_WC_SUCCESS);
	must(pthread_join(writer, NULL) == 0 && pthread_join(t, NULL) == 0);
	rig_close(&r);
}

// Neither the preload library nor libibverbs sees the program set this handler. libibverbs
// finds it when a queue pair is created.
static void unseen(void)
{
	int (*set)(int, const struct sigaction *, struct sigaction *) = NULL;
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	struct sigaction a = {.sa_handler = deep, .sa_flags = SA_RESTART};
	struct itimerval every = {{0, 200}, {0, 200}};
	struct rig r = {0};
	must(libc != NULL);
	*(void **)&set = dlsym(libc, "sigaction");
	must(set != NULL && ibv_close_device(open_first()) == 0); // the engine is loaded
	must(set(SIGALRM, &a, NULL) == 0 && setitimer(ITIMER_REAL, &every, NULL) == 0);
	rig_open(&r, IBV_QPT_RC);
	for (int i = 0; i < 1000 || ticks < 2500; i++) {
		must(post(&r, 0, IBV_WR_RDMA_WRITE, 64) == 0);
		want(r.cq[0], IBV_WC_SUCCESS);
	}
	rig_close(&r);
}

// Threads poll empty queues while the program sets its first handler and at once sends them
// signals.
enum { POLLERS = 2, ROUNDS = 20, KILLS = 100 };
static struct rig polled;
static _Atomic long polls[POLLERS];
static _Atomic bool enough;
static _Atomic long handled, astray;

static __thread char *lowest, *highest; // of the thread's stack

static void where(int sig)
{
	char here = (char)sig;
	atomic_fetch_add(&handled, 1);
	if (&here < lowest || &here >= highest)
		atomic_fetch_add(&astray, 1);
}

static void *poll_on(void *count)
{
	pthread_attr_t a;
	size_t size;
	void *from;
	struct ibv_wc wc;
	must(pthread_getattr_np(pthread_self(), &a) == 0 && pthread_attr_getstack(&a, &from, &size) == 0);
	lowest = from, highest = lowest + size;
	while (!enough) {
		must(ibv_poll_cq(polled.cq[0], 1, &wc) == 0);
		atomic_fetch_add((_Atomic long *)count, 1);
	}
	return NULL;
}

static void sudden_once(bool old_way)
{
	pthread_t t[POLLERS];
	struct sigaction a = {.sa_handler = where};
	rig_open(&polled, IBV_QPT_RC);
	for (int i = 0; i < POLLERS; i++) {
		must(pthread_create(&t[i], NULL, poll_on, (void *)&polls[i]) == 0);
		while (polls[i] < 200)
			sched_yield();
	}
	if (old_way)
		must(signal(SIGUSR1, where) != SIG_ERR);
	else
		must(sigaction(SIGUSR1, &a, NULL) == 0);
	for (int i = 0; i < KILLS * POLLERS; i++)
		must(pthread_kill(t[i % POLLERS], SIGUSR1) == 0);
	enough = true;
	for (int i = 0; i < POLLERS; i++)
		must(pthread_join(t[i], NULL) == 0);
	must(handled >= POLLERS && astray == 0);
	rig_close(&polled);
}

static void sudden(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		pid_t pid = begin_child();
		if (pid == 0) {
			sudden_once(i % 2 == 0);
			_exit(0);
		}
		ended_well(pid);
	}
}

// Threads that wait for completion events can be cancelled, whether they wait for packets or
// to be woken. A third thread is not cancelled: it goes on waiting and reads the event.
struct waiter {
	struct ibv_comp_channel *channel;
	pthread_t handle;
	_Atomic pid_t thread;
};

static void *wait_for_event(void *arg)
{
	struct waiter *w = arg;
	struct ibv_cq *q;
	void *context;
	atomic_store(&w->thread, gettid());
	must(ibv_get_cq_event(w->channel, &q, &context) == 0);
	return q;
}

static void cancelled(void)
{
	struct rig r = {0};
	void *how;
	rig_open(&r, IBV_QPT_RC);
	struct ibv_comp_channel *second = ibv_create_comp_channel(r.ctx);
	struct waiter w[] = {{.channel = r.channel}, {.channel = second}, {.channel = r.channel}};
	must(second != NULL && ibv_req_notify_cq(r.cq[0], 0) == 0);
	for (int i = 0; i < 3; i++) {
		must(pthread_create(&w[i].handle, NULL, wait_for_event, &w[i]) == 0);
		while (atomic_load(&w[i].thread) == 0)
			sched_yield();
		until_reading(w[i].thread);
	}
	for (int i = 0; i < 2; i++)
		must(pthread_cancel(w[i].handle) == 0 && pthread_join(w[i].handle, &how) == 0 && how == PTHREAD_CANCELED);
	must(post(&r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
	must(pthread_join(w[2].handle, &how) == 0 && how == r.cq[0]);
	ibv_ack_cq_events(r.cq[0], 1);
	want(r.cq[0], IBV_WC_SUCCESS);
	must(pthread_create(&w[1].handle, NULL, wait_for_event, &w[1]) == 0);
	must(pthread_cancel(w[1].handle) == 0 && pthread_join(w[1].handle, &how) == 0 && how == PTHREAD_CANCELED);
	must(ibv_destroy_comp_channel(second) == 0);
	rig_close(&r);
}

static void *in_and_out(void *arg)
{
	struct rig *r = arg;
	struct ibv_wc wc;
	for (int i = 0; i < 20000; i++) {
		struct ibv_mr *m = ibv_reg_mr(r->pd, r->buf[0], 100, 0);
		must(m != NULL && ibv_dereg_mr(m) == 0 && ibv_poll_cq(r->cq[0], 1, &wc) == 0);
	}
	return NULL;
}

// Threads of the program enter and leave the engine while Go's runtime collects garbage. The
// runtime sends none of them a signal: outside the engine, it would interrupt a system call.
static void spared(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SIGURG, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {sizeof code / sizeof *code, code};
	struct rig r = {0};
	pthread_t t[4];
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
	setenv("GOGC", "1", 1); // before the engine is loaded
	rig_open(&r, IBV_QPT_RC);
	for (int i = 0; i < 4; i++)
		must(pthread_create(&t[i], NULL, in_and_out, &r) == 0);
	for (int i = 0; i < 4; i++)
		must(pthread_join(t[i], NULL) == 0);
	rig_close(&r);
}

// A child polls without system calls that block signals: the only handlers are its engine's.
// The parent counts the child's system calls.
enum { EMPTY_POLLS = 2000 };

static void poll_traced(void)
{
	struct rig r = {0};
	struct ibv_wc wc;
	rig_open(&r, IBV_QPT_RC);
	must(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 && raise(SIGSTOP) == 0);
	for (int i = 0; i < EMPTY_POLLS; i++)
		must(ibv_poll_cq(r.cq[0], 1, &wc) == 0);
	syscall(SYS_exit_group, 0);
}

static void bare_in_child(void)
{
	int status, masks = 0;
	must(ibv_close_device(open_first()) == 0); // the engine is loaded
	pid_t pid = begin_child();
	if (pid == 0)
		poll_traced();
	must(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
	must(ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) == 0 && ptrace(PTRACE_SYSCALL, pid, NULL, NULL) == 0);
	while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		struct __ptrace_syscall_info call;
		bool is = WSTOPSIG(status) == (SIGTRAP | 0x80);
		must(!is || ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof call, &call) > 0);
		masks += is && call.op == PTRACE_SYSCALL_INFO_ENTRY && call.entry.nr == SYS_rt_sigprocmask;
		must(ptrace(PTRACE_SYSCALL, pid, NULL, is ? 0 : WSTOPSIG(status)) == 0);
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || masks > EMPTY_POLLS / 10) {
		fprintf(stderr, "%d polls block signals %d times, and the child ends with status %#x\n", EMPTY_POLLS, masks, status);
		exit(1);
	}
}

const struct scenario caught[] = {
	{"signals", signals}, {"signals-unseen", unseen}, {"signals-sudden", sudden}, {"signals-spared", spared}, {"asleep", asleep},
	{"cancelled", cancelled}, {"signals-of-child", bare_in_child}, {NULL, NULL},
};

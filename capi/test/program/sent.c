// SIGSEGV and SIGBUS that are sent, by kill or by the kernel. Unlike a fault, such a signal
// is not repeated when its handler returns, and a program can ignore it.
#define _GNU_SOURCE
#include "rig.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static const int both[] = {SIGSEGV, SIGBUS};

// send_memory_error sends the SIGBUS by which the kernel reports a memory error at an address
// that the program has not accessed.
static void send_memory_error(void)
{
	siginfo_t info = {.si_signo = SIGBUS, .si_code = BUS_MCEERR_AO};
	must(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGBUS, &info) == 0);
}

static void set_all(void (*handler)(int))
{
	for (int i = 0; i < 2; i++)
		must(signal(both[i], handler) != SIG_ERR);
}

// Verbs must work while the signals are sent.
static void transfer(struct rig *r)
{
	struct ibv_mr *m = ibv_reg_mr(r->pd, r->buf[0], 100, 0); // puts the library's handlers in front
	must(m != NULL && ibv_dereg_mr(m) == 0);
	must(post(r, 0, IBV_WR_RDMA_WRITE, 100) == 0);
	want(r->cq[0], IBV_WC_SUCCESS);
}

static void send_all(void)
{
	raise(SIGSEGV);
	raise(SIGBUS);
	send_memory_error();
}

// use opens an adapter, sets the handlers before or after that, and sends the signals.
static void use(void (*handler)(int), bool before)
{
	struct rig r = {0};
	if (before)
		set_all(handler);
	rig_open(&r, IBV_QPT_RC);
	if (!before)
		set_all(handler);
	transfer(&r);
	send_all();
	transfer(&r);
	rig_close(&r);
}

static volatile sig_atomic_t seen[NSIG];
static void see(int sig) { seen[sig]++; }

static void raise_segv(void) { raise(SIGSEGV); }
static void cause_fault(void) { *(volatile int *)8 = 1; }

enum { HANGS_S = 60 };

// ends_by checks that f ends a child by a signal. The child sets the handlers, opens an adapter and
// calls f.
static void ends_by(int sig, void (*handler)(int), void (*f)(void))
{
	int status;
	pid_t pid = begin_child();
	if (pid == 0) {
		alarm(HANGS_S);
		struct rlimit none = {0, 0};
		struct rig r = {0};
		must(setrlimit(RLIMIT_CORE, &none) == 0);
		set_all(handler);
		rig_open(&r, IBV_QPT_RC);
		transfer(&r);
		f();
		_exit(0);
	}
	must(waitpid(pid, &status, 0) == pid);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != sig) {
		fprintf(stderr, "the child ends with status %#x, want signal %d\n", status, sig);
		exit(1);
	}
}

static void end_each(void)
{
	ends_by(SIGSEGV, SIG_DFL, raise_segv);
	ends_by(SIGBUS, SIG_DFL, send_memory_error);
	ends_by(SIGSEGV, SIG_IGN, cause_fault); // a fault cannot be ignored
}

// Threads of the program and of the engine get the signals while they work.
enum { ROUNDS = 300 };
static _Atomic bool pelted;

// seen_often reports whether the handler ran more often than one thread of the program alone
// would have it run. The kernel drops a signal that is pending already.
static bool seen_often(void) { return seen[SIGSEGV] > ROUNDS && seen[SIGBUS] > ROUNDS; }

static void *pelt(void *handled)
{
	for (int i = 0; i < ROUNDS || (handled && !seen_often()); i++) {
		DIR *dir = opendir("/proc/self/task");
		must(dir != NULL);
		for (struct dirent *e; (e = readdir(dir)) != NULL;)
			if (e->d_name[0] != '.') // a thread may have ended
				must(syscall(SYS_tgkill, getpid(), atoi(e->d_name), both[i % 2]) == 0 || errno == ESRCH);
		closedir(dir);
	}
	pelted = true;
	return NULL;
}

static void pelt_all(void (*handler)(int))
{
	struct rig r = {0};
	pthread_t t;
	set_all(handler);
	rig_open(&r, IBV_QPT_RC);
	pelted = false;
	must(pthread_create(&t, NULL, pelt, handler == see ? &t : NULL) == 0);
	while (!pelted)
		transfer(&r);
	must(pthread_join(t, NULL) == 0);
	rig_close(&r);
}

static void sent_inside(void)
{
	pelt_all(SIG_IGN);
	pelt_all(see);
}

static void sent(void)
{
	end_each();
	use(SIG_IGN, true);
	use(SIG_IGN, false);
	use(see, false);
	must(seen[SIGSEGV] == 1 && seen[SIGBUS] == 2);
	set_all(SIG_DFL);
	end_each(); // the parent has had an adapter by now
}

const struct scenario sending[] = {{"handler-sent", sent}, {"handler-sent-inside", sent_inside}, {NULL, NULL}};

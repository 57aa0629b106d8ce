// The handlers of fault signals that the kernel has, and those that the program reads back: the
// library's handler is in front of the program's.
#define _GNU_SOURCE
#include "recorded.h"

#include <sys/syscall.h>
#include <sys/wait.h>

// kernels is struct sigaction as the kernel defines it.
struct kernels {
	void (*handler)(int);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

// installed returns the kernel's handler, with a system call that no library
// replaces.
static struct kernels installed(int sig)
{
	struct kernels k = {0};
	must(syscall(SYS_rt_sigaction, sig, NULL, &k, sizeof k.mask) == 0);
	return k;
}

static void handle(int sig) { (void)sig; }

static const int faults[] = {SIGSEGV, SIGBUS};

// in_front checks that the library's handler is in front of the program's. It stays there after
// it was called, and runs on the signal stack.
static void in_front(int sig)
{
	struct kernels k = installed(sig);
	must(k.handler != handle);
	SAME(k.flags & (SA_SIGINFO | SA_ONSTACK | SA_RESETHAND), SA_SIGINFO | SA_ONSTACK);
}

static void set(int sig, int flags)
{
	struct sigaction a = {.sa_handler = handle, .sa_flags = flags};
	must(sigaction(sig, &a, NULL) == 0);
}

// Without the preload library, some calls look for a handler that the program has set since.
static void sought(void)
{
	struct recording r = {0};
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD};
	static char mem[64];
	struct ibv_wc wc;
	recording_open(&r);
	for (int i = 0; i < 2; i++) {
		int sig = faults[i];
		in_front(sig);
		set(sig, SA_RESETHAND);
		must(installed(sig).handler == handle && ibv_modify_qp(r.qp, &a, IBV_QP_STATE) == 0);
		in_front(sig);
		set(sig, 0);
		struct ibv_mr *m = ibv_reg_mr(r.pd, mem, sizeof mem, 0);
		must(m != NULL && ibv_dereg_mr(m) == 0);
		in_front(sig);
		set(sig, 0);
		for (int n = 0; n < 64; n++)
			must(ibv_poll_cq(r.cq, 1, &wc) == 0);
		in_front(sig);
	}
	recording_close(&r);
}

// With it, the library's handler is in front as soon as the program has set its own, and the
// program reads back what it has set.
static void told(void)
{
	struct recording r = {0};
	struct sigaction a;
	recording_open(&r);
	for (int i = 0; i < 2; i++) {
		int sig = faults[i];
		set(sig, SA_RESETHAND | SA_NODEFER);
		in_front(sig);
		must(sigaction(sig, NULL, &a) == 0 && a.sa_handler == handle);
		SAME(a.sa_flags & (SA_RESETHAND | SA_NODEFER | SA_SIGINFO | SA_ONSTACK), SA_RESETHAND | SA_NODEFER);
		must(signal(sig, SIG_DFL) == handle && signal(sig, handle) == SIG_DFL);
		in_front(sig);
		must(sigaction(sig, NULL, &a) == 0 && a.sa_handler == handle && sigismember(&a.sa_mask, sig) == 1);
		SAME(a.sa_flags & (SA_RESTART | SA_RESETHAND | SA_SIGINFO), SA_RESTART);
	}
	recording_close(&r);
}

static void by_sigaction(void (*h)(int)) { must(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = h}, NULL) == 0); }
static void by_signal(void (*h)(int)) { must(signal(SIGUSR1, h) != SIG_ERR); }
static void by_ssignal(void (*h)(int)) { must(ssignal(SIGUSR1, h) != SIG_ERR); }
static void by_sysv_signal(void (*h)(int)) { must(sysv_signal(SIGUSR1, h) != SIG_ERR); }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void by_sigset(void (*h)(int)) { must(sigset(SIGUSR1, h) != SIG_ERR); }
#pragma GCC diagnostic pop

// catch_by sets handlers of one signal. The calls into the engine block signals once the program
// catches one, and not before.
static void catch_by(void (*how)(void (*)(int)))
{
	struct recording r = {0};
	struct ibv_wc wc;
	recording_open(&r);
	how(SIG_IGN);
	must(ibv_poll_cq(r.cq, 1, &wc) == 0);
	SAME(rec->bare, 1);
	how(SIG_DFL);
	must(ibv_poll_cq(r.cq, 1, &wc) == 0);
	SAME(rec->bare, 1);
	how(handle);
	must(ibv_poll_cq(r.cq, 1, &wc) == 0);
	SAME(rec->bare, 0);
	_exit(0);
}

static void caught_signals(void)
{
	static void (*const ways[])(void (*)(int)) = {by_sigaction, by_signal, by_ssignal, by_sysv_signal, by_sigset};
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		pid_t pid = begin_child();
		if (pid == 0)
			catch_by(ways[i]);
		ended_well(pid);
	}
}

const struct scenario recorded_handlers[] = {{"recorded-sought", sought}, {"recorded-told", told}, {"recorded-caught", caught_signals}, {NULL, NULL}};

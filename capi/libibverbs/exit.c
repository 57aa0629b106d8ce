// The end of a program that has adapters open: by exit, by returning from main, by quick_exit
// or, as the preload library reports, by _exit. The kernel would acknowledge what has arrived
// and close what the program leaves, so the peers of its connections would get a DREQ or a REJ.
// Here the library must do so before the process is gone; the acknowledgement of the newest
// message may still be pending, as it goes out with the program's next packet. For a process
// that crashes, the handler of fault.c does it. A process that another signal kills cannot do
// it.
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// The maximum time in seconds that the exit waits for the thread. The exiting thread may hold a
// lock that the engine needs, for example in a handler of SIGSEGV, and must end nevertheless. In a
// program that is checked, the thread also writes findings.
enum { EXIT_WAIT_S = 1, CHECKED_WAIT_S = 3 };

// The stack of the thread, in bytes: Go code runs on a stack of its own.
enum { EXIT_STACK = 256 << 10 };

static sem_t asked, disconnected;
static sem_t check_asked, checked; // only if the program is checked
static _Atomic pid_t whose; // the process that owns the thread; 0: none

// wait_until waits for a semaphore for some seconds.
static void wait_until(sem_t *s, int seconds)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += seconds;
	while (sem_timedwait(s, &until) != 0 && errno == EINTR)
		;
}

// check_all runs on another thread, which may wait for a lock that the exiting thread has.
static void *check_all(void *unused)
{
	for (;;) {
		while (sem_wait(&check_asked) != 0)
			;
		check_exit();
		sem_post(&checked);
	}
	return unused;
}

// disconnect_all runs on the thread. Other threads of the program continue meanwhile, so it
// frees nothing that they use.
static void *disconnect_all(void *unused)
{
	for (;;) {
		while (sem_wait(&asked) != 0)
			;
		if (checking) { // before the peers know: what the check looks at changes then
			sem_post(&check_asked);
			wait_until(&checked, EXIT_WAIT_S);
		}
		cm_disconnect();
		flush_devices();
		sem_post(&disconnected);
	}
	return unused;
}

// watch_end starts the thread that disconnects at the end. It must exist before the end: a
// thread that calls _exit may be in a signal handler, where it can only post a semaphore. The
// caller ensures that a process does this once.
void watch_end(void)
{
	pthread_t thread;
	pthread_attr_t a;
	if (pthread_attr_init(&a) != 0)
		return;
	sem_init(&asked, 0, 0);
	sem_init(&disconnected, 0, 0);
	pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&a, EXIT_STACK);
	sem_init(&check_asked, 0, 0);
	sem_init(&checked, 0, 0);
	bool can = !checking || pthread_create(&thread, &a, check_all, NULL) == 0;
	if (can && pthread_create(&thread, &a, disconnect_all, NULL) == 0)
		atomic_store(&whose, getpid());
	pthread_attr_destroy(&a);
}

// leave_peers disconnects and sends pending acknowledgements. Any thread may call it, also in a signal
// handler. The child of a fork or vfork sends nothing for its parent.
void leave_peers(void)
{
	if (atomic_load(&whose) != getpid())
		return;
	sem_post(&asked);
	wait_until(&disconnected, checking ? CHECKED_WAIT_S : EXIT_WAIT_S);
}

// at_end is called before a program ends at once, as by _exit.
static void at_end(void)
{
	leave_peers();
	if (checking && fatal_exit() != 0)
		syscall(SYS_exit_group, fatal_exit());
}

// end_in_child disables the exit handshake in the child of a fork. PIDs may be reused: the
// child may have its parent's PID, if both are the first process of a container, or that of an
// ancestor that has ended.
void end_in_child(void) { atomic_store(&whose, 0); }

// at_exit is for the ends that are no signal handlers: this thread has no locks.
__attribute__((destructor)) static void at_exit(void)
{
	if (checking)
		check_exit();
	leave_peers();
}

static void at_quick_end(void)
{
	if (checking)
		check_exit();
	at_end();
}

// watch_exits registers for the other ways to end, where the C library allows it.
void watch_exits(void)
{
	void (*tell)(void (*)(void)) = dlsym(RTLD_DEFAULT, "softhca_tell_end");
	at_quick_exit(at_quick_end);
	if (tell != NULL)
		tell(at_end);
}

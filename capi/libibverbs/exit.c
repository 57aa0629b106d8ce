// The end of a program that has adapters open: by exit, by returning from main, by
// quick_exit or, as the preload library tells, by _exit. The kernel answers what has
// arrived, and closes what a program leaves: the peers of its connections get a DREQ or
// a REJ. Here this has to be done before the process is gone; an acknowledgement of what
// the program has just received may be owed still, so that it goes with what the program
// sends next. The handler of fault.c does it for a process that
// crashes; a process that another signal kills cannot do it.
#define _GNU_SOURCE
#include "softhca.h"

#include <dlfcn.h>
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

// The longest that it takes. Whoever ends may hold what the engine needs, as by an exit
// in a handler of SIGSEGV, and has to end all the same.
enum { PARTING_S = 1 };

// The stack of the thread, in bytes: Go has one of its own for what it does on it.
enum { PARTING_STACK = 256 << 10 };

static sem_t asked, parted;
static _Atomic pid_t whose; // the process that has the thread; 0: none

// part is what the thread does. Other threads of the program go on meanwhile, so nothing
// that they use is freed.
static void *part(void *unused)
{
	for (;;) {
		while (sem_wait(&asked) != 0)
			;
		cm_part();
		flush_devices();
		sem_post(&parted);
	}
	return unused;
}

// watch_end starts the thread that says good-bye. It is there before the end, because
// who calls _exit may be in a handler of a signal, and can do no more there than ask for
// something. The caller sees to it that this happens once in a process.
void watch_end(void)
{
	pthread_t thread;
	pthread_attr_t a;
	if (pthread_attr_init(&a) != 0)
		return;
	sem_init(&asked, 0, 0);
	sem_init(&parted, 0, 0);
	pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&a, PARTING_STACK);
	if (pthread_create(&thread, &a, part, NULL) == 0)
		atomic_store(&whose, getpid());
	pthread_attr_destroy(&a);
}

// at_end has everything said that is owed to others. Any thread may call it, in a handler of
// a signal too. The child of a fork, or of vfork, has nothing to say for its parent.
void at_end(void)
{
	struct timespec until;
	if (atomic_load(&whose) != getpid())
		return;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PARTING_S;
	sem_post(&asked);
	while (sem_timedwait(&parted, &until) != 0 && errno == EINTR)
		;
}

// end_in_child has the child of a fork wait for nobody, whatever number it gets: that of
// its parent, if both are the first of a container, or of an ancestor that has ended.
void end_in_child(void) { atomic_store(&whose, 0); }

__attribute__((destructor)) static void at_exit(void) { at_end(); }

// watch_exits has the other ends told, where that can be done.
void watch_exits(void)
{
	void (*tell)(void (*)(void)) = dlsym(RTLD_DEFAULT, "softhca_tell_end");
	at_quick_exit(at_end);
	if (tell != NULL)
		tell(at_end);
}

// A program that ends by exit, or by returning from main, with adapters open. The kernel
// closes what it leaves: the peers of its connections get a DREQ or a REJ. Here this has
// to be done before the process is gone. What is killed cannot do it.
#define _GNU_SOURCE
#include "softhca.h"

#include <errno.h>
#include <semaphore.h>
#include <time.h>

// The longest that it takes. Whoever ends may hold what the engine needs, as by an exit
// in a handler of SIGSEGV, and has to end all the same.
enum { PARTING_S = 1 };

static sem_t parted;

static void *part(void *unused)
{
	cm_part();
	flush_devices();
	sem_post(&parted);
	return unused;
}

// Other threads of the program go on meanwhile, so nothing that they use is freed. The
// work is done by a thread of its own, which may wait for locks.
__attribute__((destructor)) static void at_exit(void)
{
	pthread_t thread;
	sigset_t old;
	struct timespec until;
	if (!engine_is_loaded())
		return;
	sem_init(&parted, 0, 0);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PARTING_S;
	pthread_sigmask(SIG_SETMASK, engine_mask(), &old);
	int code = pthread_create(&thread, NULL, part, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	while (code == 0 && sem_timedwait(&parted, &until) != 0)
		code = errno == EINTR ? 0 : errno;
	if (code == 0)
		pthread_join(thread, NULL);
}

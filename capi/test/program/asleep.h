// Waits until another thread of the program sleeps, so that a test acts while it does.
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>

#ifndef SYS_poll
#define SYS_poll SYS_ppoll // arm64 has no other
#define SYS_epoll_wait SYS_epoll_pwait
#endif

enum { RUNS = -1, ENDED = -2 };

// sleeps_in returns the number of the system call in which a thread sleeps, RUNS or ENDED.
static inline long sleeps_in(pid_t thread)
{
	char path[64];
	long call = RUNS;
	snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)thread);
	FILE *f = fopen(path, "r");
	if (f == NULL)
		return ENDED;
	if (fscanf(f, "%ld", &call) != 1)
		call = RUNS;
	fclose(f);
	return call;
}

// until_locked returns when a thread sleeps until another thread wakes it, or has ended.
static inline void until_locked(pid_t thread)
{
	for (long call = RUNS; call != SYS_futex && call != ENDED; call = sleeps_in(thread))
		sched_yield();
}

// until_reading returns when a thread sleeps until a descriptor is readable, or has ended.
static inline void until_reading(pid_t thread)
{
	long call = RUNS;
	do {
		sched_yield();
		call = sleeps_in(thread);
	} while (call != SYS_read && call != SYS_poll && call != SYS_ppoll && call != SYS_epoll_wait && call != SYS_epoll_pwait && call != ENDED);
}

// What ends the sleep of a thread in the engine, other than an event: a signal that the program does
// not block, or a call for all sleepers to wake.
#define _GNU_SOURCE
#include "softhca.h"

#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

// interrupts reports whether the handler of a pending signal would interrupt a system call: any
// handler, or only those set without SA_RESTART.
bool interrupts(const sigset_t *blocked, bool any)
{
	sigset_t waiting;
	sigpending(&waiting);
	for (int sig = 1; sig < NSIG; sig++) {
		struct sigaction a;
		if (sigismember(&waiting, sig) != 1 || sigismember(blocked, sig) == 1 || sigaction(sig, NULL, &a) != 0)
			continue;
		if ((any || !(a.sa_flags & SA_RESTART)) && (a.sa_flags & SA_SIGINFO || (a.sa_handler != SIG_DFL && a.sa_handler != SIG_IGN)))
			return true;
	}
	return false;
}

static bool add(int set, int fd)
{
	struct epoll_event in = {.events = EPOLLIN};
	return epoll_ctl(set, EPOLL_CTL_ADD, fd, &in) == 0;
}

// ends_of returns a descriptor that becomes readable when a sleeping thread has to wake: for a
// pending signal that the program does not block, because all sleepers are to wake, or because
// another descriptor is readable, unless that is -1. It returns -1 if there is no such descriptor.
int ends_of(struct ends *e, const sigset_t *blocked, int also)
{
	if (e->fd >= 0 && memcmp(&e->blocked, blocked, sizeof *blocked) == 0)
		return e->fd;
	sigset_t told = *engine_mask();
	for (int sig = 1; sig < NSIG; sig++)
		if (sigismember(blocked, sig) == 1)
			sigdelset(&told, sig);
	int signals = signalfd(e->fd >= 0 ? e->signals : -1, &told, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals < 0)
		return -1;
	e->blocked = *blocked;
	if (e->fd >= 0)
		return e->fd;
	signals = keep_open(signals);
	int fd = epoll_create1(EPOLL_CLOEXEC);
	if (fd < 0 || !add(fd, signals) || !add(fd, sleep_off()) || (also >= 0 && !add(fd, also))) {
		close_kept(signals);
		close_kept(fd);
		return -1;
	}
	e->signals = signals;
	return e->fd = keep_open(fd);
}

void close_ends(struct ends *e)
{
	if (e->fd < 0)
		return;
	close_kept(e->fd);
	close_kept(e->signals);
	e->fd = -1;
}

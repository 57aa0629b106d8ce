// When a call that closes or destroys something returns, its descriptors are closed: programs
// that look for leaks count them then.
#include "cm.h"

#include "../program/count.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>

static void channels(void)
{
	enum { ROUNDS = 20 };
	struct link l;
	link_up(&l, RDMA_PS_TCP); // librdmacm keeps the adapter open from here on
	link_down(&l);
	others_wait();
	int before = count_descriptors(), right = 0;
	for (int i = 0; i < ROUNDS; i++) {
		struct rdma_event_channel *ch = open_channel();
		must(count_descriptors() > before);
		rdma_destroy_event_channel(ch);
		right += at_once(before);
		link_up(&l, RDMA_PS_TCP);
		link_down(&l);
		right += at_once(before);
	}
	mostly(right, 2 * ROUNDS);
	// A copy of the descriptor keeps the channel open, and its listener.
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *id = listen_on(ch, RDMA_PS_TCP, PORT, 1);
	int copy = dup(ch->fd);
	must(copy >= 0 && close(ch->fd) == 0);
	struct rdma_event_channel *other = open_channel();
	struct rdma_cm_id *second = make_id(other, RDMA_PS_TCP);
	refused(bind_to(second, PORT), EADDRINUSE);
	must(close(copy) == 0);
	(void)id; // librdmacm's ID is useless without the descriptor
	must(bind_to(second, PORT) == 0);
}

// Replacing a channel's descriptor by dup2 closes the channel.
static void replaced(void)
{
	enum { ROUNDS = 40 };
	int file = memfd_create("file", MFD_CLOEXEC), right = 0;
	must(file >= 0);
	rdma_destroy_event_channel(open_channel()); // librdmacm keeps the adapter open from here on
	others_wait();
	int before = count_descriptors();
	for (int i = 0; i < ROUNDS; i++) {
		struct rdma_event_channel *ch = open_channel();
		int fd = ch->fd, flag = i % 2 == 0 ? 0 : FD_CLOEXEC;
		refused(dup2(-1, fd), EBADF);
		refused(dup3(1023, fd, 0), EBADF);
		refused(dup3(fd, fd, 0), EINVAL);
		must(dup2(fd, fd) == fd);
		must(rdma_destroy_id(make_id(ch, RDMA_PS_TCP)) == 0); // the channel is still open
		must((i % 2 == 0 ? dup2(file, fd) : dup3(file, fd, O_CLOEXEC)) == fd && fcntl(fd, F_GETFD) == flag);
		right += at_once(before + 1);
		rdma_destroy_event_channel(ch);
	}
	mostly(right, ROUNDS);
}

static int watched = -1;
static volatile sig_atomic_t looks;
static void look(int sig)
{
	struct stat s;
	int why = errno;
	(void)sig;
	if (fstat(watched, &s) != 0 || !S_ISCHR(s.st_mode)) {
		static const char wrong[] = "a handler takes the device for another file\n";
		(void)!write(2, wrong, sizeof wrong - 1);
		_exit(1);
	}
	looks++;
	errno = why;
}

// A signal handler uses a descriptor of the device while the interrupted thread opens files,
// closes them and forks.
static void interrupted(void)
{
	enum { ROUNDS = 200, US = 200 };
	struct rdma_event_channel *ch = open_channel();
	struct sigaction a = {.sa_handler = look, .sa_flags = SA_RESTART};
	struct itimerval every = {{0, US}, {0, US}}, never = {{0, 0}, {0, 0}};
	watched = ch->fd;
	must(sigaction(SIGALRM, &a, NULL) == 0 && setitimer(ITIMER_REAL, &every, NULL) == 0);
	for (int i = 0; i < ROUNDS || looks < ROUNDS; i++) {
		int status;
		pid_t pid = begin_child();
		if (pid == 0)
			_exit(0);
		while (waitpid(pid, &status, 0) < 0)
			must(errno == EINTR);
		must(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		rdma_destroy_event_channel(open_channel());
	}
	must(setitimer(ITIMER_REAL, &never, NULL) == 0);
	rdma_destroy_event_channel(ch);
}

const struct scenario closings[] = {
	{"closing-channels", channels}, {"closing-replaced", replaced}, {"closing-interrupted", interrupted}, {NULL, NULL},
};

// The open files of /dev/infiniband/rdma_cm. The preload library redirects open and write to
// this file; the engine executes the commands. A program's descriptor is the reading end of a
// pipe. The program can poll, copy and close it and make it nonblocking without a call of the
// library; the engine notices at the other end when the last copy is closed.
#define _GNU_SOURCE
#include "../preload/rdma_cm.h"
#include "check.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_user_cm.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// The kernel's default for the highest limit of descriptors of a process.
enum { MAX_FILES = 1 << 20 };

struct cm_file {
	int fd;
	dev_t dev; // of the pipe, to recognize it: another file may get its number
	ino_t ino;
	struct device *device; // through which the engine is called
	handle_t handle;
	const struct stack *made; // where the program opened the file; only if it is checked
	pthread_t _Atomic taker; // the thread that took the last event and does not wait for the next yet; 0: none
};

// lock guards the following variables, and keeps handles valid while they are used. Writers hold
// it with signals blocked: a handler of the program may close a file.
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static void *_Atomic files[MAX_FILES]; // by descriptor; also read without the lock
static handle_t manager;
static struct device *first; // of the manager's adapters, which stay open
static sigset_t forking;     // the signal mask that fork restores

static void let_go(void)
{
	drop_rank(&lock);
	pthread_rwlock_unlock(&lock);
}

static void lock_writing(sigset_t *old)
{
	pthread_sigmask(SIG_SETMASK, engine_mask(), old);
	take_rank(CM_LOCK, &lock);
	pthread_rwlock_wrlock(&lock);
}

static void unlock_writing(const sigset_t *old)
{
	let_go();
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

void cm_before_fork(void)
{
	sigset_t old;
	lock_writing(&old);
	forking = old;
}

void cm_after_fork(void)
{
	sigset_t old = forking;
	unlock_writing(&old);
}

// In the child, open files still belong to the parent's engine. The next file gets the connection
// manager of a new engine.
void cm_in_child(void)
{
	static const pthread_rwlock_t unlocked = PTHREAD_RWLOCK_INITIALIZER;
	drop_rank(&lock);
	lock = unlocked;
	manager = 0;
	pthread_sigmask(SIG_SETMASK, &forking, NULL);
}

// lock_reading returns false in a thread that holds the lock for writing: a fault handler has
// interrupted it.
__attribute__((warn_unused_result)) static bool lock_reading(void)
{
	if (pthread_rwlock_rdlock(&lock) != 0)
		return false;
	take_rank(CM_LOCK, &lock);
	return true;
}

// cm_disconnect ends the connections that the program leaves.
void cm_disconnect(void)
{
	if (!lock_reading())
		return;
	if (manager != 0)
		ENGINE(first, disconnect_cm, manager);
	let_go();
}

// open_manager opens all adapters that can be opened, and a connection manager over them.
static int open_manager(void)
{
	int n, opened = 0;
	struct node **list = nodes(&n);
	struct device *all[MAX_DEVICES];
	handle_t handles[MAX_DEVICES], made;
	sigset_t old;
	for (int i = 0; i < n; i++)
		if ((all[opened] = open_device(list[i])) != NULL)
			opened++;
	if (opened == 0)
		return errno != 0 ? errno : ENODEV;
	for (int i = 0; i < opened; i++)
		handles[i] = all[i]->handle;
	lock_writing(&old);
	bool kept = false;
	int code = manager != 0 ? 0 : ENGINE(all[0], open_cm, handles, opened, &made);
	if (code == 0 && manager == 0) {
		kept = true;
		manager = made, first = all[0];
	}
	unlock_writing(&old);
	for (int i = 0; i < opened && !kept; i++)
		close_device(all[i]);
	return code;
}

static bool is_file(const struct cm_file *f, int fd)
{
	struct stat s;
	return f != NULL && syscall(SYS_newfstatat, fd, "", &s, AT_EMPTY_PATH) == 0 && s.st_dev == f->dev && s.st_ino == f->ino;
}

// hold returns the file that was opened with a number, if the descriptor fd, of the same number or
// a copy, still refers to it. It then holds the lock for reading; otherwise it returns NULL,
// without the lock.
static struct cm_file *hold(int number, int fd)
{
	if (!lock_reading())
		return NULL;
	struct cm_file *f = atomic_load(&files[number]);
	if (is_file(f, fd))
		return f;
	let_go();
	return NULL;
}

// gone is called by the engine: the program has closed all copies of the descriptor.
static void gone(void *p)
{
	struct cm_file *f = p;
	void *same = f;
	sigset_t old;
	tsan_hides_accesses();
	lock_writing(&old);
	atomic_compare_exchange_strong(&files[f->fd], &same, NULL); // unless another file has the number by now
	unlock_writing(&old);
	free(f);
	tsan_shows_accesses();
}

// begin makes the engine open a file over a pipe.
static int begin(struct cm_file *f, const int ends[2])
{
	struct stat s;
	sigset_t old;
	if (fstat(ends[0], &s) != 0)
		return errno;
	f->made = checking ? stack_here() : NULL;
	f->fd = ends[0], f->dev = s.st_dev, f->ino = s.st_ino;
	struct softhca_cm_file c = {.pipe = ends[1], .object = f, .gone = gone};
	lock_writing(&old);
	f->device = first;
	int code = ENGINE(first, open_cm_file, manager, &c);
	if (code == 0) {
		f->handle = c.handle;
		atomic_store(&files[f->fd], f);
	}
	unlock_writing(&old);
	return code;
}

static int open_file(int flags)
{
	int ends[2], code = 0;
	if (!lock_reading())
		return failure(EDEADLK);
	bool have = manager != 0;
	let_go();
	errno = 0;
	if (!have && (code = open_manager()) != 0)
		return failure(code);
	struct cm_file *f = calloc(1, sizeof *f);
	if (f == NULL || pipe2(ends, O_CLOEXEC) != 0) {
		free(f);
		return -1;
	}
	code = ends[0] >= MAX_FILES ? EMFILE : begin(f, ends);
	if (code != 0) {
		close(ends[0]);
		close(ends[1]);
		free(f);
		return failure(code);
	}
	if ((flags & O_NONBLOCK) != 0)
		fcntl(ends[0], F_SETFL, O_NONBLOCK);
	if ((flags & O_CLOEXEC) == 0)
		fcntl(ends[0], F_SETFD, 0);
	return ends[0];
}

static bool is_cm(int fd)
{
	bool is = hold(fd, fd) != NULL;
	if (is)
		let_go();
	return is;
}

// command makes the engine execute a command. It returns EBADF if the file is closed.
static int command(int fd, const void *b, size_t n)
{
	struct cm_file *f = hold(fd, fd);
	if (f == NULL)
		return EBADF;
	int code = ENGINE(f->device, write_cm, f->handle, (void *)(uintptr_t)b, n);
	let_go();
	return code;
}

// header_of returns the header of a command; one of no command if it is not complete.
static struct rdma_ucm_cmd_hdr header_of(const void *b, size_t n)
{
	struct rdma_ucm_cmd_hdr h = {.cmd = UINT32_MAX};
	if (n >= sizeof h)
		memcpy(&h, b, sizeof h);
	return h;
}

// takes_event reports whether a command of n bytes is a GET_EVENT that waits for an event. A
// GET_EVENT without room for the event is refused at once.
static bool takes_event(const struct rdma_ucm_cmd_hdr *h, size_t n)
{
	return h->cmd == RDMA_USER_CM_CMD_GET_EVENT && h->in >= sizeof(struct rdma_ucm_get_event) && h->in <= n - sizeof *h &&
	       h->out >= offsetof(struct rdma_ucm_event_resp, reserved);
}

// waiter is a thread that waits for an event, with its own copy of the descriptor. As in the
// kernel, the file then stays open while a thread sleeps on it, even if the program closes the
// descriptor and another file gets its number. A process at its limit of descriptors makes no
// copy: its threads look up the file again after each read.
struct waiter {
	int fd;
	bool copied;
	struct cm_file *file; // NULL: already closed
};

static struct waiter begin_wait(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	struct waiter w = {.fd = copy < 0 ? fd : copy, .copied = copy >= 0};
	struct cm_file *f = hold(fd, w.fd);
	if (f != NULL) {
		w.file = f;
		atomic_store(&f->taker, 0);
		let_go();
	}
	return w;
}

static void end_wait(void *p)
{
	const struct waiter *w = p;
	if (w->copied)
		close(w->fd);
}

// take_next makes the engine execute GET_EVENT.
static int take_next(const struct waiter *w, const void *b, size_t n)
{
	struct cm_file *f = w->copied ? w->file : hold(w->fd, w->fd);
	if (f == NULL)
		return EBADF;
	int code = ENGINE(f->device, write_cm, f->handle, (void *)(uintptr_t)b, n);
	if (code == 0)
		atomic_store(&f->taker, pthread_self());
	if (!w->copied)
		let_go();
	return code;
}

// wait_for_event executes GET_EVENT. Signals interrupt the wait as they interrupt any read. The
// event may be gone before the engine is asked for it; then the thread waits for the next one.
static int wait_for_event(const struct waiter *w, const void *b, size_t n)
{
	int code;
	do {
		char byte;
		ssize_t got = read(w->fd, &byte, 1);
		if (got != 1)
			return got == 0 ? EIO : errno;
		code = take_next(w, b, n);
	} while (code == SOFTHCA_CM_AGAIN);
	return code;
}

static int take_event(int fd, const void *b, size_t n)
{
	struct waiter w = begin_wait(fd);
	int code = EBADF;
	pthread_cleanup_push(end_wait, &w); // a waiting thread can be cancelled
	if (w.file != NULL)
		code = wait_for_event(&w, b, n);
	pthread_cleanup_pop(true);
	return code;
}

// away reports whether another thread has taken an event and does not wait for the next one yet.
// With forget, later calls no longer report that thread.
static bool away(int fd, bool forget)
{
	struct cm_file *f = hold(fd, fd);
	if (f == NULL)
		return false;
	pthread_t who = atomic_load(&f->taker);
	if (forget && who != 0)
		atomic_store(&f->taker, 0);
	let_go();
	return who != 0 && !pthread_equal(who, pthread_self());
}

// let_return waits briefly, after an ID was destroyed, for the thread that takes events to wait
// again. The kernel gives it that time because it sleeps while it destroys an ID. Programs close
// the file next: a thread that came later would find no file and end the program. let_return
// waits only once for a thread that does not return.
static void let_return(int fd)
{
	enum { LOOKS = 20 };
	const struct timespec pause = {.tv_nsec = 50000};
	int n = 0;
	while (away(fd, n == LOOKS) && n++ < LOOKS)
		nanosleep(&pause, NULL);
}

static bool write_file(int fd, const void *b, size_t n, ssize_t *result)
{
	struct cm_file *f = hold(fd, fd);
	if (f == NULL)
		return false;
	bool alive = !f->device->gone; // in the child of a fork the file's engine does not run
	let_go();
	const struct rdma_ucm_cmd_hdr h = header_of(b, n);
	int code = EIO;
	if (alive)
		code = takes_event(&h, n) ? take_event(fd, b, n) : command(fd, b, n);
	if (h.cmd == RDMA_USER_CM_CMD_DESTROY_ID)
		let_return(fd);
	*result = code == 0 ? (ssize_t)n : -1;
	if (code != 0)
		errno = code;
	return true;
}

// end_file closes a descriptor, or replaces it by a copy of from if from is not negative. If it was
// the last descriptor of its file, the engine has closed the file when end_file returns, as the
// kernel does. end_file does nothing and returns false for other files, in a child, whose files are
// the parent's, and in a fault handler that interrupts a writer of the lock. The caller then closes
// the descriptor itself, and the engine notices it a little later.
static bool end_file(int fd, int from, int flags, int *result)
{
	struct cm_file *f = owns_engine() ? hold(fd, fd) : NULL;
	if (f == NULL)
		return false;
	*result = (int)(from < 0 ? syscall(SYS_close, fd) : syscall(SYS_dup3, from, fd, flags));
	int why = errno;
	ENGINE(f->device, shut_cm, f->handle);
	errno = why;
	let_go();
	return true;
}

static bool close_file(int fd, int *result) { return end_file(fd, -1, 0, result); }

static bool replace_file(int from, int fd, int flags, int *result) { return from >= 0 && end_file(fd, from, flags, result); }

static const struct rdma_cm_calls calls = {.files = files, .max = MAX_FILES, .open = open_file, .is = is_cm, .write = write_file, .close = close_file,
	.replace = replace_file};

__attribute__((constructor)) static void tell_preload(void)
{
	void (*tell)(const struct rdma_cm_calls *) = dlsym(RTLD_DEFAULT, "softhca_tell_rdma_cm");
	if (tell != NULL)
		tell(&calls);
}

void check_unread_cm(void)
{
	if (manager == 0 || !lock_reading())
		return;
	for (int i = 0; i < MAX_FILES; i++) {
		const struct cm_file *f = atomic_load(&files[i]);
		struct pollfd p = {.fd = i, .events = POLLIN};
		if (is_file(f, i) && poll(&p, 1, 0) == 1 && p.revents & POLLIN)
			found(CM_EVENTS_NEVER_READ, CALLED({"channel created here", f->made}), "the program ends with events of rdma_cm that it has not read, in the channel with descriptor %d", i);
	}
	let_go();
}

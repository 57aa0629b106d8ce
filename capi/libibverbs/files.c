// The descriptors of the adapter. The engine marks each of its descriptors with a signal
// (F_SETSIG) that is never sent; keep_open marks those of the library. Before the program
// closes a descriptor, the preload library calls is_kept, and leaves a marked descriptor open.
#define _GNU_SOURCE
#include "softhca.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic pid_t owner; // the process that loaded the engine; 0: no engine

// owns_engine reports whether the calling process loaded the engine. A child does not,
// however it was made: vfork, _Fork and clone run no handlers of fork.
bool owns_engine(void) { return atomic_load_explicit(&owner, memory_order_relaxed) == getpid(); }

// is_marked reports whether a descriptor belongs to an engine or to the library, of this
// process or, in the child of a fork, of its parent. It takes one system call for an unmarked
// descriptor and two for a marked one.
bool is_marked(int fd)
{
	int had = errno;
	bool is = syscall(SYS_fcntl, fd, F_GETSIG) == SOFTHCA_MARK && (syscall(SYS_fcntl, fd, F_GETFL) & O_ASYNC) == 0;
	errno = had;
	return is;
}

// is_kept reports whether the program may not close a descriptor. A child may close those of
// its parent's engine.
static bool is_kept(int fd)
{
	return atomic_load_explicit(&owner, memory_order_relaxed) != 0 && is_marked(fd) && owns_engine();
}

// The standard descriptors. A program may have closed them, but libraries write to them and the
// shell reads from them.
enum { STANDARD = 3 };

// keep_open marks a descriptor and returns it. If it has the number of a standard descriptor,
// keep_open moves it to another number and returns that.
int keep_open(int fd)
{
	int high = fd >= 0 && fd < STANDARD ? fcntl(fd, F_DUPFD_CLOEXEC, STANDARD) : -1;
	if (high >= 0) {
		syscall(SYS_close, fd);
		fd = high;
	}
	fcntl(fd, F_SETSIG, SOFTHCA_MARK);
	return fd;
}

// close_kept closes a descriptor that the program could not close.
int close_kept(int fd) { return (int)syscall(SYS_close, fd); }

// watch_files gives is_kept to the preload library, if that is loaded.
void watch_files(void)
{
	void (*tell)(bool (*)(int)) = dlsym(RTLD_DEFAULT, "softhca_tell_files");
	atomic_store(&owner, getpid());
	if (tell != NULL)
		tell(is_kept);
}

void files_in_child(void) { atomic_store(&owner, 0); }

// hold_standard opens an empty file in memory for each standard descriptor that is closed, so
// that the adapter gets other numbers: the output of a library must not go to its sockets.
void hold_standard(struct standard *s)
{
	struct stat file = {0};
	int had = errno, closed = 0, fd = -1;
	memset(s, 0, sizeof *s);
	for (int i = 0; i < STANDARD; i++)
		closed += syscall(SYS_fcntl, i, F_GETFD) < 0;
	if (closed > 0)
		fd = memfd_create("softhca-standard", MFD_CLOEXEC);
	if (fd >= 0 && syscall(SYS_newfstatat, fd, "", &file, AT_EMPTY_PATH) == 0) {
		s->dev = file.st_dev, s->ino = file.st_ino;
		while (fd >= 0 && fd < STANDARD) {
			s->held[fd] = true;
			fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		}
	}
	if (fd >= 0)
		syscall(SYS_close, fd);
	errno = had;
}

// release_standard closes what hold_standard opened. A number that another thread has reused
// since stays open.
void release_standard(const struct standard *s)
{
	struct stat file;
	int had = errno;
	for (int i = 0; i < STANDARD; i++)
		if (s->held[i] && syscall(SYS_newfstatat, i, "", &file, AT_EMPTY_PATH) == 0 && file.st_dev == s->dev && file.st_ino == s->ino)
			syscall(SYS_close, i);
	errno = had;
}

// The descriptors of the adapter. The engine, and here keep_open, marks each with a signal
// (F_SETSIG) that is never sent. Before the program closes a descriptor, the preload library
// asks is_kept, and leaves a marked descriptor open.
#define _GNU_SOURCE
#include "softhca.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

// The mark. internal/fabric/fdmark defines the same number.
enum { MARK = 64 };

static _Atomic pid_t owner; // the process that loaded the engine; 0: no engine

// owns_engine reports whether the calling process loaded the engine. A child does not,
// however it was made: vfork, _Fork and clone run no handlers of fork.
bool owns_engine(void) { return atomic_load_explicit(&owner, memory_order_relaxed) == getpid(); }

// is_kept reports whether a descriptor is the engine's, or the library's own. A child may
// close those of its parent's engine. Only a marked descriptor costs more than one system call.
static bool is_kept(int fd)
{
	int had = errno;
	bool is = atomic_load_explicit(&owner, memory_order_relaxed) != 0 && syscall(SYS_fcntl, fd, F_GETSIG) == MARK &&
		(syscall(SYS_fcntl, fd, F_GETFL) & O_ASYNC) == 0 && owns_engine();
	errno = had;
	return is;
}

void keep_open(int fd) { fcntl(fd, F_SETSIG, MARK); }

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

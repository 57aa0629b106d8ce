// The descriptors of the adapter. The engine, and here keep_open, marks each with a signal
// (F_SETSIG) that is never sent. The preload library asks for the mark before the program
// closes a descriptor, and keeps those that have it open.
#define _GNU_SOURCE
#include "softhca.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

// The mark. internal/fabric/fdmark defines the same number.
enum { MARK = 64 };

static _Atomic bool loaded; // the process has an engine, whose descriptors matter

// is_kept reports whether a descriptor is the engine's, or the library's own. The child of
// a fork may close those of its parent's engine.
static bool is_kept(int fd)
{
	int had = errno;
	bool is = atomic_load_explicit(&loaded, memory_order_relaxed) && syscall(SYS_fcntl, fd, F_GETSIG) == MARK &&
		(syscall(SYS_fcntl, fd, F_GETFL) & O_ASYNC) == 0;
	errno = had;
	return is;
}

void keep_open(int fd) { fcntl(fd, F_SETSIG, MARK); }

// close_kept closes a descriptor that the program could not close.
int close_kept(int fd) { return (int)syscall(SYS_close, fd); }

// watch_files has the preload library ask.
void watch_files(void)
{
	void (*tell)(bool (*)(int)) = dlsym(RTLD_DEFAULT, "softhca_tell_files");
	atomic_store(&loaded, true);
	if (tell != NULL)
		tell(is_kept);
}

void files_in_child(void) { atomic_store(&loaded, false); }

// Functions that close descriptors. Those of the adapter stay open: programs close all
// descriptors that they do not know, and the adapter cannot work without its own. The
// program has not opened them, so it gets EBADF for them.

#define _GNU_SOURCE
#include "preload.h"

#include "netlink.h"
#include "next.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef bool (*is_adapters)(int fd);

// Called before a descriptor is closed: reports whether it is the adapter's.
TELL(files, is_adapters)

// kept reports whether a descriptor has to stay open.
static inline bool kept(int fd)
{
	const is_adapters f = told_files();

	return unlikely(f != NULL) && fd >= 0 && f(fd);
}

static int refuse(void)
{
	errno = EBADF;
	return -1;
}

#define CLOSE(name) \
	SHOWN int name(int fd) \
	{ \
		int result; \
		if (kept(fd)) \
			return refuse(); \
		close_epoll(fd); \
		if (close_rdma_cm(fd, &result) || close_netlink(fd, &result)) \
			return result; \
		return NEXT_CALL(name)(fd); \
	}

CLOSE(close)
CLOSE(__close)

#define DUP2(name) \
	SHOWN int name(int from, int to) \
	{ \
		int result; \
		if (from != to && kept(to)) \
			return refuse(); \
		if (from != to) \
			close_epoll(to); \
		return from != to && replace_rdma_cm(from, to, 0, &result) ? result : NEXT_CALL(name)(from, to); \
	}

DUP2(dup2)
DUP2(__dup2)

SHOWN int dup3(int from, int to, int flags)
{
	int result;

	if (kept(to))
		return refuse();
	close_epoll(to);
	return replace_rdma_cm(from, to, flags, &result) ? result : NEXT_CALL(dup3)(from, to, flags);
}

// end closes a descriptor of a range.
static void end(int fd)
{
	int none;

	if (kept(fd))
		return;
	close_epoll(fd);
	if (!close_rdma_cm(fd, &none))
		syscall(SYS_close, fd);
}

// A directory entry as the kernel writes it.
struct entry {
	uint64_t ino, off;
	uint16_t size;
	uint8_t type;
	char name[];
};

// The adapter has no descriptors from this number on: it is the kernel's default of the
// maximum limit of descriptors, and the kernel assigns the lowest free number.
enum { MOST = 1 << 20 };

// end_gap closes a range without descriptors of the adapter.
static void end_gap(unsigned from, unsigned to)
{
	if (from > to || syscall(SYS_close_range, from, to, 0) == 0)
		return;
	for (unsigned fd = from; fd <= to && fd < MOST; fd++)
		syscall(SYS_close, fd);
}

// end_unlisted closes the descriptors of a range without a list of them. The limit of
// descriptors is not an upper bound: the program may have lowered it.
static void end_unlisted(unsigned from, unsigned to)
{
	int none;

	for (unsigned fd = from; fd <= to && fd < MOST; fd++) {
		if (kept((int)fd)) {
			if (fd > from)
				end_gap(from, fd - 1);
			from = fd + 1;
		} else {
			close_rdma_cm((int)fd, &none);
		}
	}
	end_gap(from, to);
}

// end_all closes the descriptors of a range.
static void end_all(unsigned from, unsigned to)
{
	_Alignas(struct entry) char b[1024];
	const int dir = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long n;

	if (dir < 0) {
		end_unlisted(from, to);
		return;
	}
	while ((n = syscall(SYS_getdents64, dir, b, sizeof b)) > 0) {
		for (long at = 0; at < n; at += ((struct entry *)(b + at))->size) {
			const char *name = ((struct entry *)(b + at))->name;
			const unsigned fd = (unsigned)strtoul(name, NULL, 10);
			if (name[0] != '.' && fd >= from && fd <= to && (int)fd != dir)
				end((int)fd);
		}
	}
	syscall(SYS_close, dir);
	if (n < 0)
		end_unlisted(from, to);
}

SHOWN int close_range(unsigned from, unsigned to, int flags)
{
	// With CLOSE_RANGE_CLOEXEC only exec closes descriptors, also those of the
	// adapter.
	if (likely(told_files() == NULL) || (flags & CLOSE_RANGE_CLOEXEC) != 0)
		return (int)syscall(SYS_close_range, from, to, flags);
	if (from > to || (flags & ~CLOSE_RANGE_UNSHARE) != 0) {
		errno = EINVAL;
		return -1;
	}
	if ((flags & CLOSE_RANGE_UNSHARE) != 0 && unshare(CLONE_FILES) != 0)
		return -1;
	end_all(from, to);
	return 0;
}

SHOWN void closefrom(int from)
{
	const int had = errno;
	const unsigned first = from < 0 ? 0 : (unsigned)from;

	if (told_files() != NULL || syscall(SYS_close_range, first, UINT_MAX, 0) != 0)
		end_all(first, UINT_MAX);
	errno = had;
}

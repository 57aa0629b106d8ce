// /dev/infiniband/rdma_cm: libibverbs implements the connection manager; this library
// passes it the program's calls on its descriptors.

#define _GNU_SOURCE
#include "rdma_cm.h"

#include "netlink.h"
#include "next.h"
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

typedef const struct rdma_cm_calls *rdma_cm_calls;

TELL(rdma_cm, rdma_cm_calls)

int open_rdma_cm(int flags)
{
	const rdma_cm_calls calls = told_rdma_cm();

	if (calls != NULL)
		return calls->open(flags);
	errno = ENXIO;
	return -1;
}

// suspected returns the functions to call for a descriptor, NULL if it cannot be
// one of the device. For most calls this check is the only cost.
static inline const struct rdma_cm_calls *suspected(int fd)
{
	const rdma_cm_calls calls = told_rdma_cm();

	if (calls == NULL || fd < 0 || fd >= calls->max)
		return NULL;
	return unlikely(atomic_load_explicit(&calls->files[fd], memory_order_relaxed) != NULL) ? calls : NULL;
}

bool close_rdma_cm(int fd, int *result)
{
	const struct rdma_cm_calls *calls = suspected(fd);

	return unlikely(calls != NULL) && calls->close(fd, result);
}

bool replace_rdma_cm(int from, int to, int flags, int *result)
{
	const struct rdma_cm_calls *calls = suspected(to);

	return unlikely(calls != NULL) && calls->replace(from, to, flags, result);
}

SHOWN ssize_t write(int fd, const void *b, size_t n)
{
	const struct rdma_cm_calls *calls = suspected(fd);
	ssize_t result;

	if (unlikely(calls != NULL) && calls->write(fd, b, n, &result))
		return result;
	if (any_netlink() && write_netlink(fd, b, n, &result))
		return result;
	return NEXT_CALL(write)(fd, b, n);
}

// as_device makes the stat of a device's descriptor that of a character device, with the number
// that netlink (answer.c) and sysfs have.
static COLD void as_device(const struct rdma_cm_calls *calls, int fd, struct stat *s)
{
	if (!calls->is(fd))
		return;
	s->st_mode = DEVICE_MODE;
	s->st_rdev = makedev(MISC_MAJOR, RDMA_CM_MINOR);
	s->st_size = 0;
}

#define FSTAT(name, parameters, arguments) \
	SHOWN int name parameters \
	{ \
		const struct rdma_cm_calls *calls = suspected(fd); \
		const int result = NEXT_CALL(name) arguments; \
		if (unlikely(calls != NULL) && result == 0) \
			as_device(calls, fd, (struct stat *)s); \
		return result; \
	}

FSTAT(fstat, (int fd, struct stat *s), (fd, s))
FSTAT(fstat64, (int fd, struct stat64 *s), (fd, s))
FSTAT(__fxstat, (int version, int fd, struct stat *s), (version, fd, s))
FSTAT(__fxstat64, (int version, int fd, struct stat64 *s), (version, fd, s))

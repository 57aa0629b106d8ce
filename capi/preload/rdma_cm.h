// The calls that libibverbs, which implements the connection manager, registers by
// softhca_tell_rdma_cm with the preload library, which redirects the path and the descriptors of
// /dev/infiniband/rdma_cm.

#ifndef SOFTHCA_RDMA_CM_H
#define SOFTHCA_RDMA_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct rdma_cm_calls {
	// By descriptor number: not NULL if it may be one of the device.
	void *_Atomic *files;
	int max;

	// open returns a descriptor, or -1 with errno.
	int (*open)(int flags);
	// is reports whether a descriptor is one of the device.
	bool (*is)(int fd);
	// write executes a command written to a descriptor; false if it is another
	// file's.
	bool (*write)(int fd, const void *b, size_t n, ssize_t *result);
	// close closes a descriptor, and its IDs and connections; false if it is another file's.
	bool (*close)(int fd, int *result);
	// replace closes a descriptor and makes it a copy of another, as dup3 does.
	bool (*replace)(int from, int fd, int flags, int *result);
};

#endif

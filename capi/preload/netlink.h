// Netlink sockets for RDMA, which this library answers instead of the kernel.

#ifndef SOFTHCA_NETLINK_H
#define SOFTHCA_NETLINK_H

#include "preload.h"

#include <sys/types.h>

// The number of such sockets. For a program without one this check is the only cost.
extern atomic_int netlink_sockets;

static inline bool any_netlink(void) { return unlikely(atomic_load_explicit(&netlink_sockets, memory_order_relaxed) > 0); }

// close_netlink closes a descriptor of such a socket, and write_netlink writes to it; false if it
// is another file's.
bool close_netlink(int fd, int *result);
bool write_netlink(int fd, const void *b, size_t n, ssize_t *result);

#endif

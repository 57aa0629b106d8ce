// The preload library shows an adapter in /sys/class/infiniband and
// /dev/infiniband: it redirects paths below these into the sysfs image, whose root
// is in the environment variable SOFTHCA_SYSFS, and shows the current values of
// counters. It changes no other paths, and handles no descriptors except those of
// /dev/infiniband/rdma_cm, netlink sockets for RDMA and the adapter's own.
//
// Reading order: path.c (the redirected paths), value.c (files whose text is made when they
// are opened, devices) over board.c (counters), next.c (the C library's functions), and the functions that replace
// them: open.c, status.c, name.c. rdma_cm.c handles the device of the connection manager
// and its descriptors; epoll.c shows libibverbs the program's epoll sets; close.c keeps the adapter's descriptors open; handler.c, cancel.c
// and exit.c report other calls of the program to libibverbs. netlink.c answers netlink sockets
// for RDMA: answer.c (requests), device.c (adapters), objects.c over table.c (what processes do
// with them), message.c (attributes).
//
// Nothing here allocates memory, takes a lock or has state that a fork could
// leave inconsistent, unless the C library's own function does. Functions work
// before the library's constructor ran.

#ifndef SOFTHCA_PRELOAD_H
#define SOFTHCA_PRELOAD_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define SHOWN __attribute__((visibility("default")))
#define COLD __attribute__((noinline, cold))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

// TELL defines softhca_tell_NAME, by which libibverbs registers what this library calls, and
// told_NAME, which returns that; NULL if there is none.
#define TELL(name, type) \
	static _Atomic(type) given_##name; \
	SHOWN void softhca_tell_##name(type what) { atomic_store_explicit(&given_##name, what, memory_order_release); } \
	static inline type told_##name(void) { return atomic_load_explicit(&given_##name, memory_order_acquire); }

typedef void (*call_before)(void);

// The longest root of an image, and of a path in it.
enum { ROOT_MAX = 512, IMAGE_PATH_MAX = ROOT_MAX + PATH_MAX };

// Whether a path is redirected into the image; see path.c.
enum way {
	WAY_PAST, // not redirected: the C library gets the path as it is
	WAY_INTO, // redirected
	WAY_LOST  // too long to redirect: ENAMETOOLONG
};

// redirect writes the path in the image to which a path is redirected.
enum way redirect(int dirfd, const char *path, char image_path[IMAGE_PATH_MAX]);

// suspect reports whether redirect has to look at a path. For most paths of a
// program this check is the only cost.
static inline bool suspect(const char *path)
{
	if (unlikely(path == NULL))
		return false;
	const char *p = path[0] == '/' ? path + 1 : path;
	switch (p[0]) {
	case 's':
		return p[1] == 'y' && p[2] == 's';
	case 'd':
		return p[1] == 'e' && p[2] == 'v';
	case 'c':
		return p[1] == 'l' && p[2] == 'a' && p == path;
	case 'i':
		return p[1] == 'n' && p[2] == 'f' && p == path;
	case '/':
		return true;
	case '.':
		return p[1] == '/';
	default:
		return false;
	}
}

// LEAD redirects the path of a function, which then passes the new path to the
// function of the C library; if the path is too long, the function returns
// failure.
#define LEAD(dirfd, failure) \
	char image_path[IMAGE_PATH_MAX]; \
	const enum way way = suspect(path) ? redirect(dirfd, path, image_path) : WAY_PAST; \
	if (unlikely(way == WAY_LOST)) \
		return failure; \
	if (unlikely(way == WAY_INTO)) \
		path = image_path;

// LED replaces a function that needs only another path, and returns -1 on failure.
#define LED(type, name, dirfd, parameters, arguments) \
	SHOWN type name parameters \
	{ \
		LEAD(dirfd, -1) \
		return NEXT_CALL(name) arguments; \
	}

// Whether the process has opened a directory of the image, or has it as its working
// directory. Then relative paths may be in the image too.
bool been_inside(void);
void went_inside(void);

// image_root returns the root of the image, "" if there is none, in the
// caller's room if it is not stored yet.
const char *image_root(char room[ROOT_MAX]);

// without_root removes the root from the front of a path.
void without_root(char *path);

// decimal writes a number, without a NUL, and returns the end of it.
char *decimal(char *to, uint64_t n);

// number reads a decimal number and moves p behind it; false if there is none.
bool number(const char **p, uint64_t *n);

// read_boards reads the words of the boards of a device that a spec names, N,P,Q:A+B+..., and moves
// the spec behind them (internal/sysfs/words.go). It returns the sum over all boards, and the least sum
// of the board of a running process; false if the spec is malformed or the image has no such words.
bool read_boards(const char **spec, uint64_t *total, uint64_t *least);

// in_image reports whether an open file is in the image.
bool in_image(int fd);

// present returns the result of opening a file of the image for reading: fd, or
// a file with the current value in its place; for a device, which has no driver,
// it closes fd and returns -1 with errno.
int present(int fd, int flags);

// patch_device_stat patches the stat of a file that represents a device into that of a
// character device.
void patch_device_stat(struct stat *s);
bool stands_for_device(unsigned mode, unsigned long long dev);
unsigned long long device_number(unsigned long long size);

// Device numbers. The size of a file that represents a verbs device is added to the
// first minor number of the verbs; that of rdma_cm's file is its minor number.
enum {
	DEVICE_MODE = S_IFCHR | 0666,
	DEVICE_MAJOR = 231,
	DEVICE_MINOR = 192,
	MISC_MAJOR = 10,
	RDMA_CM_MINOR = 121,
};

// open_rdma_cm opens the device of the connection manager: ENXIO if the program has
// not loaded libibverbs.
int open_rdma_cm(int flags);

// close_rdma_cm closes a descriptor of the connection manager; false if it is another file's.
bool close_rdma_cm(int fd, int *result);

// replace_rdma_cm is dup3 onto a descriptor of the connection manager; false if it is another file's.
bool replace_rdma_cm(int from, int to, int flags, int *result);

// close_epoll reports that a descriptor will be closed.
void close_epoll(int fd);

// open_redirected opens a path if it is redirected into the image; false if it is not.
// Only such functions have a path buffer on their stack. The functions that the program
// calls have none, because its stack may be small.
bool open_redirected(int dirfd, const char *path, int flags, int *fd);

#endif

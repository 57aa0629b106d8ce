/* What a program sees of an adapter in /sys/class/infiniband and
 * /dev/infiniband: this library, preloaded, redirects paths below these into the
 * sysfs image whose root the environment variable SOFTHCA_SYSFS names, and shows
 * the present values of counters. It changes no other paths, and no descriptors but
 * those of /dev/infiniband/rdma_cm.
 *
 * Reading order: path.c (the redirected paths), value.c (files whose text is
 * made when they are opened, devices), next.c (the C library's functions), and
 * the functions that take their place: open.c, status.c, name.c. rdma_cm.c has the
 * device of the connection manager, and its descriptors; close.c keeps those of the adapter
 * open; handler.c, cancel.c and exit.c have nothing to do with descriptors or paths.
 *
 * Nothing here allocates memory, takes a lock or keeps what a fork could leave
 * half done, except that the C library's own function does so. Functions work
 * before the library's constructor ran. */

#ifndef SOFTHCA_PRELOAD_H
#define SOFTHCA_PRELOAD_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define SHOWN __attribute__((visibility("default")))
#define COLD __attribute__((noinline, cold))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* The longest root of an image, and of a path in it. */
enum { ROOT_MAX = 512, LED_MAX = ROOT_MAX + PATH_MAX };

/* Whether a path is redirected into the image; see path.c. */
enum way {
	WAY_PAST, /* it is not about RDMA: the C library has it */
	WAY_INTO, /* it was led there */
	WAY_LOST  /* it would be, but is too long: errno says so */
};

/* lead writes the path in the image to which a path is redirected. */
enum way lead(int dirfd, const char *path, char led[LED_MAX]);

/* suspect reports whether lead has to look at a path. It is all that most paths
 * of a program cost. */
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

/* LEAD has the path of a function that returns failure if it is lost; the function
 * of the C library gets the path that it leads to. */
#define LEAD(dirfd, failure) \
	char led[LED_MAX]; \
	const enum way way = suspect(path) ? lead(dirfd, path, led) : WAY_PAST; \
	if (unlikely(way == WAY_LOST)) \
		return failure; \
	if (unlikely(way == WAY_INTO)) \
		path = led;

/* Whether the process has been in the image: it has opened a directory there,
 * or has it as its working directory. Then names without a path may be there too. */
bool been_inside(void);
void went_inside(void);

/* picture_root returns the root of the image, "" if there is none, in room of
 * the caller where it is not kept yet. */
const char *picture_root(char room[ROOT_MAX]);

/* without_root removes the root from the front of a path. */
void without_root(char *path);

/* in_picture reports whether an open file is in the image. */
bool in_picture(int fd);

/* present returns what a program gets that has opened a file of the image for
 * reading: fd, or in its place a file with the present value; -1 with errno, and
 * fd closed, for a device, which has no driver. */
int present(int fd, int flags);

/* dress turns the stat of a file that stands for a device into that of a device. */
void dress(struct stat *s);
bool stands_for_device(unsigned mode, unsigned long long dev);
unsigned long long device_number(unsigned long long size);

/* The numbers of devices: the size of the file that stands for one counts on from the
 * first of the verbs or, if it is that of rdma_cm, is its minor number. */
enum {
	DEVICE_MODE = S_IFCHR | 0666,
	DEVICE_MAJOR = 231,
	DEVICE_MINOR = 192,
	MISC_MAJOR = 10,
	RDMA_CM_MINOR = 121,
};

/* open_rdma_cm opens the device of the connection manager: ENXIO if there is none, for
 * the program has no libibverbs. */
int open_rdma_cm(int flags);

/* close_rdma_cm closes a descriptor of the connection manager; false if it is another file's. */
bool close_rdma_cm(int fd, int *result);

/* replace_rdma_cm is dup3 onto a descriptor of the connection manager; false if it is another file's. */
bool replace_rdma_cm(int from, int to, int flags, int *result);

/* open_led opens a path if it is redirected into the image; false if it is not. The
 * buffer for a path is on the stack of such functions alone, not of those that the
 * program calls: it may have little. */
bool open_led(int dirfd, const char *path, int flags, int *fd);

#endif

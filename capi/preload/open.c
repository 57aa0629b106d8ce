// Functions that open files and directories.

#define _GNU_SOURCE
#include "preload.h"

#include "next.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// Files of the image cannot be written or created, as nearly all files of the
// real sysfs.
static int refuse_writing(const char *image_path, int flags)
{
	struct stat s;

	if (syscall(SYS_newfstatat, AT_FDCWD, image_path, &s, 0) != 0)
		errno = (flags & O_CREAT) != 0 && errno == ENOENT ? EACCES : errno;
	else
		errno = stands_for_device(s.st_mode, s.st_dev) ? ENXIO : S_ISDIR(s.st_mode) ? EISDIR : EACCES;
	return -1;
}

// is_rdma_cm reports whether a path is that of the file that represents the connection
// manager.
static bool is_rdma_cm(const char *image_path)
{
	struct stat s;

	return syscall(SYS_newfstatat, AT_FDCWD, image_path, &s, 0) == 0 && stands_for_device(s.st_mode, s.st_dev) && s.st_size == RDMA_CM_MINOR;
}

static int open_in_image(const char *image_path, int flags)
{
	struct stat s;

	if ((flags & (O_PATH | O_DIRECTORY)) == 0 && is_rdma_cm(image_path))
		return open_rdma_cm(flags);
	if ((flags & O_CREAT) != 0 || ((flags & O_ACCMODE) != O_RDONLY && (flags & O_PATH) == 0))
		return refuse_writing(image_path, flags);
	const int fd = (int)syscall(SYS_openat, AT_FDCWD, image_path, flags & ~O_TRUNC, 0);
	if (fd < 0)
		return -1;
	if (syscall(SYS_newfstatat, fd, "", &s, AT_EMPTY_PATH) == 0 && S_ISDIR(s.st_mode))
		went_inside();
	return present(fd, flags);
}

COLD bool open_redirected(int dirfd, const char *path, int flags, int *fd)
{
	char image_path[IMAGE_PATH_MAX];
	const enum way way = redirect(dirfd, path, image_path);

	*fd = way == WAY_INTO ? open_in_image(image_path, flags) : -1;
	return way != WAY_PAST;
}

// opened handles a file opened by a path that was not redirected. A process whose
// working directory is, or was, in the image may have opened a file of the image
// by a relative path.
static inline int opened(int fd, const char *path, int flags)
{
	if (likely(!been_inside()) || fd < 0 || path[0] == '/' || (flags & O_ACCMODE) != O_RDONLY)
		return fd;
	return in_image(fd) ? present(fd, flags) : fd;
}

// OPEN replaces a function that opens files. last reads the mode argument of the functions that can
// create files.
#define OPEN(name, dirfd, last, parameters, arguments) \
	SHOWN int name parameters \
	{ \
		int fd; \
		last \
		if (unlikely(suspect(path)) && open_redirected(dirfd, path, flags, &fd)) \
			return fd; \
		return opened(NEXT_CALL(name) arguments, path, flags); \
	}

#define MODE \
	mode_t mode = 0; \
	if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) { \
		va_list list; \
		va_start(list, flags); \
		mode = va_arg(list, mode_t); \
		va_end(list); \
	}

OPEN(open, AT_FDCWD, MODE, (const char *path, int flags, ...), (path, flags, mode))
OPEN(open64, AT_FDCWD, MODE, (const char *path, int flags, ...), (path, flags, mode))
OPEN(__open, AT_FDCWD, MODE, (const char *path, int flags, ...), (path, flags, mode))
OPEN(__open64, AT_FDCWD, MODE, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, dirfd, MODE, (int dirfd, const char *path, int flags, ...), (dirfd, path, flags, mode))
OPEN(openat64, dirfd, MODE, (int dirfd, const char *path, int flags, ...), (dirfd, path, flags, mode))

// Variants for programs compiled with _FORTIFY_SOURCE.
OPEN(__open_2, AT_FDCWD, , (const char *path, int flags), (path, flags))
OPEN(__open64_2, AT_FDCWD, , (const char *path, int flags), (path, flags))
OPEN(__openat_2, dirfd, , (int dirfd, const char *path, int flags), (dirfd, path, flags))
OPEN(__openat64_2, dirfd, , (int dirfd, const char *path, int flags), (dirfd, path, flags))

// fopen_redirected is open_redirected for streams. It also opens a relative path into the image,
// because a stream that fopen has opened cannot be replaced.
static COLD bool fopen_redirected(const char *path, const char *mode, FILE **file)
{
	int fd, flags = mode[0] != 'r' || strchr(mode, '+') != NULL ? O_RDWR : O_RDONLY;

	if (strchr(mode, 'e') != NULL)
		flags |= O_CLOEXEC;
	if (!open_redirected(AT_FDCWD, path, flags, &fd)) {
		if (!been_inside() || path[0] == '/' || flags & O_RDWR)
			return false;
		// O_PATH identifies the file without opening it: opening, for example a
		// FIFO, could wake another process.
		fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_PATH | O_CLOEXEC, 0);
		if (fd < 0)
			return false;
		const bool inside = in_image(fd);
		syscall(SYS_close, fd);
		if (!inside)
			return false;
		fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0);
		if (fd >= 0)
			fd = present(fd, flags);
	}
	*file = fd < 0 ? NULL : fdopen(fd, mode);
	if (fd >= 0 && *file == NULL)
		syscall(SYS_close, fd);
	return true;
}

#define FOPEN(name) \
	SHOWN FILE *name(const char *path, const char *mode) \
	{ \
		FILE *file; \
		if (unlikely(suspect(path) || been_inside()) && fopen_redirected(path, mode, &file)) \
			return file; \
		return NEXT_CALL(name)(path, mode); \
	}

FOPEN(fopen)
FOPEN(fopen64)

SHOWN DIR *opendir(const char *path)
{
	LEAD(AT_FDCWD, NULL)
	if (unlikely(way == WAY_INTO))
		went_inside();
	return NEXT_CALL(opendir)(path);
}

typedef int selector(const struct dirent *);
typedef int sorter(const struct dirent **, const struct dirent **);
typedef int selector64(const struct dirent64 *);
typedef int sorter64(const struct dirent64 **, const struct dirent64 **);

LED(int, scandir, AT_FDCWD, (const char *path, struct dirent ***names, selector *choose, sorter *compare),
	(path, names, choose, compare))
LED(int, scandir64, AT_FDCWD, (const char *path, struct dirent64 ***names, selector64 *choose, sorter64 *compare),
	(path, names, choose, compare))
LED(int, scandirat, dirfd, (int dirfd, const char *path, struct dirent ***names, selector *choose, sorter *compare),
	(dirfd, path, names, choose, compare))
LED(int, scandirat64, dirfd, (int dirfd, const char *path, struct dirent64 ***names, selector64 *choose, sorter64 *compare),
	(dirfd, path, names, choose, compare))

static void close_directory(void *directory) { closedir(directory); }

// glob uses this library's functions, so it returns the paths that the program
// knows.
#define GLOB(name, type) \
	SHOWN int name(const char *pattern, int flags, int (*failed)(const char *, int), type *found) \
	{ \
		char image_path[IMAGE_PATH_MAX]; \
		if ((flags & GLOB_ALTDIRFUNC) != 0 || !suspect(pattern) || redirect(AT_FDCWD, pattern, image_path) != WAY_INTO) \
			return NEXT_CALL(name)(pattern, flags, failed, found); \
		found->gl_opendir = (void *(*)(const char *))opendir; \
		found->gl_readdir = (__typeof__(found->gl_readdir))readdir; \
		found->gl_closedir = close_directory; \
		found->gl_stat = (__typeof__(found->gl_stat))stat; \
		found->gl_lstat = (__typeof__(found->gl_lstat))lstat; \
		const int result = NEXT_CALL(name)(pattern, flags | GLOB_ALTDIRFUNC, failed, found); \
		found->gl_flags &= ~GLOB_ALTDIRFUNC; \
		return result; \
	}

GLOB(glob, glob_t)
GLOB(glob64, glob64_t)

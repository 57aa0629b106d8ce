// Functions whose results are paths, and the working directory.

#define _GNU_SOURCE
#include "preload.h"

#include "next.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

static COLD bool readlink_redirected(int dirfd, const char *path, char *target, size_t size, ssize_t *result)
{
	char image_path[IMAGE_PATH_MAX];
	const enum way way = redirect(dirfd, path, image_path);

	if (way == WAY_INTO)
		*result = syscall(SYS_readlinkat, AT_FDCWD, image_path, target, size);
	return way != WAY_PAST;
}

#define READLINK(name, dirfd, parameters, arguments) \
	SHOWN ssize_t name parameters \
	{ \
		ssize_t result = -1; \
		if (unlikely(suspect(path)) && readlink_redirected(dirfd, path, target, size, &result)) \
			return result; \
		return NEXT_CALL(name) arguments; \
	}

READLINK(readlink, AT_FDCWD, (const char *path, char *target, size_t size), (path, target, size))
READLINK(readlinkat, dirfd, (int dirfd, const char *path, char *target, size_t size), (dirfd, path, target, size))

// Variants for programs compiled with _FORTIFY_SOURCE: the C library ends the program
// if the size exceeds the buffer.
#define READLINK_CHK(name, dirfd, parameters, arguments) \
	SHOWN ssize_t name parameters \
	{ \
		ssize_t result = -1; \
		if (unlikely(suspect(path)) && size <= room && readlink_redirected(dirfd, path, target, size, &result)) \
			return result; \
		return NEXT_CALL(name) arguments; \
	}

READLINK_CHK(__readlink_chk, AT_FDCWD, (const char *path, char *target, size_t size, size_t room), (path, target, size, room))
READLINK_CHK(__readlinkat_chk, dirfd, (int dirfd, const char *path, char *target, size_t size, size_t room),
	     (dirfd, path, target, size, room))

// A path in the image is translated back to the path that the program knows.
#define REALPATH(name, parameters, arguments) \
	SHOWN char *name parameters \
	{ \
		LEAD(AT_FDCWD, NULL) \
		char *result = NEXT_CALL(name) arguments; \
		if (unlikely(way == WAY_INTO || been_inside()) && result != NULL) \
			without_root(result); \
		return result; \
	}

REALPATH(realpath, (const char *path, char *resolved), (path, resolved))
REALPATH(__realpath_chk, (const char *path, char *resolved, size_t room), (path, resolved, room))
REALPATH(canonicalize_file_name, (const char *path), (path))

SHOWN int chdir(const char *path)
{
	char image_path[IMAGE_PATH_MAX];
	const enum way way = suspect(path) ? redirect(AT_FDCWD, path, image_path) : WAY_PAST;

	if (likely(way == WAY_PAST))
		return NEXT_CALL(chdir)(path);
	if (way == WAY_LOST || syscall(SYS_chdir, image_path) != 0)
		return -1;
	went_inside();
	return 0;
}

#define GETCWD(name, parameters, arguments) \
	SHOWN char *name parameters \
	{ \
		char *result = NEXT_CALL(name) arguments; \
		if (unlikely(been_inside()) && result != NULL) \
			without_root(result); \
		return result; \
	}

GETCWD(getcwd, (char *path, size_t size), (path, size))
GETCWD(__getcwd_chk, (char *path, size_t size, size_t room), (path, size, room))

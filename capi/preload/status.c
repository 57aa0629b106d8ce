// The stat functions. On 64-bit systems stat64 and dirent64 have the same
// layout as stat and dirent.

#define _GNU_SOURCE
#include "preload.h"

#include "next.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

_Static_assert(sizeof(long) == 8 && sizeof(struct stat) == sizeof(struct stat64), "softhca needs a system of 64 bits");

// stat_redirected is stat for a path that is redirected into the image.
static COLD bool stat_redirected(int dirfd, const char *path, void *status, int flags, int *result)
{
	char image_path[IMAGE_PATH_MAX];
	const enum way way = redirect(dirfd, path, image_path);

	if (way == WAY_INTO)
		*result = (int)syscall(SYS_newfstatat, AT_FDCWD, image_path, status, flags & AT_SYMLINK_NOFOLLOW);
	if (*result == 0)
		patch_device_stat(status);
	return way != WAY_PAST;
}

// patched patches the result of a call that may have reached the image by a relative
// path.
static inline int patched(int result, void *status)
{
	if (unlikely(been_inside()) && result == 0)
		patch_device_stat(status);
	return result;
}

#define STATUS(name, dirfd, flags, parameters, arguments) \
	SHOWN int name parameters \
	{ \
		int result = -1; \
		if (unlikely(suspect(path)) && stat_redirected(dirfd, path, s, flags, &result)) \
			return result; \
		return patched(NEXT_CALL(name) arguments, s); \
	}

STATUS(stat, AT_FDCWD, 0, (const char *path, struct stat *s), (path, s))
STATUS(stat64, AT_FDCWD, 0, (const char *path, struct stat64 *s), (path, s))
STATUS(lstat, AT_FDCWD, AT_SYMLINK_NOFOLLOW, (const char *path, struct stat *s), (path, s))
STATUS(lstat64, AT_FDCWD, AT_SYMLINK_NOFOLLOW, (const char *path, struct stat64 *s), (path, s))
STATUS(fstatat, dirfd, flags, (int dirfd, const char *path, struct stat *s, int flags), (dirfd, path, s, flags))
STATUS(fstatat64, dirfd, flags, (int dirfd, const char *path, struct stat64 *s, int flags), (dirfd, path, s, flags))

// Variants for programs compiled for older C libraries.
STATUS(__xstat, AT_FDCWD, 0, (int version, const char *path, struct stat *s), (version, path, s))
STATUS(__xstat64, AT_FDCWD, 0, (int version, const char *path, struct stat64 *s), (version, path, s))
STATUS(__lxstat, AT_FDCWD, AT_SYMLINK_NOFOLLOW, (int version, const char *path, struct stat *s), (version, path, s))
STATUS(__lxstat64, AT_FDCWD, AT_SYMLINK_NOFOLLOW, (int version, const char *path, struct stat64 *s), (version, path, s))
STATUS(__fxstatat, dirfd, flags, (int version, int dirfd, const char *path, struct stat *s, int flags), (version, dirfd, path, s, flags))
STATUS(__fxstatat64, dirfd, flags, (int version, int dirfd, const char *path, struct stat64 *s, int flags), (version, dirfd, path, s, flags))

static COLD bool statx_redirected(int dirfd, const char *path, int flags, unsigned mask, struct statx *s, int *result)
{
	char image_path[IMAGE_PATH_MAX];
	struct stat plain;
	const enum way way = redirect(dirfd, path, image_path);

	if (way == WAY_INTO)
		*result = (int)syscall(SYS_statx, AT_FDCWD, image_path, flags, mask, s);
	if (*result == 0 && syscall(SYS_newfstatat, AT_FDCWD, image_path, &plain, AT_SYMLINK_NOFOLLOW) == 0 &&
	    stands_for_device(plain.st_mode, plain.st_dev)) {
		s->stx_mode = DEVICE_MODE;
		s->stx_rdev_major = major(device_number((unsigned long long)plain.st_size));
		s->stx_rdev_minor = minor(device_number((unsigned long long)plain.st_size));
		s->stx_size = 0;
	}
	return way != WAY_PAST;
}

SHOWN int statx(int dirfd, const char *path, int flags, unsigned mask, struct statx *s)
{
	int result = -1;

	if (unlikely(suspect(path)) && statx_redirected(dirfd, path, flags, mask, s, &result))
		return result;
	return NEXT_CALL(statx)(dirfd, path, flags, mask, s);
}

static COLD bool access_redirected(int dirfd, const char *path, int wanted, int *result)
{
	char image_path[IMAGE_PATH_MAX];
	struct stat s;
	const enum way way = redirect(dirfd, path, image_path);

	if (way == WAY_INTO && (wanted & W_OK) != 0 && syscall(SYS_newfstatat, AT_FDCWD, image_path, &s, 0) == 0 && stands_for_device(s.st_mode, s.st_dev))
		wanted &= ~W_OK; // all users may write to the device, but not to the file that represents it
	if (way == WAY_INTO)
		*result = (int)syscall(SYS_faccessat, AT_FDCWD, image_path, wanted);
	return way != WAY_PAST;
}

#define ACCESS(name, dirfd, parameters, arguments) \
	SHOWN int name parameters \
	{ \
		int result = -1; \
		if (unlikely(suspect(path)) && access_redirected(dirfd, path, wanted, &result)) \
			return result; \
		return NEXT_CALL(name) arguments; \
	}

ACCESS(access, AT_FDCWD, (const char *path, int wanted), (path, wanted))
ACCESS(euidaccess, AT_FDCWD, (const char *path, int wanted), (path, wanted))
ACCESS(eaccess, AT_FDCWD, (const char *path, int wanted), (path, wanted))
ACCESS(faccessat, dirfd, (int dirfd, const char *path, int wanted, int flags), (dirfd, path, wanted, flags))

// Programs that list files read these too, and report the file as missing if that
// fails.
LED(ssize_t, getxattr, AT_FDCWD, (const char *path, const char *attr, void *value, size_t size), (path, attr, value, size))
LED(ssize_t, lgetxattr, AT_FDCWD, (const char *path, const char *attr, void *value, size_t size), (path, attr, value, size))
LED(ssize_t, listxattr, AT_FDCWD, (const char *path, char *list, size_t size), (path, list, size))
LED(ssize_t, llistxattr, AT_FDCWD, (const char *path, char *list, size_t size), (path, list, size))

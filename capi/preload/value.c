// Files of the image that programs do not get as they are: values, which are
// computed when the file is opened, and devices.

#define _GNU_SOURCE
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

// The longest spec of a value, and the longest text of one.
enum { SPEC_MAX = 256, VALUE_MAX = 64 };

// A file that represents a device is a regular file with the sticky bit, which
// has no other meaning there. Its size is the number of the device.
bool stands_for_device(unsigned mode, unsigned long long dev)
{
	char room[ROOT_MAX];
	const char *top;
	struct stat s;

	if (likely((mode & (S_IFMT | S_ISVTX)) != (S_IFREG | S_ISVTX)))
		return false;
	top = image_root(room);
	return *top != '\0' && syscall(SYS_newfstatat, AT_FDCWD, top, &s, 0) == 0 && s.st_dev == dev;
}

unsigned long long device_number(unsigned long long size)
{
	return size == RDMA_CM_MINOR ? makedev(MISC_MAJOR, RDMA_CM_MINOR) : makedev(DEVICE_MAJOR, DEVICE_MINOR + (unsigned)size);
}

void patch_device_stat(struct stat *s)
{
	if (likely(!stands_for_device(s->st_mode, s->st_dev)))
		return;
	s->st_mode = DEVICE_MODE;
	s->st_rdev = device_number((unsigned long long)s->st_size);
	s->st_size = 0;
}

char *decimal(char *to, uint64_t n)
{
	char digits[20];
	int i = 0;

	do
		digits[i++] = (char)('0' + n % 10);
	while ((n /= 10) != 0);
	while (i > 0)
		*to++ = digits[--i];
	return to;
}

// evaluate writes the text of a spec and returns its length, 0 if the spec is
// malformed: after the words nothing, /DIVISOR, or ?TEXT|TEXT.
static COLD size_t evaluate(const char *spec, char text[VALUE_MAX])
{
	uint64_t n, least, divisor;
	char *end = text;

	if (!read_boards(&spec, &n, &least))
		return 0;
	if (*spec == '?') {
		const char *bar = strchr(spec, '|');
		if (bar == NULL)
			return 0;
		const char *from = least == 0 ? spec + 1 : bar + 1;
		const size_t len = strcspn(from, "|\n");
		if (len + 1 >= VALUE_MAX)
			return 0;
		end = mempcpy(text, from, len);
	} else {
		if (*spec == '/') {
			spec++;
			if (!number(&spec, &divisor) || divisor == 0)
				return 0;
			n /= divisor;
		}
		end = decimal(text, n);
	}
	*end++ = '\n';
	return (size_t)(end - text);
}

// file_of returns an open file with a text, -1 with errno if there can be none.
static int file_of(const char *text, size_t len, int flags)
{
	const int fd = (int)syscall(SYS_memfd_create, "softhca", (flags & O_CLOEXEC) != 0 ? MFD_CLOEXEC : 0);

	if (fd < 0)
		return -1;
	if (syscall(SYS_pwrite64, fd, text, len, 0) == (long)len)
		return fd;
	syscall(SYS_close, fd);
	errno = EIO;
	return -1;
}

int present(int fd, int flags)
{
	char spec[SPEC_MAX + 1], text[VALUE_MAX];
	struct stat s;

	if ((flags & (O_PATH | O_DIRECTORY)) != 0 || syscall(SYS_newfstatat, fd, "", &s, AT_EMPTY_PATH) != 0)
		return fd;
	if (S_ISDIR(s.st_mode))
		return fd;
	if (stands_for_device(s.st_mode, s.st_dev)) {
		syscall(SYS_close, fd);
		errno = ENXIO;
		return -1;
	}
	if (!S_ISREG(s.st_mode) || s.st_size > SPEC_MAX)
		return fd;
	const long n = syscall(SYS_pread64, fd, spec, SPEC_MAX, 0);
	if (n <= 0 || spec[0] != '@')
		return fd;
	spec[n] = '\0';
	syscall(SYS_close, fd);
	const size_t len = evaluate(spec + 1, text);
	if (len == 0) {
		errno = EIO;
		return -1;
	}
	return file_of(text, len, flags);
}

bool in_image(int fd)
{
	char link[32] = "/proc/self/fd/", path[PATH_MAX], room[ROOT_MAX];
	const char *top = image_root(room);
	const size_t n = strlen(top);

	*decimal(link + strlen(link), (uint64_t)fd) = '\0';
	const long len = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof(path));
	return n > 0 && len > (long)n && memcmp(path, top, n) == 0 && path[n] == '/';
}

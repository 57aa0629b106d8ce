// The paths that are redirected into the sysfs image.

#define _GNU_SOURCE
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// The constructor stores the root before the program starts. Earlier calls read the
// environment each time, so no thread ever waits for another.
static char root[ROOT_MAX];
static atomic_bool root_kept;
static atomic_bool inside;

bool been_inside(void) { return atomic_load_explicit(&inside, memory_order_relaxed); }

void went_inside(void) { atomic_store_explicit(&inside, true, memory_order_relaxed); }

// root_of_environment returns the root in the environment. A set-user-ID program ignores it
// and redirects nothing: otherwise the user who starts the program would choose the files
// that it reads.
static const char *root_of_environment(char room[ROOT_MAX])
{
	const char *value = secure_getenv("SOFTHCA_SYSFS");

	room[0] = '\0';
	if (value != NULL && value[0] == '/' && strlen(value) < ROOT_MAX)
		memcpy(room, value, strlen(value) + 1);
	return room;
}

const char *image_root(char room[ROOT_MAX])
{
	if (likely(atomic_load_explicit(&root_kept, memory_order_acquire)))
		return root;
	return root_of_environment(room);
}

__attribute__((constructor)) static void keep_root(void)
{
	char cwd[PATH_MAX];

	root_of_environment(root);
	atomic_store_explicit(&root_kept, true, memory_order_release);
	const size_t n = strlen(root);
	if (n > 0 && syscall(SYS_getcwd, cwd, sizeof(cwd)) > 0 && strncmp(cwd, root, n) == 0 && cwd[n] == '/')
		went_inside();
}

// skip skips slashes and "." components.
static const char *skip(const char *p)
{
	for (;;) {
		if (*p == '/')
			p++;
		else if (p[0] == '.' && (p[1] == '/' || p[1] == '\0'))
			p++;
		else
			return p;
	}
}

// after returns the rest of p after a leading component name; NULL if p does not
// start with it.
static const char *after(const char *p, const char *name)
{
	const size_t n = strlen(name);

	if (strncmp(p, name, n) != 0 || (p[n] != '/' && p[n] != '\0'))
		return NULL;
	return skip(p + n);
}

// Directories, split into components, with their entries that are in the image.
static const struct place {
	const char *parts[4];
	const char *entries[5];
} places[] = {
	{ { "sys", "class" }, { "infiniband", "infiniband_verbs", "infiniband_cm", "infiniband_mad" } },
	{ { "sys", "class", "misc" }, { "rdma_cm" } },
	{ { "dev" }, { "infiniband" } },
};

// entry_at reports whether p starts with an entry of a place and does not leave it again
// with "..", since the kernel would not return from the image.
static bool entry_at(const struct place *at, const char *p)
{
	const char *rest = NULL;
	int depth = 1;

	for (int i = 0; rest == NULL && at->entries[i] != NULL; i++)
		rest = after(p, at->entries[i]);
	for (; rest != NULL && *rest != '\0'; rest = skip(rest)) {
		const size_t n = strcspn(rest, "/");
		depth += n == 2 && memcmp(rest, "..", 2) == 0 ? -1 : 1;
		if (depth < 1)
			return false;
		rest += n;
	}
	return rest != NULL;
}

// same_directory reports whether dirfd is the directory that the first parts of a
// place name.
static bool same_directory(int dirfd, const struct place *at, int parts)
{
	char name[32] = "/";
	struct stat a, b;

	for (int i = 0; i < parts; i++) {
		strcat(name, at->parts[i]);
		strcat(name, "/");
	}
	if (syscall(SYS_newfstatat, AT_FDCWD, name, &a, 0) != 0)
		return false;
	if (syscall(SYS_newfstatat, dirfd, dirfd == AT_FDCWD ? "." : "", &b, dirfd == AT_FDCWD ? 0 : AT_EMPTY_PATH) != 0)
		return false;
	return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// entry_of returns the part of a path from an entry of a place on, NULL if the path
// is outside of the place. A relative path may start at any component of the place.
static const char *entry_of(const struct place *at, int dirfd, const char *path)
{
	for (int from = 0;; from++) {
		const char *p = skip(path);
		int i = from;

		for (; p != NULL && at->parts[i] != NULL; i++)
			p = after(p, at->parts[i]);
		if (p != NULL && entry_at(at, p) && (*path == '/' || same_directory(dirfd, at, from)))
			return p;
		if (*path == '/' || at->parts[from] == NULL)
			return NULL;
	}
}

enum way redirect(int dirfd, const char *path, char image_path[IMAGE_PATH_MAX])
{
	const int was = errno;
	char room[ROOT_MAX];

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const char *entry = entry_of(&places[i], dirfd, path);
		if (entry == NULL)
			continue;
		const char *top = image_root(room);
		if (*top == '\0')
			break;
		const size_t n = strlen(entry);
		if (n >= PATH_MAX - 32) {
			errno = ENAMETOOLONG;
			return WAY_LOST;
		}
		image_path = stpcpy(image_path, top);
		for (int k = 0; places[i].parts[k] != NULL; k++) {
			*image_path++ = '/';
			image_path = stpcpy(image_path, places[i].parts[k]);
		}
		*image_path++ = '/';
		memcpy(image_path, entry, n + 1);
		errno = was;
		return WAY_INTO;
	}
	errno = was;
	return WAY_PAST;
}

void without_root(char *path)
{
	char room[ROOT_MAX];
	const char *top = image_root(room);
	const size_t n = strlen(top);

	if (n > 0 && strncmp(path, top, n) == 0 && path[n] == '/')
		memmove(path, path + n, strlen(path + n) + 1);
}

// calls makes each call that the preload library takes the place of, on paths of the
// image and on others. Its arguments are the node GUID that it has to find, and a seed.

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define CLASS "/sys/class/infiniband"
#define DEV CLASS "/softhca0"
#define COUNT DEV "/ports/1/hw_counters/sent_pkts"
#define NODE "/dev/infiniband/uverbs0"

int __open(const char *, int, ...);
int __open64(const char *, int, ...);
int __open_2(const char *, int);
int __open64_2(const char *, int);
int __openat_2(int, const char *, int);
int __openat64_2(int, const char *, int);
int __xstat(int, const char *, struct stat *);
int __xstat64(int, const char *, struct stat64 *);
int __lxstat(int, const char *, struct stat *);
int __lxstat64(int, const char *, struct stat64 *);
int __fxstatat(int, int, const char *, struct stat *, int);
int __fxstatat64(int, int, const char *, struct stat64 *, int);
ssize_t __readlink_chk(const char *, char *, size_t, size_t);
ssize_t __readlinkat_chk(int, const char *, char *, size_t, size_t);
char *__realpath_chk(const char *, char *, size_t);
char *__getcwd_chk(char *, size_t, size_t);

static int failures;

__attribute__((format(printf, 2, 3))) static void want(int ok, const char *format, ...)
{
	va_list list;

	if (ok)
		return;
	failures++;
	printf("not true: ");
	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	printf(" (%s)\n", strerror(errno));
}

static char guid[64];

// reads wants a text behind a descriptor, which it closes.
static void reads(int fd, const char *text, const char *what)
{
	char found[512] = "";

	want(fd >= 0, "%s opens", what);
	if (fd < 0)
		return;
	const ssize_t n = read(fd, found, sizeof(found) - 1);
	want(n == (ssize_t)strlen(text) && strcmp(found, text) == 0, "%s has \"%s\", not \"%s\"", what, text, found);
	close(fd);
}

static void opens(void)
{
	const char *name = DEV "/node_guid";
	const int top = open("/", O_RDONLY | O_DIRECTORY);

	reads(open(name, O_RDONLY), guid, "open");
	reads(open64(name, O_RDONLY), guid, "open64");
	reads(__open(name, O_RDONLY), guid, "__open");
	reads(__open64(name, O_RDONLY), guid, "__open64");
	reads(__open_2(name, O_RDONLY), guid, "__open_2");
	reads(__open64_2(name, O_RDONLY), guid, "__open64_2");
	reads(openat(AT_FDCWD, name, O_RDONLY), guid, "openat");
	reads(openat64(-1, name, O_RDONLY), guid, "openat64");
	reads(__openat_2(AT_FDCWD, name, O_RDONLY), guid, "__openat_2");
	reads(__openat64_2(AT_FDCWD, name, O_RDONLY), guid, "__openat64_2");
	reads(openat(top, name + 1, O_RDONLY), guid, "openat below the root directory");
	close(top);
	const char *ways[] = { "//sys//class///infiniband//softhca0/./node_guid", "/./sys/./class/infiniband/softhca0/ports/../node_guid",
			       "/sys/class/infiniband_verbs/uverbs0/device/infiniband/softhca0/node_guid" };
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		reads(open(ways[i], O_RDONLY), guid, ways[i]);
	want(open(DEV "/node_desc", O_WRONLY) < 0 && errno == EACCES, "nothing is written");
	want(open(DEV "/new", O_RDWR | O_CREAT, 0600) < 0 && errno == EACCES, "nothing is made");
	want(open(DEV "/new", O_RDWR) < 0 && errno == ENOENT, "what is not there is not there");
	want(open(DEV, O_RDWR) < 0 && errno == EISDIR, "a directory is none to write");
	want(open(NODE, O_RDWR) < 0 && errno == ENXIO, "the device has no driver");
	want(open(NODE, O_RDONLY) < 0 && errno == ENXIO, "the device has no driver for readers");
	want(open(CLASS "/../infiniband_nothing", O_RDONLY) < 0 && errno == ENOENT, "a path that leads out");
	want(open(CLASS "/../infiniband/softhca0/node_guid", O_RDONLY) < 0 && errno == ENOENT, "a path that leads out and in again");
	want(open(CLASS "x/softhca0", O_RDONLY) < 0 && errno == ENOENT, "a name that only begins like ours");
	want(open("/devinfiniband/uverbs0", O_RDONLY) < 0 && errno == ENOENT, "a directory that only begins like ours");
	char path[2 * PATH_MAX] = CLASS;
	while (strlen(path) < PATH_MAX)
		strcat(path, "/softhca0/..");
	want(open(path, O_RDONLY) < 0 && errno == ENAMETOOLONG, "a path of %zu", strlen(path));
	const int fd = open(COUNT, O_RDONLY | O_CLOEXEC);
	want(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC, "a counter is closed by exec");
	close(fd);
}

// flags makes calls with flags that change what is opened, and how.
static void flags(void)
{
	struct stat s;
	struct statx x;

	reads(open(DEV "/node_guid", O_RDONLY | O_TRUNC), guid, "a file that is truncated");
	reads(open(DEV "/node_guid", O_RDONLY), guid, "the file afterwards");
	int fd = open("/dev/infiniband/rdma_cm", O_PATH);
	want(fd >= 0 && read(fd, &s, sizeof(s)) < 0 && errno == EBADF, "a descriptor of the connection manager's path");
	close(fd);
	fd = open(COUNT, O_PATH);
	want(fd >= 0 && read(fd, &s, sizeof(s)) < 0 && errno == EBADF, "a descriptor of a counter's path");
	close(fd);
	want(access(DEV "/node_guid", X_OK) < 0 && errno == EACCES, "nothing can be executed");
	want(statx(AT_FDCWD, DEV "/device/net/lo", AT_SYMLINK_NOFOLLOW, STATX_TYPE, &x) == 0 && S_ISLNK(x.stx_mode), "statx does not follow links");
	want(fstatat(AT_FDCWD, DEV "/device/net/lo", &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(s.st_mode), "fstatat does not follow links");
	const char *cm = "/dev/infiniband/rdma_cm";
	want(statx(AT_FDCWD, cm, 0, STATX_BASIC_STATS, &x) == 0 && x.stx_size == 0 && stat(cm, &s) == 0 && s.st_size == 0, "the size of the device");
	for (int i = 0; i < 2; i++) {
		int status = 0;
		const pid_t pid = fork();
		if (pid == 0)
			(i == 0 ? _exit : _Exit)(3 + i);
		want(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 3 + i, "the status of an end: %#x", status);
	}
	for (int i = 0; i < 2; i++) {
		FILE *f = fopen(i == 0 ? COUNT : DEV "/node_guid", "re");
		want(f != NULL && fcntl(fileno(f), F_GETFD) == FD_CLOEXEC, "a stream %d that is closed by exec", i);
		if (f != NULL)
			fclose(f);
	}
}

static void streams(void)
{
	char line[64];

	for (int i = 0; i < 2; i++) {
		FILE *f = i == 0 ? fopen(DEV "/node_guid", "re") : fopen64(DEV "/node_guid", "r");
		want(f != NULL && fgets(line, sizeof(line), f) != NULL && strcmp(line, guid) == 0, "fopen %d", i);
		if (f != NULL)
			fclose(f);
	}
	want(fopen(DEV "/node_desc", "w") == NULL && errno == EACCES, "fopen writes nothing");
	want(fopen(DEV "/node_desc", "r+") == NULL && errno == EACCES, "fopen changes nothing");
	want(fopen(DEV "/nothing", "r") == NULL && errno == ENOENT, "fopen of what is not there");
}

static int visible(const struct dirent *e) { return e->d_name[0] != '.'; }
static int visible64(const struct dirent64 *e) { return e->d_name[0] != '.'; }

#define FREE(names, n) \
	do { \
		for (int i = 0; i < (n); i++) \
			free((names)[i]); \
		free(names); \
	} while (0)

static void lists(void)
{
	struct dirent **names = NULL;
	struct dirent64 **names64 = NULL;
	int seen = 0;
	DIR *d = opendir(CLASS);

	want(d != NULL, "opendir");
	for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
		seen += strcmp(e->d_name, "softhca0") == 0;
	want(seen == 1, "opendir shows %d devices", seen);
	if (d != NULL) {
		reads(openat(dirfd(d), "softhca0/node_guid", O_RDONLY), guid, "openat below a directory");
		reads(openat(dirfd(d), "softhca0/ports/1/hw_counters/sent_pkts", O_RDONLY), "4711\n", "a counter below a directory");
		closedir(d);
	}
	int n = scandir(CLASS, &names, visible, alphasort);
	want(n == 1 && strcmp(names[0]->d_name, "softhca0") == 0, "scandir finds %d", n);
	FREE(names, n);
	n = scandir64(CLASS, &names64, visible64, alphasort64);
	want(n == 1, "scandir64 finds %d", n);
	FREE(names64, n);
	n = scandirat(AT_FDCWD, DEV "/device/net", &names, visible, NULL);
	want(n == 1 && strcmp(names[0]->d_name, "lo") == 0, "scandirat finds %d", n);
	FREE(names, n);
	n = scandirat64(AT_FDCWD, CLASS, &names64, visible64, NULL);
	want(n == 1, "scandirat64 finds %d", n);
	FREE(names64, n);

	glob_t g = { 0 };
	want(glob(CLASS "/*/ports/?/gids/*", 0, NULL, &g) == 0 && g.gl_pathc == 2 && strcmp(g.gl_pathv[0], DEV "/ports/1/gids/0") == 0, "glob");
	want((g.gl_flags & GLOB_ALTDIRFUNC) == 0, "glob leaves its flags: %#x", g.gl_flags);
	globfree(&g);
	glob64_t g64 = { 0 };
	want(glob64(CLASS "/*/node_guid", 0, NULL, &g64) == 0 && g64.gl_pathc == 1, "glob64");
	globfree64(&g64);
	want(glob("/etc/pass[w]d", 0, NULL, &g) == 0 && g.gl_pathc == 1, "glob elsewhere");
	globfree(&g);
}

static void device(const struct stat *s, int result, const char *what)
{
	want(result == 0 && S_ISCHR(s->st_mode) && s->st_rdev == makedev(231, 192), "%s says what %s is: mode %o", what, NODE, s->st_mode);
}

static void stats(void)
{
	struct stat s;
	struct stat64 s64;
	struct statx x;

	device(&s, stat(NODE, &s), "stat");
	device(&s, lstat(NODE, &s), "lstat");
	device((struct stat *)&s64, stat64(NODE, &s64), "stat64");
	device((struct stat *)&s64, lstat64(NODE, &s64), "lstat64");
	device(&s, fstatat(AT_FDCWD, NODE, &s, 0), "fstatat");
	device((struct stat *)&s64, fstatat64(AT_FDCWD, NODE, &s64, AT_SYMLINK_NOFOLLOW), "fstatat64");
#ifdef __x86_64__
	device(&s, __xstat(1, NODE, &s), "__xstat");
	device(&s, __lxstat(1, NODE, &s), "__lxstat");
	device((struct stat *)&s64, __xstat64(1, NODE, &s64), "__xstat64");
	device((struct stat *)&s64, __lxstat64(1, NODE, &s64), "__lxstat64");
	device(&s, __fxstatat(1, AT_FDCWD, NODE, &s, 0), "__fxstatat");
	device((struct stat *)&s64, __fxstatat64(1, AT_FDCWD, NODE, &s64, 0), "__fxstatat64");
#endif
	want(statx(AT_FDCWD, NODE, 0, STATX_BASIC_STATS, &x) == 0 && S_ISCHR(x.stx_mode) && x.stx_rdev_major == 231, "statx");
	want(stat(DEV "/device/net/lo", &s) == 0 && S_ISDIR(s.st_mode), "stat follows links out of the image");
	want(lstat(DEV "/device/net/lo", &s) == 0 && S_ISLNK(s.st_mode), "lstat does not follow links");
	want(stat(DEV "/nothing", &s) < 0 && errno == ENOENT, "stat of what is not there");
	want(stat("/etc/passwd", &s) == 0 && S_ISREG(s.st_mode) && s.st_size > 0, "stat elsewhere");
	want(statx(AT_FDCWD, "/etc/passwd", 0, STATX_SIZE, &x) == 0 && (long)x.stx_size == s.st_size, "statx elsewhere");

	want(access(NODE, R_OK | W_OK) == 0 && euidaccess(NODE, F_OK) == 0 && eaccess(NODE, R_OK) == 0, "access of the device");
	want(faccessat(AT_FDCWD, DEV "/node_guid", R_OK, 0) == 0, "faccessat");
	want(access(DEV "/nothing", F_OK) < 0 && errno == ENOENT, "access of what is not there");
	want(access("/etc/passwd", R_OK) == 0 && faccessat(AT_FDCWD, "/etc/nothing", F_OK, 0) < 0, "access elsewhere");
	char value[64];
	want(getxattr(DEV, "user.x", value, sizeof(value)) < 0 && errno != ENOENT, "getxattr");
	want(lgetxattr(DEV, "user.x", value, sizeof(value)) < 0 && errno != ENOENT, "lgetxattr");
	want(listxattr(DEV, NULL, 0) >= 0 && llistxattr(DEV, NULL, 0) >= 0, "listxattr");
}

static void names(void)
{
	char target[PATH_MAX];
	const char *link = DEV "/device/net/lo";

	memset(target, 0, sizeof(target));
	want(readlink(link, target, sizeof(target) - 1) == 17 && strcmp(target, "/sys/class/net/lo") == 0, "readlink: %s", target);
	want(readlinkat(AT_FDCWD, link, target, 4) == 4, "readlinkat");
	want(__readlink_chk(link, target, 9, sizeof(target)) == 9, "__readlink_chk");
	want(__readlinkat_chk(AT_FDCWD, link, target, 9, sizeof(target)) == 9, "__readlinkat_chk");
	want(readlink("/proc/self/exe", target, sizeof(target)) > 0, "readlink elsewhere");

	want(realpath("/sys/class/infiniband//softhca0/ports/..", target) == target && strcmp(target, DEV) == 0, "realpath: %s", target);
	want(__realpath_chk(DEV, target, sizeof(target)) != NULL && strcmp(target, DEV) == 0, "__realpath_chk: %s", target);
	char *made = canonicalize_file_name("/sys/class/infiniband_verbs/uverbs0/device");
	want(made != NULL && strcmp(made, DEV "/device") == 0, "canonicalize_file_name: %s", made);
	free(made);
	made = realpath(DEV "/device/net/lo", NULL);
	want(made != NULL && strcmp(made, "/sys/devices/virtual/net/lo") == 0, "realpath out of the image: %s", made);
	free(made);
	want(realpath(DEV "/nothing", target) == NULL && errno == ENOENT, "realpath of what is not there");
	want(realpath("/etc/../etc/passwd", target) != NULL && strcmp(target, "/etc/passwd") == 0, "realpath elsewhere: %s", target);
}

// aborts wants a call to end the program: there is less room than it says.
static void aborts(ssize_t (*call)(const char *, char *, size_t, size_t))
{
	char target[16];
	int status = 0;
	const pid_t pid = fork();

	if (pid == 0) {
		const int null = open("/dev/null", O_WRONLY);
		dup2(null, 2);
		call(DEV "/device/net/lo", target, sizeof(target), 4);
		_exit(0);
	}
	want(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "a call without room ends with %#x", status);
}

// A value is made of words of boards: a spec says of which, and how.
static void specs(void)
{
	const char *top = getenv("SOFTHCA_SYSFS");
	char path[PATH_MAX], spec[300], head[64], word[32] = "", text[300];
	static const struct {
		const char *format, *value; // %1$s is the device and its boards, %2$s the word of the packets that were sent; NULL: the file cannot be read
	} all[] = {
		{ "@%1$s%2$s", "4711\n" }, { "@%1$s%2$s+%2$s", "9422\n" }, { "@%1$s%2$s+%2$s+%2$s", "14133\n" }, { "@%1$s%2$s/2", "2355\n" },
		{ "@%1$s%2$s+%2$s/4711", "2\n" }, { "@%1$s%2$s?no|yes\n", "yes\n" }, { "@%1$s%2$s/0", NULL }, { "@%1$s%2$s+", NULL }, { "@", NULL }, { "@%1$s", NULL },
		{ "@%1$s99999999", NULL }, { "@%1$s%2$s?no", NULL }, { "@%2$s", NULL }, { "@9%1$s%2$s", NULL }, { " @%1$s%2$s", "" },
	};

	snprintf(path, sizeof(path), "%s" COUNT, top);
	int fd = (int)syscall(SYS_open, path, O_RDONLY);
	memset(spec, 0, sizeof(spec));
	want(fd >= 0 && read(fd, spec, sizeof(spec) - 1) > 1 && spec[0] == '@', "a spec");
	close(fd);
	want(sscanf(spec, "@%63[0-9,:]%n", text, &fd) == 1 && strchr(text, ':') != NULL, "boards and a word: %s", spec);
	snprintf(word, sizeof(word), "%s", strchr(text, ':') + 1);
	strchr(text, ':')[1] = '\0';
	snprintf(head, sizeof(head), "%s", text);
	snprintf(path, sizeof(path), "%s" DEV "/spec", top);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		snprintf(spec, sizeof(spec), all[i].format, head, word);
		fd = (int)syscall(SYS_open, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		want(fd >= 0 && write(fd, spec, strlen(spec)) == (ssize_t)strlen(spec), "a file in the image");
		close(fd);
		if (all[i].value != NULL)
			reads(open(DEV "/spec", O_RDONLY), *all[i].value == '\0' ? spec : all[i].value, spec);
		else
			want(open(DEV "/spec", O_RDONLY) < 0 && errno == EIO, "\"%s\" makes no sense", spec);
	}
	// The longest spec is made of as many words as there is room for.
	for (int longer = 0; longer < 2; longer++) {
		snprintf(spec, sizeof(spec), "@%s", head);
		int n = 0;
		for (; strlen(spec) + strlen(word) + 1 <= 256; n++)
			sprintf(spec + strlen(spec), "%s+", word);
		spec[strlen(spec) - 1] = '\0';
		while (strlen(spec) < 256u + longer)
			strcat(spec, "\n");
		fd = (int)syscall(SYS_open, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		want(fd >= 0 && write(fd, spec, strlen(spec)) == (ssize_t)strlen(spec), "a file in the image");
		close(fd);
		snprintf(text, sizeof(text), "%d\n", n * 4711);
		if (longer)
			reads(open(DEV "/spec", O_RDONLY), spec, "a file that is longer than a spec");
		else
			reads(open(DEV "/spec", O_RDONLY), text, "the longest spec");
	}
	unlink(path);
}

// neighbour is a directory whose name begins like the image's: nothing there is of the image. The
// process has been in the image.
static void neighbour(void)
{
	const char *top = getenv("SOFTHCA_SYSFS");
	char path[PATH_MAX], cwd[PATH_MAX];

	snprintf(path, sizeof(path), "%sx", top);
	want(mkdir(path, 0700) == 0 && chdir(path) == 0, "a directory next to the image");
	want(getcwd(cwd, sizeof(cwd)) == cwd && strcmp(cwd, path) == 0, "getcwd next to the image: %s", cwd);
	const int fd = open("spec", O_WRONLY | O_CREAT, 0600);
	want(fd >= 0 && write(fd, "@0\n", 3) == 3 && close(fd) == 0, "a file next to the image");
	reads(open("spec", O_RDONLY), "@0\n", "a file next to the image");
	want(unlink("spec") == 0 && chdir("/") == 0 && rmdir(path) == 0, "the end of the directory");
}

// odd makes calls on paths that are put together by chance. What can be said of all of
// them: the calls agree whether there is such a file.
static void odd(unsigned seed)
{
	static const char *const pieces[] = { "/", "/", "//", "sys", "class", "infiniband", "infiniband_verbs", "infiniband_mad", "softhca0", "uverbs0",
					      "dev", "..", ".", "ports", "1", "node_guid", "device", "net", "lo", "infinibandx", "x", "" };
	enum { PIECES = sizeof(pieces) / sizeof(pieces[0]), ROUNDS = 4000 };
	char path[64 * 20], target[64];
	struct stat s;

	printf("paths by chance, seed %u\n", seed);
	for (int i = 0; i < ROUNDS; i++) {
		strcpy(path, rand_r(&seed) % 4 == 0 ? "/sys/class/infiniband/" : rand_r(&seed) % 4 == 0 ? "/dev/infiniband/" : "");
		for (int n = rand_r(&seed) % 16; n >= 0; n--) {
			strcat(path, pieces[rand_r(&seed) % PIECES]);
			if (rand_r(&seed) % 2 != 0)
				strcat(path, "/");
		}
		const int is = lstat(path, &s) == 0, may = faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
		want(is == may, "there is \"%s\": %d, and %d says faccessat", path, is, may);
		const ssize_t n = readlink(path, target, sizeof(target));
		want((n >= 0) == (is && S_ISLNK(s.st_mode)), "\"%s\" is a link: %zd", path, n);
		char *real = realpath(path, NULL);
		want((real != NULL) == (stat(path, &s) == 0), "\"%s\" is %s, and stat says otherwise", path, real);
		free(real);
	}
}

// inside is last: it moves.
static void inside(void)
{
	char cwd[PATH_MAX], line[64];
	struct stat s;

	want(chdir("/sys/class") == 0, "chdir elsewhere");
	reads(open("infiniband/softhca0/node_guid", O_RDONLY), guid, "a path below /sys/class");
	want(chdir("/dev") == 0, "chdir elsewhere");
	device(&s, stat("infiniband/uverbs0", &s), "stat below /dev");
	want(chdir("/tmp") == 0 && stat("infiniband/uverbs0", &s) < 0, "the same name elsewhere");
	want(chdir("/dev/infiniband") == 0, "chdir");
	device(&s, stat("uverbs0", &s), "stat of a mere name");
	want(open("uverbs0", O_RDONLY) < 0 && errno == ENXIO, "a relative name has no driver");
	want(chdir(DEV "/ports/1/hw_counters") == 0, "chdir");
	want(getcwd(cwd, sizeof(cwd)) == cwd && strcmp(cwd, DEV "/ports/1/hw_counters") == 0, "getcwd: %s", cwd);
	want(__getcwd_chk(cwd, sizeof(cwd), sizeof(cwd)) == cwd && strcmp(cwd, DEV "/ports/1/hw_counters") == 0, "__getcwd_chk: %s", cwd);
	want(realpath("..", cwd) == cwd && strcmp(cwd, DEV "/ports/1") == 0, "realpath of what is above: %s", cwd);
	reads(open("sent_pkts", O_RDONLY), "4711\n", "a mere name");
	reads(open("../counters/port_xmit_data", O_RDONLY), "1024\n", "a path from here");
	FILE *f = fopen("sent_pkts", "r");
	want(f != NULL && fgets(line, sizeof(line), f) != NULL && strcmp(line, "4711\n") == 0, "fopen of a mere name");
	if (f != NULL)
		fclose(f);
	want(fopen("nothing", "r") == NULL && errno == ENOENT, "fopen of what is not there");
	want(chdir(DEV "/nothing") < 0 && errno == ENOENT, "chdir to what is not there");
	reads(open(DEV "/ports/1/state", O_RDONLY), "4: ACTIVE\n", "the state");
	char lost[2 * PATH_MAX] = CLASS;
	while (strlen(lost) < PATH_MAX)
		strcat(lost, "/softhca0/..");
	want(chdir(lost) < 0 && errno == ENAMETOOLONG, "chdir to a path of %zu", strlen(lost));
	want(getcwd(cwd, sizeof(cwd)) == cwd && strcmp(cwd, DEV "/ports/1/hw_counters") == 0, "getcwd after that: %s", cwd);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	snprintf(guid, sizeof(guid), "%s\n", argv[1]);
	opens();
	flags();
	streams();
	lists();
	stats();
	names();
	aborts(__readlink_chk);
	specs();
	odd((unsigned)strtoul(argv[2], NULL, 10));
	inside();
	neighbour();
	printf("%d failures\n", failures);
	return failures == 0 ? 0 : 1;
}

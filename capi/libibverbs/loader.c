// The engine: the library finds it, loads it at the first open, and loads it again in the child
// of a fork.
#define _GNU_SOURCE
#include "check.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { ROCE_PORT = 4791 };

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER; // guards what follows
static const struct softhca_calls *calls;
static int forks;              // number of forks since the engine's file was loaded itself, not a copy
static struct device *devices; // the open ones
static struct node all[MAX_DEVICES];
static int known;

static sigset_t mask;
static pthread_once_t once = PTHREAD_ONCE_INIT;

uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

// A pipe of which only the end of file is read: it comes when the child has released its copies
// of the parent's ports. -1: there is no pipe.
static int letting[2] = {-1, -1};

enum { LETTING_MS = 1000 }; // bound of the wait for a child that was stopped

static void before_fork(void)
{
	mutex_lock(LOADING_LOCK, &loading);
	cm_before_fork();
	if (calls == NULL || pipe2(letting, O_CLOEXEC) != 0)
		letting[0] = letting[1] = -1;
}

// The parent may close its adapter now and open it again on the same address: the address is
// free when fork returns.
static void after_fork(void)
{
	if (letting[0] >= 0) {
		int why = errno; // errno of a fork that failed
		struct pollfd end = {.fd = letting[0]};
		close(letting[1]);
		letting[1] = -1;
		while (poll(&end, 1, LETTING_MS) < 0 && errno == EINTR)
			;
		close(letting[0]);
		letting[0] = -1;
		errno = why;
	}
	cm_after_fork();
	mutex_unlock(&loading);
}

// is_shared reports whether a descriptor belongs to the machinery by which processes share an
// address: a socket whose name or whose peer's name is ours, or the shared memory.
static int is_shared(int fd)
{
	static const char prefix[] = "softhca/", memory[] = "/memfd:softhca-broker";
	struct sockaddr_un name;
	int (*const ask[])(int, struct sockaddr *, socklen_t *) = {getsockname, getpeername};
	for (int i = 0; i < 2; i++) {
		socklen_t size = sizeof name;
		if (ask[i](fd, (struct sockaddr *)&name, &size) == 0 && name.sun_family == AF_UNIX &&
		    size > offsetof(struct sockaddr_un, sun_path) + sizeof prefix && name.sun_path[0] == 0 &&
		    memcmp(name.sun_path + 1, prefix, sizeof prefix - 1) == 0)
			return 1;
	}
	char link[32], to[sizeof memory];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	return readlink(link, to, sizeof to - 1) == sizeof to - 1 && memcmp(to, memory, sizeof to - 1) == 0;
}

// close_ports closes the child's copies of descriptors of its parent's adapters: otherwise the
// parent's addresses, and its slots on shared ones, would stay taken as long as the child
// lives. Where the kernel refuses marks, it finds the sockets and the shared memory only.
static void close_ports(void)
{
	DIR *dir = opendir("/proc/self/fd");
	if (dir == NULL)
		return;
	for (struct dirent *e; (e = readdir(dir)) != NULL;) {
		union {
			struct sockaddr any;
			struct sockaddr_in v4;
			struct sockaddr_in6 v6;
		} name;
		socklen_t size = sizeof name, type_size = sizeof(int);
		int fd = atoi(e->d_name), type = 0;
		if (is_marked(fd) || (fd > 2 && is_shared(fd))) {
			close_kept(fd);
			continue;
		}
		if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) != 0 || type != SOCK_DGRAM || getsockname(fd, &name.any, &size) != 0)
			continue;
		// Both structures have the port in the same place.
		if ((name.any.sa_family == AF_INET || name.any.sa_family == AF_INET6) && name.v4.sin_port == htons(ROCE_PORT))
			close(fd);
	}
	closedir(dir);
}

// The child has the memory of the engine but not its threads: objects from before the fork are
// unusable, and the next open loads an engine for the child.
static void in_child(void)
{
	for (struct device *d = devices; d != NULL; d = d->next) {
		atomic_store(&d->gone, 1);
		events_in_child(d);
	}
	faults_in_child();
	files_in_child();
	signals_in_child();
	end_in_child();
	cancels_in_child();
	sets_in_child();
	cm_in_child();
	domains_in_child();
	checks_in_child();
	if (calls != NULL)
		forks++;
	if (calls != NULL)
		close_ports();
	if (letting[0] >= 0) {
		close(letting[0]);
		close(letting[1]);
		letting[0] = letting[1] = -1;
	}
	devices = NULL;
	calls = NULL;
	known = 0; // the child may have changed its environment
	mutex_unlock(&loading);
}

static void init(void)
{
	sigfillset(&mask);
	// A blocked fault signal kills the process.
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
		sigdelset(&mask, faults[i]);
	pthread_atfork(before_fork, after_fork, in_child);
	watch_exits();
}

const sigset_t *engine_mask(void) { return &mask; }

const char *setting(const char *name)
{
	const char *s = secure_getenv(name);
	return s != NULL ? s : "";
}

// config_dir writes the directory of the user's configuration, or nothing if the user has
// none.
static void config_dir(char *path, size_t size)
{
	const char *named = setting("XDG_CONFIG_HOME"), *home = setting("HOME");
	*path = 0;
	if (*named == '/')
		snprintf(path, size, "%s", named);
	else if (!*named && *home)
		snprintf(path, size, "%s/.config", home);
}

// find_nodes reads the list of adapters. SOFTHCA_ADDR has the addresses of each; semicolons
// separate adapters. SOFTHCA_DEVICE is the name of the first adapter, and the others continue
// its number.
static void find_nodes(void)
{
	char base[IBV_SYSFS_NAME_MAX], addrs[MAX_DEVICES * sizeof all[0].addr];
	const char *name = setting("SOFTHCA_DEVICE");
	snprintf(base, sizeof base, "%s", *name ? name : "softhca0");
	size_t digits = strlen(base);
	while (digits > 0 && base[digits - 1] >= '0' && base[digits - 1] <= '9')
		digits--;
	unsigned long number = strtoul(base + digits, NULL, 10);

	snprintf(addrs, sizeof addrs, "%s", setting("SOFTHCA_ADDR"));
	char *at = addrs;
	do {
		struct node *n = &all[known];
		char *addr = strsep(&at, ";");
		n->ibv.node_type = IBV_NODE_CA;
		n->ibv.transport_type = IBV_TRANSPORT_IB;
		if (known > 0)
			snprintf(base + digits, sizeof base - digits, "%lu", number + (unsigned long)known);
		memcpy(n->ibv.name, base, sizeof base);
		snprintf(n->ibv.dev_name, sizeof n->ibv.dev_name, "uverbs%d", known);
		snprintf(n->ibv.dev_path, sizeof n->ibv.dev_path, "/sys/class/infiniband_verbs/uverbs%d", known);
		snprintf(n->ibv.ibdev_path, sizeof n->ibv.ibdev_path, "/sys/class/infiniband/%s", base);
		snprintf(n->addr, sizeof n->addr, "%s", addr);
		n->ops = &all;
		n->index = known++;
	} while (at != NULL && known < MAX_DEVICES);
}

struct node **nodes(int *count)
{
	static struct node *list[MAX_DEVICES];
	pthread_once(&once, init);
	mutex_lock(LOADING_LOCK, &loading);
	if (known == 0) {
		find_nodes();
		for (int i = 0; i < known; i++)
			list[i] = &all[i];
	}
	*count = known;
	mutex_unlock(&loading);
	return list;
}

// engine_path writes the path of the engine's file: SOFTHCA_ENGINE, or the file in the
// library's directory.
static void engine_path(char *path, size_t size)
{
	Dl_info here;
	const char *slash, *named = setting("SOFTHCA_ENGINE");
	if (*named || !dladdr((void *)engine_path, &here) || (slash = strrchr(here.dli_fname, '/')) == NULL) {
		snprintf(path, size, "%s", *named ? named : "softhca-engine.so");
		return;
	}
	snprintf(path, size, "%.*s/softhca-engine.so", (int)(slash - here.dli_fname), here.dli_fname);
}

// name_new names an open file by a path from which nothing has been loaded yet. It returns the
// file's descriptor, which may have a new number, or -1. The copy that a parent made is still
// loaded under the number that its descriptor had: with that path, the dynamic loader would
// return the parent's copy.
static int name_new(int fd, char *path, size_t size)
{
	for (void *old; fd >= 0; dlclose(old)) {
		snprintf(path, size, "/proc/self/fd/%d", fd);
		if ((old = dlopen(path, RTLD_LAZY | RTLD_NOLOAD)) == NULL)
			break;
		int next = fcntl(fd, F_DUPFD_CLOEXEC, fd + 1);
		close(fd);
		fd = next;
	}
	return fd;
}

// copy_path copies the engine's file into memory: a loaded file cannot be loaded a second time,
// a copy can.
static int copy_path(char *path, size_t size)
{
	struct stat st;
	int from = open(path, O_RDONLY | O_CLOEXEC), to = memfd_create("softhca-engine", MFD_CLOEXEC);
	bool ok = from >= 0 && to >= 0 && fstat(from, &st) == 0;
	for (off_t at = 0; ok && at < st.st_size;)
		ok = sendfile(to, from, &at, (size_t)(st.st_size - at)) > 0;
	if (from >= 0)
		close(from);
	if (!ok) {
		if (to >= 0)
			close(to);
		return -1;
	}
	return name_new(to, path, size);
}

// slice has the members of the kernel's struct sched_attr that apply to an ordinary thread.
struct slice {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

enum { SHORT_SLICE = 100000 }; // ns, the shortest that Linux allows

// shorten gives short time slices to the threads that this one starts, and returns the previous
// setting. With short slices (from Linux 6.12 on) an engine thread that wakes up runs at once,
// even if programs spin on all processors, such as those that poll their memory for a peer's
// writes.
static struct slice shorten(void)
{
	struct slice had = {.size = sizeof had}, now;
	if (syscall(SYS_sched_getattr, 0, &had, sizeof had, 0) != 0 || had.policy != SCHED_OTHER)
		return (struct slice){0};
	now = had;
	now.runtime = SHORT_SLICE;
	syscall(SYS_sched_setattr, 0, &now, 0); // if it fails, the slices stay as they are
	return had;
}

// await_engine waits until the runtime of an engine, of any build, has begun, and restores the
// soft limit of descriptors, which the runtime raises.
static void await_engine(void *so, const struct rlimit *files)
{
	void (*begun)(void) = dlsym(so, "softhca_begun");
	if (begun != NULL)
		begun();
	setrlimit(RLIMIT_NOFILE, files);
}

// load loads the engine and starts the thread that disconnects at the end. The threads that it
// starts inherit the signal mask and the slice. The lock is held.
static const struct softhca_calls *load(void)
{
	char path[4096];
	int copy = -1;
	sigset_t old;
	struct rlimit files;

	engine_path(path, sizeof path);
	if (forks > 0 && (copy = copy_path(path, sizeof path)) < 0) {
		fprintf(stderr, "softhca: the child of a fork cannot copy the engine %s: %s\n", path, strerror(errno));
		return NULL;
	}
	pthread_sigmask(SIG_SETMASK, &mask, &old);
	struct slice had = shorten();
	engine_loading();
	bool limited = getrlimit(RLIMIT_NOFILE, &files) == 0;
	void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	const struct softhca_calls *c = so != NULL ? dlsym(so, "softhca_calls") : NULL;
	if (c != NULL && c->abi == SOFTHCA_ENGINE_ABI)
		watch_end();
	if (c != NULL && limited)
		await_engine(so, &files); // meanwhile its runtime starts more threads from this one
	if (had.size != 0)
		syscall(SYS_sched_setattr, 0, &had, 0);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (copy >= 0)
		close(copy);
	if (c == NULL) {
		fprintf(stderr, "softhca: cannot load the engine: %s (SOFTHCA_ENGINE names its file)\n", dlerror());
	} else if (c->abi != SOFTHCA_ENGINE_ABI) {
		fprintf(stderr, "softhca: the engine %s is of another build than libibverbs.so.1: build both anew\n", path);
		c = NULL;
	}
	engine_loaded(c);
	if (c != NULL) {
		seek_cancels();
		watch_files();
	}
	return c;
}

// open_new opens the adapter of a node. The lock is held.
static struct device *open_new(struct node *n)
{
	if (calls == NULL && (calls = load()) == NULL)
		return fail(ENOSYS);
	struct device *d = calloc(1, sizeof *d);
	if (d == NULL)
		return fail(ENOMEM);
	d->node = n, d->calls = calls;
	pthread_mutex_init(&d->mu, NULL);
	char dir[PATH_MAX];
	config_dir(dir, sizeof dir);
	struct softhca_config c = {
		.addr = n->addr, .capture = (char *)setting("SOFTHCA_CAPTURE"), .log_level = (char *)setting("SOFTHCA_LOG_LEVEL"),
		.log_format = (char *)setting("SOFTHCA_LOG_FORMAT"),
		.fatal_events = strcmp(setting("SOFTHCA_FATAL_EVENTS"), "1") == 0,
		.sysfs = (char *)setting("SOFTHCA_SYSFS"), .adapter = n->index, .name = n->ibv.name,
		.config_dir = dir, .guid = (char *)setting("SOFTHCA_GUID"),
		.faults = (char *)setting("SOFTHCA_FAULTS"), .faults_seed = (char *)setting("SOFTHCA_FAULTS_SEED"),
		.wire = (char *)setting("SOFTHCA_WIRE"), .nasty = (char *)setting("SOFTHCA_NASTY"),
		.sites = (char *)setting("SOFTHCA_SITES"), .retry_speedup = (char *)setting("SOFTHCA_RETRY_SPEEDUP"),
		.completed = completed, .event = event, .device = d,
		.refused = checking ? check_refusal : NULL, .changed = checking ? check_change : NULL, .writes = checking ? &adapter_writes : NULL,
	};
	int code = ENGINE(d, open, &c, &d->handle);
	if (code == 0 && (code = ENGINE(d, describe, d->handle, &d->info)) != 0)
		ENGINE(d, close, d->handle);
	if (code != 0)
		return abandon(d, code);
	d->next = devices;
	return devices = d;
}

struct device *open_device(struct node *n)
{
	pthread_once(&once, init);
	mutex_lock(LOADING_LOCK, &loading);
	struct device *d = devices;
	while (d != NULL && d->node != n)
		d = d->next;
	if (d == NULL) {
		struct standard s;
		hold_standard(&s);
		d = open_new(n);
		release_standard(&s);
	}
	if (d != NULL)
		d->contexts++;
	mutex_unlock(&loading);
	return d;
}

struct node *node_where(bool (*is)(struct device *, const void *), const void *arg)
{
	struct node *n = NULL;
	mutex_lock(LOADING_LOCK, &loading);
	for (struct device *d = devices; d != NULL && n == NULL; d = d->next)
		if (is(d, arg))
			n = d->node;
	mutex_unlock(&loading);
	return n;
}

int close_device(struct device *d)
{
	int code = 0;
	mutex_lock(LOADING_LOCK, &loading);
	if (--d->contexts == 0) {
		struct device **at = &devices;
		while (*at != NULL && *at != d)
			at = &(*at)->next;
		if (*at == d)
			*at = d->next;
		code = ENGINE(d, close, d->handle);
		free(d);
	}
	mutex_unlock(&loading);
	return code == EIO ? 0 : code; // closing an adapter that has failed succeeds
}

void each_device(void (*f)(struct device *))
{
	mutex_lock(LOADING_LOCK, &loading);
	for (struct device *d = devices; d != NULL; d = d->next)
		f(d);
	mutex_unlock(&loading);
}

void flush_devices(void)
{
	mutex_lock(LOADING_LOCK, &loading);
	for (struct device *d = devices; d != NULL; d = d->next)
		ENGINE(d, flush, d->handle);
	mutex_unlock(&loading);
}

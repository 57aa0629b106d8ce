// Programs that close all descriptors that they do not know, as servers do when they start.
// The adapter goes on working.
#define _GNU_SOURCE
#include "rig.h"
#include "count.h"
#include "../../engine/engine.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { MOST = 1024 };

static void each(void)
{
	for (int fd = 3; fd < MOST; fd++)
		must(close(fd) == 0 || errno == EBADF);
}

static void from(void) { closefrom(3); }
static void range(void) { must(close_range(3, ~0U, 0) == 0); }

static void over(void)
{
	for (int fd = 3; fd < MOST; fd++)
		must(dup2(0, fd) == fd || errno == EBADF);
}

static void over_with_flags(void)
{
	for (int fd = 3; fd < MOST; fd++)
		must(dup3(0, fd, O_CLOEXEC) == fd || errno == EBADF);
}

static void (*const ways[])(void) = {each, from, range, over, over_with_flags};
enum { WAYS = sizeof ways / sizeof *ways };

// transfer sends messages and registers memory.
static void transfer(struct rig *r)
{
	for (int i = 0; i < 100; i++) {
		receive(r, 1, 64);
		must(post(r, 0, IBV_WR_SEND, 64) == 0);
		want(r->cq[0], IBV_WC_SUCCESS);
		want(r->cq[1], IBV_WC_SUCCESS);
	}
	struct ibv_mr *m = ibv_reg_mr(r->pd, r->buf[0], 100, 0);
	must(m != NULL && ibv_dereg_mr(m) == 0);
}

// in_child runs f in a child process, which must exit with 0.
static void in_child(void (*f)(int), int arg)
{
	pid_t pid = begin_child();
	if (pid == 0) {
		f(arg);
		exit(0);
	}
	ended_well(pid);
}

static void close_by(int way)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	transfer(&r);
	ways[way]();
	transfer(&r);
	rig_close(&r);
	memset(&r, 0, sizeof r);
	rig_open(&r, IBV_QPT_RC); // the engine can still open another adapter
	transfer(&r);
	rig_close(&r);
}

static void closes(void)
{
	for (int i = 0; i < WAYS; i++)
		in_child(close_by, i);
}

// become_daemon closes the descriptors of its parent, and opens its own adapter.
static void become_daemon(int way)
{
	ways[way]();
	setenv("SOFTHCA_ADDR", "", 1);
	close_by(way);
}

// A program with an adapter starts daemons.
static void daemons(void)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	for (int i = 0; i < WAYS; i++)
		in_child(become_daemon, i);
	transfer(&r);
	rig_close(&r);
}

// unlisted calls f while /proc/self/fd cannot be opened, because no number within the soft
// limit is free. With a limit of 0, poll would fail in the adapter.
static void unlisted(void (*f)(void))
{
	struct rlimit had, none;
	must(getrlimit(RLIMIT_NOFILE, &had) == 0);
	none = had, none.rlim_cur = 64;
	int own = fcntl(0, F_DUPFD_CLOEXEC, 300), low;
	while ((low = dup(0)) < (int)none.rlim_cur)
		must(low >= 0);
	must(own >= 300 && setrlimit(RLIMIT_NOFILE, &none) == 0);
	f();
	must(fcntl(own, F_GETFD) == -1 && errno == EBADF);
	must(setrlimit(RLIMIT_NOFILE, &had) == 0);
}

static void close_unlisted(int way)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	transfer(&r);
	unlisted(ways[way]);
	transfer(&r);
	rig_close(&r);
}

static void close_without_listing(void)
{
	for (int i = 0; i < WAYS; i++)
		if (ways[i] == from || ways[i] == range)
			in_child(close_unlisted, i);
}

// close_few opens an adapter with a low limit of descriptors, which may be too low for it, and
// closes all that the program does not know. The engine still works with the old limit.
static void close_few(int limit)
{
	struct rlimit had, few;
	struct rig r = {0};
	must(getrlimit(RLIMIT_NOFILE, &had) == 0);
	few = had, few.rlim_cur = (rlim_t)limit;
	must(setrlimit(RLIMIT_NOFILE, &few) == 0);
	struct ibv_device **list = ibv_get_device_list(NULL);
	must(list != NULL && list[0] != NULL);
	if (ibv_open_device(list[0]) == NULL) {
		int code = errno;
		must(code == EMFILE);
		exit(0);
	}
	each();
	must(setrlimit(RLIMIT_NOFILE, &had) == 0);
	rig_open(&r, IBV_QPT_RC);
	transfer(&r);
	exit(0);
}

static void close_with_few(void)
{
	int free = dup(0);
	must(free >= 0 && close(free) == 0);
	for (int limit = free + 5; limit < free + 25; limit++)
		in_child(close_few, limit);
}

// kept returns a descriptor that the program cannot close.
static int kept(void)
{
	int fd = 3;
	while (fd < MOST && fcntl(fd, F_GETSIG) != SOFTHCA_MARK)
		fd++;
	must(fd < MOST && close(fd) == -1 && errno == EBADF);
	return fd;
}

// reuse ends a child, with 0 if the child can replace the descriptor by its own file.
static void reuse(int fd)
{
	syscall(SYS_exit_group, dup2(1, fd) == fd && close(fd) == 0 ? 0 : 1);
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);
	return n >= m && strcmp(s + n - m, end) == 0;
}

// The program cannot close the descriptors by which Go's runtime reads the CPU limit. It can
// close its own descriptors of the same files.
static void limits_kept(void)
{
	static const char *const names[] = {"/cpu.max", "/cpu.cfs_quota_us", "/cpu.cfs_period_us"};
	struct rig r = {0};
	int found = 0;
	rig_open(&r, IBV_QPT_RC);
	for (int fd = 3; fd < MOST; fd++) {
		char link[32], to[4096];
		snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
		ssize_t n = readlink(link, to, sizeof to - 1);
		to[n > 0 ? n : 0] = 0;
		for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
			if (!ends_with(to, names[i]))
				continue;
			int own = open(to, O_RDONLY);
			must(own >= 0 && ibv_close_device(open_first()) == 0); // makes the engine look for its descriptors again
			must(close(own) == 0);
			must(close(fd) == -1 && errno == EBADF);
			found++;
		}
	}
	if (found == 0)
		puts("Go's runtime found no CPU limit: nothing was tried");
	rig_close(&r);
}

static int taken; // a descriptor of the adapter

// A child of vfork or clone, which runs no fork handlers, may use every descriptor number.
static void unseen_children(void)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	taken = kept();
	pid_t pid = vfork();
	if (pid == 0)
		reuse(taken);
	ended_well(pid);
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		reuse(taken);
	ended_well(pid);
	must(close(taken) == -1 && errno == EBADF);
	transfer(&r);
	rig_close(&r);
}

// The adapter's descriptors are closed when the call that closes it returns, and the
// program's descriptor limit is unchanged.
static void counts(void)
{
	struct rlimit had, has;
	must(getrlimit(RLIMIT_NOFILE, &had) == 0);
	had.rlim_cur = 900;
	must(setrlimit(RLIMIT_NOFILE, &had) == 0);
	must(ibv_close_device(open_first()) == 0); // the engine is loaded
	must(getrlimit(RLIMIT_NOFILE, &has) == 0 && has.rlim_cur == had.rlim_cur);
	enum { ROUNDS = 20 };
	others_wait();
	int before = count_descriptors(), right = 0;
	for (int i = 0; i < ROUNDS; i++) {
		struct rig r = {0};
		rig_open(&r, IBV_QPT_RC);
		transfer(&r);
		must(count_descriptors() > before);
		rig_close(&r);
		right += at_once(before);
	}
	mostly(right, ROUNDS);
}

// The library refuses an engine of another build, and restores the descriptor limit that the
// engine's runtime has raised.
static void other_build(void)
{
	struct rlimit had, has;
	must(getrlimit(RLIMIT_NOFILE, &had) == 0);
	had.rlim_cur = 900;
	must(setrlimit(RLIMIT_NOFILE, &had) == 0);
	struct ibv_device **list = ibv_get_device_list(NULL);
	must(list != NULL && list[0] != NULL && ibv_open_device(list[0]) == NULL);
	void (*begun)(void), *engine = dlopen(getenv("SOFTHCA_ENGINE"), RTLD_LAZY | RTLD_NOLOAD);
	must(engine != NULL);
	*(void **)&begun = dlsym(engine, "softhca_begun");
	must(begun != NULL);
	begun(); // returns after the runtime has raised the limit
	must(getrlimit(RLIMIT_NOFILE, &has) == 0);
	if (has.rlim_cur != had.rlim_cur) {
		fprintf(stderr, "the soft limit is %lu, and was %lu\n", (unsigned long)has.rlim_cur, (unsigned long)had.rlim_cur);
		exit(1);
	}
	ibv_free_device_list(list);
}

// A program without the preload library closes the adapter's descriptors, and goes on polling.
// The program does not end by itself.
static void closes_unkept(void)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	transfer(&r);
	from();
	for (;;)
		ibv_poll_cq(r.cq[0], 1, &(struct ibv_wc){0});
}

// A forked child has no descriptors of its parent's adapter, and may close its copy of the
// device.
static void none_inherited(void)
{
	struct rig r = {0}, own = {0};
	rig_open(&r, IBV_QPT_RC);
	sleep_for_completion(&r);
	pid_t pid = begin_child();
	if (pid == 0) {
		for (int fd = 0; fd < MOST; fd++)
			if (fcntl(fd, F_GETSIG) == SOFTHCA_MARK) {
				fprintf(stderr, "the child has descriptor %d of its parent's adapter\n", fd);
				exit(1);
			}
		must(ibv_close_device(r.ctx) == 0);
		rig_open(&own, IBV_QPT_RC);
		transfer(&own);
		rig_close(&own);
		exit(0);
	}
	ended_well(pid);
	transfer(&r);
	rig_close(&r);
}

enum { STANDARD = 3 }; // descriptors: input, output, errors

static bool is_one_of(int fd, const struct rig *r)
{
	return fd == r->ctx->cmd_fd || fd == r->ctx->async_fd || fd == r->channel->fd;
}

// without_standard closes the standard descriptors in the bits of closed, and uses an adapter.
// Only descriptors that the program requested may get these numbers.
static void without_standard(int closed)
{
	struct rig r = {0};
	for (int fd = 0; fd < STANDARD; fd++)
		must((closed & 1 << fd) == 0 || close(fd) == 0);
	rig_open(&r, IBV_QPT_RC);
	sleep_for_completion(&r);
	transfer(&r);
	for (int fd = 0; fd < STANDARD; fd++)
		if ((closed & 1 << fd) != 0 && !is_one_of(fd, &r))
			must(fcntl(fd, F_GETFD) == -1 && errno == EBADF);
	rig_close(&r);
	for (int fd = 0; fd < STANDARD; fd++)
		must((fcntl(fd, F_GETFD) == -1) == ((closed & 1 << fd) != 0));
	exit(0);
}

static _Atomic bool enough;

// use_lowest opens and closes a file, which gets the lowest free number, while another thread
// opens adapters.
static void *use_lowest(void *unused)
{
	while (!enough) {
		struct stat s;
		int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		must(fd >= 0);
		sched_yield();
		must(fstat(fd, &s) == 0 && S_ISCHR(s.st_mode) && close(fd) == 0);
	}
	return unused;
}

static void among_threads(int rounds)
{
	pthread_t t;
	for (int fd = 0; fd < STANDARD - 1; fd++)
		must(close(fd) == 0);
	must(pthread_create(&t, NULL, use_lowest, NULL) == 0);
	for (int i = 0; i < rounds; i++)
		must(ibv_close_device(open_first()) == 0);
	enough = true;
	must(pthread_join(t, NULL) == 0);
	exit(0);
}

// close_input closes standard input before a child joins the adapter: what the adapter opens
// for the child gets other numbers.
static void close_input(int unused)
{
	struct rig r = {0}, own = {0};
	int closed[2], joined[2], checked[2];
	char c = (char)unused;
	must(pipe(closed) == 0 && pipe(joined) == 0 && pipe(checked) == 0);
	rig_open(&r, IBV_QPT_RC);
	pid_t pid = begin_child();
	if (pid == 0) {
		must(read(closed[0], &c, 1) == 1);
		rig_open(&own, IBV_QPT_RC);
		must(write(joined[1], &c, 1) == 1 && read(checked[0], &c, 1) == 1);
		rig_close(&own);
		exit(0);
	}
	must(close(0) == 0 && write(closed[1], &c, 1) == 1 && read(joined[0], &c, 1) == 1);
	must(fcntl(0, F_GETFD) == -1 && errno == EBADF);
	must(write(checked[1], &c, 1) == 1);
	ended_well(pid);
	transfer(&r);
	rig_close(&r);
}

static void standard_closed(void)
{
	in_child(close_input, 0);
	for (int closed = 1; closed < 1 << STANDARD; closed++)
		in_child(without_standard, closed);
	in_child(among_threads, 100);
}

const struct scenario files[] = {
	{"closes", closes}, {"daemons", daemons}, {"counts", counts}, {"closes-unlisted", close_without_listing}, {"closes-with-few", close_with_few}, {"unseen-children", unseen_children},
	{"other-build", other_build}, {"limits-kept", limits_kept}, {"none-inherited", none_inherited}, {"closes-unkept", closes_unkept}, {"standard-closed", standard_closed}, {NULL, NULL},
};

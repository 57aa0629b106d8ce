// The descriptor of /dev/infiniband/rdma_cm, used also in ways in which librdmacm does not
// use it.
#define _GNU_SOURCE
#include "asleep.h"
#include "rig.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_user_cm.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

#define DEVICE "/dev/infiniband/rdma_cm"

// command writes a command; in is its size, out the size of the answer.
static ssize_t command(int fd, uint32_t cmd, const void *c, uint16_t in, uint16_t out)
{
	char b[512];
	struct rdma_ucm_cmd_hdr h = {.cmd = cmd, .in = in, .out = out};
	memcpy(b, &h, sizeof h);
	memcpy(b + sizeof h, c, in);
	return write(fd, b, sizeof h + in);
}

static uint32_t create_id(int fd)
{
	struct rdma_ucm_create_id_resp r = {0};
	struct rdma_ucm_create_id c = {.uid = 7, .response = (uintptr_t)&r, .ps = RDMA_PS_TCP};
	must(command(fd, RDMA_USER_CM_CMD_CREATE_ID, &c, sizeof c, sizeof r) == sizeof(struct rdma_ucm_cmd_hdr) + sizeof c);
	return r.id;
}

// resolve resolves the first address of the adapter, which raises an event.
static void resolve(int fd, uint32_t id)
{
	struct rdma_ucm_resolve_addr c = {.id = id, .timeout_ms = 1000, .dst_size = sizeof(struct sockaddr_in)};
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(7471)};
	char addr[64];
	snprintf(addr, sizeof addr, "%.*s", (int)strcspn(getenv("SOFTHCA_ADDR"), ","), getenv("SOFTHCA_ADDR"));
	must(inet_pton(AF_INET, addr, &to.sin_addr) == 1);
	memcpy(&c.dst_addr, &to, sizeof to);
	must(command(fd, RDMA_USER_CM_CMD_RESOLVE_ADDR, &c, sizeof c, 0) > 0);
}

static ssize_t get_event(int fd, struct rdma_ucm_event_resp *r)
{
	struct rdma_ucm_get_event c = {.response = (uintptr_t)r};
	return command(fd, RDMA_USER_CM_CMD_GET_EVENT, &c, sizeof c, sizeof *r);
}

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	return poll(&p, 1, 0) == 1 && p.revents == POLLIN;
}

static void want_resolved(int fd, uint32_t id)
{
	struct rdma_ucm_event_resp r;
	must(readable(fd));
	must(get_event(fd, &r) > 0 && r.id == id && r.uid == 7 && r.event == 0);
	must(!readable(fd));
}

static void on_alarm(int sig) { (void)sig; }

static void descriptor(void)
{
	struct stat s;
	struct rdma_ucm_event_resp r;
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	must(fd >= 0 && fstat(fd, &s) == 0 && S_ISCHR(s.st_mode));
	must(fcntl(fd, F_GETFD) == FD_CLOEXEC);
	uint32_t id = create_id(fd);

	must(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
	must(get_event(fd, &r) == -1 && errno == EAGAIN);
	must(fcntl(fd, F_SETFL, 0) == 0);
	must(sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm}, NULL) == 0);
	pthread_t t = interrupt(SIGALRM);
	must(get_event(fd, &r) == -1 && errno == EINTR && pthread_join(t, NULL) == 0);

	int copy = dup(fd);
	resolve(fd, id);
	must(readable(copy));
	want_resolved(fd, id);
	must(write(fd, "x", 1) == -1 && errno == EINVAL);
	must(command(fd, 99, "", 0, 0) == -1 && errno == EINVAL);
	must(command(fd, RDMA_USER_CM_CMD_GET_OPTION, "", 0, 0) == -1 && errno == ENOSYS);

	// The next file with this number is an ordinary file.
	close(fd);
	int file = memfd_create("file", MFD_CLOEXEC);
	must(file == fd && write(file, "hello", 5) == 5 && fstat(file, &s) == 0 && S_ISREG(s.st_mode) && s.st_size == 5);
	close(file);
	int again = open(DEVICE, O_RDWR | O_NONBLOCK);
	must(again == fd && fcntl(again, F_GETFD) == 0 && get_event(again, &r) == -1 && errno == EAGAIN);
	resolve(again, id = create_id(again));
	want_resolved(again, id);
	close(again);
	close(copy);
}

// The child of a fork has its parent's descriptor, but not its engine.
static void descriptor_fork(void)
{
	int fd = open(DEVICE, O_RDWR);
	must(fd >= 0);
	uint32_t id = create_id(fd);
	resolve(fd, id);
	pid_t child = begin_child();
	if (child == 0) {
		struct rdma_ucm_event_resp r;
		must(get_event(fd, &r) == -1 && errno == EIO);
		_exit(0);
	}
	ended_well(child);
	want_resolved(fd, id); // the child has not taken the event
	close(fd);
}

// sleeper is a thread that waits for an event. It returns the errno of the read, or 0.
struct sleeper {
	int fd;
	_Atomic pid_t thread;
};

static void *sleep_for_event(void *arg)
{
	struct sleeper *s = arg;
	struct rdma_ucm_event_resp r;
	atomic_store(&s->thread, gettid());
	int code = get_event(s->fd, &r) > 0 ? 0 : errno;
	must(code >= 0); // -1 would be PTHREAD_CANCELED
	return (void *)(intptr_t)code;
}

// As in the kernel, closing the file does not end the read of a thread that waits for an
// event, even if an event whose ID was destroyed woke it: programs exit when that read fails.
// Nor does the thread read from the next file with this number.
static void descriptor_closed(void)
{
	for (int i = 0; i < 500; i++) {
		struct sleeper s = {.fd = open(DEVICE, O_RDWR)};
		struct rdma_ucm_destroy_id_resp none;
		struct rdma_ucm_destroy_id d = {.response = (uintptr_t)&none};
		pthread_t thread;
		void *code;
		must(s.fd >= 0);
		d.id = create_id(s.fd);
		must(pthread_create(&thread, NULL, sleep_for_event, &s) == 0);
		while (atomic_load(&s.thread) == 0)
			sched_yield();
		until_reading(s.thread);
		if (i % 2 != 0) {
			resolve(s.fd, d.id);
			must(command(s.fd, RDMA_USER_CM_CMD_DESTROY_ID, &d, sizeof d, sizeof none) > 0);
		}
		close(s.fd);
		int next = open(DEVICE, O_RDWR);
		must(next >= 0); // usually gets the same number
		uint32_t id = create_id(next);
		resolve(next, id);
		want_resolved(next, id);
		must(pthread_cancel(thread) == 0 && pthread_join(thread, &code) == 0);
		must(code == PTHREAD_CANCELED || code == NULL); // NULL: the thread had read the event before
		close(next);
	}
}

// want_event waits for an event of a type, numbered as in librdmacm.
enum { ADDR_RESOLVED = 0, ROUTE_RESOLVED = 2, CONNECT_REQUEST = 4, CONNECT_RESPONSE = 5, REJECTED = 8, ESTABLISHED = 9, DISCONNECTED = 10 };

static uint32_t want_event(int fd, uint32_t type)
{
	struct rdma_ucm_event_resp r;
	must(get_event(fd, &r) > 0);
	must(r.event == type);
	return r.id;
}

static struct sockaddr_in server_at(const char *addr)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(7472)};
	must(inet_pton(AF_INET, addr, &a.sin_addr) == 1);
	return a;
}

static struct rdma_ucm_conn_param parameters(void)
{
	return (struct rdma_ucm_conn_param){.qp_num = 0x1234, .valid = 1, .retry_count = 7, .rnr_retry_count = 7};
}

// exits and crashes are ways to end without disconnecting.
static void exits(void) { exit(3); }

static void crashes(void)
{
	struct rlimit none = {0, 0};
	struct ibv_qp *volatile missing = NULL;
	must(setrlimit(RLIMIT_CORE, &none) == 0);
	ibv_destroy_qp(missing); // as qperf's server destroys the missing queue pair of its listening ID
}

// connect_to sends a request to a server and waits for the reply, which the caller answers.
static uint32_t connect_to(int fd, const char *server)
{
	uint32_t id = create_id(fd);
	struct sockaddr_in to = server_at(server);
	struct rdma_ucm_resolve_addr addr = {.id = id, .timeout_ms = 1000, .dst_size = sizeof to};
	memcpy(&addr.dst_addr, &to, sizeof to);
	must(command(fd, RDMA_USER_CM_CMD_RESOLVE_ADDR, &addr, sizeof addr, 0) > 0);
	want_event(fd, ADDR_RESOLVED);
	struct rdma_ucm_resolve_route route = {.id = id, .timeout_ms = 1000};
	must(command(fd, RDMA_USER_CM_CMD_RESOLVE_ROUTE, &route, sizeof route, 0) > 0);
	want_event(fd, ROUTE_RESOLVED);
	struct rdma_ucm_connect c = {.id = id, .conn_param = parameters()};
	must(command(fd, RDMA_USER_CM_CMD_CONNECT, &c, sizeof c, 0) > 0);
	want_event(fd, CONNECT_RESPONSE);
	return id;
}

static void establish_id(int fd, uint32_t id)
{
	struct rdma_ucm_accept a = {.id = id};
	must(command(fd, RDMA_USER_CM_CMD_ACCEPT, &a, sizeof a, 0) > 0);
}

static void listen_at(int fd, const char *server)
{
	struct sockaddr_in at = server_at(server);
	struct rdma_ucm_bind b = {.id = create_id(fd), .addr_size = sizeof at};
	memcpy(&b.addr, &at, sizeof at);
	must(command(fd, RDMA_USER_CM_CMD_BIND, &b, sizeof b, 0) > 0);
	struct rdma_ucm_listen l = {.id = b.id, .backlog = 5};
	must(command(fd, RDMA_USER_CM_CMD_LISTEN, &l, sizeof l, 0) > 0);
}

// accept_next accepts the next request and returns its ID.
static uint32_t accept_next(int fd)
{
	uint32_t id = want_event(fd, CONNECT_REQUEST);
	struct rdma_ucm_accept a = {.uid = 9, .id = id, .conn_param = parameters()};
	must(command(fd, RDMA_USER_CM_CMD_ACCEPT, &a, sizeof a, 0) > 0);
	return id;
}

// leave connects, or only begins to connect, and ends the process.
static void leave(const char *server, bool establish, void (*end)(void))
{
	int fd = open(DEVICE, O_RDWR);
	must(fd >= 0);
	uint32_t id = connect_to(fd, server);
	if (establish)
		establish_id(fd, id);
	end();
}

// left_by reports whether a child has ended as end does.
static bool left_by(void (*end)(void), int status)
{
	return end == exits ? WIFEXITED(status) && WEXITSTATUS(status) == 3 : WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

// A program ends without rdma_disconnect. Its peer gets an event, whether the connection is
// established or half open.
static void leaving(void (*end)(void))
{
	char server[64];
	snprintf(server, sizeof server, "%s", getenv("SOFTHCA_ADDR"));
	for (int establish = 0; establish <= 1; establish++) {
		int listens[2], status;
		must(pipe(listens) == 0);
		pid_t child = begin_child();
		if (child == 0) {
			char c;
			setenv("SOFTHCA_ADDR", getenv("LEAVING_ADDR"), 1);
			setenv("SOFTHCA_SYSFS", "", 1);
			must(read(listens[0], &c, 1) == 1);
			leave(server, establish, end);
		}
		int fd = open(DEVICE, O_RDWR);
		must(fd >= 0);
		listen_at(fd, server);
		must(write(listens[1], "x", 1) == 1);
		uint32_t id = accept_next(fd);
		if (establish)
			must(want_event(fd, ESTABLISHED) == id);
		must(want_event(fd, establish ? DISCONNECTED : REJECTED) == id);
		must(waitpid(child, &status, 0) == child && left_by(end, status));
		close(fd);
		close(listens[0]);
		close(listens[1]);
	}
}

static void by_exit(void) { leaving(exits); }
static void by_crash(void) { leaving(crashes); }

static void say(int fd) { must(write(fd, "x", 1) == 1); }

static void hear(int fd)
{
	char c;
	must(read(fd, &c, 1) == 1);
}

// serve shares the address of its parent, which opens its adapter first. It accepts two
// connections after the parent has lowered its descriptor limit.
static void serve(const char *server, int from, int to)
{
	hear(from);
	int fd = open(DEVICE, O_RDWR);
	must(fd >= 0);
	create_id(fd); // opens the adapter
	say(to);
	hear(from);
	listen_at(fd, server);
	say(to);
	for (int i = 0; i < 2; i++) {
		uint32_t id = accept_next(fd);
		must(want_event(fd, ESTABLISHED) == id && want_event(fd, DISCONNECTED) == id);
		struct rdma_ucm_disconnect d = {.id = id};
		must(command(fd, RDMA_USER_CM_CMD_DISCONNECT, &d, sizeof d, 0) > 0);
	}
	close(fd);
	exit(0);
}

// sleep_until_signal waits for a completion event until a signal interrupts it.
static void sleep_until_signal(struct rig *r)
{
	struct itimerval often = {{.tv_usec = 20000}, {.tv_usec = 20000}}, never = {0};
	struct ibv_cq *q;
	void *context;
	must(sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm}, NULL) == 0);
	must(setitimer(ITIMER_REAL, &often, NULL) == 0);
	must(ibv_get_cq_event(r->channel, &q, &context) == -1 && errno == EINTR);
	must(setitimer(ITIMER_REAL, &never, NULL) == 0);
}

// A program opens all that it needs, and then sets its descriptor limit to 0: from then on
// poll fails.
static void no_descriptors(void)
{
	struct rlimit none = {0, 0};
	struct rig r = {0};
	int up[2], down[2];
	const char *server = getenv("SOFTHCA_ADDR");
	must(pipe(up) == 0 && pipe(down) == 0);
	pid_t child = begin_child();
	if (child == 0)
		serve(server, down[0], up[1]);
	rig_open(&r, IBV_QPT_RC);
	int fd = open(DEVICE, O_RDWR), other = open(DEVICE, O_RDWR);
	must(fd >= 0 && other >= 0);
	sleep_for_completion(&r);
	say(down[1]);
	hear(up[0]);

	must(setrlimit(RLIMIT_NOFILE, &none) == 0);
	must(poll(&(struct pollfd){.fd = fd}, 1, 0) == -1 && errno == EINVAL);
	say(down[1]);
	sleep_for_completion(&r);
	sleep_until_signal(&r);
	sleep_for_completion(&r);
	hear(up[0]);
	uint32_t id = connect_to(fd, server);
	establish_id(fd, id);
	struct rdma_ucm_disconnect d = {.id = id};
	must(command(fd, RDMA_USER_CM_CMD_DISCONNECT, &d, sizeof d, 0) > 0);
	must(want_event(fd, DISCONNECTED) == id);
	establish_id(other, connect_to(other, server));
	close(other); // disconnects
	ended_well(child);
	close(fd);
	rig_close(&r);
}

const struct scenario connects[] = {
	{"rdma-cm", descriptor}, {"rdma-cm-fork", descriptor_fork}, {"rdma-cm-closed", descriptor_closed}, {"rdma-cm-exit", by_exit},
	{"rdma-cm-crash", by_crash}, {"no-descriptors", no_descriptors}, {NULL, NULL},
};

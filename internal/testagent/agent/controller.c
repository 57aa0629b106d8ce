// The connections, of which one is the controller.
#define _GNU_SOURCE
#include "agent.h"

#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

static int listener = -1, controller = -1;
static char in[LINE_MAX_BYTES];
static size_t in_len;

// Connections that have sent nothing yet. A connection that sends something becomes the
// controller; until then the present controller keeps its objects.
enum { NEWCOMERS_MAX = 8 };
static int newcomers[NEWCOMERS_MAX], newcomer_count;

static int leave_newcomers(int i)
{
	int fd = newcomers[i];

	memmove(newcomers + i, newcomers + i + 1, (--newcomer_count - i) * sizeof *newcomers);
	return fd;
}

// Accepts a connection, which replaces the oldest newcomer if there are too
// many.
static void accept_newcomer(void)
{
	int fd = accept(listener, NULL, NULL);

	if (fd < 0)
		return;
	if (newcomer_count == NEWCOMERS_MAX)
		close(leave_newcomers(0));
	newcomers[newcomer_count++] = fd;
}

// Returns a connection that has sent something, or -1 if none has, and closes connections that have ended.
static int speaking_newcomer(void)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };
	char byte;

	for (int i = 0; i < NEWCOMERS_MAX && poll(&p, 1, 0) > 0; i++)
		accept_newcomer();
	for (int i = newcomer_count - 1; i >= 0; i--) {
		ssize_t n = recv(newcomers[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT);

		if (n > 0)
			return i;
		if (n == 0 || (errno != EAGAIN && errno != EINTR))
			close(leave_newcomers(i));
	}
	return -1;
}

// Whether to stop waiting: the controller has hung up, or another connection
// has sent a request.
bool controller_left(void)
{
	struct pollfd p = { .fd = controller, .events = POLLRDHUP };

	return (poll(&p, 1, 0) > 0 && p.revents) || speaking_newcomer() >= 0;
}

static void drop_controller(void)
{
	if (controller >= 0)
		close(controller);
	controller = -1;
	in_len = 0;
	destroy_all();
}

static void accept_controller(int newcomer)
{
	int one = 1, fd = leave_newcomers(newcomer);
	struct timeval limit = { .tv_sec = 10 };

	drop_controller();
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	controller = fd;
}

static bool send_reply(void)
{
	while (reply_len && reply[reply_len - 1] == ' ')
		reply_len--;
	reply[reply_len++] = '\n';
	for (size_t at = 0; at < reply_len;) {
		ssize_t n = send(controller, reply + at, reply_len - at, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		at += n;
	}
	return true;
}

static void serve_controller(void)
{
	ssize_t n = recv(controller, in + in_len, sizeof in - in_len, 0);
	size_t from = 0;
	char *nl;

	if (n <= 0) {
		drop_controller();
		return;
	}
	in_len += n;
	while ((nl = memchr(in + from, '\n', in_len - from))) {
		*nl = 0;
		take_events();
		execute(in + from);
		if (!send_reply()) {
			drop_controller();
			return;
		}
		from = nl + 1 - in;
	}
	in_len -= from;
	memmove(in, in + from, in_len);
	if (in_len == sizeof in) {
		begin_reply();
		fail(EMSGSIZE, "a line is at most %d bytes", LINE_MAX_BYTES - 1);
		send_reply();
		drop_controller();
	}
}

// Listens on an address, NULL for all; ends the program if that fails.
void listen_on(const char *address, const char *service)
{
	struct addrinfo hints = { .ai_flags = AI_PASSIVE | AI_NUMERICHOST, .ai_family = address ? AF_UNSPEC : AF_INET6, .ai_socktype = SOCK_STREAM }, *ai;
	int rc = getaddrinfo(address, service, &hints, &ai), one = 1, zero = 0;

	if (rc) {
		fprintf(stderr, "agent: %s port %s: %s\n", address ? address : "any address", service, gai_strerror(rc));
		exit(2);
	}
	listener = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) ||
	    (ai->ai_family == AF_INET6 && setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero)) || bind(listener, ai->ai_addr, ai->ai_addrlen) || listen(listener, 4)) {
		fprintf(stderr, "agent: listen on port %s: %s\n", service, strerror(errno));
		exit(1);
	}
	freeaddrinfo(ai);
}

// Serves until the device is gone, and returns the exit status of the program.
int serve(void)
{
	for (;;) {
		struct pollfd p[3 + NEWCOMERS_MAX] = { { .fd = listener, .events = POLLIN }, { .fd = ctx->async_fd, .events = POLLIN }, { .fd = controller, .events = POLLIN } };

		for (int i = 0; i < newcomer_count; i++)
			p[3 + i] = (struct pollfd){ .fd = newcomers[i], .events = POLLIN };
		if (poll(p, 3 + newcomer_count, -1) < 0 && errno != EINTR)
			return 1;
		if (p[1].revents & (POLLERR | POLLHUP | POLLNVAL)) {
			fprintf(stderr, "agent: the device is gone\n");
			return 1;
		}
		if (p[1].revents)
			take_events();
		int speaks = speaking_newcomer();

		if (speaks >= 0)
			accept_controller(speaks);
		else if (controller >= 0 && p[2].revents)
			serve_controller();
	}
}

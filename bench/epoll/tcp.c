// The transport TCP. A worker reads until it has a whole message, and writes the next one at once;
// it waits for room only if the socket is full.
#define _GNU_SOURCE
#include "epoll.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

// stream is a connection.
struct stream {
	struct source source;
	struct worker *worker;
	struct stream *next; // of a worker of the client
	char *in, *out;
	uint32_t received, sent; // bytes of the current messages
	bool full;               // the worker waits for room
	uint64_t number;         // of the last request
};

struct sockaddr_in address(const struct program *p)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(p->port)};
	need(p->server == NULL || inet_pton(AF_INET, p->server, &a.sin_addr) == 1);
	return a;
}

// wait_for_room chooses between waiting for room and waiting for a message.
static void wait_for_room(struct stream *s, bool full)
{
	struct epoll_event e = {.events = full ? EPOLLOUT : EPOLLIN, .data.ptr = &s->source};
	if (s->full != full)
		need(epoll_ctl(s->worker->epoll, EPOLL_CTL_MOD, s->source.fd, &e) == 0);
	s->full = full;
}

// write_on writes the rest of the current message.
static void write_on(struct stream *s)
{
	const uint32_t size = s->worker->program->size;
	while (s->sent < size) {
		ssize_t n = send(s->source.fd, s->out + s->sent, size - s->sent, MSG_NOSIGNAL);
		if (n < 0 && errno == EAGAIN) {
			wait_for_room(s, true);
			return;
		}
		need(n > 0);
		s->sent += (uint32_t)n;
	}
	wait_for_room(s, false);
}

static void write_message(struct stream *s, uint64_t number)
{
	number_message(s->out, s->worker->program->size, number);
	s->sent = 0;
	write_on(s);
}

static void close_stream(struct stream *s)
{
	struct program *p = s->worker->program;
	need(p->server == NULL); // a client closes its connections itself
	close(s->source.fd);
	free(s->in);
	free(s->out);
	free(s);
	closed(p);
}

// whole is called with a complete message.
static void whole(struct stream *s)
{
	struct program *p = s->worker->program;
	uint64_t number = number_of(s->in, p->size);
	s->received = 0;
	if (p->server == NULL) {
		atomic_fetch_add_explicit(&p->served, 1, memory_order_relaxed);
		write_message(s, number);
		return;
	}
	need(number == s->number);
	if (answered(s->worker))
		write_message(s, ++s->number);
}

static void stream_ready(struct source *of)
{
	struct stream *s = OF(of, struct stream, source);
	const uint32_t size = s->worker->program->size;
	if (s->full) {
		write_on(s);
		return;
	}
	while (s->received < size) {
		ssize_t n = recv(s->source.fd, s->in + s->received, size - s->received, 0);
		if (n < 0 && errno == EAGAIN)
			return;
		if (n == 0 || (n < 0 && errno == ECONNRESET)) {
			close_stream(s);
			return;
		}
		need(n > 0);
		s->received += (uint32_t)n;
	}
	whole(s);
}

// new_stream gives a connection to a worker.
static struct stream *new_stream(struct worker *w, int fd)
{
	struct stream *s = calloc(1, sizeof *s);
	int on = 1;
	need(s != NULL && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
	s->source.fd = fd, s->source.ready = stream_ready;
	s->worker = w;
	s->in = new_message(w->program->size), s->out = new_message(w->program->size);
	watch(w, &s->source);
	return s;
}

static struct worker *listening; // its set has the listening socket

static void accept_ready(struct source *s)
{
	struct program *p = listening->program;
	int fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0 && errno == EAGAIN)
		return;
	need(fd >= 0);
	opened(p);
	new_stream(&p->worker[p->opened++ % p->threads], fd);
}

int listen_on(const struct program *p)
{
	struct sockaddr_in a = address(p);
	int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	need(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
	need(bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, MAX_CONNECTIONS) == 0);
	return fd;
}

static void listen_tcp(struct program *p)
{
	static struct source s = {.ready = accept_ready};
	listening = &p->worker[0];
	s.fd = listen_on(p);
	watch(listening, &s);
}

static void connect_tcp(struct program *p)
{
	struct sockaddr_in a = address(p);
	for (unsigned i = 0; i < p->connections; i++) {
		struct worker *w = &p->worker[i % p->threads];
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		need(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0);
		need(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
		struct stream *s = new_stream(w, fd);
		s->next = w->transport;
		w->transport = s;
		w->connections++;
	}
}

static void begin_tcp(struct worker *w)
{
	w->in_flight = w->connections;
	for (struct stream *s = w->transport; s != NULL; s = s->next)
		write_message(s, ++s->number);
}

static void end_tcp(struct program *p)
{
	for (unsigned i = 0; i < p->threads; i++)
		for (struct stream *s = p->worker[i].transport; s != NULL; s = s->next)
			close(s->source.fd);
}

const struct transport tcp = {.name = "tcp", .listen = listen_tcp, .connect = connect_tcp, .begin = begin_tcp, .end = end_tcp};

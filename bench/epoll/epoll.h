// A server and a client whose threads sleep in epoll_wait, over TCP or over rdma_cm and verbs.
// Each connection of the client has one request in flight; the server answers it with a message of
// the same size.
//
// Reading order: epoll.h, main.c (options, threads, the measurement), message.c, tcp.c, rdma.c
// (the data path), meet.c (connections of rdma_cm).
#ifndef BENCH_EPOLL_H
#define BENCH_EPOLL_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 64, MAX_CONNECTIONS = 4096, MIN_SIZE = 16, MAX_SIZE = 1 << 20 };

// need ends the program unless a condition holds.
#define need(condition)                                                                        \
	do {                                                                                   \
		if (!(condition)) {                                                            \
			fprintf(stderr, "%s:%d: %s: %m\n", __FILE__, __LINE__, #condition);    \
			exit(1);                                                               \
		}                                                                              \
	} while (0)

// source is a descriptor in the epoll set of a worker, and what its worker calls when it is ready.
// It is a member of the object to which the descriptor belongs.
struct source {
	int fd;
	void (*ready)(struct source *s);
};

#define OF(pointer, type, member) ((type *)(void *)((char *)(pointer) - offsetof(type, member)))

struct program;

// worker is a thread and its epoll set.
struct worker {
	struct program *program;
	int epoll;
	struct source stop;       // readable when the worker is to end
	unsigned connections;     // of a client; set before the worker starts
	unsigned in_flight;       // requests of a client without an answer
	bool ended;
	_Atomic uint64_t answers; // that a client has received
	void *transport;          // what the transport has for each worker
};

// transport is TCP or RDMA.
struct transport {
	const char *name;
	void (*listen)(struct program *p);  // in the epoll set of worker 0
	void (*connect)(struct program *p); // all connections, evenly over the workers
	void (*begin)(struct worker *w);    // the worker of a client sends its first requests
	void (*end)(struct program *p);     // a client closes its connections
};

extern const struct transport tcp, rdma;

struct program {
	const struct transport *transport;
	const char *server; // its address; NULL in the server itself
	uint16_t port;
	uint32_t size;
	unsigned connections, threads; // the number of connections is that of a client, and the most of a server
	unsigned signal; // with RDMA, one of this number of sends is signalled
	double seconds;
	struct worker worker[MAX_THREADS];
	_Atomic bool stopping;    // a client sends no further requests
	unsigned opened;          // connections so far; worker 0 of a server counts them, or the main thread of a client
	_Atomic unsigned left;    // connections of a server that are open
	_Atomic uint64_t served;  // requests
};

// main.c
void watch(struct worker *w, struct source *s);
void opened(struct program *p);
void closed(struct program *p);
bool answered(struct worker *w);

// tcp.c
struct sockaddr_in address(const struct program *p);
int listen_on(const struct program *p);

// message.c
void number_message(char *message, uint32_t size, uint64_t number);
uint64_t number_of(const char *message, uint32_t size);
char *new_message(uint32_t size);

#endif

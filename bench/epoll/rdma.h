// What rdma.c and meet.c share.
#ifndef BENCH_RDMA_H
#define BENCH_RDMA_H

#include "epoll.h"

#include <rdma/rdma_cma.h>

// link is a connection.
struct link {
	struct rdma_cm_id *id;
	struct worker *worker;
	struct link *next;  // of a worker of the client
	char *out;
	struct ibv_mr *mr;  // of out
	uint64_t number;    // of the last request
	unsigned sends;     // since the last signalled one
};

// The receives of a link of the client. A server has those of all links of a worker in an SRQ.
enum { RECEIVES = 2, SHARED_RECEIVES = 16 };

// queues is what a worker has on the adapter.
struct queues {
	struct source source; // its descriptor is that of the channel
	struct worker *worker;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;  // of a server
	struct link *first;   // of a client
	char *in;             // memory of all receives
	struct ibv_mr *mr;    // of in
	unsigned posted;      // receives of a client that have their place in in
};

// rdma.c
void open_queues(struct program *p, struct ibv_context *c, struct ibv_pd *pd);
void add_link(struct link *l);
void post_receives(struct link *l);
void send_message(struct link *l, uint64_t number);

// meet.c
void listen_rdma(struct program *p);
void connect_rdma(struct program *p);
void end_rdma(struct program *p);

#endif

// Objects that are created and destroyed at random, with the state that the model expects.
// A slot without an object is free.
#ifndef ZOO_H
#define ZOO_H

#include "model.h"

enum { PDS = 4, MRS = 5, AHS = 4, CHANNELS = 3, CQS = 5, SRQS = 3, QPS = 4, REGION = 1 << 14 };

struct zoo_pd {
	struct ibv_pd *pd;
	int adapter;
	struct ibv_td *td;   // of a parent domain; may be NULL
	int users;           // objects in it
	int names;           // parent domains of it
	struct zoo_pd *of;   // of a parent domain: the domain below
};

struct zoo_mr {
	struct ibv_mr *mr;
	struct zoo_pd *pd;
	struct ibv_mr want;
	int access;
};

struct zoo_ah {
	struct ibv_ah *ah;
	struct zoo_pd *pd;
};

struct zoo_channel {
	struct ibv_comp_channel *ch;
	int adapter, users;
};

struct zoo_cq {
	struct ibv_cq *cq;
	struct zoo_channel *channel;
	int adapter, users;
};

struct zoo_srq {
	struct ibv_srq *srq;
	struct zoo_pd *pd;
	struct ibv_srq_attr want;
	unsigned posted;
	int users;
};

struct zoo_qp {
	struct ibv_qp *qp;
	struct zoo_pd *pd;
	struct zoo_cq *send, *recv;
	struct zoo_srq *srq;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr; // what a query should return
	enum ibv_qp_state known; // what qp->state should be
	unsigned sent, received; // posted and not flushed
};

struct zoo {
	struct zoo_pd pd[PDS];
	struct zoo_mr mr[MRS];
	struct zoo_ah ah[AHS];
	struct zoo_channel channel[CHANNELS];
	struct zoo_cq cq[CQS];
	struct zoo_srq srq[SRQS];
	struct zoo_qp qp[QPS];
	char *region; // memory for regions
};

struct zoo_pd *some_pd(void);
struct zoo_pd *root_pd(struct zoo_pd *p);
void hold(struct zoo_pd *p);
void release(struct zoo_pd *p);
void empty_queues(void);
void step_qp(void);
void drop_qp(struct zoo_qp *q);

#endif

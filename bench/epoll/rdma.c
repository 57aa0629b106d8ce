// The transport RDMA: SEND and RECV over RC, one completion queue and one completion channel for
// each worker. The channels' descriptors are nonblocking and in the epoll sets.
#define _GNU_SOURCE
#include "rdma.h"

#include <errno.h>
#include <fcntl.h>

enum { COMPLETIONS = 64, BUCKETS = 4 * MAX_CONNECTIONS };

// The links by the numbers of their queue pairs. A link is there before its queue pair can receive,
// and stays.
static struct link *_Atomic links[BUCKETS];

void add_link(struct link *l)
{
	struct link *none = NULL;
	uint32_t at = l->id->qp->qp_num % BUCKETS;
	for (unsigned n = 0; !atomic_compare_exchange_strong(&links[at], &none, l); n++, at = (at + 1) % BUCKETS, none = NULL)
		need(n < BUCKETS);
}

static struct link *link_of(uint32_t qpn)
{
	for (uint32_t at = qpn % BUCKETS;; at = (at + 1) % BUCKETS) {
		struct link *l = atomic_load_explicit(&links[at], memory_order_acquire);
		need(l != NULL);
		if (l->id->qp->qp_num == qpn)
			return l;
	}
}

static char *place(const struct queues *q, uint64_t number) { return q->in + number * q->worker->program->size; }

static void post_receive(struct queues *q, struct ibv_qp *qp, uint64_t number)
{
	struct ibv_sge e = {(uintptr_t)place(q, number), q->worker->program->size, q->mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = number, .sg_list = &e, .num_sge = 1};
	need((q->srq != NULL ? ibv_post_srq_recv(q->srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad)) == 0);
}

// post_receives gives a link of a client its receives.
void post_receives(struct link *l)
{
	struct queues *q = l->worker->transport;
	for (int i = 0; i < RECEIVES; i++)
		post_receive(q, l->id->qp, q->posted++);
}

void send_message(struct link *l, uint64_t number)
{
	const struct program *p = l->worker->program;
	struct ibv_sge e = {(uintptr_t)l->out, p->size, l->mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &e, .num_sge = 1, .opcode = IBV_WR_SEND};
	number_message(l->out, p->size, number);
	if (++l->sends >= p->signal) {
		wr.send_flags = IBV_SEND_SIGNALED;
		l->sends = 0;
	}
	need(ibv_post_send(l->id->qp, &wr, &bad) == 0);
}

// received handles a message and posts its receive again.
static void received(struct queues *q, const struct ibv_wc *wc)
{
	struct program *p = q->worker->program;
	struct link *l = link_of(wc->qp_num);
	need(wc->byte_len == p->size);
	uint64_t number = number_of(place(q, wc->wr_id), p->size);
	post_receive(q, l->id->qp, wc->wr_id);
	if (p->server == NULL) {
		atomic_fetch_add_explicit(&p->served, 1, memory_order_relaxed);
		send_message(l, number);
		return;
	}
	need(number == l->number);
	if (answered(q->worker))
		send_message(l, ++l->number);
}

static void completed(struct queues *q, const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_WR_FLUSH_ERR && q->worker->program->server == NULL)
		return; // the client has closed the connection
	if (wc->status != IBV_WC_SUCCESS)
		fprintf(stderr, "epoll: a request ends with: %s\n", ibv_wc_status_str(wc->status));
	need(wc->status == IBV_WC_SUCCESS);
	if (wc->opcode & IBV_WC_RECV)
		received(q, wc);
}

// channel_ready takes the events, arms the queue, and polls until it is empty.
static void channel_ready(struct source *s)
{
	struct queues *q = OF(s, struct queues, source);
	struct ibv_wc wc[COMPLETIONS];
	struct ibv_cq *of;
	void *context;
	unsigned events = 0;
	int n;
	while (ibv_get_cq_event(q->channel, &of, &context) == 0)
		events++;
	need(errno == EAGAIN);
	ibv_ack_cq_events(q->cq, events);
	need(ibv_req_notify_cq(q->cq, 0) == 0);
	while ((n = ibv_poll_cq(q->cq, COMPLETIONS, wc)) > 0)
		for (int i = 0; i < n; i++)
			completed(q, &wc[i]);
	need(n == 0);
}

static struct queues *new_queues(struct worker *w, struct ibv_context *c, struct ibv_pd *pd)
{
	const struct program *p = w->program;
	struct queues *q = calloc(1, sizeof *q);
	unsigned most = p->server != NULL ? RECEIVES * (p->connections / p->threads + 1) : SHARED_RECEIVES + 2 * p->connections;
	need(q != NULL && (q->channel = ibv_create_comp_channel(c)) != NULL);
	need(fcntl(q->channel->fd, F_SETFL, O_NONBLOCK) == 0);
	q->worker = w;
	q->source.fd = q->channel->fd, q->source.ready = channel_ready;
	need((q->cq = ibv_create_cq(c, (int)(most + 8 * p->connections + COMPLETIONS), NULL, q->channel, 0)) != NULL);
	need(ibv_req_notify_cq(q->cq, 0) == 0);
	q->in = aligned_alloc(4096, ((size_t)most * p->size + 4095) / 4096 * 4096);
	need(q->in != NULL && (q->mr = ibv_reg_mr(pd, q->in, (size_t)most * p->size, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	if (p->server == NULL) {
		struct ibv_srq_init_attr a = {.attr = {.max_wr = most, .max_sge = 1}};
		need((q->srq = ibv_create_srq(pd, &a)) != NULL);
		for (unsigned i = 0; i < most; i++)
			post_receive(q, NULL, i);
	}
	return q;
}

// open_queues gives all workers their queues.
void open_queues(struct program *p, struct ibv_context *c, struct ibv_pd *pd)
{
	for (unsigned i = 0; i < p->threads; i++) {
		struct queues *q = new_queues(&p->worker[i], c, pd);
		p->worker[i].transport = q;
		watch(&p->worker[i], &q->source);
	}
}

static void begin_rdma(struct worker *w)
{
	struct queues *q = w->transport;
	w->in_flight = w->connections;
	for (struct link *l = q->first; l != NULL; l = l->next)
		send_message(l, ++l->number);
}

const struct transport rdma = {.name = "rdma", .listen = listen_rdma, .connect = connect_rdma, .begin = begin_rdma, .end = end_rdma};

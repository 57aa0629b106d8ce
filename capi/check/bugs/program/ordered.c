// Programs without a race, in which ThreadSanitizer must find none. They order their threads by what the verbs
// promise, or do what is legal, although it looks like a bug. Only a program that is compiled with it has them.
#include "bugs.h"

#include <sys/mman.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif

#if defined(__SANITIZE_THREAD__)

enum { LENGTH = 256, ROUNDS = 50, POSTERS = 3, EACH = 60 };

static _Atomic int sum; // the compiler must not remove reads

// fill writes each byte, where ThreadSanitizer sees it: GCC makes of memset what it does not see.
static void fill(char *p, int value, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (char)value;
}

static void polled(struct rig *r, int side) { want(r->cq[side], IBV_WC_SUCCESS); }

// post_at posts a request of side 0, with a place in the buffers of both sides, as soon as the queue has room.
static void post_at(struct rig *r, enum ibv_wr_opcode op, unsigned flags, size_t at, uint64_t id)
{
	struct ibv_sge s = {(uintptr_t)r->buf[0] + at, LENGTH, r->mr[0]->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = id, .sg_list = &s, .num_sge = 1, .opcode = op, .send_flags = flags};
	wr.wr.rdma.remote_addr = (uintptr_t)r->buf[1] + at, wr.wr.rdma.rkey = r->mr[1]->rkey;
	int code;
	while ((code = ibv_post_send(r->qp[0], &wr, &bad)) == ENOMEM) {
	}
	must(code == 0);
}

static void receive_at(struct rig *r, size_t at, uint64_t id)
{
	struct ibv_recv_wr *bad, wr = {.wr_id = id, .sg_list = &(struct ibv_sge){(uintptr_t)r->buf[1] + at, LENGTH, r->mr[1]->lkey}, .num_sge = 1};
	must((r->srq != NULL ? ibv_post_srq_recv(r->srq, &wr, &bad) : ibv_post_recv(r->qp[1], &wr, &bad)) == 0);
}

// messages has both sides use their buffers again after each poll.
static void messages(bool shared)
{
	struct rig r = {.shared = shared};
	rig_open(&r, IBV_QPT_RC);
	receive_at(&r, 0, 0);
	receive_at(&r, 4096, 4096);
	for (int i = 0; i < ROUNDS; i++) {
		fill(r.buf[0], i, LENGTH);
		post_at(&r, IBV_WR_SEND, IBV_SEND_SIGNALED, 0, 0);
		sum += r.buf[0][0]; // the adapter and the program may both read
		struct ibv_wc wc = wait_wc(r.cq[1]);
		must(wc.status == IBV_WC_SUCCESS);
		sum += r.buf[1][wc.wr_id];
		fill(r.buf[1] + wc.wr_id, 0, LENGTH);
		receive_at(&r, wc.wr_id, wc.wr_id);
		polled(&r, 0);
	}
	rig_close(&r);
}

static void messages_of_queue_pair(bool bug) { (void)bug, messages(false); }
static void messages_of_srq(bool bug) { (void)bug, messages(true); }

static void one_sided(bool bug)
{
	struct rig r = {0};
	(void)bug;
	rig_open(&r, IBV_QPT_RC);
	for (int i = 0; i < ROUNDS; i++) {
		fill(r.buf[0], i, LENGTH);
		post_at(&r, IBV_WR_RDMA_WRITE, 0, 0, 1);
		post_at(&r, IBV_WR_RDMA_WRITE, 0, 4096, 2);
		post_at(&r, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, 8192, 3);
		polled(&r, 0);
		fill(r.buf[0], i, 3 * 4096); // the unsignaled requests are done, too
		sum += r.buf[1][0];
		fill(r.buf[1], i, LENGTH);
	}
	rig_close(&r);
}

// A program that spins on memory which a WRITE fills must read it atomically, as this one does.
static void spins_on_memory(bool bug)
{
	struct rig r = {0};
	time_t end = time(NULL) + 30;
	(void)bug;
	rig_open(&r, IBV_QPT_RC);
	fill(r.buf[0], 1, LENGTH);
	post_at(&r, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, 0);
	while (__atomic_load_n(&r.buf[1][LENGTH - 1], __ATOMIC_ACQUIRE) == 0)
		must(time(NULL) < end);
	sum += r.buf[1][0];
	polled(&r, 0);
	rig_close(&r);
}

// The rest of a receive is the program's, and a WRITE with an immediate does not fill it at all.
static void rest_of_receive(bool bug)
{
	struct rig r = {0};
	(void)bug;
	rig_open(&r, IBV_QPT_RC);
	receive(&r, 1, 2 * LENGTH);
	receive_at(&r, 4096, 1);
	fill(r.buf[1] + LENGTH, 1, LENGTH);
	fill(r.buf[1] + 4096, 1, LENGTH);
	post_at(&r, IBV_WR_SEND, IBV_SEND_SIGNALED, 0, 0);
	polled(&r, 0);
	polled(&r, 1);
	struct ibv_sge s = element(&r, 0, LENGTH);
	must(post_element(&r, IBV_WR_RDMA_WRITE_WITH_IMM, s) == 0);
	polled(&r, 0);
	polled(&r, 1);
	rig_close(&r);
}

// A program learns from the answer of the peer that its datagram was sent, without a completion.
static void datagram_answered(bool bug)
{
	struct rig r = {0};
	(void)bug;
	rig_open(&r, IBV_QPT_UD);
	struct ibv_ah *ah = make_ah(&r, r.pd);
	receive(&r, 1, 1024);
	must(send_datagram(&r, ah, LENGTH) == 0);
	polled(&r, 1);
	sum += r.buf[1][40];
	fill(r.buf[0], 2, LENGTH);
	polled(&r, 0);
	must(ibv_destroy_ah(ah) == 0);
	rig_close(&r);
}

// Receives whose data the program ignores may be in the same memory, also of different queues.
static void memory_for_nothing(bool bug)
{
	struct rig r = {0};
	(void)bug;
	rig_open(&r, IBV_QPT_RC);
	for (int i = 0; i < 2; i++) {
		struct ibv_sge s = element(&r, 1, LENGTH);
		struct ibv_recv_wr *bad, wr = {.sg_list = &s, .num_sge = 1};
		must(ibv_post_recv(r.qp[i], &wr, &bad) == 0);
	}
	must(post(&r, 0, IBV_WR_SEND, LENGTH) == 0);
	struct ibv_sge s = element(&r, 0, LENGTH);
	struct ibv_send_wr *bad, wr = {.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	must(ibv_post_send(r.qp[1], &wr, &bad) == 0);
	for (int side = 0; side < 2; side++)
		polled(&r, side), polled(&r, side);
	fill(r.buf[1], 3, LENGTH);
	rig_close(&r);
}

// job is what a thread knows of a request by its wr_id alone.
struct job {
	struct rig *r;
	size_t at;
	int value; // written before the post, and read after the poll
};

static void *poll_jobs(void *p)
{
	struct rig *r = p;
	for (int i = 0; i < POSTERS * EACH; i++) {
		struct ibv_wc wc = wait_wc(r->cq[0]);
		struct job *j = (struct job *)(uintptr_t)wc.wr_id;
		must(wc.status == IBV_WC_SUCCESS && j->value == 1);
		fill(r->buf[0] + j->at, 2, LENGTH);
		j->value = 2;
		free(j);
	}
	return NULL;
}

static void *post_jobs(void *p)
{
	struct job *from = p;
	for (int i = 0; i < EACH; i++) {
		struct job *j = malloc(sizeof *j);
		must(j != NULL);
		*j = (struct job){from->r, from->at + (size_t)i * LENGTH, 1};
		fill(j->r->buf[0] + j->at, i, LENGTH);
		post_at(j->r, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, j->at, (uintptr_t)j);
	}
	return NULL;
}

// Threads post to one queue pair without a lock of their own, more than it holds, and another one polls.
static void jobs_of_threads(bool bug)
{
	struct rig r = {0};
	pthread_t t[POSTERS + 1];
	struct job from[POSTERS];
	(void)bug;
	rig_open(&r, IBV_QPT_RC);
	must(pthread_create(&t[POSTERS], NULL, poll_jobs, &r) == 0);
	for (int i = 0; i < POSTERS; i++) {
		from[i] = (struct job){&r, (size_t)i * EACH * LENGTH, 0};
		must(pthread_create(&t[i], NULL, post_jobs, &from[i]) == 0);
	}
	for (int i = 0; i <= POSTERS; i++)
		must(pthread_join(t[i], NULL) == 0);
	rig_close(&r);
}

// next_event waits for an event of a side, and polls its completion.
static void next_event(struct rig *r, int side)
{
	struct ibv_wc wc;
	struct ibv_cq *q;
	void *context;
	int n;
	must(ibv_req_notify_cq(r->cq[side], 0) == 0);
	while ((n = ibv_poll_cq(r->cq[side], 1, &wc)) == 0) {
		must(ibv_get_cq_event(r->channel, &q, &context) == 0 && q == r->cq[side]);
		ibv_ack_cq_events(q, 1);
		must(ibv_req_notify_cq(q, 0) == 0);
	}
	must(n == 1 && wc.status == IBV_WC_SUCCESS);
}

enum { ANSWER = 8192 };

static int news; // what a thread prepares for another one, which learns from a message that it is there

static void *read_news(void *p)
{
	struct rig *r = p;
	struct ibv_sge s = {(uintptr_t)r->buf[1] + ANSWER, 1, r->mr[1]->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND};
	for (int i = 0; i < ROUNDS; i++) {
		next_event(r, 1);
		must(news == i && r->buf[1][0] == (char)i && r->buf[1][4096] == (char)i);
		news = -1;
		receive_at(r, 0, 0);
		must(ibv_post_send(r->qp[1], &wr, &bad) == 0);
	}
	return NULL;
}

// A thread waits for events. It reads what another thread has prepared for it before a message, and what a WRITE
// before the message has written.
static void news_by_message(bool bug)
{
	struct rig r = {0};
	pthread_t t;
	(void)bug;
	rig_open(&r, IBV_QPT_RC);
	receive_at(&r, 0, 0);
	must(pthread_create(&t, NULL, read_news, &r) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_recv_wr *bad, wr = {.wr_id = ANSWER, .sg_list = &(struct ibv_sge){(uintptr_t)r.buf[0] + ANSWER, 1, r.mr[0]->lkey}, .num_sge = 1};
		must(ibv_post_recv(r.qp[0], &wr, &bad) == 0);
		news = i;
		fill(r.buf[0], i, ANSWER);
		post_at(&r, IBV_WR_RDMA_WRITE, 0, 4096, 1);
		post_at(&r, IBV_WR_SEND, IBV_SEND_SIGNALED, 0, 2);
		polled(&r, 0);
		polled(&r, 0);
		must(news == -1);
	}
	must(pthread_join(t, NULL) == 0);
	rig_close(&r);
}

// Threads use queue pairs of their own, and open and close the adapter at the same time.
static void *use_adapter(void *p)
{
	(void)p;
	messages(false);
	return NULL;
}

static void rigs_of_threads(bool bug)
{
	pthread_t t[POSTERS];
	(void)bug;
	for (int i = 0; i < POSTERS; i++)
		must(pthread_create(&t[i], NULL, use_adapter, NULL) == 0);
	for (int i = 0; i < POSTERS; i++)
		must(pthread_join(t[i], NULL) == 0);
}

// The program protects memory that it posts. The checker and the adapter find that they cannot read it.
static void protected(bool bug)
{
	struct rig r = {0};
	(void)bug;
	rig_open(&r, IBV_QPT_RC);
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(p != MAP_FAILED);
	struct ibv_mr *m = ibv_reg_mr(r.pd, p, 4096, IBV_ACCESS_LOCAL_WRITE);
	must(m != NULL && mprotect(p, 4096, PROT_NONE) == 0);
	must(post_element(&r, IBV_WR_RDMA_WRITE, (struct ibv_sge){(uintptr_t)p, 64, m->lkey}) == 0);
	want(r.cq[0], IBV_WC_LOC_PROT_ERR);
	must(ibv_dereg_mr(m) == 0 && munmap(p, 4096) == 0);
	connect_anew(&r);
	must(post(&r, 0, IBV_WR_RDMA_WRITE, 64) == 0);
	polled(&r, 0);
	rig_close(&r);
}

// Completions with errors, and an asynchronous event, which another thread reads.
static void *read_event(void *p)
{
	struct rig *r = p;
	struct ibv_async_event e;
	must(ibv_get_async_event(r->ctx, &e) == 0 && e.event_type == IBV_EVENT_SQ_DRAINED);
	ibv_ack_async_event(&e);
	return NULL;
}

static void errors_and_events(bool bug)
{
	struct rig r = {0};
	pthread_t t;
	(void)bug;
	rig_open(&r, IBV_QPT_RC);
	must(pthread_create(&t, NULL, read_event, &r) == 0);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	must(ibv_modify_qp(r.qp[0], &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0);
	must(pthread_join(t, NULL) == 0);
	receive_at(&r, 0, 0);
	move_to(r.qp[1], IBV_QPS_ERR);
	ends(r.cq[1], false);
	fill(r.buf[1], 1, BUF);
	rig_close(&r);
}

const struct bug right_races[] = {
	{"messages", "none", messages_of_queue_pair},
	{"messages-of-srq", "none", messages_of_srq},
	{"protected", "none", protected},
	{"one-sided", "none", one_sided},
	{"spins-on-memory", "none", spins_on_memory},
	{"rest-of-receive", "none", rest_of_receive},
	{"datagram-answered", "none", datagram_answered},
	{"memory-for-nothing", "none", memory_for_nothing},
	{"jobs-of-threads", "none", jobs_of_threads},
	{"news-by-message", "none", news_by_message},
	{"rigs-of-threads", "none", rigs_of_threads},
	{"errors-and-events", "none", errors_and_events},
	{NULL, NULL, NULL},
};

#else

const struct bug right_races[] = {{NULL, NULL, NULL}};

#endif

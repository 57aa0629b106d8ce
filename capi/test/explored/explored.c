// A program that connects two queue pairs of its own, sends some messages, and has an error path with the bug that its argument names; or
// with none. softhca explore finds each.
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGES = 4, SIZE = 64 };

static const char *bug;

static bool has(const char *name) { return strcmp(bug, name) == 0; }

struct ends {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
	char buf[2 * SIZE];
};

// fails prints what failed, and returns false.
static bool fails(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	return false;
}

static bool move(struct ibv_qp *q, const struct ibv_qp *peer, const union ibv_gid *gid)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qp_num, .min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = *gid, .hop_limit = 1}},
	};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 17, .retry_cnt = 7, .rnr_retry = 7};
	return ibv_modify_qp(q, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0 &&
	       ibv_modify_qp(q, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0 &&
	       ibv_modify_qp(q, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0;
}

// build makes the objects and connects the queue pairs.
static bool build(struct ends *e)
{
	union ibv_gid gid;
	if ((e->pd = ibv_alloc_pd(e->ctx)) == NULL)
		return fails("alloc pd");
	e->mr = ibv_reg_mr(e->pd, e->buf, sizeof e->buf, IBV_ACCESS_LOCAL_WRITE);
	if (e->mr == NULL && has("retries"))
		e->mr = ibv_reg_mr(e->pd, e->buf, sizeof e->buf, IBV_ACCESS_LOCAL_WRITE);
	if (e->mr == NULL && !has("unchecked"))
		return fails("reg mr");
	if ((e->channel = ibv_create_comp_channel(e->ctx)) == NULL)
		return fails("create channel");
	if ((e->cq = ibv_create_cq(e->ctx, 4 * MESSAGES, NULL, e->channel, 0)) == NULL)
		return fails("create cq");
	struct ibv_qp_init_attr attr = {.send_cq = e->cq, .recv_cq = e->cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = {.max_send_wr = MESSAGES, .max_recv_wr = MESSAGES, .max_send_sge = 1, .max_recv_sge = 1}};
	for (int i = 0; i < 2; i++)
		if ((e->qp[i] = ibv_create_qp(e->pd, &attr)) == NULL)
			return fails("create qp");
	if (ibv_query_gid(e->ctx, 1, 0, &gid) != 0)
		return fails("query gid");
	return (move(e->qp[0], e->qp[1], &gid) && move(e->qp[1], e->qp[0], &gid)) || fails("modify qp");
}

// read_nothing reads from an empty pipe.
static void *read_nothing(void *arg)
{
	int ends[2];
	char byte;
	if (pipe(ends) == 0 && read(ends[0], &byte, 1) != 0)
		fails("read");
	return arg;
}

// wait_in_threads waits for a thread that reads, and then for a condition that never comes.
static void wait_in_threads(void)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	pthread_t thread;
	if (pthread_create(&thread, NULL, read_nothing, NULL) != 0)
		return;
	pthread_mutex_lock(&mutex);
	for (;;)
		pthread_cond_wait(&cond, &mutex);
}

// wait_for_event waits for the event of a completion that never comes.
static void wait_for_event(struct ends *e)
{
	struct ibv_cq *cq;
	void *context;
	if (ibv_req_notify_cq(e->cq, 0) == 0 && ibv_get_cq_event(e->channel, &cq, &context) == 0)
		ibv_ack_cq_events(cq, 1);
}

// send_one sends a message from one queue pair to the other, and waits for its two completions.
static bool send_one(struct ends *e)
{
	struct ibv_sge to = {(uintptr_t)e->buf + SIZE, SIZE, e->mr->lkey}, from = {(uintptr_t)e->buf, SIZE, e->mr->lkey};
	struct ibv_recv_wr recv = {.sg_list = &to, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad_send;
	if (ibv_post_recv(e->qp[1], &recv, &bad_recv) != 0 || ibv_post_send(e->qp[0], &send, &bad_send) != 0)
		return fails("post");
	for (int done = 0; done < 2;) {
		struct ibv_wc wc;
		int n = ibv_poll_cq(e->cq, 1, &wc);
		if (n < 0)
			return fails("poll");
		if (n > 0 && wc.status == IBV_WC_SUCCESS)
			done++;
		else if (n > 0 && has("sleeps"))
			wait_for_event(e);
		else if (n > 0 && has("joins"))
			wait_in_threads();
		else if (n > 0 && !has("waits")) {
			fprintf(stderr, "completion: %s\n", ibv_wc_status_str(wc.status));
			return false;
		}
	}
	return true;
}

// forget sends a message, waits for the event of its completion, and does not poll it.
static bool forget(struct ends *e)
{
	struct ibv_sge to = {(uintptr_t)e->buf + SIZE, SIZE, e->mr->lkey}, from = {(uintptr_t)e->buf, SIZE, e->mr->lkey};
	struct ibv_recv_wr recv = {.sg_list = &to, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad_send;
	struct ibv_cq *cq;
	void *context;
	if (ibv_req_notify_cq(e->cq, 0) != 0 || ibv_post_recv(e->qp[1], &recv, &bad_recv) != 0 || ibv_post_send(e->qp[0], &send, &bad_send) != 0)
		return fails("post");
	if (ibv_get_cq_event(e->channel, &cq, &context) != 0)
		return fails("event");
	ibv_ack_cq_events(cq, 1);
	return true;
}

// teardown destroys all that there is, in the right order.
static bool teardown(struct ends *e)
{
	bool ok = true;
	for (int i = 0; i < 2; i++)
		ok = (e->qp[i] == NULL || ibv_destroy_qp(e->qp[i]) == 0) && ok;
	ok = (e->cq == NULL || ibv_destroy_cq(e->cq) == 0) && ok;
	ok = (e->channel == NULL || ibv_destroy_comp_channel(e->channel) == 0) && ok;
	ok = (e->mr == NULL || ibv_dereg_mr(e->mr) == 0) && ok;
	ok = (e->pd == NULL || ibv_dealloc_pd(e->pd) == 0) && ok;
	return ok || fails("destroy");
}

// look opens the adapter and closes it again, and does not mind whether it can allocate something.
static bool look(struct ibv_device *d)
{
	struct ibv_context *ctx = ibv_open_device(d);
	if (ctx == NULL)
		return fails("open");
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	return (pd == NULL || ibv_dealloc_pd(pd) == 0) && ibv_close_device(ctx) == 0;
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	bug = argv[1];
	struct ibv_device **list = ibv_get_device_list(NULL);
	static struct ends e;
	if (list == NULL || list[0] == NULL || (has("reopens") && !look(list[0])) || (e.ctx = ibv_open_device(list[0])) == NULL)
		return fails("open"), 1;
	bool ok = build(&e);
	for (int i = 0; ok && i < MESSAGES; i++)
		ok = send_one(&e);
	if (ok && has("forgets"))
		ok = forget(&e);
	if (ok || !has("leaks"))
		ok = teardown(&e) && ok;
	if (ibv_close_device(e.ctx) != 0)
		ok = fails("close");
	ibv_free_device_list(list);
	return ok ? 0 : 1;
}

// Bugs with the number of outstanding requests, and completions that the program does not poll.
#include "bugs.h"

// PATIENCE_S is how long a program with a bug waits for room that it does not make.
enum { PATIENCE_S = 3 };

// write_once posts a write of 8 bytes, when the send queue has room for it. It never has if there is a bug.
static void write_once(struct rig *r, unsigned flags)
{
	struct ibv_sge s = element(r, 0, 8);
	struct ibv_send_wr *bad, wr = {.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = flags};
	time_t end = time(NULL) + PATIENCE_S;
	int code;
	wr.wr.rdma.remote_addr = (uintptr_t)r->buf[1], wr.wr.rdma.rkey = r->mr[1]->rkey;
	while ((code = ibv_post_send(r->qp[0], &wr, &bad)) == ENOMEM && time(NULL) < end) { // FOUND
	}
	must(code == 0 || code == ENOMEM);
}

static void send_queue_never_reclaimed(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	for (int i = 0; i <= DEPTH; i++) {
		bool signaled = !bug && i % (DEPTH / 2) == 0;
		write_once(&r, signaled ? IBV_SEND_SIGNALED : 0);
		if (signaled)
			want(r.cq[0], IBV_WC_SUCCESS);
	}
	rig_close(&r);
}

static void extended_never_reclaimed(bool bug)
{
	struct rig r = {0};
	struct ibv_qp_ex *q = open_extended(&r);
	for (int i = 0, code; i <= DEPTH; i++) {
		time_t end = time(NULL) + PATIENCE_S;
		do {
			ibv_wr_start(q);
			q->wr_flags = !bug && i == DEPTH / 2 ? IBV_SEND_SIGNALED : 0;
			ibv_wr_rdma_write(q, r.mr[1]->rkey, (uintptr_t)r.buf[1]); // FOUND
			ibv_wr_set_inline_data(q, r.buf[0], 8);
			code = ibv_wr_complete(q);
			must(code == 0 || code == ENOMEM);
		} while (code != 0 && time(NULL) < end);
		if (!bug && i == DEPTH / 2)
			want(r.cq[0], IBV_WC_SUCCESS);
	}
	rig_close(&r);
}

// The right program polls one completion for each two requests, which covers both.
static void send_queue_overfilled(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	for (int i = 0; i <= DEPTH; i++) {
		write_once(&r, i % 2 == 1 ? IBV_SEND_SIGNALED : 0);
		if (!bug && i % 2 == 1)
			want(r.cq[0], IBV_WC_SUCCESS);
	}
	for (int i = 0; bug && i < DEPTH / 2; i++)
		want(r.cq[0], IBV_WC_SUCCESS);
	rig_close(&r);
}

// until_refused posts a list that is longer than the send queue, and tries again for some time while nothing completes,
// because the peer has no receives.
static void until_refused(bool quiet)
{
	enum { LONGEST = 16 * DEPTH };
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	must(ibv_query_qp(r.qp[0], &a, IBV_QP_CAP, &init) == 0 && init.cap.max_send_wr < LONGEST);
	struct ibv_sge s = element(&r, 0, 8);
	struct ibv_send_wr *bad, wr[LONGEST] = {0};
	struct ibv_wc wc;
	int n = (int)init.cap.max_send_wr;
	for (int i = 0; i <= n; i++) {
		wr[i] = (struct ibv_send_wr){.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
		wr[i].next = i < n ? &wr[i + 1] : NULL;
	}
	must(ibv_post_send(r.qp[0], wr, &bad) == ENOMEM && bad == &wr[n]);
	for (time_t end = time(NULL) + PATIENCE_S; time(NULL) < end;) {
		must(ibv_post_send(r.qp[0], &wr[n], &bad) == ENOMEM);
		must(quiet || ibv_poll_cq(r.cq[0], 1, &wc) == 0);
	}
	for (int i = 0; i < n; i++) {
		receive(&r, 1, 8);
		want(r.cq[0], IBV_WC_SUCCESS);
		want(r.cq[1], IBV_WC_SUCCESS);
	}
	rig_close(&r);
}

// receive_again fills the receive queue of side 1, and posts one more receive after one of them has taken a
// message.
static void receive_again(struct rig *r, bool polls)
{
	struct ibv_sge s = element(r, 1, 8);
	for (int i = 0; i <= DEPTH; i++, s.addr += 8) {
		if (i == DEPTH) {
			must(post(r, 0, IBV_WR_SEND, 8) == 0);
			want(r->cq[0], IBV_WC_SUCCESS);
			if (polls)
				want(r->cq[1], IBV_WC_SUCCESS);
		}
		struct ibv_recv_wr *bad, wr = {.sg_list = &s, .num_sge = 1};
		time_t end = time(NULL) + PATIENCE_S;
		int code;
		while ((code = r->srq != NULL ? ibv_post_srq_recv(r->srq, &wr, &bad) : ibv_post_recv(r->qp[1], &wr, &bad)) == ENOMEM && time(NULL) < end) { // FOUND
		}
		must(code == (polls || i < DEPTH ? 0 : ENOMEM));
	}
	if (!polls)
		want(r->cq[1], IBV_WC_SUCCESS);
	rig_close(r);
}

static void receive_queue_overfilled(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	receive_again(&r, !bug);
}

static void srq_overfilled(bool bug)
{
	struct rig r = {.shared = true};
	rig_open(&r, IBV_QPT_RC);
	receive_again(&r, !bug);
}

// fail_or_write writes with an rkey that is wrong if the request is to fail, and waits until it has completed.
static void fail_or_write(struct rig *r, bool fails)
{
	struct ibv_mr *right = r->mr[1], wrong = *right;
	wrong.rkey = ~wrong.rkey;
	if (fails)
		r->mr[1] = &wrong;
	must(post(r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
	r->mr[1] = right;
	await_completion(r, r->cq[0]);
}

// The queue pair, whose destruction must come first, is destroyed with an error in its completion queue.
static void error_never_polled(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC); // FOUND
	fail_or_write(&r, bug);
	if (!bug)
		want(r.cq[0], IBV_WC_SUCCESS);
	rig_close(&r);
}

static void error_left_at_exit(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC); // FOUND
	fail_or_write(&r, bug);
	if (bug)
		exit(0);
	want(r.cq[0], IBV_WC_SUCCESS);
	rig_close(&r);
}

static void error_left_at_quick_exit(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC); // FOUND
	fail_or_write(&r, bug);
	quick_exit(0);
}

const struct bug queue_bugs[] = {
	{"send-queue-never-reclaimed", "send-queue-never-reclaimed", send_queue_never_reclaimed},
	{"extended-never-reclaimed", "send-queue-never-reclaimed", extended_never_reclaimed},
	{"send-queue-overfilled", "send-queue-overfilled", send_queue_overfilled},
	{"until-refused", "-", until_refused},
	{"receive-queue-overfilled", "receive-queue-overfilled", receive_queue_overfilled},
	{"srq-overfilled", "-", srq_overfilled},
	{"error-never-polled", "error-never-polled", error_never_polled},
	{"error-left-at-exit", "error-never-polled", error_left_at_exit},
	{"error-left-at-quick-exit", "error-never-polled", error_left_at_quick_exit},
	{NULL, NULL, NULL},
};

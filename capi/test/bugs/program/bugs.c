// A client and a server, two processes, with one bug: the word on the command line. The client tells the
// status of its last work request, or the error of a call.
#define _GNU_SOURCE
#include <infiniband/verbs.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	SIZE = 8192,
	SERVER_PSN = 0x2000,
	CLIENT_PSN = 0x1000,
	RNR_TIMER = 12, // 0.64 ms
	TIMEOUT = 12,   // 17 ms
	LOST_TIMEOUT = 15, // 134 ms: the server's end is seen before the last repeat
	LATE_MS = 200,
};

// end is one side.
struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	char *buffer;
	int peer; // socket to the other process
};

// card is what the sides tell each other.
struct card {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t qpn, rkey;
};

static const char *bug;

static bool is(const char *name) { return strcmp(bug, name) == 0; }

static void die(const char *what, int code)
{
	fprintf(stderr, "bugs: %s: %s\n", what, strerror(code));
	_exit(3);
}

static void require(bool ok, const char *what)
{
	if (!ok)
		die(what, errno);
}

static void open_end(struct end *e, int peer, int access, uint32_t bytes, int entries)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	require(list != NULL && list[0] != NULL, "no device");
	e->peer = peer;
	require((e->ctx = ibv_open_device(list[0])) != NULL, "open");
	require((e->pd = ibv_alloc_pd(e->ctx)) != NULL, "allocate PD");
	require((e->cq = ibv_create_cq(e->ctx, entries, NULL, NULL, 0)) != NULL, "create CQ");
	require((e->buffer = calloc(1, SIZE)) != NULL, "allocate");
	require((e->mr = ibv_reg_mr(e->pd, e->buffer, bytes, access)) != NULL, "register");
	struct ibv_qp_init_attr init = {
		.send_cq = e->cq, .recv_cq = e->cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
	};
	require((e->qp = ibv_create_qp(e->pd, &init)) != NULL, "create QP");
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};
	int code = ibv_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (code != 0)
		die("modify QP to INIT", code);
}

// meet exchanges cards.
static struct card meet(struct end *e)
{
	struct card own = {.addr = (uintptr_t)e->buffer, .qpn = e->qp->qp_num, .rkey = e->mr->rkey}, other;
	require(ibv_query_gid(e->ctx, 1, 0, &own.gid) == 0, "query GID");
	require(write(e->peer, &own, sizeof own) == sizeof own, "write");
	require(read(e->peer, &other, sizeof other) == sizeof other, "read");
	return other;
}

static void connect_end(struct end *e, const struct card *to, enum ibv_mtu mtu, uint32_t sq_psn, uint32_t rq_psn, uint8_t rnr_retry)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR, .path_mtu = mtu, .dest_qp_num = to->qpn, .rq_psn = rq_psn, .max_dest_rd_atomic = 1, .min_rnr_timer = RNR_TIMER,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = to->gid, .hop_limit = 64}},
	};
	int code = ibv_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (code != 0)
		die("modify QP to RTR", code);
	if (is("post-before-rts"))
		return;
	struct ibv_qp_attr s = {.qp_state = IBV_QPS_RTS, .timeout = is("lost-peer") ? LOST_TIMEOUT : TIMEOUT, .retry_cnt = 2, .rnr_retry = rnr_retry, .sq_psn = sq_psn, .max_rd_atomic = 1};
	code = ibv_modify_qp(e->qp, &s, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	if (code != 0)
		die("modify QP to RTS", code);
}

static void receive(struct end *e, uint32_t bytes)
{
	struct ibv_sge sge = {(uintptr_t)e->buffer, bytes, e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 77, .sg_list = &sge, .num_sge = 1}, *bad;
	int code = ibv_post_recv(e->qp, &wr, &bad);
	if (code != 0)
		die("post receive", code);
}

static int post(struct end *e, enum ibv_wr_opcode op, uint64_t id, uint32_t bytes, uint32_t lkey, uint64_t addr, uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)e->buffer, bytes, lkey};
	struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = op, .wr.rdma = {addr, rkey}}, *bad;
	return ibv_post_send(e->qp, &wr, &bad);
}

static enum ibv_wc_status await(struct end *e)
{
	struct ibv_wc wc;
	int n;
	while ((n = ibv_poll_cq(e->cq, 1, &wc)) == 0)
		;
	require(n == 1, "poll");
	return wc.status;
}

static void server(int peer)
{
	struct end e;
	char byte = 0;
	int access = IBV_ACCESS_LOCAL_WRITE | (is("no-right") ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE);
	open_end(&e, peer, access, is("beyond") ? 100 : SIZE, 16);
	struct card to = meet(&e);
	if (!is("not-in-rtr"))
		connect_end(&e, &to, is("mtu-mismatch") ? IBV_MTU_1024 : IBV_MTU_4096, SERVER_PSN, CLIENT_PSN, 7);
	if (is("receive-too-small") || is("left"))
		receive(&e, 8);
	else if (!is("rnr") && !is("late-receive"))
		for (int i = 0; i < 8; i++)
			receive(&e, SIZE);
	require(write(peer, &byte, 1) == 1, "write");
	if (is("late-receive")) {
		struct pollfd client = {.fd = peer, .events = POLLIN};
		require(poll(&client, 1, LATE_MS) == 0, "the client does not wait");
		receive(&e, SIZE);
	}
	if (is("lost-peer")) {
		await(&e);
		require(read(peer, &byte, 1) == 1, "read"); // the client has its completion: no acknowledgement is lost
		kill(getpid(), SIGKILL);
	}
	while (read(peer, &byte, 1) > 0)
		;
	if (is("left"))
		_exit(0);
	// A program that ends well leaves nothing behind.
	ibv_destroy_qp(e.qp);
	ibv_dereg_mr(e.mr);
	ibv_destroy_cq(e.cq);
	ibv_dealloc_pd(e.pd);
	ibv_close_device(e.ctx);
	_exit(0);
}

// client has the bug, or meets it, and returns the status of its last request.
static int client(struct end *e, const struct card *to)
{
	uint32_t lkey = e->mr->lkey;
	int code = 0, n = 1;
	if (is("wrong-rkey"))
		code = post(e, IBV_WR_RDMA_WRITE, 5, 64, lkey, to->addr, to->rkey ^ 0x5500);
	else if (is("no-right") || is("beyond"))
		code = post(e, IBV_WR_RDMA_WRITE, 5, 1024, lkey, to->addr, to->rkey);
	else if (is("bad-lkey"))
		code = post(e, IBV_WR_SEND, 5, 64, lkey ^ 0x5500, 0, 0);
	else if (is("cq-overrun")) {
		for (int i = 0; i < 8 && code == 0; i++)
			code = post(e, IBV_WR_SEND, 5, 64, lkey, 0, 0);
		struct ibv_async_event event;
		require(ibv_get_async_event(e->ctx, &event) == 0, "asynchronous event");
		printf("event %s\n", ibv_event_type_str(event.event_type));
		ibv_ack_async_event(&event);
		return 0;
	} else
		code = post(e, IBV_WR_SEND, 5, is("mtu-mismatch") ? 4096 : 64, lkey, 0, 0);
	if (code != 0) {
		printf("post: %s\n", strerror(code));
		return 0;
	}
	enum ibv_wc_status status = await(e);
	if (is("lost-peer")) {
		require(status == IBV_WC_SUCCESS, "first message");
		require(write(e->peer, "", 1) == 1, "write");
		require(waitpid(-1, NULL, 0) > 0, "wait");
		require(post(e, IBV_WR_SEND, 6, 64, lkey, 0, 0) == 0, "post");
		status = await(e);
	}
	printf("status %s\n", ibv_wc_status_str(status));
	return n - 1;
}

int main(int argc, char **argv)
{
	int pair[2];
	if (argc != 2) {
		fprintf(stderr, "usage: bugs BUG\n");
		return 2;
	}
	bug = argv[1];
	require(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
	pid_t child = fork();
	require(child >= 0, "fork");
	if (child == 0) {
		close(pair[0]);
		server(pair[1]);
	}
	close(pair[1]);
	struct end e;
	char byte;
	open_end(&e, pair[0], IBV_ACCESS_LOCAL_WRITE, SIZE, is("cq-overrun") ? 1 : 16);
	struct card to = meet(&e);
	struct card dest = to;
	if (is("wrong-qpn"))
		dest.qpn ^= 0x40;
	connect_end(&e, &dest, IBV_MTU_4096, CLIENT_PSN + (is("wrong-psn") ? 5 : 0), SERVER_PSN, is("late-receive") ? 7 : 1);
	require(read(pair[0], &byte, 1) == 1, "read");
	int code = client(&e, &to);
	close(pair[0]);
	while (waitpid(-1, NULL, 0) > 0)
		;
	ibv_destroy_qp(e.qp);
	ibv_dereg_mr(e.mr);
	ibv_destroy_cq(e.cq);
	ibv_dealloc_pd(e.pd);
	ibv_close_device(e.ctx);
	return code;
}

// A program exits as soon as it has received the last message. The peer's send completes
// successfully, in whichever way the program ends.
#include "cm.h"

#include <signal.h>
#include <time.h>

// The MESSAGES before the end let the adapter learn how the program waits for them.
enum { ROUNDS = 6, MESSAGES = 300, SIZE = 8, SOON_S = 5 };

static void (*leave)(int status);
static bool asleep; // the program waits for an event, rather than poll

static void quit(int status) { exit(status); }
static void quit_at_once(int status) { _exit(status); }
static void quit_at_once_too(int status) { _Exit(status); }
static void quit_quickly(int status) { quick_exit(status); }

static void in_handler(int sig)
{
	(void)sig;
	_exit(0);
}

static void quit_in_handler(int status)
{
	must(signal(SIGUSR1, in_handler) != SIG_ERR);
	raise(SIGUSR1);
	exit(status + 1);
}

// wait_for waits for the next completion of a queue.
static void wait_for(struct ibv_cq *cq, struct ibv_comp_channel *ch)
{
	struct ibv_wc wc;
	int n;
	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0) {
		void *context;
		if (!asleep)
			continue;
		must(ibv_req_notify_cq(cq, 0) == 0);
		if ((n = ibv_poll_cq(cq, 1, &wc)) != 0)
			break;
		must(ibv_get_cq_event(ch, &cq, &context) == 0);
		ibv_ack_cq_events(cq, 1);
	}
	must(n == 1 && wc.status == IBV_WC_SUCCESS);
}

// The program that exits.
static void receives(int parent, int from)
{
	(void)from;
	static char buf[SIZE];
	struct rdma_conn_param p = params(NULL, 0);
	struct rdma_event_channel *ch = open_channel();
	listen_on(ch, RDMA_PS_TCP, PORT, 1);
	say(parent);
	struct rdma_cm_id *id = pass(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct ibv_qp_init_attr a = {.qp_type = id->qp_type, .cap = {.max_send_wr = 1, .max_recv_wr = MESSAGES, .max_recv_sge = 1}};
	must(rdma_create_qp(id, NULL, &a) == 0);
	struct ibv_mr *mr = rdma_reg_msgs(id, buf, SIZE);
	must(mr != NULL);
	for (int i = 0; i < MESSAGES; i++)
		must(rdma_post_recv(id, NULL, buf, SIZE, mr) == 0);
	must(rdma_accept(id, &p) == 0);
	pass(ch, RDMA_CM_EVENT_ESTABLISHED);
	say(parent);
	for (int i = 0; i < MESSAGES; i++)
		wait_for(id->recv_cq, id->recv_cq_channel);
	leave(0);
}

// The peer.
static void sends(void)
{
	int from, to, n;
	char buf[SIZE] = {0};
	struct ibv_wc wc;
	pid_t child = start(receives, &from, &to);
	hear(from);
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *id = ready(ch, RDMA_PS_TCP, PORT);
	struct ibv_mr *mr = rdma_reg_msgs(id, buf, SIZE);
	must(mr != NULL);
	ask(id);
	pass(ch, RDMA_CM_EVENT_ESTABLISHED);
	hear(from);
	time_t until = time(NULL) + SOON_S;
	for (int i = 0; i < MESSAGES; i++) {
		must(rdma_post_send(id, NULL, buf, SIZE, mr, IBV_SEND_SIGNALED) == 0);
		while ((n = ibv_poll_cq(id->send_cq, 1, &wc)) == 0 && time(NULL) < until)
			;
		must(n == 1 && wc.status == IBV_WC_SUCCESS);
	}
	pass(ch, RDMA_CM_EVENT_DISCONNECTED);
	ended_well(child);
	exit(0);
}

static void ending(void (*how)(int))
{
	leave = how;
	for (int i = 0; i < ROUNDS; i++) {
		asleep = i % 2 != 0;
		// A child cannot use an adapter that its parent has opened, so each round has new processes.
		pid_t pid = begin_child();
		if (pid == 0)
			sends();
		ended_well(pid);
	}
}

static void by_exit(void) { ending(quit); }
static void by__exit(void) { ending(quit_at_once); }
static void by__Exit(void) { ending(quit_at_once_too); }
static void by_quick_exit(void) { ending(quit_quickly); }
static void by_handler(void) { ending(quit_in_handler); }

const struct scenario endings[] = {
	{"ends-exit", by_exit}, {"ends-_exit", by__exit}, {"ends-_Exit", by__Exit}, {"ends-quick_exit", by_quick_exit},
	{"ends-handler", by_handler}, {NULL, NULL},
};

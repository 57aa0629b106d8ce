// A process makes a wrong call, which ends it if it is checked with fatal. Its peer gets DISCONNECTED.
#include "cm.h"

enum { SOON_S = 10, GOES_ON = 3 };

static struct rdma_cm_id *connected;
static void (*way)(void);

// wrong makes a call that fails with EINVAL.
static void wrong(void)
{
	struct ibv_send_wr *bad, wr = {.opcode = (enum ibv_wr_opcode)31};
	must(ibv_post_send(connected->qp, &wr, &bad) == EINVAL);
	_exit(GOES_ON);
}

static void *in_other_thread(void *arg)
{
	wrong();
	return arg;
}

static void by_thread(void)
{
	pthread_t t;
	must(pthread_create(&t, NULL, in_other_thread, NULL) == 0);
	pthread_join(t, NULL);
}

static void on_signal(int sig)
{
	(void)sig;
	wrong();
}

static void by_handler(void)
{
	must(signal(SIGUSR1, on_signal) != SIG_ERR);
	raise(SIGUSR1);
}

static void by_atexit(void)
{
	must(atexit(wrong) == 0);
	exit(0);
}

static void serves(int parent, int from)
{
	struct rdma_event_channel *ch = open_channel();
	struct rdma_conn_param p = params(NULL, 0);
	listen_on(ch, RDMA_PS_TCP, PORT, 1);
	say(parent);
	connected = pass(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	add_qp(connected);
	must(rdma_accept(connected, &p) == 0);
	must(pass(ch, RDMA_CM_EVENT_ESTABLISHED) == connected);
	hear(from);
	way();
}

// wrong_call prints the exit code of the process.
static void wrong_call(void (*how)(void))
{
	int from, to;
	way = how;
	pid_t child = start(serves, &from, &to);
	hear(from);
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *id = ready(ch, RDMA_PS_TCP, PORT);
	ask(id);
	must(pass(ch, RDMA_CM_EVENT_ESTABLISHED) == id);
	say(to);
	int64_t since = now_ns();
	must(pass(ch, RDMA_CM_EVENT_DISCONNECTED) == id);
	must(now_ns() - since < SOON_S * INT64_C(1000000000));
	printf("exit code %d\n", exit_code(child));
	destroy(id);
	rdma_destroy_event_channel(ch);
}

static void directly(void) { wrong_call(wrong); }
static void in_thread(void) { wrong_call(by_thread); }
static void in_handler(void) { wrong_call(by_handler); }
static void at_exit(void) { wrong_call(by_atexit); }

const struct scenario wrongs[] = {
	{"wrong-call", directly}, {"wrong-call-in-thread", in_thread}, {"wrong-call-in-handler", in_handler}, {"wrong-call-at-exit", at_exit}, {NULL, NULL},
};

// Processes that end at their first finding, and print what they must not reach.
#define _GNU_SOURCE
#include "limits.h"

static struct rig r;

static void wrong(void)
{
	puts("before");
	fflush(stdout);
	wrong_call(&r);
	puts("goes on");
	fflush(stdout);
}

static void open_it(void) { rig_open(&r, IBV_QPT_RC); }

static void directly(void)
{
	open_it();
	wrong();
}

static void *wrong_in_thread(void *arg)
{
	wrong();
	return arg;
}

static void in_thread(void)
{
	pthread_t t;
	open_it();
	must(pthread_create(&t, NULL, wrong_in_thread, NULL) == 0);
	must(pthread_join(t, NULL) == 0);
}

static void on_signal(int sig)
{
	(void)sig;
	wrong();
}

static void in_handler(void)
{
	open_it();
	must(signal(SIGUSR1, on_signal) != SIG_ERR);
	raise(SIGUSR1);
}

static void at_exit(void)
{
	open_it();
	must(atexit(wrong) == 0);
}

// The checker finds, at the end of the program, a completion with an error that it has not polled: its peer was silent.
static void at_the_end(void)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};
	struct ibv_cq *q;
	void *context;
	r.timeout = 8, r.retry = 1;
	open_it();
	must(ibv_modify_qp(r.qp[1], &a, IBV_QP_STATE) == 0);
	must(ibv_req_notify_cq(r.cq[0], 0) == 0);
	must(post(&r, 0, IBV_WR_RDMA_WRITE, 64) == 0);
	must(ibv_get_cq_event(r.channel, &q, &context) == 0);
	ibv_ack_cq_events(q, 1);
	puts("before");
}

const struct scenario fatals[] = {
	{"fatal", directly}, {"fatal-thread", in_thread}, {"fatal-handler", in_handler}, {"fatal-atexit", at_exit}, {"fatal-end", at_the_end}, {NULL, NULL},
};

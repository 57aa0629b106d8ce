// Windows, ATOMIC WRITE, FLUSH, device memory and XRC while the program waits in each way that
// programs have.
#define _GNU_SOURCE
#include "rig.h"
#include "ends.h"
#include "ordered.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>

enum { AT = 128, PART = 64, WAIT_MS = 30000, WAIT_S = 30 };

// scene is the state of the acts. r is the rig of a connection (own), or of the ends of XRC (e.r).
struct scene {
	struct rig *r;
	struct rig own;
	struct ends e;
	struct ibv_qp_ex *q;  // of side 0
	struct ibv_mr *bound; // of side 1, with the windows
	struct ibv_mr *flushed;
	struct ibv_mw *one, *two;
	uint32_t key; // of the window of type 2
	struct ibv_dm *dm;
	struct ibv_mr *of_dm;
	unsigned char n; // the last byte written
};

// act posts one request, which completes on a side.
struct act {
	const char *name;
	void (*begin)(struct scene *s);
	int side;
	bool solicits; // it completes as a solicited message
	bool lands;    // it writes s->n to the first byte of side 1's memory, perhaps through a window
};

static void write_through(struct scene *s, uint32_t rkey, uint64_t addr)
{
	struct ibv_sge e = {(uintptr_t)s->r->buf[0], 1, s->r->mr[0]->lkey};
	struct ibv_send_wr *bad, wr = {
		.sg_list = &e, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {addr, rkey},
	};
	must(ibv_post_send(s->r->qp[0], &wr, &bad) == 0);
}

static struct ibv_mw_bind_info part(struct scene *s)
{
	return (struct ibv_mw_bind_info){
		.mr = s->bound, .addr = (uintptr_t)s->bound->addr, .length = PART, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
}

static void bind_one(struct scene *s)
{
	struct ibv_mw_bind b = {.send_flags = IBV_SEND_SIGNALED, .bind_info = part(s)};
	must(ibv_bind_mw(s->r->qp[1], s->one, &b) == 0);
}

static void write_one(struct scene *s) { write_through(s, s->one->rkey, (uintptr_t)s->bound->addr); }

static void bind_two(struct scene *s)
{
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED, .bind_mw = {s->two, ibv_inc_rkey(s->key), part(s)}};
	s->two->rkey = s->key;
	must(ibv_post_send(s->r->qp[1], &wr, &bad) == 0);
	s->key = wr.bind_mw.rkey;
}

static void write_two(struct scene *s) { write_through(s, s->key, (uintptr_t)s->bound->addr); }

static void invalidate_two(struct scene *s)
{
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = s->key};
	must(ibv_post_send(s->r->qp[1], &wr, &bad) == 0);
}

static void send_invalidate(struct scene *s)
{
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND_WITH_INV, .send_flags = IBV_SEND_SOLICITED, .invalidate_rkey = s->key};
	receive(s->r, 1, 8);
	must(ibv_post_send(s->r->qp[0], &wr, &bad) == 0);
}

static void atomic_write(struct scene *s)
{
	uint64_t value = 0;
	memcpy(&value, s->r->buf[0], 1);
	ibv_wr_start(s->q);
	ibv_wr_atomic_write(s->q, s->r->mr[1]->rkey, (uintptr_t)s->r->buf[1], &value);
	must(ibv_wr_complete(s->q) == 0);
}

static void flush_memory(struct scene *s)
{
	ibv_wr_start(s->q);
	flush(s->q, s->flushed, 8, GLOBAL, RANGE);
	must(ibv_wr_complete(s->q) == 0);
}

// write_device writes to device memory, and copies from there until it sees the byte.
static void write_device(struct scene *s)
{
	char word[4] = {0};
	must(ibv_memcpy_to_dm(s->dm, 0, word, sizeof word) == 0);
	write_through(s, s->of_dm->rkey, 0);
	for (time_t end = time(NULL) + WAIT_S; word[0] != *s->r->buf[0];)
		must(ibv_memcpy_from_dm(word, s->dm, 0, sizeof word) == 0 && time(NULL) < end);
}

static void post_xrc(struct scene *s, struct ibv_send_wr *wr)
{
	struct ibv_sge e = {(uintptr_t)s->r->buf[0], 8, s->r->mr[0]->lkey};
	struct ibv_send_wr *bad;
	wr->sg_list = &e, wr->num_sge = 1;
	wr->qp_type.xrc.remote_srqn = s->e.srqn;
	must(ibv_post_send(s->e.ini, wr, &bad) == 0);
}

static void send_xrc(struct scene *s)
{
	receive_xrc(&s->e, 1);
	post_xrc(s, &(struct ibv_send_wr){.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SOLICITED});
}

static void atomic_write_xrc(struct scene *s)
{
	post_xrc(s, &(struct ibv_send_wr){
		.opcode = IBV_WR_ATOMIC_WRITE, .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {(uintptr_t)s->r->buf[1], s->r->mr[1]->rkey},
	});
}

static void read_xrc(struct scene *s)
{
	post_xrc(s, &(struct ibv_send_wr){
		.opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {(uintptr_t)s->r->buf[1], s->r->mr[1]->rkey},
	});
}

static const struct act connected[] = {
	{"bind type 1", bind_one, 1, false, false}, {"WRITE through type 1", write_one, 0, false, true},
	{"bind type 2", bind_two, 1, false, false}, {"WRITE through type 2", write_two, 0, false, true},
	{"LOCAL_INV", invalidate_two, 1, false, false}, {"bind type 2 again", bind_two, 1, false, false},
	{"SEND_WITH_INV", send_invalidate, 1, true, false}, {"ATOMIC WRITE", atomic_write, 0, false, true},
	{"FLUSH", flush_memory, 0, false, false}, {"WRITE to device memory", write_device, 0, false, false}, {NULL, NULL, 0, false, false},
};

static const struct act extended[] = {
	{"SEND over XRC", send_xrc, 1, true, false}, {"ATOMIC WRITE over XRC", atomic_write_xrc, 0, false, true},
	{"READ over XRC", read_xrc, 0, false, false}, {NULL, NULL, 0, false, false},
};

// take reads and acknowledges the event of a queue.
static void take(struct scene *s, struct ibv_cq *q)
{
	struct ibv_cq *of;
	void *context;
	must(ibv_get_cq_event(s->r->channel, &of, &context) == 0 && of == q && context == s->r);
	ibv_ack_cq_events(q, 1);
}

static void polling(struct scene *s, const struct act *a, struct ibv_cq *q) { (void)q, a->begin(s); }

// arm arms a queue, for solicited messages only if the act sends one.
static void arm(const struct act *a, struct ibv_cq *q) { must(ibv_req_notify_cq(q, a->solicits) == 0); }

static void sleeping(struct scene *s, const struct act *a, struct ibv_cq *q)
{
	arm(a, q);
	a->begin(s);
	take(s, q);
}

static void waiting_for_descriptor(struct scene *s, const struct act *a, struct ibv_cq *q)
{
	struct pollfd p = {s->r->channel->fd, POLLIN, 0};
	must(fcntl(p.fd, F_SETFL, O_NONBLOCK) == 0);
	arm(a, q);
	a->begin(s);
	must(poll(&p, 1, WAIT_MS) == 1);
	take(s, q);
	must(poll(&p, 1, 0) == 0 && fcntl(p.fd, F_SETFL, 0) == 0);
}

static void waiting_for_edge(struct scene *s, const struct act *a, struct ibv_cq *q)
{
	struct epoll_event in = {.events = EPOLLIN | EPOLLET}, out;
	int fd = epoll_create1(0);
	must(fd >= 0 && epoll_ctl(fd, EPOLL_CTL_ADD, s->r->channel->fd, &in) == 0 && epoll_wait(fd, &out, 1, 0) == 0);
	arm(a, q);
	a->begin(s);
	must(epoll_wait(fd, &out, 1, WAIT_MS) == 1);
	take(s, q);
	must(epoll_wait(fd, &out, 1, 0) == 0 && close(fd) == 0);
}

// spinning reads the memory, without calls of the library, until the byte is there.
static void spinning(struct scene *s, const struct act *a, struct ibv_cq *q)
{
	const volatile unsigned char *at = (const volatile unsigned char *)s->r->buf[1];
	(void)q;
	*s->r->buf[0] = (char)++s->n;
	a->begin(s);
	for (time_t end = time(NULL) + WAIT_S; a->lands && *at != s->n;)
		must(time(NULL) < end);
}

struct sleeper {
	struct scene *s;
	struct ibv_cq *q;
};

static void *sleeps(void *arg)
{
	struct sleeper *z = arg;
	take(z->s, z->q);
	return NULL;
}

// two_threads lets two threads sleep on the channel. The event of the act wakes one of them, the
// event of a WRITE the other.
static void two_threads(struct scene *s, const struct act *a, struct ibv_cq *q)
{
	pthread_t t[2];
	struct sleeper z = {s, q};
	arm(a, q);
	for (int i = 0; i < 2; i++)
		must(pthread_create(&t[i], NULL, sleeps, &z) == 0);
	a->begin(s);
	int woken = 0;
	for (time_t end = time(NULL) + WAIT_S; pthread_tryjoin_np(t[woken], NULL) != 0; woken = !woken)
		must(time(NULL) < end);
	must(ibv_req_notify_cq(q, 0) == 0); // the completion in the queue raises no further event
	want(q, IBV_WC_SUCCESS);
	must(post(s->r, a->side, IBV_WR_RDMA_WRITE, 8) == 0);
	must(pthread_join(t[!woken], NULL) == 0);
}

static void (*const ways[])(struct scene *, const struct act *, struct ibv_cq *) = {
	polling, sleeping, waiting_for_descriptor, waiting_for_edge, spinning, two_threads,
};

// act_each_way makes each act while the program waits in each way, and expects one completion.
static void act_each_way(struct scene *s, const struct act *acts)
{
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
		for (const struct act *a = acts; a->name != NULL; a++) {
			struct ibv_cq *q = s->r->cq[a->side];
			struct ibv_wc wc;
			ways[i](s, a, q);
			wc = wait_wc(q);
			if (wc.status != IBV_WC_SUCCESS)
				fprintf(stderr, "%s ends with %s\n", a->name, ibv_wc_status_str(wc.status));
			must(wc.status == IBV_WC_SUCCESS && ibv_poll_cq(q, 1, &wc) == 0);
		}
}

// moderate delays the events of both sides.
static void moderate(struct rig *r)
{
	for (int i = 0; i < SIDES; i++) {
		struct ibv_modify_cq_attr a = {.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {.cq_count = 8, .cq_period = 500}};
		must(ibv_modify_cq(r->cq[i], &a) == 0);
	}
}

static void over_connection(struct scene *s)
{
	struct rig *r = s->r = &s->own;
	s->q = rig_open_ordered(r, IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_ATOMIC_WRITE | WITH_FLUSH, FLUSH_GLOBAL);
	must((s->bound = ibv_reg_mr(r->pd, r->buf[1], BUF, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)) != NULL);
	must((s->flushed = ibv_reg_mr(r->pd, r->buf[1], BUF, ALL_ACCESS | FLUSH_GLOBAL)) != NULL);
	must((s->one = ibv_alloc_mw(r->pd, IBV_MW_TYPE_1)) != NULL && (s->two = ibv_alloc_mw(r->pd, IBV_MW_TYPE_2)) != NULL);
	s->key = s->two->rkey;
	must((s->dm = ibv_alloc_dm(r->ctx, &(struct ibv_alloc_dm_attr){.length = PART})) != NULL);
	must((s->of_dm = ibv_reg_dm_mr(r->pd, s->dm, 0, PART, ALL_ACCESS | IBV_ACCESS_ZERO_BASED)) != NULL);
	*r->buf[0] = 1;
	act_each_way(s, connected);
	moderate(r);
	act_each_way(s, connected);
	must(ibv_dereg_mr(s->of_dm) == 0 && ibv_free_dm(s->dm) == 0 && ibv_dealloc_mw(s->one) == 0 && ibv_dealloc_mw(s->two) == 0);
	must(ibv_dereg_mr(s->bound) == 0 && ibv_dereg_mr(s->flushed) == 0);
	rig_close(r);
}

static void over_xrc(struct scene *s)
{
	ends_open(&s->e);
	s->r = &s->e.r;
	act_each_way(s, extended);
	moderate(s->r);
	act_each_way(s, extended);
	ends_close(&s->e);
}

static void modes_of_waiting(void)
{
	struct scene s = {0};
	over_connection(&s);
	s = (struct scene){0};
	over_xrc(&s);
}

// told is what each of two processes sends to the other through a pipe.
struct told {
	uint32_t qpn, window, rkey;
	uint64_t bound, addr;
};

// join connects a queue pair to a queue pair of the process at the other end of two pipes.
static struct told join(struct scene *s, struct ibv_qp *q, int in, int out)
{
	struct rig *r = s->r;
	struct told to, t = {.qpn = q->qp_num, .window = s->key, .rkey = r->mr[1]->rkey, .addr = (uintptr_t)r->buf[1] + AT};
	t.bound = s->bound == NULL ? 0 : (uintptr_t)s->bound->addr;
	must(write(out, &t, sizeof t) == sizeof t && read(in, &to, sizeof to) == sizeof to);
	must(ibv_modify_qp(q, &(struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, IBV_QP_STATE) == 0);
	connect_qp(r, q, &(struct ibv_qp){.qp_num = to.qpn});
	must(write(out, "", 1) == 1 && read(in, &t, 1) == 1);
	return to;
}

// writes is the main function of the process that writes. It sleeps before its completions.
static void writes(int in, int out)
{
	struct scene s = {.r = &s.own};
	struct rig *r = &s.own;
	s.q = rig_open_ordered(r, IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_ATOMIC_WRITE, 0);
	struct told to = join(&s, r->qp[0], in, out);
	uint64_t value;
	memset(&value, 1, sizeof value);
	*r->buf[0] = 1;
	must(ibv_req_notify_cq(r->cq[0], 0) == 0);
	write_through(&s, to.window, to.bound);
	take(&s, r->cq[0]);
	want(r->cq[0], IBV_WC_SUCCESS);
	must(ibv_req_notify_cq(r->cq[0], 0) == 0);
	ibv_wr_start(s.q);
	ibv_wr_atomic_write(s.q, to.rkey, to.addr, &value);
	must(ibv_wr_complete(s.q) == 0);
	take(&s, r->cq[0]);
	want(r->cq[0], IBV_WC_SUCCESS);
	must(read(in, &(char){0}, 1) == 1); // now the other process has posted a receive
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_SEND_WITH_INV, .send_flags = IBV_SEND_SOLICITED | IBV_SEND_SIGNALED, .invalidate_rkey = to.window,
	};
	must(ibv_post_send(r->qp[0], &wr, &bad) == 0);
	want(r->cq[0], IBV_WC_SUCCESS);
	write_through(&s, to.window, to.bound);
	want(r->cq[0], IBV_WC_REM_ACCESS_ERR);
	rig_close(r);
}

// One process writes to the memory of another process on the same address, which spins on this
// memory. Then that process sleeps until a message invalidates the window of the first process.
static void between_processes(void)
{
	int in[2], out[2];
	struct scene s = {.r = &s.own};
	struct rig *r = &s.own;
	must(pipe(in) == 0 && pipe(out) == 0);
	pid_t child = begin_child();
	if (child == 0) {
		writes(out[0], in[1]);
		_exit(0);
	}
	rig_open(r, IBV_QPT_RC);
	must((s.bound = ibv_reg_mr(r->pd, r->buf[1], BUF, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)) != NULL);
	must((s.two = ibv_alloc_mw(r->pd, IBV_MW_TYPE_2)) != NULL);
	s.key = s.two->rkey;
	bind_two(&s);
	want(r->cq[1], IBV_WC_SUCCESS);
	join(&s, r->qp[1], in[0], out[1]);
	const volatile char *const bytes[] = {r->buf[1], r->buf[1] + AT};
	for (int i = 0; i < 2; i++)
		for (time_t end = time(NULL) + WAIT_S; *bytes[i] != 1;)
			must(time(NULL) < end);
	must(ibv_req_notify_cq(r->cq[1], 1) == 0);
	receive(r, 1, 8);
	must(write(out[1], "", 1) == 1);
	take(&s, r->cq[1]);
	struct ibv_wc wc = wait_wc(r->cq[1]);
	must(wc.status == IBV_WC_SUCCESS && wc.wc_flags & IBV_WC_WITH_INV && wc.invalidated_rkey == s.key);
	ended_well(child);
	must(ibv_dealloc_mw(s.two) == 0 && ibv_dereg_mr(s.bound) == 0);
	rig_close(r);
}

const struct scenario modes[] = {{"modes", modes_of_waiting}, {"modes-shared", between_processes}, {NULL, NULL}};

// Programs that rely on more than the specification promises, and the same programs without the bug. A case has its bug
// if its argument is true. Each runs once for each seed, in one process: the library reads SOFTHCA_NASTY when an adapter
// is opened.
#define _GNU_SOURCE
#include "../program/rig.h"

#include <poll.h>

struct nasty {
	const char *name;
	const char *behaviour; // that shows the bug
	void (*run)(bool bug);
};

enum { ROUNDS = 50, MESSAGE = 64, HANG_MS = 300, PATIENCE_MS = 30000 };

// arm asks for an event of a queue.
static void arm(struct ibv_cq *q) { must(ibv_req_notify_cq(q, 0) == 0); }

// next_event takes an event of the rig, and ends the program if none comes in time.
static void next_event(struct rig *r, int ms)
{
	struct ibv_cq *q;
	void *context;
	must(poll(&(struct pollfd){r->channel->fd, POLLIN, 0}, 1, ms) == 1);
	must(ibv_get_cq_event(r->channel, &q, &context) == 0);
	ibv_ack_cq_events(q, 1);
}

// try_poll polls for one completion, which must be a success.
static bool try_poll(struct ibv_cq *q)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(q, 1, &wc);
	must(n == 0 || (n == 1 && wc.status == IBV_WC_SUCCESS));
	return n == 1;
}

// The program waits for the last byte of a message in its memory, and reads the first.
static void last_byte(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	volatile char *to = r.buf[1];
	for (int i = 1; i <= ROUNDS; i++) {
		memset(r.buf[0], i, MESSAGE);
		receive(&r, 1, 0);
		must(post(&r, 0, IBV_WR_RDMA_WRITE, MESSAGE) == 0);
		must(post(&r, 0, IBV_WR_SEND, 0) == 0);
		if (!bug)
			want(r.cq[1], IBV_WC_SUCCESS);
		for (int64_t end = now_ns() + PATIENCE_MS * INT64_C(1000000); to[MESSAGE - 1] != i;)
			must(now_ns() < end);
		must(to[0] == i);
		if (bug)
			want(r.cq[1], IBV_WC_SUCCESS);
		want(r.cq[0], IBV_WC_SUCCESS);
		want(r.cq[0], IBV_WC_SUCCESS);
	}
	rig_close(&r);
}

// The program does not arm the queue again when an event came without a completion.
static void empty_after_event(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	for (int i = 0; i < ROUNDS; i++) {
		arm(r.cq[0]);
		must(post(&r, 0, IBV_WR_RDMA_WRITE, MESSAGE) == 0);
		next_event(&r, PATIENCE_MS);
		while (!try_poll(r.cq[0])) {
			if (!bug) {
				arm(r.cq[0]);
				if (try_poll(r.cq[0]))
					break;
			}
			next_event(&r, bug ? HANG_MS : PATIENCE_MS);
		}
	}
	rig_close(&r);
}

static void nothing(int sig) { (void)sig; }

// The program expects a completion after each event. It has a handler that interrupts calls. The signal
// never arrives, so no wait may fail with EINTR.
static void event_is_completion(bool bug)
{
	struct rig r = {0};
	must(sigaction(SIGALRM, &(struct sigaction){.sa_handler = nothing}, NULL) == 0);
	rig_open(&r, IBV_QPT_RC);
	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_cq *q;
		void *context;
		arm(r.cq[0]);
		must(post(&r, 0, IBV_WR_RDMA_WRITE, MESSAGE) == 0);
		must(ibv_get_cq_event(r.channel, &q, &context) == 0);
		ibv_ack_cq_events(q, 1);
		if (bug)
			must(try_poll(r.cq[0]));
		else
			want(r.cq[0], IBV_WC_SUCCESS);
	}
	rig_close(&r);
	must(sigaction(SIGALRM, &(struct sigaction){.sa_handler = SIG_DFL}, NULL) == 0);
}

// send_from posts an empty message of a queue pair.
static void send_from(struct rig *r, struct ibv_qp *q, uint64_t id)
{
	struct ibv_sge s = {(uintptr_t)r->buf[0], 0, r->mr[0]->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = id, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	must(ibv_post_send(q, &wr, &bad) == 0);
}

// The program sends by two queue pairs, by the second when the first has sent, and takes their messages in this order.
static void order_of_pairs(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_qp *first = r.qp[1], *q[2] = {make_qp(&r, IBV_QPT_RC, 0), make_qp(&r, IBV_QPT_RC, 1)};
	connect_qp(&r, q[0], q[1]);
	connect_qp(&r, q[1], q[0]);
	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_wc got[2];
		receive(&r, 1, MESSAGE);
		r.qp[1] = q[1];
		receive(&r, 1, MESSAGE);
		r.qp[1] = first;
		send_from(&r, r.qp[0], 0);
		want(r.cq[0], IBV_WC_SUCCESS);
		send_from(&r, q[0], 1);
		want(r.cq[0], IBV_WC_SUCCESS);
		for (int k = 0; k < 2; k++)
			got[k] = wait_wc(r.cq[1]);
		if (!bug && got[0].qp_num != first->qp_num) {
			struct ibv_wc wc = got[0];
			got[0] = got[1], got[1] = wc;
		}
		must(got[0].qp_num == first->qp_num && got[1].qp_num == q[1]->qp_num);
	}
	must(ibv_destroy_qp(q[0]) == 0 && ibv_destroy_qp(q[1]) == 0);
	rig_close(&r);
}

// The program writes data by one queue pair, and then says so by another. Without the bug it waits in between.
static void flag_by_another_pair(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_qp *first = r.qp[1], *q[2] = {make_qp(&r, IBV_QPT_RC, 0), make_qp(&r, IBV_QPT_RC, 1)};
	connect_qp(&r, q[0], q[1]);
	connect_qp(&r, q[1], q[0]);
	for (int i = 1; i <= ROUNDS; i++) {
		r.qp[1] = q[1];
		receive(&r, 1, 0);
		r.qp[1] = first;
		memset(r.buf[0], i, MESSAGE);
		must(post(&r, 0, IBV_WR_RDMA_WRITE, MESSAGE) == 0);
		if (!bug)
			want(r.cq[0], IBV_WC_SUCCESS);
		send_from(&r, q[0], 0);
		want(r.cq[1], IBV_WC_SUCCESS);
		must(*(volatile char *)r.buf[1] == i);
		for (int k = !bug; k < 2; k++)
			want(r.cq[0], IBV_WC_SUCCESS);
	}
	must(ibv_destroy_qp(q[0]) == 0 && ibv_destroy_qp(q[1]) == 0);
	rig_close(&r);
}

// read_word reads the first word of the buffer of side 1 into that of side 0, and waits for it in memory.
static void read_word(struct rig *r, uint64_t value)
{
	volatile uint64_t *here = (uint64_t *)r->buf[0], *there = (uint64_t *)r->buf[1];
	*here = 0, *there = value;
	must(post(r, 0, IBV_WR_RDMA_READ, sizeof value) == 0);
	for (int64_t end = now_ns() + PATIENCE_MS * INT64_C(1000000); *here != value;)
		must(now_ns() < end);
}

// The program takes the arrival of data for the completion of earlier requests of the queue pair.
static void data_is_completion(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		must(post(&r, 0, IBV_WR_RDMA_WRITE, 0) == 0);
		read_word(&r, 2 * i);
		read_word(&r, 2 * i + 1);
		if (bug)
			must(try_poll(r.cq[0]));
		for (int k = bug; k < 3; k++)
			want(r.cq[0], IBV_WC_SUCCESS);
	}
	rig_close(&r);
}

// The program has a table of its queue pairs by their handles.
static void handle_is_index(bool bug)
{
	enum { TABLE = 1 << 16 };
	static struct ibv_qp *table[TABLE];
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	for (int i = 0; i < SIDES; i++) {
		uint32_t at = bug ? r.qp[i]->handle : r.qp[i]->qp_num % TABLE;
		must(at < TABLE);
		table[at] = r.qp[i];
		must(table[at]->handle == r.qp[i]->handle);
	}
	rig_close(&r);
}

// The program wants exactly the queue for which it has asked.
static void exact_size(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_qp_init_attr a = {
		.send_cq = r.cq[0], .recv_cq = r.cq[0], .qp_type = IBV_QPT_RC, .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *q = ibv_create_qp(r.pd, &a);
	must(q != NULL && (bug ? a.cap.max_send_wr == DEPTH : a.cap.max_send_wr >= DEPTH));
	must(ibv_destroy_qp(q) == 0);
	rig_close(&r);
}

static const struct nasty all[] = {
	{"last-byte", "placement", last_byte},
	{"empty-after-event", "events", empty_after_event},
	{"event-is-completion", "events", event_is_completion},
	{"order-of-pairs", "order", order_of_pairs},
	{"flag-by-another-pair", "delays", flag_by_another_pair},
	{"data-is-completion", "late", data_is_completion},
	{"handle-is-index", "numbers", handle_is_index},
	{"exact-size", "sizes", exact_size},
};

// main lists the cases, or runs one for some seeds: nasty CASE bug|right SEEDS CHOICES, where CHOICES follow
// the seed. With 0 seeds it runs the case once on an adapter that is not nasty.
int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		if (argc == 1)
			printf("%s %s\n", all[i].name, all[i].behaviour);
		if (argc != 5 || strcmp(all[i].name, argv[1]) != 0)
			continue;
		bool bug = strcmp(argv[2], "bug") == 0;
		int seeds = atoi(argv[3]);
		if (seeds == 0)
			all[i].run(bug);
		for (int seed = 1; seed <= seeds; seed++) {
			char text[512];
			snprintf(text, sizeof text, "%d%s", seed, argv[4]);
			fprintf(stderr, "SOFTHCA_NASTY=%s\n", text);
			setenv("SOFTHCA_NASTY", text, 1);
			all[i].run(bug);
		}
		printf("ok\n");
		return 0;
	}
	return argc == 1 ? 0 : 1;
}

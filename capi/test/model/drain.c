// Completions. Each one arrives once, in the order of its work queue, and every field has
// the value that the model predicts.
#include "link.h"

#include <time.h>

static const char waiting[] = "completions of what was posted";

// expect adds the completion of a request to a line. The caller fills in the other fields.
struct expected *expect(struct line *l, uint64_t wr_id, enum ibv_wc_opcode op)
{
	struct expected *e = &l->e[l->tail++];
	*e = (struct expected){.wc = {.wr_id = wr_id, .opcode = op}, .posted = now_ns()};
	return e;
}

bool is_drained(const struct link *l)
{
	for (int i = 0; i < 2; i++)
		if (l->end[i].send.head != l->end[i].send.tail || l->end[i].recv.head != l->end[i].recv.tail)
			return false;
	return true;
}

void forget_lines(struct link *l)
{
	for (int i = 0; i < 2; i++)
		l->end[i].send.head = l->end[i].send.tail = l->end[i].recv.head = l->end[i].recv.tail = 0;
}

// next_of removes the completion with this ID from the lines that complete to cq. It must
// be the oldest of its line.
static struct expected *next_of(struct end *e, const struct ibv_cq *cq, uint64_t wr_id)
{
	struct line *lines[2] = {cq == e->send_cq ? &e->send : NULL, cq == e->recv_cq ? &e->recv : NULL};
	for (int i = 0; i < 2; i++)
		if (lines[i] != NULL && lines[i]->head != lines[i]->tail && lines[i]->e[lines[i]->head].wc.wr_id == wr_id)
			return &lines[i]->e[lines[i]->head++];
	for (int i = 0; i < 2; i++)
		if (lines[i] != NULL && lines[i]->head != lines[i]->tail)
			fails("a completion", "wr_id is %#llx, want %#llx of the %s queue", (unsigned long long)wr_id,
			      (unsigned long long)lines[i]->e[lines[i]->head].wc.wr_id, i == 0 ? "send" : "receive");
	fails("a completion", "wr_id %#llx: none is to come", (unsigned long long)wr_id);
}

static void want_wc(const char *call, const struct ibv_wc *wc, const struct expected *x)
{
	WANT(call, wc->wr_id, x->wc.wr_id);
	WANT(call, wc->status, x->wc.status);
	WANT(call, wc->qp_num, x->wc.qp_num);
	WANT(call, wc->vendor_err, 0);
	if (x->failed)
		return;
	WANT(call, wc->opcode, x->wc.opcode);
	WANT(call, wc->byte_len, x->wc.byte_len);
	WANT(call, wc->imm_data, x->wc.imm_data);
	WANT(call, wc->src_qp, x->wc.src_qp);
	WANT(call, wc->wc_flags, x->wc.wc_flags);
	WANT(call, wc->pkey_index, x->wc.pkey_index);
	WANT(call, wc->slid, 0);
	WANT(call, wc->sl, x->wc.sl);
	WANT(call, wc->dlid_path_bits, 0);
}

static unsigned poll_plain(struct end *e, struct ibv_cq *cq)
{
	enum { MOST_AT_ONCE = 4 };
	struct ibv_wc wc[MOST_AT_ONCE + 1];
	int n = 1 + (int)draw(MOST_AT_ONCE);
	poison(wc, sizeof wc);
	int got = ibv_poll_cq(cq, n, wc);
	if (got < 0 || got > n)
		fails("ibv_poll_cq", "returned %d for room for %d", got, n);
	if (!is_poison(&wc[got], sizeof *wc))
		fails("ibv_poll_cq", "wrote more than the %d completions that it returned", got);
	for (int i = 0; i < got; i++)
		want_wc("ibv_poll_cq", &wc[i], next_of(e, cq, wc[i].wr_id));
	return (unsigned)got;
}

// offset is the wall-clock time minus that of the monotonic clock, in ns: between low and high.
struct offset {
	int64_t low, high;
};

static struct offset measure_offset(void)
{
	uint64_t before = now_ns(), wall = now_in(CLOCK_REALTIME), after = now_ns();
	return (struct offset){(int64_t)(wall - after), (int64_t)(wall - before)};
}

// read_times reads the timestamps of the current completion, whose request was posted at the
// given time. The wall-clock time is the same instant as the other timestamp, or later if the
// thread was preempted while the library read the clocks.
static void read_times(struct end *e, struct ibv_cq_ex *x, uint64_t posted)
{
	struct offset before = measure_offset();
	uint64_t *last = &e->last_ts[ibv_cq_ex_to_cq(x) != e->send_cq];
	uint64_t ts = ibv_wc_read_completion_ts(x), wall = ibv_wc_read_completion_wallclock_ns(x), again = ibv_wc_read_completion_ts(x);
	uint64_t now = now_ns(), wall_now = now_in(CLOCK_REALTIME);
	struct offset after = measure_offset();
	WANT("ibv_wc_read_completion_ts", again, ts);
	if (ts < posted || ts > now)
		fails("ibv_wc_read_completion_ts", "%llu is not between the posting at %llu and now, %llu", (unsigned long long)ts,
		      (unsigned long long)posted, (unsigned long long)now);
	if (ts < *last)
		fails("ibv_wc_read_completion_ts", "%llu is before %llu of the last completion", (unsigned long long)ts, (unsigned long long)*last);
	*last = ts;
	if (before.low > after.high || after.low > before.high)
		return; // the wall clock was set
	enum { DRIFT = 1000 }; // ns: some virtual machines calibrate the two clocks separately
	uint64_t least = ts + (uint64_t)(before.low > after.low ? before.low : after.low) - DRIFT;
	if (wall < least || wall > wall_now)
		fails("ibv_wc_read_completion_wallclock_ns", "%llu is not between the completion at %llu and now, %llu", (unsigned long long)wall,
		      (unsigned long long)least, (unsigned long long)wall_now);
}

// read_one reads the current completion of an extended queue, and compares it with the
// model.
static void read_one(struct end *e, struct ibv_cq_ex *x)
{
	struct expected *want = next_of(e, ibv_cq_ex_to_cq(x), x->wr_id);
	struct ibv_wc wc = {
		.wr_id = x->wr_id, .status = x->status, .opcode = ibv_wc_read_opcode(x), .vendor_err = ibv_wc_read_vendor_err(x),
		.byte_len = ibv_wc_read_byte_len(x), .imm_data = ibv_wc_read_imm_data(x), .qp_num = ibv_wc_read_qp_num(x),
		.src_qp = ibv_wc_read_src_qp(x), .wc_flags = ibv_wc_read_wc_flags(x), .slid = (uint16_t)ibv_wc_read_slid(x), .sl = ibv_wc_read_sl(x),
		.dlid_path_bits = ibv_wc_read_dlid_path_bits(x), .pkey_index = want->wc.pkey_index,
	};
	if (want->wc.wc_flags & IBV_WC_WITH_INV)
		WANT("ibv_wc_read_invalidated_rkey", ibv_wc_read_invalidated_rkey(x), want->wc.invalidated_rkey);
	want_wc("ibv_start_poll", &wc, want);
	read_times(e, x, want->posted);
}

static unsigned poll_ex(struct end *e, struct ibv_cq *cq)
{
	struct ibv_cq_ex *x = (struct ibv_cq_ex *)cq;
	struct ibv_poll_cq_attr a = {.comp_mask = 1};
	if (chance(2))
		WANT("ibv_start_poll of unknown attributes", ibv_start_poll(x, &a), EINVAL);
	a.comp_mask = 0;
	int code = ibv_start_poll(x, &a);
	if (code == ENOENT)
		return 0;
	WANT("ibv_start_poll", code, 0);
	unsigned n = 0;
	do {
		read_one(e, x);
		n++;
	} while (!chance(20) && (code = ibv_next_poll(x)) == 0);
	if (code != 0)
		WANT("ibv_next_poll", code, ENOENT);
	ibv_end_poll(x);
	return n;
}

static unsigned poll_once(struct end *e, struct ibv_cq *cq)
{
	unsigned n = e->ex && chance(70) ? poll_ex(e, cq) : poll_plain(e, cq);
	if (n > 0)
		atomic_fetch_add(&me->moves, 1);
	return n;
}

static bool open_lines(const struct end *e, const struct ibv_cq *cq)
{
	return (cq == e->send_cq && e->send.head != e->send.tail) || (cq == e->recv_cq && e->recv.head != e->recv.tail);
}

// sleep_for arms a queue, polls it once more, and waits for an event if it is empty.
static void sleep_for(struct end *e, struct ibv_cq *cq)
{
	struct ibv_cq *which = NULL;
	void *context = NULL;
	WORKS(ibv_req_notify_cq(cq, 0));
	if (poll_once(e, cq) > 0)
		return;
	WORKS(ibv_get_cq_event(e->channel, &which, &context));
	if (which != e->send_cq && which != e->recv_cq)
		fails("ibv_get_cq_event", "the queue is none of the channel");
	WANT("ibv_get_cq_event", context, e);
	ibv_ack_cq_events(which, 1);
}

// drain_cq polls a queue, or sleeps, until all its expected completions have arrived.
static void drain_cq(struct end *e, struct ibv_cq *cq, bool sleeps)
{
	while (open_lines(e, cq))
		if (poll_once(e, cq) == 0 && sleeps && open_lines(e, cq))
			sleep_for(e, cq);
}

// The number of polls depends on timing. To keep a seed reproducible, the thread's random
// stream continues as if drain had drawn one number.
void drain(struct link *l)
{
	uint64_t next = draw64();
	waits_for(waiting);
	for (int i = 0; i < (l->self ? 1 : 2); i++) {
		struct end *e = &l->end[(l->self ? 0 : 1) - i];
		bool sleeps = e->channel != NULL && chance(50);
		drain_cq(e, e->recv_cq, sleeps);
		drain_cq(e, e->send_cq, sleeps);
		WANT("completions beyond those of what was posted", poll_once(e, e->send_cq), 0);
		WANT("completions beyond those of what was posted", poll_once(e, e->recv_cq), 0);
	}
	forget_lines(l);
	waits_for(NULL);
	me->random = next;
}

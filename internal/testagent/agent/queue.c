// Completion queues and shared receive queues.
#define _GNU_SOURCE
#include "agent.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

enum { WC_MAX = 512 }; // completions in one reply

void do_cq(void)
{
	uint64_t cqe = number("cqe", 64, INT32_MAX), with_events = number("events", 0, 1);
	struct ibv_comp_channel *channel = NULL;
	int h;

	if (!may_create())
		return;
	if (with_events) {
		channel = ibv_create_comp_channel(ctx);
		if (!done(channel ? 0 : -1, "create_comp_channel"))
			return;
		fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
	}
	if ((h = created(CQ, ibv_create_cq(ctx, cqe, NULL, channel, 0), "create_cq"))) {
		objects[h].channel = channel;
		put(" cqe=%d", objects[h].cq->cqe);
	} else if (channel) {
		ibv_destroy_comp_channel(channel);
	}
}

void do_resize(void)
{
	struct object *cq = arg(CQ, "cq");
	uint64_t cqe = number("cqe", 0, INT32_MAX);

	if (ready() && done(ibv_resize_cq(cq->cq, cqe), "resize_cq"))
		put("cqe=%d", cq->cq->cqe);
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void do_poll(void)
{
	struct object *cq = arg(CQ, "cq");
	uint64_t n = number("n", 0, WC_MAX), ms = number("ms", 0, WAIT_MAX_MS);
	static struct ibv_wc wc[WC_MAX];
	int64_t end = now_ms() + (int64_t)ms;
	size_t got = 0, limit = n ? n : WC_MAX;

	if (failed)
		return;
	while (got < limit) {
		int k;

		errno = 0;
		k = ibv_poll_cq(cq->cq, limit - got, wc + got);
		if (k < 0) {
			fail(error_of(k), "poll_cq");
			return;
		}
		got += k;
		if (k)
			continue;
		if (got >= n || now_ms() >= end || controller_left())
			break;
		usleep(100);
	}
	put("n=%zu", got);
	for (size_t i = 0; i < got; i++) {
		struct ibv_wc *w = &wc[i];
		uint32_t imm = w->wc_flags & IBV_WC_WITH_INV ? w->invalidated_rkey : ntohl(w->imm_data);

		put(" wc=%" PRIx64 ",%d,%d,%u,%x,%x,%x,%x,%x,%u,%u", w->wr_id, w->status, w->opcode, w->byte_len, w->wc_flags, imm, w->qp_num, w->src_qp, w->vendor_err, w->pkey_index, w->sl);
	}
}

void do_arm(void)
{
	struct object *cq = arg(CQ, "cq");
	uint64_t solicited = number("solicited", 0, 1);

	if (ready())
		done(ibv_req_notify_cq(cq->cq, solicited), "req_notify_cq");
}

// Takes completion events of a CQ until there is one, or ms have passed.
void do_notified(void)
{
	struct object *cq = arg(CQ, "cq");
	uint64_t ms = number("ms", 0, WAIT_MAX_MS);
	struct ibv_cq *which;
	struct pollfd p;
	void *context;
	int n = 0;

	if (failed)
		return;
	if (!cq->channel) {
		fail(EINVAL, "the cq was made without events=1");
		return;
	}
	p = (struct pollfd){ .fd = cq->channel->fd, .events = POLLIN };
	if (poll(&p, 1, (int)ms) == 1)
		while (n < EVENTS_MAX && !ibv_get_cq_event(cq->channel, &which, &context))
			n++;
	if (n)
		ibv_ack_cq_events(cq->cq, n);
	put("n=%d", n);
}

void do_srq(void)
{
	struct object *pd = arg(PD, "pd");
	struct ibv_srq_init_attr a = { .attr = { .max_wr = number("wr", 16, UINT32_MAX), .max_sge = number("sge", 1, UINT32_MAX), .srq_limit = number("limit", 0, UINT32_MAX) } };

	if (may_create() && created(SRQ, ibv_create_srq(pd->pd, &a), "create_srq"))
		put(" wr=%u sge=%u", a.attr.max_wr, a.attr.max_sge);
}

void do_srq_limit(void)
{
	struct object *srq = arg(SRQ, "srq");
	struct ibv_srq_attr a = { .srq_limit = number("limit", 0, UINT32_MAX) };

	if (ready())
		done(ibv_modify_srq(srq->srq, &a, IBV_SRQ_LIMIT), "modify_srq");
}

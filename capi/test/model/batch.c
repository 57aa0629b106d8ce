// Batches: lists of requests of all kinds on a link, one of which may be invalid. The
// requests before it are executed, with every completion and every byte as predicted.
#include "link.h"

// post_receives posts a receive for each request that consumes one. It is large enough, and
// its two elements are in descending order of address; one of them may be empty.
static void post_receives(struct link *l, struct end *to, const struct request *r, unsigned n, struct ibv_recv_wr *wr)
{
	static __thread struct ibv_sge sge[BATCH][2];
	struct ibv_recv_wr *bad = NULL, *last = NULL;
	uint32_t grh = l->type == IBV_QPT_UD ? GRH : 0;
	for (unsigned i = 0; i < n; i++) {
		if (!is_received(r[i].op))
			continue;
		uint32_t room = grh + draw(50) + (r[i].length <= MOST ? r[i].length : 0), first = chance(50) ? room : draw(room + 1);
		uintptr_t at = (uintptr_t)to->buf + RECEIVED + i * SLOT;
		sge[i][0] = (struct ibv_sge){at + room - first, first, to->mr->lkey};
		sge[i][1] = (struct ibv_sge){at, room - first, to->mr->lkey};
		wr[i] = (struct ibv_recv_wr){.wr_id = draw64(), .sg_list = sge[i], .num_sge = 2};
		if (last != NULL)
			last->next = &wr[i];
		last = &wr[i];
	}
	if (last == NULL)
		return;
	struct ibv_recv_wr *head = wr;
	while (head->num_sge == 0)
		head++;
	if (to->srq != NULL)
		WORKS(ibv_post_srq_recv(to->srq, head, &bad));
	else
		WORKS(ibv_post_recv(to->qp, head, &bad));
	WANT("posting receives", bad, NULL);
}

// fence delays the requests that follow a read or an atomic until its data has arrived: they
// may send that data.
static void fence(struct request *r, unsigned n)
{
	bool read = false;
	for (unsigned i = 0; i < n; i++) {
		if (read)
			r[i].flags |= IBV_SEND_FENCE;
		read = read || is_answered(r[i].op);
	}
}

// take_grh checks the GRH that was received with a datagram, and copies it to the shadow.
static void take_grh(struct end *e, struct end *to, const struct ibv_recv_wr *wr)
{
	uint8_t grh[GRH];
	struct ibv_ah_attr a;
	union ibv_gid from;
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH, .slid = 0};
	uint32_t n = 0;
	for (int i = 0; i < wr->num_sge && n < GRH; i++)
		for (uint32_t k = 0; k < wr->sg_list[i].length && n < GRH; k++) {
			uintptr_t at = wr->sg_list[i].addr - (uintptr_t)to->buf + k;
			grh[n++] = to->shadow[at] = to->buf[at];
		}
	poison(&a, sizeof a);
	WORKS(ibv_init_ah_from_wc(to->ctx, 1, &wc, (struct ibv_grh *)grh, &a));
	WORKS(ibv_query_gid(e->ctx, 1, 0, &from));
	const char *call = "ibv_init_ah_from_wc";
	want_bytes(call, "dgid", &a.grh.dgid, &from, sizeof from);
	WANT(call, a.grh.sgid_index, 0);
	WANT(call, a.grh.traffic_class, e->av.grh.traffic_class);
	WANT(call, a.is_global, 1);
	WANT(call, a.port_num, 1);
	WANT(call, a.dlid, 0);
	WANT(call, a.sl, 0);
	WANT(call, a.src_path_bits, 0);
	WANT(call, a.static_rate, 0);
	WANT(call, a.grh.hop_limit > 0, true);
	wc.wc_flags = 0;
	WORKS(ibv_init_ah_from_wc(to->ctx, 1, &wc, (struct ibv_grh *)grh, &a));
	WANT(call, a.is_global, 0);
}

static void want_memory(struct link *l)
{
	for (int i = 0; i < (l->self ? 1 : 2); i++)
		want_bytes("a batch", i == 0 ? "memory of the first end" : "memory of the second end", l->end[i].buf, l->end[i].shadow, BUF);
}

// one_wrong makes one request of a list invalid, and returns the number of requests before
// it.
static unsigned one_wrong(struct link *l, struct end *e, struct request *r, unsigned n, bool extended)
{
	unsigned wrong = draw(n);
	spoil_request(l, e, &r[wrong], extended);
	if (wrong > 0) // its completion shows that the requests before it are done
		r[wrong - 1].flags |= IBV_SEND_SIGNALED;
	return wrong;
}

void step_batch(void)
{
	struct link *l = some_link();
	struct end *e = &l->end[l->self ? 0 : draw(2)], *to = peer_of(l, e);
	struct request r[BATCH];
	struct ibv_recv_wr wr[BATCH] = {0};
	unsigned n = 1 + draw(BATCH), taken = n, bad;
	for (unsigned i = 0; i < n; i++)
		draw_request(l, e, &r[i], i);
	r[n - 1].flags |= IBV_SEND_SIGNALED;
	bool wrong = chance(20);
	bool extended = e->qpx != NULL && chance(60);
	for (unsigned i = 0; extended && l->type == IBV_QPT_RC && i < n; i++)
		if (chance(15)) // only the extended calls have a FLUSH
			draw_flush(l, e, &r[i]);
	fence(r, n);
	if (wrong)
		taken = one_wrong(l, e, r, n, extended);
	if (wrong && extended)
		taken = 0; // the extended calls post the whole list or nothing
	// Over UC only the completion of a receive shows that the data has arrived.
	if (l->type == IBV_QPT_UC && taken > 0 && r[taken - 1].op == IBV_WR_RDMA_WRITE)
		r[taken - 1].op = IBV_WR_RDMA_WRITE_WITH_IMM;
	post_receives(l, to, r, taken, wr);
	for (unsigned i = 0; i < taken; i++)
		foresee(l, e, &r[i], &wr[i]);
	int code = extended ? post_new(l, e, r, n, &bad) : post_old(l, e, r, n, &bad);
	WANT("posting a list", code, wrong ? EINVAL : 0);
	WANT("posting a list: the first that is refused", bad, wrong ? taken : n);
	for (unsigned i = 0; i < n; i++) // inline data was copied when it was posted
		memset(r[i].data, 0xee, sizeof r[i].data);
	drain(l);
	for (unsigned i = 0; l->type == IBV_QPT_UD && i < taken; i++)
		take_grh(e, to, &wr[i]);
	want_memory(l);
}

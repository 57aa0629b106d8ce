// Bugs with keys and lengths, and requests that fail.
#include "bugs.h"

// write_from writes from an element, and waits for the completion.
static void write_from(struct rig *r, struct ibv_sge s, bool success)
{
	must(post_element(r, IBV_WR_RDMA_WRITE, s) == 0); // FOUND
	ends(r->cq[0], success);
	rig_close(r);
}

static void key_unknown(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_sge s = element(&r, 0, 64);
	if (bug)
		s.lkey = ~s.lkey;
	write_from(&r, s, !bug);
}

// receive_into receives a message into an element.
static void receive_into(struct rig *r, struct ibv_sge s, bool success)
{
	receive_element(r, s); // FOUND
	must(post(r, 0, IBV_WR_SEND, 64) == 0);
	ends(r->cq[0], success);
	ends(r->cq[1], success);
	rig_close(r);
}

static void key_unknown_of_receive(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_sge s = element(&r, 1, 64);
	if (bug)
		s.lkey = ~s.lkey;
	receive_into(&r, s, !bug);
}

static void key_unknown_in_srq(bool bug)
{
	struct rig r = {.shared = true};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_sge s = element(&r, 1, 64);
	if (bug)
		s.lkey = ~s.lkey;
	receive_into(&r, s, !bug);
}

static void key_unknown_extended(bool bug)
{
	struct rig r = {0};
	struct ibv_qp_ex *q = open_extended(&r);
	struct ibv_sge list[2] = {element(&r, 0, 64), element(&r, 0, 64)};
	if (bug)
		list[1].lkey = ~list[1].lkey;
	ibv_wr_start(q);
	q->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(q, r.mr[1]->rkey, (uintptr_t)r.buf[1]);
	ibv_wr_set_sge_list(q, 2, list);
	must(ibv_wr_complete(q) == 0); // FOUND
	ends(r.cq[0], !bug);
	rig_close(&r);
}

static void key_deregistered(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_mr *m = ibv_reg_mr(r.pd, r.buf[0], 64, 0);
	struct ibv_sge s = {(uintptr_t)r.buf[0], 64, m->lkey};
	must(post_element(&r, IBV_WR_RDMA_WRITE, s) == 0); // the checker remembers the region from here
	ends(r.cq[0], true);
	if (bug)
		must(ibv_dereg_mr(m) == 0);
	must(post_element(&r, IBV_WR_RDMA_WRITE, s) == 0); // FOUND
	ends(r.cq[0], !bug);
	if (!bug)
		must(ibv_dereg_mr(m) == 0);
	rig_close(&r);
}

static void key_deregistered_of_receive(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_mr *m = ibv_reg_mr(r.pd, r.buf[1], 64, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge s = {(uintptr_t)r.buf[1], 64, m->lkey};
	if (bug)
		must(ibv_dereg_mr(m) == 0);
	receive_element(&r, s); // FOUND
	must(post(&r, 0, IBV_WR_SEND, 64) == 0);
	ends(r.cq[0], !bug);
	ends(r.cq[1], !bug);
	if (!bug)
		must(ibv_dereg_mr(m) == 0);
	rig_close(&r);
}

// A region that is registered anew has a new key.
static void key_of_before(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_mr *m = ibv_reg_mr(r.pd, r.buf[0], 64, 0);
	struct ibv_sge s = {(uintptr_t)r.buf[0], 64, m->lkey};
	must(ibv_rereg_mr(m, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, r.buf[0], 128, 0) == 0);
	if (!bug)
		s.lkey = m->lkey;
	must(post_element(&r, IBV_WR_RDMA_WRITE, s) == 0); // FOUND
	ends(r.cq[0], !bug);
	must(ibv_dereg_mr(m) == 0);
	rig_close(&r);
}

static void beyond_region(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_mr *m = ibv_reg_mr(r.pd, r.buf[0], 64, 0);
	must(post_element(&r, IBV_WR_RDMA_WRITE, (struct ibv_sge){(uintptr_t)r.buf[0], bug ? 65 : 64, m->lkey}) == 0); // FOUND
	ends(r.cq[0], !bug);
	must(ibv_dereg_mr(m) == 0);
	rig_close(&r);
}

static void before_region(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_mr *m = ibv_reg_mr(r.pd, r.buf[0] + 64, 64, IBV_ACCESS_LOCAL_WRITE);
	must(post_element(&r, IBV_WR_RDMA_READ, (struct ibv_sge){(uintptr_t)r.buf[0] + (bug ? 60 : 64), 64, m->lkey}) == 0); // FOUND
	ends(r.cq[0], !bug);
	must(ibv_dereg_mr(m) == 0);
	rig_close(&r);
}

static void receive_beyond_region(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	receive_into(&r, (struct ibv_sge){(uintptr_t)r.buf[1] + BUF - (bug ? 32 : 64), 64, r.mr[1]->lkey}, !bug);
}

// A region that begins at an address of the program's choice has elements from that address.
static void beyond_chosen_address(bool bug)
{
	enum { CHOSEN = 0x10000 };
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_mr *m = ibv_reg_mr_iova(r.pd, r.buf[0], 64, CHOSEN, 0);
	must(m != NULL && post_element(&r, IBV_WR_RDMA_WRITE, (struct ibv_sge){bug ? (uintptr_t)r.buf[0] : CHOSEN, 64, m->lkey}) == 0); // FOUND
	ends(r.cq[0], !bug);
	must(ibv_dereg_mr(m) == 0);
	rig_close(&r);
}

// read_to reads, or adds, with the result in a region that the adapter may or may not write.
static void read_to(enum ibv_wr_opcode op, bool writable)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_mr *m = ibv_reg_mr(r.pd, r.buf[0], 64, writable ? IBV_ACCESS_LOCAL_WRITE : 0);
	must(post_element(&r, op, (struct ibv_sge){(uintptr_t)r.buf[0], 8, m->lkey}) == 0); // FOUND
	ends(r.cq[0], writable);
	must(ibv_dereg_mr(m) == 0);
	rig_close(&r);
}

static void no_local_write(bool bug) { read_to(IBV_WR_RDMA_READ, !bug); }
static void no_local_write_of_atomic(bool bug) { read_to(IBV_WR_ATOMIC_FETCH_AND_ADD, !bug); }

static void no_local_write_of_receive(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_mr *m = ibv_reg_mr(r.pd, r.buf[1], 64, bug ? 0 : IBV_ACCESS_LOCAL_WRITE);
	receive_element(&r, (struct ibv_sge){(uintptr_t)r.buf[1], 64, m->lkey}); // FOUND
	must(post(&r, 0, IBV_WR_SEND, 64) == 0);
	ends(r.cq[0], !bug);
	ends(r.cq[1], !bug);
	must(ibv_dereg_mr(m) == 0);
	rig_close(&r);
}

static void region_of_another_domain(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_pd *pd = ibv_alloc_pd(r.ctx);
	struct ibv_mr *m = ibv_reg_mr(bug ? pd : r.pd, r.buf[0], 64, 0);
	must(post_element(&r, IBV_WR_RDMA_WRITE, (struct ibv_sge){(uintptr_t)r.buf[0], 64, m->lkey}) == 0); // FOUND
	ends(r.cq[0], !bug);
	must(ibv_dereg_mr(m) == 0 && ibv_dealloc_pd(pd) == 0);
	rig_close(&r);
}

// The receives of an SRQ take regions of its domain. A parent domain is the same domain as that which it is of.
static void srq_of_another_domain(bool bug)
{
	struct rig r = {.shared = true};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_pd *other = ibv_alloc_pd(r.ctx);
	struct ibv_parent_domain_init_attr a = {.pd = r.pd};
	struct ibv_pd *parent = ibv_alloc_parent_domain(r.ctx, &a);
	must(other != NULL && parent != NULL);
	struct ibv_mr *m = ibv_reg_mr(bug ? other : parent, r.buf[1], 64, IBV_ACCESS_LOCAL_WRITE);
	receive_element(&r, (struct ibv_sge){(uintptr_t)r.buf[1], 64, m->lkey}); // FOUND
	must(post(&r, 0, IBV_WR_SEND, 64) == 0);
	ends(r.cq[0], !bug);
	ends(r.cq[1], !bug);
	must(ibv_dereg_mr(m) == 0 && ibv_dealloc_pd(parent) == 0 && ibv_dealloc_pd(other) == 0);
	rig_close(&r);
}

static void no_room_for_grh(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_UD);
	receive(&r, 1, bug ? 32 : 40); // FOUND
	rig_close(&r);
}

static void message_longer_than_mtu(bool bug)
{
	struct rig r = {0};
	struct ibv_port_attr p;
	rig_open(&r, IBV_QPT_UD);
	must(ibv_query_port(r.ctx, 1, &p) == 0);
	struct ibv_ah *ah = make_ah(&r, r.pd);
	must(send_datagram(&r, ah, (128u << p.active_mtu) + bug) == 0); // FOUND
	ends(r.cq[0], !bug);
	must(ibv_destroy_ah(ah) == 0);
	rig_close(&r);
}

static void atomic_not_aligned(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_sge s = element(&r, 0, 8);
	struct ibv_send_wr *bad, wr = {.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_ATOMIC_CMP_AND_SWP, .send_flags = IBV_SEND_SIGNALED};
	wr.wr.atomic.remote_addr = (uintptr_t)r.buf[1] + (bug ? 4 : 8), wr.wr.atomic.rkey = r.mr[1]->rkey;
	must(ibv_post_send(r.qp[0], &wr, &bad) == 0); // FOUND
	ends(r.cq[0], !bug);
	rig_close(&r);
}

// The queue pair that sends is destroyed with its error, so that only the receiver's side is told.
static void receive_too_small(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	receive(&r, 1, bug ? 32 : 64); // FOUND
	must(post(&r, 0, IBV_WR_SEND, 64) == 0);
	ends(r.cq[1], !bug);
	rig_close(&r);
}

static void srq_receive_too_small(bool bug)
{
	struct rig r = {.shared = true};
	rig_open(&r, IBV_QPT_RC);
	receive(&r, 1, bug ? 32 : 64); // FOUND
	must(post(&r, 0, IBV_WR_SEND, 64) == 0);
	ends(r.cq[1], !bug);
	rig_close(&r);
}

// access_peer posts a request of 64 bytes to a region of the peer.
static void access_peer(struct rig *r, enum ibv_wr_opcode op, struct ibv_mr *m, bool success)
{
	struct ibv_sge s = element(r, 0, 64);
	struct ibv_send_wr *bad, wr = {.sg_list = &s, .num_sge = 1, .opcode = op, .send_flags = IBV_SEND_SIGNALED};
	wr.wr.rdma.remote_addr = (uintptr_t)r->buf[1], wr.wr.rdma.rkey = m->rkey;
	must(ibv_post_send(r->qp[0], &wr, &bad) == 0); // FOUND
	ends(r->cq[0], success);
	if (m != r->mr[1])
		must(ibv_dereg_mr(m) == 0);
	rig_close(r);
}

static void remote_access_error(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	access_peer(&r, IBV_WR_RDMA_WRITE, ibv_reg_mr(r.pd, r.buf[1], bug ? 32 : 64, ALL_ACCESS), !bug);
}

static void remote_write_without_right(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	access_peer(&r, IBV_WR_RDMA_WRITE, ibv_reg_mr(r.pd, r.buf[1], BUF, bug ? IBV_ACCESS_REMOTE_READ : ALL_ACCESS), !bug);
}

static void remote_read_without_right(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	access_peer(&r, IBV_WR_RDMA_READ, ibv_reg_mr(r.pd, r.buf[1], BUF, bug ? IBV_ACCESS_LOCAL_WRITE : IBV_ACCESS_REMOTE_READ), !bug);
}

// The peer's queue pair lacks the right, not its region.
static void queue_pair_without_right(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_qp_attr a = {.qp_access_flags = bug ? 0 : IBV_ACCESS_REMOTE_WRITE};
	must(ibv_modify_qp(r.qp[1], &a, IBV_QP_ACCESS_FLAGS) == 0);
	access_peer(&r, IBV_WR_RDMA_WRITE, r.mr[1], !bug);
}

static void remote_key_deregistered(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_mr *m = ibv_reg_mr(r.pd, r.buf[1], BUF, ALL_ACCESS), copy = *m;
	if (bug)
		must(ibv_dereg_mr(m) == 0);
	must(post_element(&r, IBV_WR_RDMA_READ, element(&r, 0, 8)) == 0);
	ends(r.cq[0], true);
	struct ibv_mr *right = r.mr[1];
	r.mr[1] = &copy;
	must(post_element(&r, IBV_WR_RDMA_READ, element(&r, 0, 64)) == 0); // FOUND
	r.mr[1] = right;
	ends(r.cq[0], !bug);
	if (!bug)
		must(ibv_dereg_mr(m) == 0);
	rig_close(&r);
}

// The next cases are about what the peer's program did: it made the memory that the peer wants inaccessible.

static void peer_after_deregistration(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_mr *m = ibv_reg_mr(r.pd, r.buf[1], BUF, ALL_ACCESS), copy = *m, *right = r.mr[1];
	r.mr[1] = &copy;
	for (int i = 0; i < 2; i++) {
		if (i == bug)
			must(post_element(&r, IBV_WR_RDMA_READ, element(&r, 0, 64)) == 0);
		if (i == !bug)
			must(ibv_dereg_mr(m) == 0); // FOUND
		if (i == bug)
			ends(r.cq[0], !bug);
	}
	r.mr[1] = right;
	rig_close(&r);
}

static void peer_beyond_region(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	access_peer(&r, IBV_WR_RDMA_WRITE, ibv_reg_mr(r.pd, r.buf[1], bug ? 32 : 64, ALL_ACCESS), !bug); // FOUND
}

// No region of the peer has the key, so the queue pair is all that there is to name.
static void peer_with_unknown_key(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC); // FOUND
	struct ibv_mr wrong = *r.mr[1];
	wrong.rkey = bug ? ~wrong.rkey : wrong.rkey;
	struct ibv_mr *right = r.mr[1];
	r.mr[1] = &wrong;
	must(post_element(&r, IBV_WR_RDMA_READ, element(&r, 0, 64)) == 0);
	r.mr[1] = right;
	ends(r.cq[0], !bug);
	rig_close(&r);
}

// The peer's queue pair has no resources for READs.
static void remote_request_invalid(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = r.qp[0]->qp_num, .max_dest_rd_atomic = bug ? 0 : 4, .min_rnr_timer = 1,
	};
	a.ah_attr = to_self(r.ctx);
	move_to(r.qp[1], IBV_QPS_RESET);
	to_init(r.qp[1]);
	must(ibv_modify_qp(r.qp[1], &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		IBV_QP_MIN_RNR_TIMER) == 0);
	must(post(&r, 0, IBV_WR_RDMA_READ, 64) == 0); // FOUND
	ends(r.cq[0], !bug);
	rig_close(&r);
}

// A window is bound to a region that must allow it.
static void local_operation_error(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_mr *m = ibv_reg_mr(r.pd, r.buf[0], 64, IBV_ACCESS_LOCAL_WRITE | (bug ? 0 : IBV_ACCESS_MW_BIND));
	struct ibv_mw *w = ibv_alloc_mw(r.pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind b = {.send_flags = IBV_SEND_SIGNALED, .bind_info = {m, (uintptr_t)r.buf[0], 8, IBV_ACCESS_REMOTE_READ}};
	must(m != NULL && w != NULL && ibv_bind_mw(r.qp[0], w, &b) == 0); // FOUND
	ends(r.cq[0], !bug);
	must(ibv_dealloc_mw(w) == 0 && ibv_dereg_mr(m) == 0);
	rig_close(&r);
}

static void address_handle_of_another_domain(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_UD);
	struct ibv_pd *pd = ibv_alloc_pd(r.ctx);
	struct ibv_ah *ah = make_ah(&r, bug ? pd : r.pd);
	must(send_datagram(&r, ah, 64) == 0); // FOUND
	ends(r.cq[0], !bug);
	must(ibv_destroy_ah(ah) == 0 && ibv_dealloc_pd(pd) == 0);
	rig_close(&r);
}

// The peer writes to memory of this side that is not registered for it, and announces it here.
static void write_with_immediate_refused(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	receive(&r, 1, 64);
	struct ibv_mr *m = ibv_reg_mr(r.pd, r.buf[1], bug ? 32 : 64, ALL_ACCESS), *right = r.mr[1];
	r.mr[1] = m;
	must(post(&r, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 64) == 0); // FOUND
	r.mr[1] = right;
	ends(r.cq[0], !bug);
	ends(r.cq[1], !bug);
	must(ibv_dereg_mr(m) == 0);
	rig_close(&r);
}

static void call_refused(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_sge list[3] = {element(&r, 0, 8), element(&r, 0, 8), element(&r, 0, 8)};
	struct ibv_send_wr *bad, wr = {.sg_list = list, .num_sge = bug ? 3 : 2, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	wr.wr.rdma.remote_addr = (uintptr_t)r.buf[1], wr.wr.rdma.rkey = r.mr[1]->rkey;
	must((ibv_post_send(r.qp[0], &wr, &bad) == EINVAL) == bug); // FOUND
	if (!bug)
		want(r.cq[0], IBV_WC_SUCCESS);
	rig_close(&r);
}

static void posted_before_rts(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_qp *q = make_qp(&r, IBV_QPT_RC, 0), *first = r.qp[0];
	to_init(q);
	to_rtr(&r, q, r.qp[1]);
	if (!bug)
		to_rts(&r, q);
	r.qp[0] = q;
	must((post(&r, 0, IBV_WR_RDMA_WRITE, 0) == EINVAL) == bug); // FOUND
	r.qp[0] = first;
	must(ibv_destroy_qp(q) == 0);
	rig_close(&r);
}

static void inline_too_long(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_sge s = {(uintptr_t)r.buf[0], bug ? 65 : 64, 0}; // inline data needs no key
	struct ibv_send_wr *bad, wr = {.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE};
	wr.wr.rdma.remote_addr = (uintptr_t)r.buf[1], wr.wr.rdma.rkey = r.mr[1]->rkey;
	must((ibv_post_send(r.qp[0], &wr, &bad) == EINVAL) == bug); // FOUND
	if (!bug)
		want(r.cq[0], IBV_WC_SUCCESS);
	rig_close(&r);
}

static void extended_inline_too_long(bool bug)
{
	struct rig r = {0};
	struct ibv_qp_ex *q = open_extended(&r);
	ibv_wr_start(q);
	q->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(q, r.mr[1]->rkey, (uintptr_t)r.buf[1]);
	ibv_wr_set_inline_data(q, r.buf[0], bug ? 65 : 64);
	must((ibv_wr_complete(q) == EINVAL) == bug); // FOUND
	if (!bug)
		want(r.cq[0], IBV_WC_SUCCESS);
	rig_close(&r);
}

static void received_before_init(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_sge s = element(&r, 0, 64);
	struct ibv_recv_wr *bad, wr = {.sg_list = &s, .num_sge = 1};
	struct ibv_qp *q = make_qp(&r, IBV_QPT_RC, 0);
	if (!bug)
		to_init(q);
	must((ibv_post_recv(q, &wr, &bad) == EINVAL) == bug); // FOUND
	must(ibv_destroy_qp(q) == 0);
	rig_close(&r);
}

static void srq_receive_refused(bool bug)
{
	struct rig r = {.shared = true};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_sge list[4] = {element(&r, 1, 8), element(&r, 1, 8), element(&r, 1, 8), element(&r, 1, 8)};
	for (int i = 0; i < 4; i++)
		list[i].addr += 8 * (unsigned)i;
	struct ibv_recv_wr *bad, wr = {.sg_list = list, .num_sge = bug ? 4 : 2};
	must((ibv_post_srq_recv(r.srq, &wr, &bad) == EINVAL) == bug); // FOUND
	rig_close(&r);
}

// A queue pair with an SRQ takes no receives of its own.
static void receive_beside_srq(bool bug)
{
	struct rig r = {.shared = true};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_sge s = element(&r, 1, 64);
	struct ibv_recv_wr *bad, wr = {.sg_list = &s, .num_sge = 1};
	must(bug ? ibv_post_recv(r.qp[1], &wr, &bad) == EINVAL : ibv_post_srq_recv(r.srq, &wr, &bad) == 0); // FOUND
	rig_close(&r);
}

const struct bug key_bugs[] = {
	{"key-unknown", "key-unknown", key_unknown},
	{"key-unknown-of-receive", "key-unknown", key_unknown_of_receive},
	{"key-unknown-in-srq", "key-unknown", key_unknown_in_srq},
	{"key-unknown-extended", "key-unknown", key_unknown_extended},
	{"key-deregistered", "key-deregistered", key_deregistered},
	{"key-deregistered-of-receive", "key-deregistered", key_deregistered_of_receive},
	{"key-of-before", "key-deregistered", key_of_before},
	{"beyond-region", "beyond-region", beyond_region},
	{"before-region", "beyond-region", before_region},
	{"receive-beyond-region", "beyond-region", receive_beyond_region},
	{"beyond-chosen-address", "beyond-region", beyond_chosen_address},
	{"no-local-write", "no-local-write", no_local_write},
	{"no-local-write-of-atomic", "no-local-write", no_local_write_of_atomic},
	{"no-local-write-of-receive", "no-local-write", no_local_write_of_receive},
	{"region-of-another-domain", "region-of-another-domain", region_of_another_domain},
	{"srq-of-another-domain", "region-of-another-domain", srq_of_another_domain},
	{"no-room-for-grh", "no-room-for-grh", no_room_for_grh},
	{"message-longer-than-mtu", "message-longer-than-mtu", message_longer_than_mtu},
	{"atomic-not-aligned", "atomic-not-aligned", atomic_not_aligned},
	{"receive-too-small", "receive-too-small", receive_too_small},
	{"srq-receive-too-small", "receive-too-small", srq_receive_too_small},
	{"remote-access-error", "remote-access-error", remote_access_error},
	{"remote-write-without-right", "remote-access-error", remote_write_without_right},
	{"remote-read-without-right", "remote-access-error", remote_read_without_right},
	{"queue-pair-without-right", "remote-request-invalid", queue_pair_without_right},
	{"remote-key-deregistered", "remote-access-error", remote_key_deregistered},
	{"write-with-immediate-refused", "remote-access-error", write_with_immediate_refused},
	{"peer-after-deregistration", "peer-access-refused", peer_after_deregistration},
	{"peer-beyond-region", "peer-access-refused", peer_beyond_region},
	{"peer-with-unknown-key", "peer-access-refused", peer_with_unknown_key},
	{"remote-request-invalid", "remote-request-invalid", remote_request_invalid},
	{"local-operation-error", "local-operation-error", local_operation_error},
	{"address-handle-of-another-domain", "local-operation-error", address_handle_of_another_domain},
	{"call-refused", "call-refused", call_refused},
	{"posted-before-rts", "call-refused", posted_before_rts},
	{"inline-too-long", "call-refused", inline_too_long},
	{"extended-inline-too-long", "call-refused", extended_inline_too_long},
	{"received-before-init", "call-refused", received_before_init},
	{"srq-receive-refused", "call-refused", srq_receive_refused},
	{"receive-beside-srq", "call-refused", receive_beside_srq},
	{NULL, NULL, NULL},
};

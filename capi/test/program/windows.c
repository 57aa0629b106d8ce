// Memory windows: a region without remote rights, parts of which the peer reaches by keys that end.
#define _GNU_SOURCE
#include "refusals.h"

enum { PART = 64, AT = 128 };

// shade is a region of side 1 to which windows can be bound, and that gives the peer nothing itself.
static struct ibv_mr *shade(struct rig *r, unsigned rights)
{
	struct ibv_mr *m = ibv_reg_mr(r->pd, r->buf[1], BUF, (int)rights);
	must(m != NULL);
	return m;
}

static struct ibv_mw_bind_info part_of(struct ibv_mr *m)
{
	return (struct ibv_mw_bind_info){
		.mr = m, .addr = (uintptr_t)m->addr + AT, .length = PART, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
}

// reach writes n bytes from side 0 through a key of side 1.
static void reach(struct rig *r, uint32_t rkey, uint64_t addr, uint32_t n, enum ibv_wc_status s)
{
	struct ibv_sge e = {(uintptr_t)r->buf[0], n, r->mr[0]->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &e, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	wr.wr.rdma.remote_addr = addr, wr.wr.rdma.rkey = rkey;
	must(ibv_post_send(r->qp[0], &wr, &bad) == 0);
	want(r->cq[0], s);
}

static void done(struct rig *r, enum ibv_wc_opcode op, uint64_t wr_id)
{
	struct ibv_wc wc = wait_wc(r->cq[1]);
	must(wc.status == IBV_WC_SUCCESS && wc.opcode == op && wc.wr_id == wr_id && wc.qp_num == r->qp[1]->qp_num);
}

static void bind_first(struct rig *r, struct ibv_mw *w, struct ibv_mw_bind_info info)
{
	uint32_t before = w->rkey;
	struct ibv_mw_bind b = {.wr_id = 7, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};
	must(ibv_bind_mw(r->qp[1], w, &b) == 0);
	done(r, IBV_WC_BIND_MW, 7);
	must(w->rkey != before && w->rkey >> 8 == before >> 8);
}

// reset starts the connection again after an error.
static void reset(struct rig *r)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};
	must(ibv_modify_qp(r->qp[0], &a, IBV_QP_STATE) == 0 && ibv_modify_qp(r->qp[1], &a, IBV_QP_STATE) == 0);
	connect_qp(r, r->qp[0], r->qp[1]);
	connect_qp(r, r->qp[1], r->qp[0]);
}

// A window of type 1 is bound, bound again, unbound and deallocated.
static void first_type(void)
{
	struct rig r = {0};
	struct ibv_device_attr d;
	rig_open(&r, IBV_QPT_RC);
	must(ibv_query_device(r.ctx, &d) == 0 && d.max_mw > 0 && d.device_cap_flags & IBV_DEVICE_MEM_WINDOW);
	struct ibv_mr *m = shade(&r, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *w = ibv_alloc_mw(r.pd, IBV_MW_TYPE_1);
	must(w != NULL && w->context == r.ctx && w->pd == r.pd && w->type == IBV_MW_TYPE_1 && ibv_dealloc_pd(r.pd) == EBUSY);
	strcpy(r.buf[0], "through the window");
	bind_first(&r, w, part_of(m));
	reach(&r, w->rkey, (uintptr_t)m->addr + AT, PART, IBV_WC_SUCCESS);
	must(strcmp(r.buf[1] + AT, "through the window") == 0 && ibv_dereg_mr(m) == EINVAL);
	uint32_t old = w->rkey;
	bind_first(&r, w, part_of(m));
	reach(&r, w->rkey, (uintptr_t)m->addr + AT, PART, IBV_WC_SUCCESS);
	reach(&r, old, (uintptr_t)m->addr + AT, PART, IBV_WC_REM_ACCESS_ERR);
	reset(&r);
	bind_first(&r, w, (struct ibv_mw_bind_info){0});
	must(ibv_dereg_mr(m) == 0);
	reach(&r, w->rkey, (uintptr_t)r.buf[1] + AT, PART, IBV_WC_REM_ACCESS_ERR);
	must(ibv_dealloc_mw(w) == 0);
	rig_close(&r);
}

// bind_second binds a window of type 2 by a request, and returns its key.
static uint32_t bind_second(struct rig *r, struct ibv_mw *w, struct ibv_mw_bind_info info, enum ibv_wc_status s)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = 8, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED, .bind_mw = {.mw = w, .rkey = ibv_inc_rkey(w->rkey), .bind_info = info},
	};
	must(ibv_post_send(r->qp[1], &wr, &bad) == 0);
	if (s == IBV_WC_SUCCESS)
		done(r, IBV_WC_BIND_MW, 8);
	else
		want(r->cq[1], s);
	return wr.bind_mw.rkey;
}

static void invalidate_here(struct rig *r, uint32_t key)
{
	struct ibv_send_wr *bad, wr = {.wr_id = 9, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = key};
	must(ibv_post_send(r->qp[1], &wr, &bad) == 0);
	done(r, IBV_WC_LOCAL_INV, 9);
}

static void invalidate_there(struct rig *r, uint32_t key)
{
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND_WITH_INV, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = key};
	receive(r, 1, 8);
	must(ibv_post_send(r->qp[0], &wr, &bad) == 0);
	want(r->cq[0], IBV_WC_SUCCESS);
	struct ibv_wc wc = wait_wc(r->cq[1]);
	must(wc.status == IBV_WC_SUCCESS && wc.wc_flags & IBV_WC_WITH_INV && wc.invalidated_rkey == key);
}

// A window of type 2 is bound by requests, and invalidated by both sides.
static void second_type(void)
{
	struct rig r = {0};
	struct ibv_device_attr d;
	rig_open(&r, IBV_QPT_RC);
	must(ibv_query_device(r.ctx, &d) == 0 && d.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B && d.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS);
	struct ibv_mr *m = shade(&r, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *w = ibv_alloc_mw(r.pd, IBV_MW_TYPE_2);
	must(w != NULL);
	uint32_t key = bind_second(&r, w, part_of(m), IBV_WC_SUCCESS);
	reach(&r, key, (uintptr_t)m->addr + AT, PART, IBV_WC_SUCCESS);
	invalidate_here(&r, key);
	w->rkey = key;
	key = bind_second(&r, w, part_of(m), IBV_WC_SUCCESS);
	invalidate_there(&r, key);
	w->rkey = key;

	// The peer's addresses count from the first byte of the window.
	struct ibv_mw_bind_info zero = part_of(m);
	zero.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
	key = bind_second(&r, w, zero, IBV_WC_SUCCESS);
	strcpy(r.buf[0], "from zero");
	reach(&r, key, 0, PART, IBV_WC_SUCCESS);
	must(strcmp(r.buf[1] + AT, "from zero") == 0);
	w->rkey = key;
	bind_second(&r, w, part_of(m), IBV_WC_MW_BIND_ERR); // it is bound
	reset(&r);
	reach(&r, key, 1, PART, IBV_WC_REM_ACCESS_ERR);
	reset(&r);

	// The queue pair takes its windows along.
	must(ibv_dereg_mr(m) == EINVAL && ibv_destroy_qp(r.qp[1]) == 0 && ibv_dereg_mr(m) == 0);
	must(ibv_dealloc_mw(w) == 0);
	r.qp[1] = make_qp(&r, IBV_QPT_RC, 1);
	rig_close(&r);
}

// The extended calls bind and invalidate too. A list that fails posts nothing.
static void extended(void)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_qp_init_attr_ex a = {
		.send_cq = r.cq[1], .recv_cq = r.cq[1], .qp_type = IBV_QPT_RC, .cap = {8, 8, 1, 1, 0}, .pd = r.pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV,
	};
	must(ibv_destroy_qp(r.qp[1]) == 0 && (r.qp[1] = ibv_create_qp_ex(r.ctx, &a)) != NULL);
	reset(&r);
	struct ibv_qp_ex *q = ibv_qp_to_qp_ex(r.qp[1]);
	struct ibv_mr *m = shade(&r, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *w = ibv_alloc_mw(r.pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info = part_of(m);
	must(w != NULL);
	uint32_t key = ibv_inc_rkey(w->rkey);
	ibv_wr_start(q);
	q->wr_flags = IBV_SEND_SIGNALED, q->wr_id = 21;
	ibv_wr_bind_mw(q, w, key, &info);
	must(ibv_wr_complete(q) == 0);
	done(&r, IBV_WC_BIND_MW, 21);
	reach(&r, key, (uintptr_t)m->addr + AT, PART, IBV_WC_SUCCESS);
	info.mr = NULL;
	ibv_wr_start(q);
	ibv_wr_local_inv(q, key);
	ibv_wr_bind_mw(q, w, ibv_inc_rkey(key), &info);
	must(ibv_wr_complete(q) == EINVAL);
	info.mr = m, w->rkey = key, key = ibv_inc_rkey(key);
	ibv_wr_start(q);
	q->wr_id = 22;
	ibv_wr_local_inv(q, w->rkey);
	q->wr_id = 23;
	ibv_wr_bind_mw(q, w, key, &info);
	must(ibv_wr_complete(q) == 0);
	done(&r, IBV_WC_LOCAL_INV, 22);
	done(&r, IBV_WC_BIND_MW, 23);
	reach(&r, key, (uintptr_t)m->addr + AT, PART, IBV_WC_SUCCESS);
	must(ibv_dealloc_mw(w) == 0 && ibv_dereg_mr(m) == 0);
	rig_close(&r);
}

static void windows(void)
{
	first_type();
	second_type();
	extended();

	// A context that closes takes its windows along, and then their regions.
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	bind_first(&r, ibv_alloc_mw(r.pd, IBV_MW_TYPE_1), part_of(shade(&r, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)));
	rig_drop(&r);
}

const struct scenario windowed[] = {{"windows", windows}, {NULL, NULL}};

// Refused calls.
void refuse_windows(struct rig *r)
{
	struct ibv_mr *m = shade(r, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *one = ibv_alloc_mw(r->pd, IBV_MW_TYPE_1), *two = ibv_alloc_mw(r->pd, IBV_MW_TYPE_2);
	struct ibv_pd *pd = ibv_alloc_pd(r->ctx);
	struct ibv_mw *only = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	must(one != NULL && two != NULL && only != NULL);
	NULL_OF("ibv_alloc_mw", "an undefined type", ibv_alloc_mw(r->pd, 3));
	CODE_OF("ibv_dealloc_pd", "a memory window is in it", ibv_dealloc_pd(pd));
	must(ibv_dealloc_mw(only) == 0 && ibv_dealloc_pd(pd) == 0);
	struct ibv_mw_bind b = {.bind_info = part_of(m)};
	CODE_OF("ibv_bind_mw", "a window of type 2", ibv_bind_mw(r->qp[1], two, &b));
	b.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
	CODE_OF("ibv_bind_mw", "IBV_ACCESS_ZERO_BASED", ibv_bind_mw(r->qp[1], one, &b));
	b.bind_info = part_of(m), b.bind_info.mr = NULL;
	CODE_OF("ibv_bind_mw", "a range of no region", ibv_bind_mw(r->qp[1], one, &b));
	must(one->rkey >> 8 != 0);
	bind_first(r, one, part_of(m));
	CODE_OF("ibv_dereg_mr", "a memory window is bound to it", ibv_dereg_mr(m));
	NUMBER_OF("ibv_rereg_mr", "a memory window is bound to it", ibv_rereg_mr(m, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE));
	must(ibv_dealloc_mw(one) == 0 && ibv_dealloc_mw(two) == 0 && ibv_dereg_mr(m) == 0);
}

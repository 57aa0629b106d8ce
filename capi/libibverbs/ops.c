// The functions that programs call through the context. Operations that the adapter lacks have no
// entry in these tables: programs test for that, and the inline functions of the header return
// EOPNOTSUPP.
#define _GNU_SOURCE
#include "softhca.h"

void set_ops(struct context *c)
{
	struct ibv_context_ops *o = &c->v.context.ops;
	o->_compat_query_device = ibv_query_device;
	o->_compat_query_port = ibv_query_port;
	o->alloc_mw = alloc_mw;
	o->bind_mw = bind_mw;
	o->dealloc_mw = dealloc_mw;
	o->poll_cq = poll_cq;
	o->req_notify_cq = req_notify_cq;
	o->post_send = post_send;
	o->post_recv = post_recv;
	o->post_srq_recv = post_srq_recv;
	c->v.query_port = query_port;
	c->v.query_device_ex = query_device_ex;
	c->v.query_rt_values = query_rt_values;
	c->v.create_cq_ex = create_cq_ex;
	c->v.modify_cq = modify_cq;
	c->v.create_qp_ex = create_qp_ex;
	c->v.create_srq_ex = create_srq_ex;
	c->v.open_xrcd = open_xrcd;
	c->v.close_xrcd = close_xrcd;
	c->v.open_qp = open_qp;
	c->v.get_srq_num = get_srq_num;
	c->v.modify_qp_rate_limit = modify_qp_rate_limit;
	c->v.alloc_td = alloc_td;
	c->v.dealloc_td = dealloc_td;
	c->v.alloc_parent_domain = alloc_parent_domain;
	c->v.alloc_null_mr = alloc_null_mr;
	c->v.advise_mr = advise_mr;
	c->v.alloc_dm = alloc_dm;
	c->v.free_dm = free_dm;
	c->v.reg_dm_mr = reg_dm_mr;
}

// Registered memory stays usable in the parent after a fork: the engine reads and writes it in
// place.
EXPORT int ibv_fork_init(void) { return 0; }
EXPORT enum ibv_fork_status ibv_is_fork_initialized(void) { return IBV_FORK_UNNEEDED; }
LATER(int, ibv_dontfork_range, void) { return 0; }
LATER(int, ibv_dofork_range, void) { return 0; }

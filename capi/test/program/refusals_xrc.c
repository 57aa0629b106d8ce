// Refused calls of extended reliable connections.
#define _GNU_SOURCE
#include "refusals.h"

#include <fcntl.h>
#include <sys/mman.h>

enum {
	DOMAIN = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
	SRQ = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	TARGET = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
};

static struct ibv_xrcd *opened(struct rig *r, uint32_t mask, int fd, int oflags)
{
	return ibv_open_xrcd(r->ctx, &(struct ibv_xrcd_init_attr){.comp_mask = mask, .fd = fd, .oflags = oflags});
}

static void refuse_domain(struct rig *r)
{
	int file = memfd_create("file", MFD_CLOEXEC);
	NULL_OF("ibv_open_xrcd", "an unknown bit of comp_mask", opened(r, DOMAIN | 1u << 31, -1, O_CREAT));
	NULL_OF("ibv_open_xrcd", "no IBV_XRCD_INIT_ATTR_FD", opened(r, IBV_XRCD_INIT_ATTR_OFLAGS, -1, O_CREAT));
	NULL_OF("ibv_open_xrcd", "no IBV_XRCD_INIT_ATTR_OFLAGS", opened(r, IBV_XRCD_INIT_ATTR_FD, -1, O_CREAT));
	NULL_OF("ibv_open_xrcd", "a descriptor that is not open", opened(r, DOMAIN, 999, O_CREAT));
	NULL_OF("ibv_open_xrcd", "a file without a domain, without O_CREAT", opened(r, DOMAIN, file, 0));
	struct ibv_xrcd *x = opened(r, DOMAIN, file, O_CREAT);
	must(x != NULL);
	NULL_OF("ibv_open_xrcd", "a file with a domain, with O_EXCL", opened(r, DOMAIN, file, O_CREAT | O_EXCL));
	pid_t child = begin_child();
	if (child == 0) {
		struct ibv_context *c = open_first();
		NULL_OF("ibv_open_xrcd", "a file whose domain another process has",
			ibv_open_xrcd(c, &(struct ibv_xrcd_init_attr){.comp_mask = DOMAIN, .fd = file, .oflags = O_CREAT}));
		NULL_OF("ibv_open_xrcd", "a file whose domain another process has, with O_EXCL",
			ibv_open_xrcd(c, &(struct ibv_xrcd_init_attr){.comp_mask = DOMAIN, .fd = file, .oflags = O_CREAT | O_EXCL}));
		fflush(stdout);
		_exit(0);
	}
	ended_well(child);
	must(ibv_close_xrcd(x) == 0);
	close(file);
}

static void refuse_target(struct rig *r, const char *condition, struct ibv_qp_open_attr a)
{
	watch(&a, sizeof a);
	NULL_OF("ibv_open_qp", condition, ibv_open_qp(r->ctx, &a));
}

void refuse_xrc(struct rig *r)
{
	uint32_t number;
	refuse_domain(r);
	struct ibv_xrcd *x = opened(r, DOMAIN, -1, O_CREAT), *other = opened(r, DOMAIN, -1, O_CREAT);
	struct ibv_srq_init_attr_ex a = {.attr = {.max_wr = 1, .max_sge = 1}, .srq_type = IBV_SRQT_XRC, .pd = r->pd, .xrcd = x, .cq = r->cq[0]};
	must(x != NULL && other != NULL);
	a.comp_mask = SRQ & ~(unsigned)IBV_SRQ_INIT_ATTR_XRCD;
	NULL_OF("ibv_create_srq_ex", "IBV_SRQT_XRC without a domain", ibv_create_srq_ex(r->ctx, &a));
	a.comp_mask = SRQ & ~(unsigned)IBV_SRQ_INIT_ATTR_CQ;
	NULL_OF("ibv_create_srq_ex", "IBV_SRQT_XRC without a completion queue", ibv_create_srq_ex(r->ctx, &a));
	a.comp_mask = SRQ;
	struct ibv_srq *s = ibv_create_srq_ex(r->ctx, &a);
	struct ibv_qp_init_attr_ex t = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = x};
	struct ibv_qp *q = ibv_create_qp_ex(r->ctx, &t);
	must(s != NULL && q != NULL);
	NULL_OF("ibv_create_qp", "a shared receive queue of XRC",
		ibv_create_qp(r->pd, &(struct ibv_qp_init_attr){.send_cq = r->cq[0], .recv_cq = r->cq[0], .srq = s, .qp_type = IBV_QPT_RC}));
	NULL_OF("ibv_create_qp", "IBV_QPT_XRC_SEND without a send completion queue", ibv_create_qp(r->pd, &(struct ibv_qp_init_attr){.qp_type = IBV_QPT_XRC_SEND}));
	t.comp_mask = 0;
	NULL_OF("ibv_create_qp_ex", "IBV_QPT_XRC_RECV without a domain", ibv_create_qp_ex(r->ctx, &t));
	refuse_target(r, "an unknown bit of comp_mask", (struct ibv_qp_open_attr){TARGET | 1u << 31, q->qp_num, x, NULL, IBV_QPT_XRC_RECV});
	refuse_target(r, "no domain", (struct ibv_qp_open_attr){TARGET & ~(unsigned)IBV_QP_OPEN_ATTR_XRCD, q->qp_num, x, NULL, IBV_QPT_XRC_RECV});
	refuse_target(r, "another domain", (struct ibv_qp_open_attr){TARGET, q->qp_num, other, NULL, IBV_QPT_XRC_RECV});
	refuse_target(r, "another type than IBV_QPT_XRC_RECV", (struct ibv_qp_open_attr){TARGET, q->qp_num, x, NULL, IBV_QPT_RC});
	refuse_target(r, "a number of no target", (struct ibv_qp_open_attr){TARGET, r->qp[0]->qp_num, x, NULL, IBV_QPT_XRC_RECV});
	poison(&number, sizeof number);
	CODE_OF("ibv_get_srq_num", "an ordinary shared receive queue", ibv_get_srq_num(r->srq, &number));
	CODE_OF("ibv_close_xrcd", "objects are in the domain", ibv_close_xrcd(x));
	must(ibv_destroy_qp(q) == 0);
	CODE_OF("ibv_close_xrcd", "a shared receive queue is in the domain", ibv_close_xrcd(x));
	must(ibv_destroy_srq(s) == 0 && ibv_close_xrcd(x) == 0 && ibv_close_xrcd(other) == 0);
}

// Refused calls of rdma-core 59 and later.
#include "refusals.h"

#include "later.h"

#include <fcntl.h>

static void refuse_reg_ex(struct rig *r, const char *condition, struct mr_init a)
{
	a.length = BUF;
	watch(&a, sizeof a);
	NULL_OF("ibv_reg_mr_ex", condition, later_ibv_reg_mr_ex(r->pd, &a));
}

static void refuse_buffers(struct rig *r)
{
	enum { SIZE = 10000 };
	static const char f[] = "ibv_reg_buf_mr";
	struct buf *b, *none;
	struct ibv_pd *other = ibv_alloc_pd(r->ctx);
	char *p = later_ibv_alloc_buf(r->pd, SIZE, &b);
	must(p != NULL && other != NULL);
	poison(&none, sizeof none);
	NULL_OF("ibv_alloc_buf", "more than there is memory", later_ibv_alloc_buf(r->pd, SIZE_MAX / 2, &none));
	NULL_OF(f, "a range that ends beyond the buffer", later_ibv_reg_buf_mr(r->pd, b, p + 1, SIZE, 0));
	NULL_OF(f, "a range that begins before the buffer", later_ibv_reg_buf_mr(r->pd, b, p - 1, 1, 0));
	NULL_OF(f, "a buffer of another protection domain", later_ibv_reg_buf_mr(other, b, p, SIZE, 0));
	refuse_reg_ex(r, "a buffer without an address", (struct mr_init){.mask = HAS_BUF, .buf = b});
	refuse_reg_ex(r, "a buffer with the offset in a DMA-buf", (struct mr_init){.mask = HAS_BUF | HAS_ADDR | HAS_FD_OFFSET, .addr = p, .buf = b});
	refuse_reg_ex(r, "a buffer without an address, and an unknown bit of comp_mask", (struct mr_init){.mask = HAS_BUF | HAS_OTHER, .buf = b});
	NUMBER_OF("ibv_export_buf_dmabuf_fd", "a buffer that is not in a DMA-buf", later_ibv_export_buf_dmabuf_fd(b));
	later_ibv_free_buf(b);
	must(ibv_dealloc_pd(other) == 0);
}

void refuse_later(struct rig *r)
{
	static const char always[] = "always";
	uint64_t speed;
	struct counter_caps caps;
	poison(&speed, sizeof speed);
	CODE_OF("ibv_query_port_speed", "port 2 of 1", later_ibv_query_port_speed(r->ctx, 2, &speed));
	poison(&speed, sizeof speed);
	CODE_OF("ibv_query_port_speed", "port 257 of 1", later_ibv_query_port_speed(r->ctx, 257, &speed));
	refuse_reg_ex(r, "neither an address nor a DMA-buf", (struct mr_init){.mask = HAS_IOVA});
	refuse_reg_ex(r, "an address and a DMA-buf", (struct mr_init){.mask = HAS_ADDR | HAS_FD | HAS_FD_OFFSET | HAS_IOVA, .addr = r->buf[0]});
	refuse_reg_ex(r, "an address and the offset in a DMA-buf", (struct mr_init){.mask = HAS_ADDR | HAS_FD_OFFSET, .addr = r->buf[0]});
	refuse_reg_ex(r, "a DMA-buf without the offset", (struct mr_init){.mask = HAS_FD | HAS_IOVA});
	refuse_reg_ex(r, "a DMA-buf without the IOVA", (struct mr_init){.mask = HAS_FD | HAS_FD_OFFSET});
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	must(null >= 0);
	refuse_reg_ex(r, "a file that is no DMA-buf", (struct mr_init){.mask = HAS_FD | HAS_FD_OFFSET | HAS_IOVA, .fd = null});
	close(null);
	refuse_reg_ex(r, "a DMA handle", (struct mr_init){.mask = HAS_ADDR | HAS_DMAH, .addr = r->buf[0]});
	refuse_reg_ex(r, "an unknown bit of comp_mask", (struct mr_init){.mask = HAS_ADDR | HAS_OTHER, .addr = r->buf[0]});
	refuse_buffers(r);
	NULL_OF("ibv_alloc_dmah", always, later_ibv_alloc_dmah(r->ctx, &speed));
	poison(&caps, sizeof caps);
	CODE_OF("_ibv_query_comp_cntr_caps", always, later__ibv_query_comp_cntr_caps(r->ctx, &caps, sizeof caps));
	NULL_OF("ibv_create_comp_cntr", always, later_ibv_create_comp_cntr(r->ctx, &speed));
	CODE_OF("ibv_qp_attach_comp_cntr", always, later_ibv_qp_attach_comp_cntr(r->qp[0], NULL, &speed));
}

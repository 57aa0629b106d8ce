// Verbs of rdma-core 59 and later. Programs may be compiled with newer headers than this library,
// so the structures that they pass are declared here.
#define _GNU_SOURCE
#include "softhca.h"

#include <unistd.h>

// A buffer that the library allocates for a program: here ordinary memory.
struct buf {
	void *addr;
	size_t length;
	struct ibv_pd *pd;
};

LATER(void *, ibv_alloc_buf, struct ibv_pd *pd, size_t size, struct buf **out)
{
	struct buf *b = calloc(1, sizeof *b);
	if (b == NULL)
		return fail(ENOMEM);
	int code = posix_memalign(&b->addr, (size_t)sysconf(_SC_PAGESIZE), size);
	if (code != 0)
		return abandon(b, code);
	b->length = size, b->pd = pd;
	*out = b;
	return b->addr;
}

LATER(void, ibv_free_buf, struct buf *b)
{
	free(b->addr);
	free(b);
}

// No buffer comes from a DMA-buf.
LATER(int, ibv_export_buf_dmabuf_fd, struct buf *b)
{
	(void)b;
	return failure(ENODATA);
}

// The memory that a region can have, by the bits of mr_init.mask.
enum { HAS_IOVA = 1 << 0, HAS_ADDR = 1 << 1, HAS_FD = 1 << 2, HAS_FD_OFFSET = 1 << 3, HAS_DMAH = 1 << 4, HAS_BUF = 1 << 5 };

struct mr_init {
	size_t length;
	int access;
	uint64_t mask, iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
	struct buf *buf;
};

// within reports whether a region is in the buffer that it names.
static bool within(const struct ibv_pd *pd, const struct mr_init *a)
{
	uintptr_t from = (uintptr_t)a->buf->addr, at = (uintptr_t)a->addr;
	return a->buf->pd == pd && at >= from && at - from <= a->buf->length && a->length <= a->buf->length - (at - from);
}

LATER(struct ibv_mr *, ibv_reg_mr_ex, struct ibv_pd *pd, const struct mr_init *a)
{
	enum { KNOWN = HAS_IOVA | HAS_ADDR | HAS_FD | HAS_FD_OFFSET | HAS_BUF, DMABUF = HAS_FD | HAS_FD_OFFSET | HAS_IOVA };
	bool addr = a->mask & HAS_ADDR;
	if (a->mask & HAS_BUF && (!addr || a->mask & (HAS_FD | HAS_FD_OFFSET) || !within(pd, a)))
		return fail(EINVAL);
	if (a->mask & ~(uint64_t)KNOWN)
		return fail(EOPNOTSUPP);
	if (a->mask & HAS_FD) {
		if (addr || (a->mask & DMABUF) != DMABUF)
			return fail(EINVAL);
		return ibv_reg_dmabuf_mr(pd, a->fd_offset, a->length, a->iova, a->fd, a->access);
	}
	if (!addr || a->mask & HAS_FD_OFFSET)
		return fail(EINVAL);
	uint64_t iova = a->mask & HAS_IOVA ? a->iova : (uintptr_t)a->addr;
	return ibv_reg_mr_iova2(pd, a->addr, a->length, iova, (unsigned)a->access);
}

LATER(struct ibv_mr *, ibv_reg_buf_mr, struct ibv_pd *pd, struct buf *b, void *addr, size_t length, int access)
{
	struct mr_init a = {.length = length, .access = access, .mask = HAS_ADDR | HAS_BUF, .addr = addr, .buf = b};
	return later_ibv_reg_mr_ex(pd, &a);
}

// Device memory is in no DMA-buf, and the adapter has neither bus hints nor completion counters.

LATER(int, ibv_dm_export_dmabuf_fd, struct ibv_dm *d)
{
	(void)d;
	return failure(EOPNOTSUPP);
}

LATER(int, _ibv_query_comp_cntr_caps, struct ibv_context *c, void *caps, size_t size)
{
	(void)c;
	memset(caps, 0, size);
	return unsupported();
}

REFUSES_POINTER(ibv_alloc_dmah)
REFUSES(ibv_dealloc_dmah)
REFUSES_POINTER(ibv_create_comp_cntr)
REFUSES(ibv_destroy_comp_cntr)
REFUSES(ibv_qp_attach_comp_cntr)
REFUSES(ibv_set_comp_cntr)
REFUSES(ibv_set_err_comp_cntr)
REFUSES(ibv_inc_comp_cntr)
REFUSES(ibv_inc_err_comp_cntr)
REFUSES(ibv_read_comp_cntr)
REFUSES(ibv_read_err_comp_cntr)

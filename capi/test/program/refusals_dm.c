// Refused calls on device memory, DMA-bufs and null regions, and refused advice.
#define _GNU_SOURCE
#include "refusals.h"

#include "later.h"

#include <sys/mman.h>

enum { PAGE = 4096, SIZE = 256 };

static struct ibv_dm *dm_of(struct rig *r, size_t length, uint32_t log_align, uint32_t comp_mask)
{
	struct ibv_alloc_dm_attr a = {.length = length, .log_align_req = log_align, .comp_mask = comp_mask};
	return ibv_alloc_dm(r->ctx, &a);
}

static void refuse_alloc(struct rig *r)
{
	static const char f[] = "ibv_alloc_dm";
	struct ibv_device_attr_ex x;
	must(ibv_query_device_ex(r->ctx, NULL, &x) == 0 && x.max_dm_size > SIZE);
	NULL_OF(f, "0 bytes", dm_of(r, 0, 0, 0));
	NULL_OF(f, "more bytes than max_dm_size", dm_of(r, x.max_dm_size + 1, 0, 0));
	NULL_OF(f, "an alignment of more than a page", dm_of(r, 4, 13, 0));
	NULL_OF(f, "an unknown bit of comp_mask", dm_of(r, 4, 0, 1));
	struct ibv_dm *all = dm_of(r, x.max_dm_size, 12, 0);
	must(all != NULL);
	NULL_OF(f, "more bytes than are left", dm_of(r, 4, 0, 0));
	must(ibv_free_dm(all) == 0);
}

static void refuse_copies(struct ibv_dm *d)
{
	static const char to[] = "ibv_memcpy_to_dm", from[] = "ibv_memcpy_from_dm";
	char mem[SIZE + 4] = {0};
	CODE_OF(to, "an offset that is no multiple of 4", ibv_memcpy_to_dm(d, 3, mem, 4));
	CODE_OF(to, "a length that is no multiple of 4", ibv_memcpy_to_dm(d, 4, mem, 3));
	CODE_OF(to, "a range that ends beyond the memory", ibv_memcpy_to_dm(d, 0, mem, SIZE + 4));
	CODE_OF(to, "a range that begins beyond the memory", ibv_memcpy_to_dm(d, UINT64_MAX - 3, mem, 4));
	poison(mem, sizeof mem);
	CODE_OF(from, "an offset that is no multiple of 4", ibv_memcpy_from_dm(mem, d, 3, 4));
	poison(mem, sizeof mem);
	CODE_OF(from, "a length that is no multiple of 4", ibv_memcpy_from_dm(mem, d, 4, 3));
	poison(mem, sizeof mem);
	CODE_OF(from, "a range that ends beyond the memory", ibv_memcpy_from_dm(mem, d, SIZE, 4));
}

static void refuse_reg(struct rig *r, struct ibv_dm *d)
{
	static const char f[] = "ibv_reg_dm_mr";
	NULL_OF(f, "no IBV_ACCESS_ZERO_BASED", ibv_reg_dm_mr(r->pd, d, 0, SIZE, IBV_ACCESS_LOCAL_WRITE));
	NULL_OF(f, "IBV_ACCESS_ON_DEMAND", ibv_reg_dm_mr(r->pd, d, 0, SIZE, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND));
	NULL_OF(f, "a range that ends beyond the memory", ibv_reg_dm_mr(r->pd, d, 4, SIZE, IBV_ACCESS_ZERO_BASED));
	NULL_OF(f, "a range that begins beyond the memory", ibv_reg_dm_mr(r->pd, d, SIZE + 4, 0, IBV_ACCESS_ZERO_BASED));
	struct ibv_mr *m = ibv_reg_dm_mr(r->pd, d, 0, SIZE, IBV_ACCESS_ZERO_BASED);
	must(m != NULL);
	CODE_OF("ibv_free_dm", "a region covers it", ibv_free_dm(d));
	NUMBER_OF("ibv_dm_export_dmabuf_fd", "always", later_ibv_dm_export_dmabuf_fd(d));
	must(ibv_dereg_mr(m) == 0);
}

static void refuse_dmabufs(struct rig *r)
{
	static const char f[] = "ibv_reg_dmabuf_mr";
	int file = memfd_create("no DMA-buf", MFD_CLOEXEC);
	must(file >= 0 && ftruncate(file, PAGE) == 0);
	NULL_OF(f, "a descriptor that is not open", ibv_reg_dmabuf_mr(r->pd, 0, PAGE, 0, -1, 0));
	NULL_OF(f, "a file that is no DMA-buf", ibv_reg_dmabuf_mr(r->pd, 0, PAGE, 0, file, 0));
	close(file);
}

static void refuse_advice(struct rig *r)
{
	const enum ibv_advise_mr_advice READ = IBV_ADVISE_MR_ADVICE_PREFETCH, WRITE = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, UNKNOWN = 99;
	const uint32_t WAIT = IBV_ADVISE_MR_FLAG_FLUSH;
	static const char f[] = "ibv_advise_mr";
	char *mem = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_pd *other = ibv_alloc_pd(r->ctx);
	struct ibv_mr *m = ibv_reg_mr(r->pd, mem, PAGE, IBV_ACCESS_ON_DEMAND);
	must(mem != MAP_FAILED && other != NULL && m != NULL);
	struct ibv_sge s = {(uintptr_t)mem, PAGE, m->lkey}, wrong = {(uintptr_t)mem, PAGE, m->lkey ^ 1}, beyond = {(uintptr_t)mem + 1, PAGE, m->lkey};
	CODE_OF(f, "no elements", ibv_advise_mr(r->pd, READ, WAIT, &s, 0));
	CODE_OF(f, "an unknown flag", ibv_advise_mr(r->pd, READ, 2, &s, 1));
	CODE_OF(f, "an unknown advice", ibv_advise_mr(r->pd, UNKNOWN, WAIT, &s, 1));
	CODE_OF(f, "an unknown key", ibv_advise_mr(r->pd, READ, WAIT, &wrong, 1));
	CODE_OF(f, "a region of another protection domain", ibv_advise_mr(other, READ, WAIT, &s, 1));
	CODE_OF(f, "IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE of a region without IBV_ACCESS_LOCAL_WRITE", ibv_advise_mr(r->pd, WRITE, WAIT, &s, 1));
	CODE_OF(f, "a range that ends beyond the region", ibv_advise_mr(r->pd, READ, WAIT, &beyond, 1));
	must(munmap(mem, PAGE) == 0);
	CODE_OF(f, "memory that is not mapped, and IBV_ADVISE_MR_FLAG_FLUSH", ibv_advise_mr(r->pd, READ, WAIT, &s, 1));
	CODE_OF(f, "memory that is not mapped", ibv_advise_mr(r->pd, READ, 0, &s, 1));
	must(ibv_dereg_mr(m) == 0 && ibv_dealloc_pd(other) == 0);
}

void refuse_device_memory(struct rig *r)
{
	struct ibv_mr *null = ibv_alloc_null_mr(r->pd);
	refuse_alloc(r);
	struct ibv_dm *d = dm_of(r, SIZE, 6, 0);
	must(d != NULL && null != NULL);
	refuse_copies(d);
	refuse_reg(r, d);
	must(ibv_free_dm(d) == 0);
	refuse_dmabufs(r);
	refuse_advice(r);
	NUMBER_OF("ibv_rereg_mr", "a region of ibv_alloc_null_mr", ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE));
	must(ibv_dereg_mr(null) == 0);
}

// Scenarios of memory other than a mapped buffer: device memory, null regions, memory on demand,
// the address space, and DMA-bufs.
#define _GNU_SOURCE
#include "rig.h"

#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

enum { PAGE = 4096, SIZE = 256 };

// write_to posts a WRITE of n bytes of side 0 to an address, and waits until it completes.
static void write_to(struct rig *r, uint64_t addr, uint32_t rkey, uint32_t n, enum ibv_wc_status status)
{
	struct ibv_sge s = {(uintptr_t)r->buf[0], n, r->mr[0]->lkey};
	struct ibv_send_wr *bad, wr = {
		.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {addr, rkey},
	};
	must(ibv_post_send(r->qp[0], &wr, &bad) == 0);
	want(r->cq[0], status);
}

// write_from posts a WRITE of a list of elements to the buffer of side 1.
static void write_from(struct rig *r, struct ibv_sge *s, int n)
{
	struct ibv_send_wr *bad, wr = {
		.sg_list = s, .num_sge = n, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {(uintptr_t)r->buf[1], r->mr[1]->rkey},
	};
	must(ibv_post_send(r->qp[0], &wr, &bad) == 0);
	want(r->cq[0], IBV_WC_SUCCESS);
}

// Another context imports device memory and a region of it. Bytes that are copied or written through
// one name can be read through the other. Only the first name can free the memory.
static void imported(struct rig *r, struct ibv_dm *d, struct ibv_mr *m)
{
	char text[8];
	struct ibv_context *c = ibv_import_device(dup(r->ctx->cmd_fd));
	must(c != NULL && c != r->ctx);
	struct ibv_pd *pd = ibv_import_pd(c, r->pd->handle);
	struct ibv_dm *d2 = ibv_import_dm(c, d->handle);
	struct ibv_mr *m2 = pd != NULL ? ibv_import_mr(pd, m->handle) : NULL;
	must(d2 != NULL && d2 != d && d2->context == c && m2 != NULL && m2 != m && m2->rkey == m->rkey);
	must(ibv_memcpy_to_dm(d2, 200, "by name2", 8) == 0 && ibv_memcpy_from_dm(text, d, 200, 8) == 0 && memcmp(text, "by name2", 8) == 0);
	struct ibv_mr *own = ibv_reg_dm_mr(pd, d2, 128, 64, ALL_ACCESS | IBV_ACCESS_ZERO_BASED);
	must(own != NULL);
	memcpy(r->buf[0], "a WRITE!", 8);
	write_to(r, 0, own->rkey, 8, IBV_WC_SUCCESS);
	must(ibv_memcpy_from_dm(text, d, 128, 8) == 0 && memcmp(text, "a WRITE!", 8) == 0);
	must(ibv_dereg_mr(own) == 0 && ibv_dereg_mr(m2) == EINVAL && ibv_free_dm(d2) == EINVAL);
	ibv_unimport_mr(m2);
	ibv_unimport_dm(d2);
	ibv_unimport_mr(m); // no effect on a first name
	ibv_unimport_dm(d);
	ibv_unimport_pd(pd);
	must(ibv_close_device(c) == 0);
}

// A peer writes to device memory, and a program sends from it. Its context closes with device
// memory and a region of it left.
static void device_memory(void)
{
	struct rig r = {0};
	char text[8];
	rig_open(&r, IBV_QPT_RC);
	struct ibv_dm *d = ibv_alloc_dm(r.ctx, &(struct ibv_alloc_dm_attr){.length = SIZE, .log_align_req = 6});
	must(d != NULL);
	struct ibv_mr *m = ibv_reg_dm_mr(r.pd, d, 64, 64, ALL_ACCESS | IBV_ACCESS_ZERO_BASED);
	must(m != NULL);
	memcpy(r.buf[0], "8 bytes!", 8);
	write_to(&r, 4, m->rkey, 8, IBV_WC_SUCCESS);
	must(ibv_memcpy_from_dm(text, d, 68, 8) == 0 && memcmp(text, "8 bytes!", 8) == 0);
	struct ibv_sge s = {4, 8, m->lkey};
	write_from(&r, &s, 1);
	must(memcmp(r.buf[1], "8 bytes!", 8) == 0);
	imported(&r, d, m);
	int pd = IBV_REREG_MR_CHANGE_PD;
	struct ibv_pd *other = ibv_alloc_pd(r.ctx);
	must(other != NULL && ibv_rereg_mr(m, pd, other, NULL, 0, 0) == 0 && ibv_rereg_mr(m, pd, r.pd, NULL, 0, 0) == 0);
	must(ibv_dealloc_pd(other) == 0 && ibv_free_dm(d) == EBUSY);
	must(ibv_rereg_mr(m, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, NULL, r.buf[0], 8, 0) == 0 && ibv_free_dm(d) == 0);
	must(ibv_dereg_mr(m) == 0);
	struct ibv_context *c = open_first();
	struct ibv_dm *left = ibv_alloc_dm(c, &(struct ibv_alloc_dm_attr){.length = SIZE});
	struct ibv_pd *p = ibv_alloc_pd(c);
	must(left != NULL && p != NULL && ibv_reg_dm_mr(p, left, 0, SIZE, IBV_ACCESS_ZERO_BASED) != NULL && ibv_close_device(c) == 0);
	rig_close(&r);
}

// A null region reads as zeros, and takes any address.
static void null_region(void)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_mr *null = ibv_alloc_null_mr(r.pd);
	must(null != NULL && null->pd == r.pd && null->context == r.ctx);
	memset(r.buf[0], 'a', 8);
	memset(r.buf[1], 'b', 8);
	struct ibv_sge s[2] = {{(uintptr_t)r.buf[0], 2, r.mr[0]->lkey}, {0xdead, 4, null->lkey}};
	write_from(&r, s, 2);
	must(memcmp(r.buf[1], "aa\0\0\0\0bb", 8) == 0);
	must(ibv_dereg_mr(null) == 0);
	rig_close(&r);
}

// Memory on demand may be mapped after it was registered, and prefetched. In a region of the
// address space each byte has its own address.
static void on_demand(void)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	char *p = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *m = ibv_reg_mr(r.pd, p, PAGE, ALL_ACCESS | IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *all = ibv_reg_mr(r.pd, NULL, SIZE_MAX, ALL_ACCESS | IBV_ACCESS_ON_DEMAND);
	must(p != MAP_FAILED && m != NULL && all != NULL && all->addr == NULL && all->length == SIZE_MAX);
	must(mprotect(p, PAGE, PROT_READ | PROT_WRITE) == 0);
	struct ibv_sge s = {(uintptr_t)p, PAGE, m->lkey};
	must(ibv_advise_mr(r.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, &s, 1) == 0);
	memcpy(r.buf[0], "demanded", 8);
	write_to(&r, (uintptr_t)p, m->rkey, 8, IBV_WC_SUCCESS);
	write_to(&r, (uintptr_t)p + 100, all->rkey, 8, IBV_WC_SUCCESS);
	must(memcmp(p, "demanded", 8) == 0 && memcmp(p + 100, "demanded", 8) == 0);
	must(munmap(p, PAGE) == 0);
	write_to(&r, (uintptr_t)p, all->rkey, 8, IBV_WC_REM_ACCESS_ERR);
	// A new translation alone leaves the region its rights, and what they ask of memory.
	const char *ro = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(ro != MAP_FAILED && ibv_rereg_mr(m, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p, PAGE, 0) == 0);
	must(ibv_rereg_mr(r.mr[0], IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)ro, PAGE, 0) == IBV_REREG_MR_ERR_CMD && errno == EFAULT);
	must(ibv_dereg_mr(m) == 0 && ibv_dereg_mr(all) == 0);
	rig_close(&r);
}

// udmabuf_of returns a DMA-buf of two pages of anonymous memory, -1 on systems without udmabuf.
static int udmabuf_of(int memory)
{
	int dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	if (dev < 0)
		return -1;
	struct udmabuf_create c = {.memfd = (uint32_t)memory, .flags = UDMABUF_FLAGS_CLOEXEC, .offset = 0, .size = 2 * PAGE};
	int fd = ioctl(dev, UDMABUF_CREATE, &c);
	close(dev);
	return fd;
}

// A peer writes to a DMA-buf across its pages, from an offset on.
static void dmabuf(void)
{
	struct rig r = {0};
	int memory = memfd_create("pages", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	must(memory >= 0 && ftruncate(memory, 2 * PAGE) == 0 && fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
	int fd = udmabuf_of(memory);
	if (fd < 0) {
		puts("no /dev/udmabuf");
		return;
	}
	rig_open(&r, IBV_QPT_RC);
	struct ibv_mr *m = ibv_reg_dmabuf_mr(r.pd, 100, 2 * PAGE - 100, 0x5000, fd, ALL_ACCESS);
	must(m != NULL && close(fd) == 0);
	char *mem = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, memory, 0);
	must(mem != MAP_FAILED);
	memset(r.buf[0], 'x', PAGE);
	write_to(&r, 0x5000, m->rkey, PAGE, IBV_WC_SUCCESS);
	must(mem[99] == 0 && memcmp(mem + 100, r.buf[0], PAGE) == 0 && mem[100 + PAGE] == 0);
	must(ibv_reg_dmabuf_mr(r.pd, 1, 2 * PAGE, 0, fd, ALL_ACCESS) == NULL && ibv_dereg_mr(m) == 0);
	rig_close(&r);
}

const struct scenario memories[] = {
	{"device-memory", device_memory}, {"null-region", null_region}, {"on-demand", on_demand}, {"dmabuf", dmabuf}, {NULL, NULL},
};

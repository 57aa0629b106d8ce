// Verbs of rdma-core 59 and later, declared here because the installed headers may be older.
#include "rig.h"

#define LATER(result, name, ...) result later_##name(__VA_ARGS__) __asm__(#name)

struct buf;
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
enum { HAS_IOVA = 1 << 0, HAS_ADDR = 1 << 1, HAS_FD = 1 << 2, HAS_FD_OFFSET = 1 << 3, HAS_DMAH = 1 << 4, HAS_BUF = 1 << 5, HAS_OTHER = 1 << 6 };

LATER(int, ibv_query_port_speed, struct ibv_context *c, uint32_t port, uint64_t *speed);
LATER(const char *, ibv_wr_opcode_str, int opcode);
LATER(struct ibv_mr *, ibv_reg_mr_ex, struct ibv_pd *pd, const struct mr_init *a);
LATER(void *, ibv_alloc_buf, struct ibv_pd *pd, size_t size, struct buf **out);
LATER(void, ibv_free_buf, struct buf *b);
LATER(struct ibv_mr *, ibv_reg_buf_mr, struct ibv_pd *pd, struct buf *b, void *addr, size_t length, int access);
LATER(int, ibv_export_buf_dmabuf_fd, struct buf *b);
LATER(int, ibv_dm_export_dmabuf_fd, void *dm);
LATER(void *, ibv_alloc_dmah, struct ibv_context *c, const void *attr);
LATER(int, ibv_dealloc_dmah, void *dmah);
LATER(int, _ibv_query_comp_cntr_caps, struct ibv_context *c, void *caps, size_t size);
LATER(void *, ibv_create_comp_cntr, struct ibv_context *c, const void *attr);
LATER(int, ibv_qp_attach_comp_cntr, struct ibv_qp *q, void *counter, const void *attr);
LATER(int, ibv_read_comp_cntr, void *counter, uint64_t *value);
LATER(int, ibv_inc_err_comp_cntr, void *counter, uint64_t value);

enum { EDR_4X = 1000, SIZE = 10000 };

static void speed(struct ibv_context *c)
{
	uint64_t speed = 0;
	must(later_ibv_query_port_speed(c, 1, &speed) == 0 && speed == EDR_4X);
	must(later_ibv_query_port_speed(c, 2, &speed) == EINVAL && later_ibv_query_port_speed(c, 257, &speed) == EINVAL && errno == EINVAL);
	must(strcmp(later_ibv_wr_opcode_str(IBV_WR_RDMA_READ), "rdma-read") == 0);
	must(strcmp(later_ibv_wr_opcode_str(-1), "unknown") == 0 && strcmp(later_ibv_wr_opcode_str(16), "unknown") == 0);
}

#define refused(want, pd, ...) must(later_ibv_reg_mr_ex(pd, &(struct mr_init){__VA_ARGS__}) == NULL && errno == (want))

static void regions(struct rig *r)
{
	struct mr_init a = {.length = BUF, .access = ALL_ACCESS, .mask = HAS_ADDR, .addr = r->buf[0], .iova = 1};
	struct ibv_mr *m = later_ibv_reg_mr_ex(r->pd, &a);
	must(m != NULL && m->addr == r->buf[0] && m->length == BUF && ibv_dereg_mr(m) == 0);
	a.mask |= HAS_IOVA, a.iova = 0;
	must((m = later_ibv_reg_mr_ex(r->pd, &a)) != NULL && m->lkey != 0 && ibv_dereg_mr(m) == 0);
	refused(EINVAL, r->pd, .length = BUF);
	refused(EINVAL, r->pd, .length = BUF, .mask = HAS_ADDR | HAS_FD, .addr = r->buf[0]);
	refused(EOPNOTSUPP, r->pd, .length = BUF, .mask = HAS_FD | HAS_FD_OFFSET);
	refused(EOPNOTSUPP, r->pd, .length = BUF, .mask = HAS_ADDR | HAS_DMAH, .addr = r->buf[0]);
	refused(EOPNOTSUPP, r->pd, .length = BUF, .mask = HAS_ADDR | HAS_OTHER, .addr = r->buf[0]);
}

static void buffers(struct rig *r)
{
	struct buf *b = NULL;
	char *p = later_ibv_alloc_buf(r->pd, SIZE, &b);
	must(p != NULL && b != NULL && (uintptr_t)p % (uintptr_t)sysconf(_SC_PAGESIZE) == 0);
	memset(p, 1, SIZE);
	struct ibv_mr *m = later_ibv_reg_buf_mr(r->pd, b, p + 1, SIZE - 1, ALL_ACCESS);
	must(m != NULL && m->addr == p + 1 && m->length == SIZE - 1 && ibv_dereg_mr(m) == 0);
	must(later_ibv_reg_buf_mr(r->pd, b, p + 1, SIZE, ALL_ACCESS) == NULL && errno == EINVAL);
	must(later_ibv_reg_buf_mr(r->pd, b, p - 1, 1, ALL_ACCESS) == NULL && errno == EINVAL);
	must(later_ibv_reg_buf_mr(r->pd, b, p + SIZE + 1, 0, ALL_ACCESS) == NULL && errno == EINVAL);
	refused(EINVAL, r->pd, .length = SIZE, .mask = HAS_BUF, .buf = b);
	refused(EINVAL, r->pd, .length = SIZE, .mask = HAS_BUF | HAS_ADDR | HAS_FD_OFFSET, .addr = p, .buf = b);
	struct ibv_pd *other = ibv_alloc_pd(r->ctx);
	must(other != NULL && later_ibv_reg_buf_mr(other, b, p, SIZE, ALL_ACCESS) == NULL && errno == EINVAL && ibv_dealloc_pd(other) == 0);
	must(later_ibv_export_buf_dmabuf_fd(b) == -1 && errno == ENODATA);
	later_ibv_free_buf(b);
}

static void absent(struct rig *r)
{
	struct {
		uint64_t value;
		uint32_t counters, ops;
	} caps = {1, 1, 1};
	uint64_t value;
	must(later__ibv_query_comp_cntr_caps(r->ctx, &caps, sizeof caps) == EOPNOTSUPP && caps.value == 0 && caps.counters == 0 && caps.ops == 0);
	must(later_ibv_create_comp_cntr(r->ctx, &value) == NULL && errno == EOPNOTSUPP);
	must(later_ibv_qp_attach_comp_cntr(r->qp[0], NULL, NULL) == EOPNOTSUPP);
	must(later_ibv_read_comp_cntr(NULL, &value) == EOPNOTSUPP && later_ibv_inc_err_comp_cntr(NULL, 1) == EOPNOTSUPP);
	must(later_ibv_alloc_dmah(r->ctx, &value) == NULL && errno == EOPNOTSUPP);
	must(later_ibv_dealloc_dmah(NULL) == EOPNOTSUPP);
	must(later_ibv_dm_export_dmabuf_fd(NULL) == -1 && errno == EOPNOTSUPP);
}

static void later(void)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	speed(r.ctx);
	regions(&r);
	buffers(&r);
	absent(&r);
	rig_close(&r);
}

const struct scenario laters[] = {{"later", later}, {NULL, NULL}};

// Verbs of rdma-core 59 and later that succeed, and those for objects that no call creates. The
// other refusals are in refusals_later.c.
#include "rig.h"

#include "later.h"

enum { EDR_4X = 1000, SIZE = 10000 };

static void speed(struct ibv_context *c)
{
	uint64_t speed = 0;
	must(later_ibv_query_port_speed(c, 1, &speed) == 0 && speed == EDR_4X);
	must(strcmp(later_ibv_wr_opcode_str(IBV_WR_RDMA_READ), "rdma-read") == 0);
	must(strcmp(later_ibv_wr_opcode_str(-1), "unknown") == 0 && strcmp(later_ibv_wr_opcode_str(16), "unknown") == 0);
}

static void regions(struct rig *r)
{
	struct mr_init a = {.length = BUF, .access = ALL_ACCESS, .mask = HAS_ADDR, .addr = r->buf[0], .iova = 1};
	struct ibv_mr *m = later_ibv_reg_mr_ex(r->pd, &a);
	must(m != NULL && m->addr == r->buf[0] && m->length == BUF && ibv_dereg_mr(m) == 0);
	a.mask |= HAS_IOVA, a.iova = 0;
	must((m = later_ibv_reg_mr_ex(r->pd, &a)) != NULL && m->lkey != 0 && ibv_dereg_mr(m) == 0);
}

static void buffers(struct rig *r)
{
	struct buf *b = NULL;
	char *p = later_ibv_alloc_buf(r->pd, SIZE, &b);
	must(p != NULL && b != NULL && (uintptr_t)p % (uintptr_t)sysconf(_SC_PAGESIZE) == 0);
	memset(p, 1, SIZE);
	struct ibv_mr *m = later_ibv_reg_buf_mr(r->pd, b, p + 1, SIZE - 1, ALL_ACCESS);
	must(m != NULL && m->addr == p + 1 && m->length == SIZE - 1 && ibv_dereg_mr(m) == 0);
	must(later_ibv_reg_buf_mr(r->pd, b, p + SIZE + 1, 0, ALL_ACCESS) == NULL && errno == EINVAL);
	later_ibv_free_buf(b);
}

// LACKS checks a call for an object that the adapter does not provide.
#define LACKS(call) must((call) == EOPNOTSUPP && errno == EOPNOTSUPP)

static void absent(void)
{
	uint64_t value;
	LACKS(later_ibv_dealloc_dmah(NULL));
	LACKS(later_ibv_destroy_comp_cntr(NULL));
	LACKS(later_ibv_set_comp_cntr(NULL, 1));
	LACKS(later_ibv_set_err_comp_cntr(NULL, 1));
	LACKS(later_ibv_inc_comp_cntr(NULL, 1));
	LACKS(later_ibv_inc_err_comp_cntr(NULL, 1));
	LACKS(later_ibv_read_comp_cntr(NULL, &value));
	LACKS(later_ibv_read_err_comp_cntr(NULL, &value));
	must(later_ibv_dm_export_dmabuf_fd(NULL) == -1 && errno == EOPNOTSUPP);
}

static void later(void)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	speed(r.ctx);
	regions(&r);
	buffers(&r);
	absent();
	rig_close(&r);
}

const struct scenario laters[] = {{"later", later}, {NULL, NULL}};

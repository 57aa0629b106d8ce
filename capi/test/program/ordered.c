// ATOMIC WRITE and FLUSH.
#define _GNU_SOURCE
#include "rig.h"
#include "ordered.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/vfs.h>

struct flusher {
	char up_to_flush[offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void (*)(void))];
	void (*wr_flush)(struct ibv_qp_ex *q, uint32_t rkey, uint64_t addr, size_t length, uint8_t type, uint8_t level);
};

void flush(struct ibv_qp_ex *q, struct ibv_mr *m, size_t length, uint8_t type, uint8_t level)
{
	((struct flusher *)q)->wr_flush(q, m->rkey, (uintptr_t)m->addr, length, type, level);
}

struct ibv_qp_ex *rig_open_ordered(struct rig *r, uint64_t ops, int allowed)
{
	rig_open(r, IBV_QPT_RC);
	must(ibv_destroy_qp(r->qp[0]) == 0);
	struct ibv_qp_init_attr_ex a = {
		.send_cq = r->cq[0], .recv_cq = r->cq[0], .qp_type = IBV_QPT_RC, .cap = {DEPTH, DEPTH, 1, 1, 0}, .pd = r->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = ops,
	};
	must((r->qp[0] = ibv_create_qp_ex(r->ctx, &a)) != NULL);
	must(ibv_modify_qp(r->qp[1], &(struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, IBV_QP_STATE) == 0);
	connect_qp(r, r->qp[0], r->qp[1]);
	connect_qp(r, r->qp[1], r->qp[0]);
	must(ibv_modify_qp(r->qp[1], &(struct ibv_qp_attr){.qp_access_flags = ALL_ACCESS | allowed}, IBV_QP_ACCESS_FLAGS) == 0);
	struct ibv_qp_ex *q = ibv_qp_to_qp_ex(r->qp[0]);
	q->wr_flags = IBV_SEND_SIGNALED;
	return q;
}

static struct ibv_wc completed(struct rig *r, uint64_t id, unsigned opcode)
{
	struct ibv_wc wc = wait_wc(r->cq[0]);
	must(wc.status == IBV_WC_SUCCESS && wc.wr_id == id && (unsigned)wc.opcode == opcode);
	return wc;
}

static void atomic_write(void)
{
	struct rig r = {0};
	struct ibv_qp_ex *q = rig_open_ordered(&r, IBV_QP_EX_WITH_ATOMIC_WRITE, 0);
	struct ibv_device_attr_ex d;
	must(ibv_query_device_ex(r.ctx, NULL, &d) == 0 && d.device_cap_flags_ex >> 38 == 7);
	uint64_t value = 0x0102030405060708;
	ibv_wr_start(q);
	q->wr_id = 1;
	ibv_wr_atomic_write(q, r.mr[1]->rkey, (uintptr_t)r.buf[1] + 8, &value);
	q->wr_id = 2;
	value++;
	ibv_wr_atomic_write(q, r.mr[1]->rkey, (uintptr_t)r.buf[1] + 16, &value);
	value = 0; // the calls have copied it
	must(ibv_wr_complete(q) == 0);
	must(completed(&r, 1, IBV_WC_ATOMIC_WRITE).byte_len == 8);
	completed(&r, 2, IBV_WC_ATOMIC_WRITE);
	must(((uint64_t *)r.buf[1])[1] == 0x0102030405060708 && ((uint64_t *)r.buf[1])[2] == 0x0102030405060709);

	// As a list and inline.
	struct ibv_sge s = {(uintptr_t)r.buf[0], 8, r.mr[0]->lkey};
	struct ibv_send_wr *bad, wr = {
		.wr_id = 3, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_ATOMIC_WRITE, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {(uintptr_t)r.buf[1], r.mr[1]->rkey},
	};
	memcpy(r.buf[0], "together", 8);
	must(ibv_post_send(r.qp[0], &wr, &bad) == 0);
	completed(&r, 3, IBV_WC_ATOMIC_WRITE);
	must(memcmp(r.buf[1], "together", 8) == 0);
	memcpy(r.buf[0], "inlined!", 8);
	wr.send_flags |= IBV_SEND_INLINE;
	must(ibv_post_send(r.qp[0], &wr, &bad) == 0);
	completed(&r, 3, IBV_WC_ATOMIC_WRITE);
	must(memcmp(r.buf[1], "inlined!", 8) == 0);
	for (int i = 0; i < 4; i++) {
		wr.send_flags = i & 1 ? IBV_SEND_INLINE : 0;
		s.length = i & 2 ? 4 : 12;
		must(ibv_post_send(r.qp[0], &wr, &bad) == EINVAL && bad == &wr);
	}
	wr.opcode = (enum ibv_wr_opcode)WR_FLUSH;
	wr.num_sge = 0;
	must(ibv_post_send(r.qp[0], &wr, &bad) == EINVAL && bad == &wr);

	// At an address that is not a multiple of 8.
	ibv_wr_start(q);
	ibv_wr_atomic_write(q, r.mr[1]->rkey, (uintptr_t)r.buf[1] + 4, &value);
	must(ibv_wr_complete(q) == 0);
	want(r.cq[0], IBV_WC_REM_INV_REQ_ERR);
	must(memcmp(r.buf[1], "inlined!", 8) == 0);
	rig_close(&r);
}

// map_file maps a page of a new file in a directory, and has the file deleted at the end.
static char *map_file(const char *dir, char *name, size_t room)
{
	snprintf(name, room, "%s/flushXXXXXX", dir);
	int fd = mkstemp(name);
	must(fd >= 0 && ftruncate(fd, 4096) == 0);
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(p != MAP_FAILED && close(fd) == 0);
	return p;
}

// on_storage returns a directory that is not in memory, NULL if there is none.
static const char *on_storage(void)
{
	const char *dirs[] = {getenv("TMPDIR"), "/tmp", "/var/tmp", "."};
	struct statfs fs;
	for (int i = 0; i < 4; i++)
		if (dirs[i] != NULL && access(dirs[i], W_OK) == 0 && statfs(dirs[i], &fs) == 0 && fs.f_type != TMPFS_MAGIC)
			return dirs[i];
	return NULL;
}

static void flush_memory(void)
{
	enum { RIGHTS = ALL_ACCESS | FLUSH_GLOBAL };
	struct rig r = {0};
	struct ibv_qp_ex *q = rig_open_ordered(&r, IBV_QP_EX_WITH_RDMA_WRITE | WITH_FLUSH, FLUSH_GLOBAL | FLUSH_PERSISTENT);
	struct ibv_mr *m = ibv_reg_mr(r.pd, r.buf[1], BUF, RIGHTS);
	must(m != NULL);
	must(ibv_reg_mr(r.pd, r.buf[1], BUF, ALL_ACCESS | FLUSH_PERSISTENT) == NULL && errno == EINVAL);
	memcpy(r.buf[0], "flushed", 8);
	ibv_wr_start(q);
	q->wr_id = 1;
	ibv_wr_rdma_write(q, m->rkey, (uintptr_t)m->addr);
	ibv_wr_set_sge(q, r.mr[0]->lkey, (uintptr_t)r.buf[0], 8);
	q->wr_id = 2;
	flush(q, m, 8, GLOBAL, RANGE);
	q->wr_id = 3;
	flush(q, m, BUF + 1, GLOBAL, REGION); // whose length says nothing
	must(ibv_wr_complete(q) == 0);
	completed(&r, 1, IBV_WC_RDMA_WRITE);
	completed(&r, 2, WC_FLUSH);
	completed(&r, 3, WC_FLUSH);
	must(memcmp(r.buf[1], "flushed", 8) == 0);
	const struct { size_t length; uint8_t type, level; } wrong[] = {{8, 0, RANGE}, {8, 4, RANGE}, {8, GLOBAL, 2}, {(1ull << 31) + 1, GLOBAL, RANGE}};
	for (int i = 0; i < 4; i++) {
		ibv_wr_start(q);
		flush(q, m, wrong[i].length, wrong[i].type, wrong[i].level);
		must(ibv_wr_complete(q) == EINVAL);
	}
	ibv_wr_start(q);
	flush(q, m, 8, PERSISTENT, RANGE); // the region lacks it
	must(ibv_wr_complete(q) == 0);
	want(r.cq[0], IBV_WC_REM_ACCESS_ERR);
	must(ibv_dereg_mr(m) == 0);
	rig_close(&r);
}

static void flush_file(void)
{
	char name[4096], text[8];
	const char *dir = on_storage();
	if (dir == NULL)
		return; // nothing here survives a loss of power
	struct rig r = {0};
	struct ibv_qp_ex *q = rig_open_ordered(&r, IBV_QP_EX_WITH_RDMA_WRITE | WITH_FLUSH, FLUSH_PERSISTENT);
	char *page = map_file(dir, name, sizeof name);
	struct ibv_mr *m = ibv_reg_mr(r.pd, page, 4096, ALL_ACCESS | FLUSH_PERSISTENT);
	must(m != NULL);
	memcpy(r.buf[0], "on disk", 8);
	ibv_wr_start(q);
	q->wr_id = 1;
	ibv_wr_rdma_write(q, m->rkey, (uintptr_t)page);
	ibv_wr_set_sge(q, r.mr[0]->lkey, (uintptr_t)r.buf[0], 8);
	q->wr_id = 2;
	flush(q, m, 8, PERSISTENT, RANGE);
	must(ibv_wr_complete(q) == 0);
	completed(&r, 1, IBV_WC_RDMA_WRITE);
	completed(&r, 2, WC_FLUSH);
	int fd = open(name, O_RDONLY);
	must(fd >= 0 && read(fd, text, 8) == 8 && memcmp(text, "on disk", 8) == 0 && close(fd) == 0);
	must(unlink(name) == 0);

	// The memory has gone, and cannot be written back.
	must(munmap(page, 4096) == 0);
	ibv_wr_start(q);
	flush(q, m, 8, PERSISTENT, RANGE);
	must(ibv_wr_complete(q) == 0);
	want(r.cq[0], IBV_WC_REM_ACCESS_ERR);
	must(ibv_dereg_mr(m) == 0);
	rig_close(&r);
}

const struct scenario ordered[] = {{"atomic-write", atomic_write}, {"flush", flush_memory}, {"flush-file", flush_file}, {NULL, NULL}};

// Bugs with memory that ends while the adapter may use it.
#define _GNU_SOURCE
#include "bugs.h"

#include <sys/mman.h>

// post_unready posts a SEND from memory of its own. It is not finished before the peer posts a receive.
static struct ibv_mr *post_unready(struct rig *r, void *from)
{
	struct ibv_mr *m = ibv_reg_mr(r->pd, from, 64, 0);
	must(m != NULL);
	struct ibv_sge s = {(uintptr_t)from, 64, m->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	must(ibv_post_send(r->qp[0], &wr, &bad) == 0);
	return m;
}

static void finish(struct rig *r)
{
	receive(r, 1, 64);
	want(r->cq[0], IBV_WC_SUCCESS);
	want(r->cq[1], IBV_WC_SUCCESS);
}

static void memory_freed(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	void *from = calloc(1, 64);
	struct ibv_mr *m = post_unready(&r, from);
	if (!bug)
		finish(&r);
	free(from); // FOUND
	if (bug)
		finish(&r);
	must(ibv_dereg_mr(m) == 0);
	rig_close(&r);
}

static void memory_moved(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	void *from = calloc(1, 64), *behind = calloc(1, 64);
	struct ibv_mr *m = post_unready(&r, from);
	if (!bug)
		finish(&r);
	void *now = realloc(from, 1 << 20); // FOUND
	must(now != NULL && now != from);
	if (bug)
		finish(&r);
	must(ibv_dereg_mr(m) == 0);
	free(now);
	free(behind);
	rig_close(&r);
}

static void receive_freed(bool bug)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	void *to = calloc(1, 64);
	struct ibv_mr *m = ibv_reg_mr(r.pd, to, 64, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge s = {(uintptr_t)to, 64, m->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &s, .num_sge = 1};
	must(ibv_post_recv(r.qp[1], &wr, &bad) == 0);
	if (!bug) {
		must(post(&r, 0, IBV_WR_SEND, 64) == 0);
		want(r.cq[0], IBV_WC_SUCCESS);
		want(r.cq[1], IBV_WC_SUCCESS);
	}
	free(to); // FOUND
	must(ibv_dereg_mr(m) == 0);
	rig_close(&r);
}

static void memory_unmapped(bool bug)
{
	enum { PAGE = 4096 };
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	void *from = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(from != MAP_FAILED);
	struct ibv_mr *m = post_unready(&r, from);
	if (!bug)
		finish(&r);
	must(munmap(from, PAGE) == 0); // FOUND
	if (bug)
		must(wait_wc(r.cq[0]).status == IBV_WC_LOC_PROT_ERR);
	must(ibv_dereg_mr(m) == 0);
	rig_close(&r);
}

static void memory_remapped(bool bug)
{
	enum { PAGE = 4096 };
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	void *from = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(from != MAP_FAILED);
	struct ibv_mr *m = post_unready(&r, (char *)from + PAGE);
	if (!bug)
		finish(&r);
	must(mremap(from, 2 * PAGE, PAGE, 0) == from); // FOUND
	if (bug)
		must(wait_wc(r.cq[0]).status == IBV_WC_LOC_PROT_ERR);
	must(ibv_dereg_mr(m) == 0);
	rig_close(&r);
}

const struct bug freed_bugs[] = {
	{"memory-freed", "memory-freed", memory_freed},
	{"memory-moved", "memory-freed", memory_moved},
	{"receive-freed", "memory-freed", receive_freed},
	{"memory-unmapped", "memory-unmapped", memory_unmapped},
	{"memory-remapped", "memory-unmapped", memory_remapped},
	{NULL, NULL, NULL},
};

// Bugs with memory that AddressSanitizer has poisoned. Only a program that is compiled with it has these cases.
#include "bugs.h"

#if defined(__SANITIZE_ADDRESS__)

// region_of_64 registers 128 bytes, of which only the first 64 belong to an object.
static struct ibv_mr *region_of_64(struct rig *r, char **at)
{
	must((*at = calloc(1, 64)) != NULL);
	return ibv_reg_mr(r->pd, *at, 128, IBV_ACCESS_LOCAL_WRITE);
}

static void posted_beyond_object(bool bug)
{
	struct rig r = {0};
	char *at;
	rig_open(&r, IBV_QPT_RC);
	struct ibv_mr *m = region_of_64(&r, &at);
	struct ibv_sge s = {(uintptr_t)at, bug ? 65 : 64, m->lkey};
	must(post_element(&r, IBV_WR_RDMA_WRITE, s) == 0); // FOUND
	want(r.cq[0], IBV_WC_SUCCESS);
	must(ibv_dereg_mr(m) == 0);
	free(at);
	rig_close(&r);
}

static void received_beyond_object(bool bug)
{
	struct rig r = {0};
	char *at;
	rig_open(&r, IBV_QPT_RC);
	struct ibv_mr *m = region_of_64(&r, &at);
	receive_element(&r, (struct ibv_sge){(uintptr_t)at, 0, m->lkey}); // of no bytes, which are not poisoned
	struct ibv_recv_wr *bad, wr = {.sg_list = &(struct ibv_sge){(uintptr_t)at, bug ? 128 : 64, m->lkey}, .num_sge = 1};
	must(ibv_post_recv(r.qp[1], &wr, &bad) == 0); // FOUND
	move_to(r.qp[1], IBV_QPS_ERR);
	ends(r.cq[1], false);
	ends(r.cq[1], false);
	must(ibv_dereg_mr(m) == 0);
	free(at);
	rig_close(&r);
}

const struct bug poisoned_bugs[] = {
	{"posted-beyond-object", "poisoned-memory", posted_beyond_object},
	{"received-beyond-object", "poisoned-memory", received_beyond_object},
	{NULL, NULL, NULL},
};

#else

const struct bug poisoned_bugs[] = {{NULL, NULL, NULL}};

#endif

// Memory regions in use: remote and local access by key and address, before and after the
// region is reregistered.
#include "link.h"

enum { SIZE = 256 };

struct region {
	struct link *l;
	struct end *e;
	struct ibv_pd *other; // a domain without the queue pair
	uint8_t *mem[2];
	struct ibv_mr *mr;
	uint8_t *at;   // the memory of the region
	uint64_t iova; // the address that requests use for it
	int access;
	bool ours; // it is in the queue pair's domain
};

// try posts a request that uses the region, and checks its status.
static void try(struct region *g, struct request *r, enum ibv_wc_status status)
{
	unsigned bad;
	struct ibv_wc wc = {0};
	r->flags = IBV_SEND_SIGNALED, r->num_sge = 1;
	WANT("posting a request on a region", post_old(g->l, g->e, r, 1, &bad), 0);
	waits_for("a request on a region");
	while (ibv_poll_cq(g->e->send_cq, 1, &wc) == 0)
		;
	waits_for(NULL);
	WANT("a request on a region", wc.status, status);
	if (status != IBV_WC_SUCCESS)
		reset_link(g->l);
}

// write_to writes to the region by its remote key, and read_from writes from it.
static void write_to(struct region *g)
{
	uint32_t n = 1 + draw(SIZE / 2), off = draw(SIZE / 2);
	struct request r = {.op = IBV_WR_RDMA_WRITE, .remote = g->iova + off, .rkey = g->mr->rkey, .sge = {{(uintptr_t)g->e->buf, n, g->e->mr->lkey}}};
	bool may = g->ours && g->access & IBV_ACCESS_REMOTE_WRITE;
	scribble(g->e->buf, n);
	memcpy(g->e->shadow, g->e->buf, n);
	// The queue pair is its own peer: its responder's error moves it to ERR before the NAK arrives.
	try(g, &r, may ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR);
	if (may)
		want_bytes("a write to a region", "memory", g->at + off, g->e->buf, n);
}

static void read_from(struct region *g)
{
	uint32_t n = 1 + draw(SIZE / 2), off = draw(SIZE / 2);
	struct request r = {
		.op = IBV_WR_RDMA_WRITE, .remote = (uintptr_t)g->e->buf + REACHED, .rkey = g->e->mr->rkey, .sge = {{g->iova + off, n, g->mr->lkey}},
	};
	scribble(g->at, SIZE);
	try(g, &r, g->ours ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
	if (g->ours)
		want_bytes("a write from a region", "memory", g->e->buf + REACHED, g->at + off, n);
	memcpy(g->e->shadow + REACHED, g->e->buf + REACHED, n);
}

static void register_some(struct region *g)
{
	uint64_t iova = chance(20) ? 0 : draw64() >> 16;
	g->access = chance(60) ? ALL_ACCESS : IBV_ACCESS_LOCAL_WRITE;
	g->ours = chance(80);
	g->at = g->mem[0];
	struct ibv_pd *pd = g->ours ? g->e->pd : g->other;
	switch (draw(3)) {
	case 0:
		g->mr = MADE(ibv_reg_mr(pd, g->at, SIZE, g->access));
		g->iova = (uintptr_t)g->at;
		return;
	case 1:
		g->mr = MADE(ibv_reg_mr_iova(pd, g->at, SIZE, iova, g->access));
		break;
	case 2:
		g->mr = MADE(ibv_reg_mr_iova2(pd, g->at, SIZE, iova, (unsigned)g->access));
	}
	g->iova = iova;
}

static void change(struct region *g)
{
	int flags = 1 + (int)draw(7), access = chance(50) ? ALL_ACCESS : IBV_ACCESS_LOCAL_WRITE;
	bool ours = chance(60);
	uint8_t *to = g->mem[draw(2)];
	WORKS(ibv_rereg_mr(g->mr, flags, ours ? g->e->pd : g->other, to, SIZE, flags & IBV_REREG_MR_CHANGE_ACCESS ? access : 0));
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION)
		g->at = to, g->iova = (uintptr_t)to;
	if (flags & IBV_REREG_MR_CHANGE_PD)
		g->ours = ours;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		g->access = access;
	WANT("ibv_rereg_mr", g->mr->pd, g->ours ? g->e->pd : g->other);
	WANT("ibv_rereg_mr", g->mr->addr, g->at);
}

static void step_region(void)
{
	struct region g = {.l = some_link()};
	if (g.l->type != IBV_QPT_RC || !g.l->self)
		return;
	g.e = &g.l->end[0];
	g.other = MADE(ibv_alloc_pd(g.e->ctx));
	for (int i = 0; i < 2; i++)
		g.mem[i] = MADE(malloc(SIZE));
	register_some(&g);
	for (int n = 0; n < 4; n++) {
		if (chance(50))
			write_to(&g);
		else
			read_from(&g);
		if (chance(60))
			change(&g);
	}
	WORKS(ibv_dereg_mr(g.mr));
	for (int i = 0; i < 2; i++)
		free(g.mem[i]);
	WORKS(ibv_dealloc_pd(g.other));
}

const struct step region_steps[] = {{"region", 15, step_region}, {NULL, 0, NULL}};

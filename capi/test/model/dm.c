// Device memory, regions without memory, and advice on regions.
#include "link.h"

#include <sys/mman.h>

enum { DMS = 3, REGIONS = 2, MOST_DM = 2048, UNIT = 4, PAGE = 4096, ROUNDS = 12 };

// device_region is a region of device memory.
struct device_region {
	struct ibv_mr *mr;
	bool ours; // it is in the queue pair's domain
	uint32_t offset, length;
	int access;
};

struct device_memory {
	struct ibv_dm *dm; // NULL: there is none
	uint32_t length;
	uint8_t shadow[MOST_DM]; // its predicted contents
	struct device_region region[REGIONS];
};

// device is the device memory of a step, and a link whose queue pair is connected to itself.
struct device {
	struct link *l;
	struct end *e;
	struct ibv_pd *other; // a domain without the queue pair
	struct device_memory memory[DMS];
};

static unsigned regions_of(const struct device_memory *m)
{
	unsigned n = 0;
	for (int i = 0; i < REGIONS; i++)
		n += m->region[i].mr != NULL;
	return n;
}

// want_contents compares all of the device memory with the model.
static void want_contents(const struct device_memory *m)
{
	uint8_t got[MOST_DM];
	uint32_t n = m->length / UNIT * UNIT;
	WORKS(ibv_memcpy_from_dm(got, m->dm, 0, n));
	want_bytes("ibv_memcpy_from_dm", "device memory", got, m->shadow, n);
}

static void new_memory(struct device *d, struct device_memory *m)
{
	struct ibv_alloc_dm_attr a = {.length = 1 + draw(MOST_DM), .log_align_req = draw(13)};
	switch (draw(10)) {
	case 0:
		a.length = 0;
		break;
	case 1:
		a.length = (1 << 20) + 1;
		break;
	case 2:
		a.log_align_req = 13 + draw(20);
		break;
	case 3:
		a.comp_mask = 1u << draw(32);
		break;
	default:
		*m = (struct device_memory){.dm = MADE(ibv_alloc_dm(d->e->ctx, &a)), .length = (uint32_t)a.length};
		WANT("ibv_alloc_dm", m->dm->context, d->e->ctx);
		WANT("ibv_alloc_dm", m->dm->comp_mask, 0);
		want_contents(m); // zeros
		return;
	}
	REFUSES_NULL(ibv_alloc_dm(d->e->ctx, &a), EINVAL);
}

static void free_memory(struct device_memory *m)
{
	if (regions_of(m) > 0) {
		REFUSES(ibv_free_dm(m->dm), EBUSY);
		return;
	}
	WORKS(ibv_free_dm(m->dm));
	m->dm = NULL;
}

// copy_memory copies from or to a range that may be invalid.
static void copy_memory(struct device_memory *m)
{
	uint8_t mem[2 * MOST_DM];
	uint32_t offset = draw(m->length + 1), n = draw(m->length - offset + 1);
	if (chance(80))
		offset = offset / UNIT * UNIT, n = n / UNIT * UNIT;
	if (chance(10))
		n += m->length;
	int code = n > m->length - offset ? EFAULT : offset % UNIT != 0 || n % UNIT != 0 ? EINVAL : 0;
	bool to = chance(50);
	scribble(mem, sizeof mem);
	if (!to)
		poison(mem, sizeof mem);
	int got = to ? ibv_memcpy_to_dm(m->dm, offset, mem, n) : ibv_memcpy_from_dm(mem, m->dm, offset, n);
	WANT(to ? "ibv_memcpy_to_dm" : "ibv_memcpy_from_dm", got, code);
	if (code == 0 && to)
		memcpy(m->shadow + offset, mem, n);
	if (!to && code == 0)
		want_bytes("ibv_memcpy_from_dm", "device memory", mem, m->shadow + offset, n);
	if (!to)
		WANT("ibv_memcpy_from_dm: bytes behind the range", is_poison(mem + (code == 0 ? n : 0), 64), true);
	want_contents(m);
}

// new_region registers a part of device memory, which may be invalid.
static void new_region(struct device *d, struct device_memory *m, struct device_region *g)
{
	uint32_t offset = draw(m->length), n = 1 + draw(m->length - offset);
	int access = IBV_ACCESS_ZERO_BASED | (chance(60) ? ALL_ACCESS : chance(50) ? IBV_ACCESS_LOCAL_WRITE : 0);
	bool ours = chance(85);
	struct ibv_pd *pd = ours ? d->e->pd : d->other;
	switch (draw(12)) {
	case 0:
		REFUSES_NULL(ibv_reg_dm_mr(pd, m->dm, offset, n, (unsigned)(access & ~IBV_ACCESS_ZERO_BASED)), EINVAL);
		return;
	case 1:
		REFUSES_NULL(ibv_reg_dm_mr(pd, m->dm, offset, m->length - offset + 1, (unsigned)access), EINVAL);
		return;
	case 2:
		REFUSES_NULL(ibv_reg_dm_mr(pd, m->dm, m->length + 1, 0, (unsigned)access), EINVAL);
		return;
	case 3:
		REFUSES_NULL(ibv_reg_dm_mr(pd, m->dm, offset, n, (unsigned)access | (chance(50) ? IBV_ACCESS_ON_DEMAND : IBV_ACCESS_HUGETLB)), EINVAL);
		return;
	case 4:
		REFUSES_NULL(ibv_reg_dm_mr(pd, m->dm, offset, n, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_WRITE), EINVAL);
		return;
	}
	*g = (struct device_region){MADE(ibv_reg_dm_mr(pd, m->dm, offset, n, (unsigned)access)), ours, offset, n, access};
	WANT("ibv_reg_dm_mr", g->mr->context, d->e->ctx);
	WANT("ibv_reg_dm_mr", g->mr->pd, pd);
	WANT("ibv_reg_dm_mr", g->mr->addr, NULL);
	WANT("ibv_reg_dm_mr", g->mr->length, n);
}

// one posts a request, and compares the status of its completion with the model.
static void one(struct device *d, struct request *r, enum ibv_wc_status status)
{
	unsigned bad;
	r->wr_id = draw64(), r->flags = IBV_SEND_SIGNALED, r->num_sge = 1;
	struct expected *x = expect(&d->e->send, r->wr_id, r->op == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE);
	x->wc.qp_num = d->e->qp->qp_num, x->wc.byte_len = r->length = r->sge[0].length;
	x->wc.status = status, x->failed = status != IBV_WC_SUCCESS;
	WANT("posting a request", (d->e->qpx != NULL && chance(60) ? post_new : post_old)(d->l, d->e, r, 1, &bad), 0);
	drain(d->l);
	if (status != IBV_WC_SUCCESS)
		reset_link(d->l);
}

// use_region posts a request that reads or writes device memory, by its local or its remote key.
static void use_region(struct device *d, struct device_memory *m, const struct device_region *g)
{
	struct end *e = d->e;
	uint32_t at = draw(g->length), n = 1 + draw(g->length - at);
	bool remote = chance(50), into = chance(50);
	uint8_t *there = m->shadow + g->offset + at, *mine = e->buf + REACHED;
	struct request r = {.op = into == remote ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ};
	int right = !into ? IBV_ACCESS_REMOTE_READ : remote ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_LOCAL_WRITE;
	bool may = g->ours && (g->access & right || (!into && !remote)); // local reading needs no right
	if (remote)
		r.remote = at, r.rkey = g->mr->rkey, r.sge[0] = (struct ibv_sge){(uintptr_t)mine, n, e->mr->lkey};
	else
		r.remote = (uintptr_t)mine, r.rkey = e->mr->rkey, r.sge[0] = (struct ibv_sge){at, n, g->mr->lkey};
	scribble(mine, n);
	if (may && into)
		memcpy(there, mine, n);
	// The queue pair is its own peer: its responder's error moves it to ERR before the NAK arrives.
	one(d, &r, may ? IBV_WC_SUCCESS : remote ? IBV_WC_WR_FLUSH_ERR : IBV_WC_LOC_PROT_ERR);
	if (may)
		want_bytes("a request on device memory", "memory of the program", mine, there, n);
	want_contents(m);
	memcpy(e->shadow, e->buf, BUF);
}

static void step_region(struct device *d, struct device_memory *m)
{
	struct device_region *g = &m->region[draw(REGIONS)];
	if (g->mr == NULL) {
		new_region(d, m, g);
	} else if (chance(70)) {
		use_region(d, m, g);
	} else {
		WORKS(ibv_dereg_mr(g->mr));
		g->mr = NULL;
	}
}

static void step_dm(void)
{
	struct device d = {.l = own_peer()};
	d.e = &d.l->end[0];
	d.other = MADE(ibv_alloc_pd(d.e->ctx));
	for (int n = 0; n < ROUNDS; n++) {
		struct device_memory *m = &d.memory[draw(DMS)];
		if (m->dm == NULL)
			new_memory(&d, m);
		else if (chance(30))
			copy_memory(m);
		else if (chance(15))
			free_memory(m);
		else
			step_region(&d, m);
	}
	for (int i = 0; i < DMS; i++) {
		struct device_memory *m = &d.memory[i];
		for (int k = 0; k < REGIONS; k++)
			if (m->region[k].mr != NULL)
				WORKS(ibv_dereg_mr(m->region[k].mr));
		if (m->dm != NULL)
			WORKS(ibv_free_dm(m->dm));
	}
	WORKS(ibv_dealloc_pd(d.other));
}

// A region of ibv_alloc_null_mr accepts writes at any address, and reads as zeros.
static void step_null(void)
{
	struct device d = {.l = own_peer()};
	struct end *e = d.e = &d.l->end[0];
	uint8_t zeros[MOST] = {0};
	uint32_t n = 1 + draw(MOST);
	struct ibv_mr *mr = MADE(ibv_alloc_null_mr(e->pd));
	WANT("ibv_alloc_null_mr", mr->context, e->ctx);
	WANT("ibv_alloc_null_mr", mr->pd, e->pd);
	WANT("ibv_alloc_null_mr", mr->addr, NULL);
	WANT("ibv_alloc_null_mr", mr->length, 0);
	struct request r = {.op = IBV_WR_RDMA_READ, .remote = (uintptr_t)e->buf + REACHED, .rkey = e->mr->rkey, .sge = {{draw64() >> 1, n, mr->lkey}}};
	one(&d, &r, IBV_WC_SUCCESS);
	r.op = IBV_WR_RDMA_WRITE;
	one(&d, &r, IBV_WC_SUCCESS);
	want_bytes("a write from a null region", "memory", e->buf + REACHED, zeros, n);
	memcpy(e->shadow, e->buf, BUF);
	int flags = 1 + (int)draw(7);
	errno = 0;
	WANT("ibv_rereg_mr of a null region",
	     ibv_rereg_mr(mr, flags, e->pd, e->buf, 1, flags & IBV_REREG_MR_CHANGE_ACCESS ? IBV_ACCESS_LOCAL_WRITE : 0), IBV_REREG_MR_ERR_CMD);
	WANT("ibv_rereg_mr of a null region: errno", errno, EINVAL);
	WORKS(ibv_dereg_mr(mr));
}

// advised returns the error number that the model expects for advice on one element. The region has
// two pages, of which only the first is mapped.
static int advised(const struct ibv_sge *s, unsigned advice, bool waits, const struct ibv_mr *mr, int access)
{
	uint64_t from = (uintptr_t)mr->addr;
	if (s->lkey != mr->lkey)
		return ENOENT;
	if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE && !(access & IBV_ACCESS_LOCAL_WRITE))
		return EPERM;
	if (s->addr < from || s->addr - from + s->length > 2 * PAGE)
		return EFAULT;
	return waits && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT && s->addr - from + s->length > PAGE ? EFAULT : 0;
}

static void step_advise(void)
{
	struct ibv_pd *pd = MADE(ibv_alloc_pd(me->ctx[draw(ADAPTERS)]));
	char *mem = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int access = IBV_ACCESS_ON_DEMAND | (chance(50) ? IBV_ACCESS_LOCAL_WRITE : 0);
	if (mem == MAP_FAILED || mprotect(mem + PAGE, PAGE, PROT_NONE) != 0)
		fails("mmap", "errno %d", errno);
	struct ibv_mr *mr = MADE(ibv_reg_mr(pd, mem, 2 * PAGE, access));
	for (int n = 0; n < ROUNDS; n++) {
		uint32_t at = draw(2 * PAGE), flags = draw(2);
		enum ibv_advise_mr_advice advice = (enum ibv_advise_mr_advice)draw(3);
		struct ibv_sge s = {(uintptr_t)mem + at, 1 + draw(2 * PAGE - at), mr->lkey};
		if (chance(10))
			s.lkey ^= 0x100;
		if (chance(10))
			s.length += 2 * PAGE;
		int code = advised(&s, advice, flags & IBV_ADVISE_MR_FLAG_FLUSH, mr, access);
		if (chance(5))
			flags |= 2, code = EINVAL;
		else if (chance(5))
			advice = (enum ibv_advise_mr_advice)(3 + draw(10)), code = EOPNOTSUPP;
		if (code == 0)
			WORKS(ibv_advise_mr(pd, advice, flags, &s, 1));
		else
			REFUSES(ibv_advise_mr(pd, advice, flags, &s, 1), code);
	}
	WORKS(ibv_dereg_mr(mr));
	munmap(mem, 2 * PAGE);
	WORKS(ibv_dealloc_pd(pd));
}

const struct step dm_steps[] = {{"dm", 4, step_dm}, {"null", 2, step_null}, {"advise", 2, step_advise}, {NULL, 0, NULL}};

// Protection domains, memory regions and address handles.
#include "zoo.h"

#include <sys/mman.h>

void zoo_open(void)
{
	me->zoo = MADE(calloc(1, sizeof *me->zoo));
	me->zoo->region = mmap(NULL, REGION + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (me->zoo->region == MAP_FAILED || mprotect(me->zoo->region + REGION, 4096, PROT_NONE) != 0)
		fails("mmap", "errno %d", errno);
}

struct zoo_pd *root_pd(struct zoo_pd *p) { return p->of != NULL ? p->of : p; }

static void new_pd(struct zoo_pd *p)
{
	struct zoo_pd *of = &me->zoo->pd[draw(PDS)];
	*p = (struct zoo_pd){.adapter = (int)draw(ADAPTERS)};
	if (of == p || of->pd == NULL || chance(60)) {
		p->pd = MADE(ibv_alloc_pd(me->ctx[p->adapter]));
		WANT("ibv_alloc_pd", p->pd->context, me->ctx[p->adapter]);
		return;
	}
	p->adapter = of->adapter;
	struct ibv_context *c = me->ctx[p->adapter];
	struct ibv_parent_domain_init_attr a = {.pd = of->pd};
	struct ibv_td_init_attr ta = {0};
	if (chance(50))
		a.td = p->td = MADE(ibv_alloc_td(c, &ta));
	if (chance(20))
		a.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT, a.pd_context = p;
	p->pd = MADE(ibv_alloc_parent_domain(c, &a));
	p->of = root_pd(of);
	p->of->names++;
	WANT("ibv_alloc_parent_domain", p->pd->context, c);
}

struct zoo_pd *some_pd(void)
{
	struct zoo_pd *p = &me->zoo->pd[draw(PDS)];
	if (p->pd == NULL)
		new_pd(p);
	return p;
}

static void drop_pd(struct zoo_pd *p)
{
	WORKS(ibv_dealloc_pd(p->pd));
	if (p->of != NULL)
		p->of->names--;
	if (p->td != NULL)
		WORKS(ibv_dealloc_td(p->td));
	p->pd = NULL;
}

static void step_pd(void)
{
	struct zoo_pd *p = &me->zoo->pd[draw(PDS)];
	if (p->pd == NULL) {
		new_pd(p);
		return;
	}
	if (p->of == NULL && p->users + p->names > 0) {
		REFUSES(ibv_dealloc_pd(p->pd), EBUSY);
		return;
	}
	if (p->of != NULL && p->users > 0)
		return; // the library may refuse this or not
	drop_pd(p);
}

// hold and release count an object of a domain, and of the domain that it is a parent
// domain of.
void hold(struct zoo_pd *p)
{
	p->users++;
	if (p->of != NULL)
		p->of->users++;
}

void release(struct zoo_pd *p)
{
	p->users--;
	if (p->of != NULL)
		p->of->users--;
}

static void want_mr(const char *call, const struct zoo_mr *m)
{
	WANT(call, m->mr->context, m->want.context);
	WANT(call, m->mr->pd, m->want.pd);
	WANT(call, m->mr->addr, m->want.addr);
	WANT(call, m->mr->length, m->want.length);
	WANT(call, m->mr->handle, m->want.handle);
	WANT(call, m->mr->lkey, m->want.lkey);
	WANT(call, m->mr->rkey, m->want.rkey);
}

static int some_access(void)
{
	static const int all[] = {
		0, IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, ALL_ACCESS, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING,
	};
	return all[draw(sizeof all / sizeof *all)];
}

// The part of the region that a call registers, and the error that the call should return.
struct part {
	void *addr;
	size_t length;
	int access, code; // code: 0 if the call is right
};

static struct part some_part(void)
{
	size_t from = draw(REGION - 1), n = 1 + draw((unsigned)(REGION - from));
	struct part p = {me->zoo->region + from, n, some_access(), 0};
	switch (draw(10)) {
	case 0: // ends in memory that is not readable
		p.length = REGION - from + 1, p.code = EFAULT;
		break;
	case 1:
		p.access = IBV_ACCESS_REMOTE_WRITE, p.code = EINVAL;
		break;
	case 2:
		p.access = IBV_ACCESS_ON_DEMAND;
		break;
	}
	return p;
}

static void new_mr(struct zoo_mr *m)
{
	struct zoo_pd *p = some_pd();
	struct part a = some_part();
	uint64_t iova = draw64() >> 20;
	unsigned how = draw(3);
	errno = 0;
	struct ibv_mr *mr = how == 0   ? ibv_reg_mr(p->pd, a.addr, a.length, a.access)
			    : how == 1 ? ibv_reg_mr_iova(p->pd, a.addr, a.length, iova, a.access)
				       : ibv_reg_mr_iova2(p->pd, a.addr, a.length, iova, (unsigned)a.access);
	if (a.code != 0) {
		refused_null("ibv_reg_mr", mr, errno, a.code);
		return;
	}
	if (mr == NULL)
		fails("ibv_reg_mr", "errno %d for access %#x", errno, a.access);
	*m = (struct zoo_mr){.mr = mr, .pd = p, .want = *mr, .access = a.access};
	m->want.context = p->pd->context, m->want.pd = p->pd, m->want.addr = a.addr, m->want.length = a.length, m->want.rkey = mr->lkey;
	want_mr("ibv_reg_mr", m);
	hold(p);
}

static void rereg(struct zoo_mr *m)
{
	enum { TRANSLATION = IBV_REREG_MR_CHANGE_TRANSLATION, PD = IBV_REREG_MR_CHANGE_PD, ACCESS = IBV_REREG_MR_CHANGE_ACCESS };
	int flags = (int)draw(8);
	struct zoo_pd *p = some_pd();
	struct part a = some_part();
	if (p->adapter != m->pd->adapter)
		p = m->pd;
	int code = a.code;
	if (code == EFAULT && (!(flags & TRANSLATION) || (!(flags & ACCESS) && m->access & IBV_ACCESS_ON_DEMAND)))
		code = 0; // the address is ignored, or may be mapped later
	int access = flags & ACCESS ? a.access : chance(10) ? 1 + (int)draw(1 << 12) : 0;
	if (code != 0 && code != EFAULT && !(flags & ACCESS))
		code = 0; // the part's access flags are not used
	if (flags == 0 || (access != 0 && !(flags & ACCESS)))
		code = EINVAL;
	if (!(flags & TRANSLATION) && chance(50))
		a.addr = chance(50) ? NULL : (void *)1;
	errno = 0;
	int got = ibv_rereg_mr(m->mr, flags, flags & PD ? p->pd : NULL, a.addr, a.length, access);
	if (code != 0) {
		if (got != IBV_REREG_MR_ERR_INPUT && got != IBV_REREG_MR_ERR_CMD)
			fails("ibv_rereg_mr", "returned %d for flags %#x and access %#x, want an error with errno %d", got, flags, a.access, code);
		WANT("ibv_rereg_mr", errno, code);
	} else {
		WANT("ibv_rereg_mr", got, 0);
		if (flags & TRANSLATION)
			m->want.addr = a.addr, m->want.length = a.length;
		if (flags & TRANSLATION)
			m->want.lkey = m->want.rkey = m->mr->lkey; // the library assigns a new key
		if (flags & PD)
			release(m->pd), m->pd = p, hold(p), m->want.pd = p->pd;
		if (flags & ACCESS)
			m->access = a.access;
	}
	want_mr("ibv_rereg_mr", m);
}

static void step_mr(void)
{
	struct zoo_mr *m = &me->zoo->mr[draw(MRS)];
	if (m->mr == NULL) {
		new_mr(m);
	} else if (chance(60)) {
		rereg(m);
	} else {
		want_mr("a memory region", m);
		WORKS(ibv_dereg_mr(m->mr));
		release(m->pd);
		m->mr = NULL;
	}
}

static void new_ah(struct zoo_ah *a)
{
	struct zoo_pd *p = some_pd();
	struct ibv_ah_attr v;
	fill_av(&v, p->adapter);
	int code = EINVAL;
	switch (draw(8)) {
	case 0:
		v.is_global = 0;
		break;
	case 1:
		v.grh.sgid_index = 200;
		break;
	case 2:
		v.port_num = 2;
		break;
	case 3:
		v.static_rate = 99;
		break;
	case 4:
		v.grh.hop_limit = 0;
		break;
	default:
		code = 0;
	}
	if (code != 0) {
		REFUSES_NULL(ibv_create_ah(p->pd, &v), code);
		return;
	}
	*a = (struct zoo_ah){MADE(ibv_create_ah(p->pd, &v)), p};
	WANT("ibv_create_ah", a->ah->context, p->pd->context);
	WANT("ibv_create_ah", a->ah->pd, p->pd);
	hold(p);
}

static void step_ah(void)
{
	struct zoo_ah *a = &me->zoo->ah[draw(AHS)];
	if (a->ah == NULL) {
		new_ah(a);
		return;
	}
	WORKS(ibv_destroy_ah(a->ah));
	release(a->pd);
	a->ah = NULL;
}

// zoo_close destroys everything, each object before the objects that it uses.
void zoo_close(void)
{
	struct zoo *z = me->zoo;
	empty_queues();
	for (int i = 0; i < MRS; i++)
		if (z->mr[i].mr != NULL)
			WORKS(ibv_dereg_mr(z->mr[i].mr));
	for (int i = 0; i < AHS; i++)
		if (z->ah[i].ah != NULL)
			WORKS(ibv_destroy_ah(z->ah[i].ah));
	for (int names = 1; names >= 0; names--)
		for (int i = 0; i < PDS; i++)
			if (z->pd[i].pd != NULL && (z->pd[i].of != NULL) == names)
				drop_pd(&z->pd[i]);
	munmap(z->region, REGION + 4096);
	free(z);
}

const struct step object_steps[] = {{"pd", 4, step_pd}, {"mr", 8, step_mr}, {"ah", 3, step_ah}, {NULL, 0, NULL}};

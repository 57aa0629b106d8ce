// Protection domains, memory regions, address handles, shared receive queues
// and multicast groups.
#define _GNU_SOURCE
#include "check.h"

#include <arpa/inet.h>
#include <sys/mman.h>
#include <unistd.h>

// A thread domain promises that only one thread uses its objects. The locks that it would make
// unnecessary are held only for short copies, so the library ignores the promise.
struct td {
	struct ibv_td ibv;
	_Atomic int domains; // parent domains that use it
};

int free_pd(struct object *o)
{
	struct pd *p = CONTAINER(o, struct pd, o);
	int code = 0;
	if (outlived(o, p))
		return 0;
	if (atomic_load(&p->children) != 0)
		code = EBUSY;
	else if (p->parent == NULL)
		code = ENGINE(device_of(p->ibv.context), dealloc_pd, p->handle);
	if (UNLIKELY(checking) && code == EBUSY)
		check_busy(o, p->ibv.context);
	if (code != 0)
		return code;
	if (p->parent != NULL)
		p->parent->children--;
	if (p->td != NULL)
		p->td->domains--;
	release_object(p->ibv.context, o, p);
	return 0;
}

const struct kind pd_kind = {"protection domain", 1, free_pd};

EXPORT VERB(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context *c), c)
{
	struct device *d = device_of(c);
	struct pd *p = calloc(1, sizeof *p);
	if (p == NULL)
		return fail(ENOMEM);
	int code = ENGINE(d, alloc_pd, d->handle, &p->handle);
	if (code != 0)
		return abandon(p, code);
	p->ibv.context = c;
	p->ibv.handle = visible(d, p->handle);
	add_object(c, &p->o, &pd_kind, p->ibv.handle);
	return &p->ibv;
}

EXPORT VERB(int, ibv_dealloc_pd, (struct ibv_pd *p), p)
{
	return free_pd(&CONTAINER(p, struct pd, ibv)->o);
}

VERB(struct ibv_td *, alloc_td, (struct ibv_context *c, struct ibv_td_init_attr *a), c, a)
{
	if (a->comp_mask != 0)
		return fail(EINVAL);
	struct td *t = calloc(1, sizeof *t);
	if (t == NULL)
		return fail(ENOMEM);
	t->ibv.context = c;
	return &t->ibv;
}

VERB(int, dealloc_td, (struct ibv_td *t), t)
{
	struct td *own = CONTAINER(t, struct td, ibv);
	if (atomic_load(&own->domains) != 0)
		return EBUSY;
	free(own);
	return 0;
}

// A parent domain is a second name of its protection domain. It may have functions that allocate
// the memory of queues. The permission to allocate memory that a confidential guest shares with
// its host has no effect, because the adapter is in the guest.
VERB(struct ibv_pd *, alloc_parent_domain, (struct ibv_context *c, struct ibv_parent_domain_init_attr *a), c, a)
{
	enum { ALLOW_CC_UNPROTECTED_ALLOC = 1 << 2 }; // not in the header of Debian 12
	enum { KNOWN = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | ALLOW_CC_UNPROTECTED_ALLOC };
	if (a->pd == NULL)
		return fail(EINVAL);
	if (a->comp_mask & ~(uint32_t)KNOWN)
		return fail(EOPNOTSUPP);
	struct ibv_pd *pd = pd_of(c, CONTAINER(a->pd, struct pd, ibv), a->td != NULL ? CONTAINER(a->td, struct td, ibv) : NULL);
	if (pd == NULL)
		return NULL;
	struct pd *p = CONTAINER(pd, struct pd, ibv);
	if (a->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		p->pd_context = a->pd_context;
	if (a->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS && a->alloc != NULL && a->free != NULL)
		p->alloc = a->alloc, p->free = a->free;
	return pd;
}

// pd_of creates a second name of a protection domain.
struct ibv_pd *pd_of(struct ibv_context *c, struct pd *parent, struct td *td)
{
	struct pd *p = calloc(1, sizeof *p);
	if (p == NULL)
		return fail(ENOMEM);
	p->parent = parent->parent != NULL ? parent->parent : parent;
	p->parent->children++;
	if ((p->td = td) != NULL)
		td->domains++;
	p->handle = p->parent->handle;
	p->ibv.context = c;
	p->ibv.handle = parent->ibv.handle;
	add_object(c, &p->o, &pd_kind, p->ibv.handle);
	return &p->ibv;
}

// mapped reports whether a whole range of memory is mapped, as far as the system tells: 0, or
// EFAULT. It faults the pages in for reading and writing, as for a device, with the same
// errors.
static int mapped(uintptr_t addr, size_t length, unsigned access)
{
	enum { WRITES = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND };
	enum { POPULATE_READ = 22, POPULATE_WRITE = 23, STEP = 1 << 12 };
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = addr & ~(page - 1);
	uintptr_t end = (addr + length + page - 1) & ~(page - 1);
	if (length == 0)
		return 0;
	if (addr + length < addr)
		return EINVAL;
	if (end < from)
		return EFAULT;
	if (madvise((void *)from, end - from, access & WRITES ? POPULATE_WRITE : POPULATE_READ) == 0)
		return 0;
	if (errno != EINVAL || madvise((void *)((uintptr_t)&page & ~(page - 1)), page, POPULATE_READ) == 0)
		return EFAULT;
	// On a kernel before 5.14 it only finds out that the range has no holes.
	unsigned char there[STEP];
	for (uintptr_t at = from; at < end; at += STEP * page) {
		size_t n = end - at < STEP * page ? end - at : STEP * page;
		if (mincore((void *)at, n, there) != 0)
			return EFAULT;
	}
	return 0;
}

// legal reports whether the adapter supports all of the given access rights; it ignores those
// in the optional range.
static bool legal(unsigned access)
{
	enum { RIGHTS = ((IBV_ACCESS_HUGETLB << 1) - 1) | ACCESS_FLUSH };
	return !(access & ~(RIGHTS | (unsigned)IBV_ACCESS_OPTIONAL_RANGE));
}

static int free_mr(struct object *o)
{
	struct mr *m = CONTAINER(o, struct mr, o);
	if (m->imported)
		return EINVAL;
	if (outlived(o, m))
		return 0;
	struct user user = {0};
	if (UNLIKELY(checking))
		user = check_region_goes(m);
	int code = ENGINE(device_of(m->ibv.context), dereg_mr, m->handle);
	if (UNLIKELY(checking) && (code == EBUSY || code == EINVAL))
		check_busy(o, m->ibv.context);
	if (code != 0)
		return code;
	if (UNLIKELY(checking)) {
		check_region_went(m, m->ibv.lkey, &user, "deregistered here");
		check_deregisters(m);
	}
	unmap_dmabuf(m);
	release_object(m->ibv.context, o, m);
	return 0;
}

const struct kind mr_kind = {"memory region", 3, free_mr};

// explain_call sets the call that registers a region.
static void explain_call(struct softhca_mr *a, struct place *here)
{
	explained_here(here);
	a->file = here->file[0] != '\0' ? here->file : NULL, a->call = here->offset;
}

// new_mr registers what a describes. addr and length are the members of the verbs' region.
struct mr *new_mr(struct ibv_pd *pd, void *addr, size_t length, struct softhca_mr *a)
{
	if (UNLIKELY(checking) && check_ended(&CONTAINER(pd, struct pd, ibv)->o))
		return fail(EINVAL);
	keep_faults();
	struct mr *m = calloc(1, sizeof *m);
	struct place here;
	if (m == NULL)
		return fail(ENOMEM);
	if (UNLIKELY(explaining))
		explain_call(a, &here);
	int code = ENGINE(device_of(pd->context), reg_mr, CONTAINER(pd, struct pd, ibv)->handle, a);
	if (code != 0)
		return abandon(m, code);
	m->handle = a->handle, m->access = a->access;
	m->ibv = (struct ibv_mr){
		.context = pd->context, .pd = pd, .addr = addr, .length = length, .handle = visible(device_of(pd->context), a->handle), .lkey = a->lkey, .rkey = a->rkey,
	};
	add_object(pd->context, &m->o, &mr_kind, m->ibv.handle);
	if (UNLIKELY(checking))
		check_registers(m, a);
	return m;
}

// mr_of returns the verbs' region of a region; NULL for NULL.
static struct ibv_mr *mr_of(struct mr *m) { return m != NULL ? &m->ibv : NULL; }

// implicit reports whether memory is the whole address space.
static bool implicit(const void *addr, size_t length, unsigned access)
{
	return addr == NULL && length == SIZE_MAX && access & IBV_ACCESS_ON_DEMAND;
}

// usable reports whether memory can be a region with the given rights: 0 or an error. That on
// demand may be mapped later.
static int usable(const void *addr, size_t length, unsigned access)
{
	if (!legal(access) || (access & IBV_ACCESS_ON_DEMAND && (uintptr_t)addr + length < (uintptr_t)addr))
		return EINVAL;
	return access & IBV_ACCESS_ON_DEMAND ? 0 : mapped((uintptr_t)addr, length, access);
}

static struct ibv_mr *reg(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
	int code = usable(addr, length, access);
	if (code != 0)
		return fail(code);
	struct softhca_mr a = {.addr = (uintptr_t)addr, .length = length, .iova = iova, .access = access};
	if (implicit(addr, length, access))
		a.memory = SOFTHCA_IMPLICIT;
	return mr_of(new_mr(pd, addr, length, &a));
}

VERB(struct ibv_mr *, alloc_null_mr, (struct ibv_pd *pd), pd)
{
	struct softhca_mr a = {.access = IBV_ACCESS_LOCAL_WRITE, .memory = SOFTHCA_NULL};
	return mr_of(new_mr(pd, NULL, 0, &a));
}

EXPORT VERB(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd *pd, void *addr, size_t length, int access),
	pd, addr, length, access)
{
	return reg(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

EXPORT VERB(struct ibv_mr *, ibv_reg_mr_iova, (struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access),
	pd, addr, length, iova, access)
{
	return reg(pd, addr, length, iova, (unsigned)access);
}

EXPORT VERB(struct ibv_mr *, ibv_reg_mr_iova2, (struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
	unsigned access), pd, addr, length, iova, access)
{
	return reg(pd, addr, length, iova, access);
}

EXPORT VERB(int, ibv_rereg_mr, (struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr, size_t length, int access),
	ibv, flags, pd, addr, length, access)
{
	struct mr *m = CONTAINER(ibv, struct mr, ibv);
	bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION, pds = flags & IBV_REREG_MR_CHANGE_PD;
	if (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED || (pds && pd == NULL) || (moves && (addr == NULL || length == 0)) ||
	    (access != 0 && !(flags & IBV_REREG_MR_CHANGE_ACCESS))) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	unsigned rights = flags & IBV_REREG_MR_CHANGE_ACCESS ? (unsigned)access : m->access;
	int code = !legal(rights) ? EINVAL : moves ? usable(addr, length, rights) : 0;
	struct softhca_mr a = {.handle = m->handle, .addr = (uintptr_t)addr, .length = length, .iova = (uintptr_t)addr, .access = rights};
	struct user user = {0};
	struct place here;
	if (UNLIKELY(explaining) && moves)
		explain_call(&a, &here);
	if (UNLIKELY(checking) && code == 0)
		user = check_region_goes(m);
	uint32_t key = ibv->lkey;
	if (code == 0)
		code = ENGINE(device_of(ibv->context), rereg_mr, &a, (uint32_t)flags, pds ? CONTAINER(pd, struct pd, ibv)->handle : 0);
	if (code != 0) {
		errno = code;
		return IBV_REREG_MR_ERR_CMD;
	}
	ibv->lkey = a.lkey, ibv->rkey = a.rkey;
	m->access = rights;
	if (moves) {
		ibv->addr = addr, ibv->length = length;
		unmap_dmabuf(m);
	}
	if (pds)
		ibv->pd = pd;
	if (UNLIKELY(checking)) {
		check_region_went(m, key, &user, "registered anew here");
		check_reregisters(m, key, &a, moves);
	}
	return 0;
}

EXPORT VERB(int, ibv_dereg_mr, (struct ibv_mr *m), m)
{
	return free_mr(&CONTAINER(m, struct mr, ibv)->o);
}

VERB(int, advise_mr, (struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *list, uint32_t n),
	pd, advice, flags, list, n)
{
	_Static_assert(sizeof *list == sizeof(struct softhca_sge), "the engine reads the program's list");
	if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH)
		return EINVAL;
	int wait = (flags & IBV_ADVISE_MR_FLAG_FLUSH) != 0;
	return ENGINE(device_of(pd->context), advise_mr, CONTAINER(pd, struct pd, ibv)->handle, (uint32_t)advice, wait, (struct softhca_sge *)list, n);
}

static int free_ah(struct object *o)
{
	struct ah *a = CONTAINER(o, struct ah, o);
	if (outlived(o, a))
		return 0;
	int code = ENGINE(device_of(a->ibv.context), destroy_ah, a->pd, a->handle);
	if (code != 0)
		return code;
	release_object(a->ibv.context, o, a);
	return 0;
}

const struct kind ah_kind = {"address handle", 3, free_ah};

EXPORT VERB(struct ibv_ah *, ibv_create_ah, (struct ibv_pd *pd, struct ibv_ah_attr *attr), pd, attr)
{
	struct softhca_av av = av_of(attr);
	if (UNLIKELY(checking) && check_ended(&CONTAINER(pd, struct pd, ibv)->o))
		return fail(EINVAL);
	if (!attr->is_global)
		return fail(EINVAL); // RoCE has no LIDs
	struct ah *a = calloc(1, sizeof *a);
	if (a == NULL)
		return fail(ENOMEM);
	a->pd = CONTAINER(pd, struct pd, ibv)->handle;
	int code = ENGINE(device_of(pd->context), create_ah, a->pd, &av, &a->handle);
	if (code != 0)
		return abandon(a, code);
	a->ibv = (struct ibv_ah){.context = pd->context, .pd = pd, .handle = visible(device_of(pd->context), a->handle)};
	add_object(pd->context, &a->o, &ah_kind, a->ibv.handle);
	return &a->ibv;
}

EXPORT VERB(int, ibv_destroy_ah, (struct ibv_ah *a), a)
{
	return free_ah(&CONTAINER(a, struct ah, ibv)->o);
}

// The GRH area of a message: an IPv6 header, or an IPv4 header in its second half. A reply gets
// the hop limit of a new packet: the remaining hop limit of the request says nothing about the
// way back.
enum { GRH_IPV4 = 20, HOP_LIMIT = 64 };

static void mapped_gid(uint8_t *gid, const uint8_t *ipv4)
{
	memset(gid, 0, 10);
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, ipv4, 4);
}

EXPORT VERB(int, ibv_init_ah_from_wc, (struct ibv_context *c, uint8_t port, struct ibv_wc *wc,
	struct ibv_grh *grh, struct ibv_ah_attr *out), c, port, wc, grh, out)
{
	const uint8_t *b = (const uint8_t *)grh;
	const struct softhca_adapter *info = &device_of(c)->info;
	uint8_t src[16], dst[16];
	memset(out, 0, sizeof *out);
	out->dlid = wc->slid, out->port_num = port;
	if (!(wc->wc_flags & IBV_WC_GRH))
		return 0;
	out->is_global = 1;
	out->grh.hop_limit = HOP_LIMIT; // wc->sl has the kind of header
	if (b[0] >> 4 == 6) {
		uint32_t word = ntohl(*(const uint32_t *)b);
		out->grh.flow_label = word & 0xfffff, out->grh.traffic_class = (uint8_t)(word >> 20);
		memcpy(src, b + 8, 16);
		memcpy(dst, b + 24, 16);
	} else if (b[GRH_IPV4] >> 4 == 4) {
		out->grh.traffic_class = b[GRH_IPV4 + 1];
		mapped_gid(src, b + GRH_IPV4 + 12);
		mapped_gid(dst, b + GRH_IPV4 + 16);
	} else {
		return failure(EPROTONOSUPPORT);
	}
	memcpy(out->grh.dgid.raw, src, sizeof src);
	for (uint32_t i = 0; port == PORT && i < info->gids; i++) {
		if (memcmp(info->gid[i], dst, sizeof dst) == 0) {
			out->grh.sgid_index = (uint8_t)i;
			return 0;
		}
	}
	return failure(EINVAL);
}

EXPORT VERB(struct ibv_ah *, ibv_create_ah_from_wc, (struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
	uint8_t port), pd, wc, grh, port)
{
	struct ibv_ah_attr a;
	if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &a) != 0)
		return NULL;
	return ibv_create_ah(pd, &a);
}

// The operating system resolves Ethernet addresses.
REFUSES(ibv_resolve_eth_l2_from_gid)

static int end_srq(struct srq *s, bool wait)
{
	if (outlived(&s->o, s))
		return 0;
	int code = ENGINE(device_of(s->ibv.context), destroy_srq, s->handle);
	if (UNLIKELY(checking) && code == EBUSY)
		check_busy(&s->o, s->ibv.context);
	if (code != 0)
		return code;
	forget_async(s->ibv.context, s);
	mutex_lock(OBJECT_LOCK, &s->ibv.mutex);
	while (wait && s->ibv.events_completed != s->async_taken)
		await_ack(&s->o, &s->ibv.cond, &s->ibv.mutex, ASYNC_EVENTS_NOT_ACKNOWLEDGED);
	mutex_unlock(&s->ibv.mutex);
	unuse_xrcd(s->xrcd);
	return_room(&s->room, !wait);
	release_object(s->ibv.context, &s->o, s);
	return 0;
}

static int free_srq(struct object *o) { return end_srq(CONTAINER(o, struct srq, o), false); }

const struct kind srq_kind = {"shared receive queue", 3, free_srq};

// srq_room asks the program for the memory of a queue, unless the adapter will refuse the queue.
static int srq_room(struct srq *s, struct pd *pd, struct softhca_srq *c)
{
	struct device *d = device_of(s->ibv.context);
	if (pd->alloc == NULL || c->max_wr == 0 || c->max_wr > d->info.max_srq_wr || c->max_sge > d->info.max_sge)
		return 0;
	int code = ENGINE(d, size_srq, c);
	return code != 0 ? code : take_room(pd, &s->room, RESOURCE_SRQ, &c->room);
}

// new_srq creates a shared receive queue, one of XRC if it has a domain and a completion queue.
static struct ibv_srq *new_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *a, struct ibv_xrcd *xrcd, struct ibv_cq *cq)
{
	if (UNLIKELY(checking) && check_ended(&CONTAINER(pd, struct pd, ibv)->o))
		return fail(EINVAL);
	struct srq *s = calloc(1, sizeof *s);
	if (s == NULL)
		return fail(ENOMEM);
	s->ibv = (struct ibv_srq){.context = pd->context, .srq_context = a->srq_context, .pd = pd};
	struct softhca_srq c = {.object = s, .max_wr = a->attr.max_wr, .max_sge = a->attr.max_sge};
	int code = srq_room(s, CONTAINER(pd, struct pd, ibv), &c);
	if (code != 0)
		return abandon(s, code);
	if ((s->xrcd = xrcd) != NULL)
		c.xrcd = use_xrcd(xrcd), c.cq = CONTAINER(cq, struct cq, ibv)->handle;
	code = ENGINE(device_of(pd->context), create_srq, CONTAINER(pd, struct pd, ibv)->handle, &c);
	if (code != 0) {
		return_room(&s->room, false);
		unuse_xrcd(xrcd);
		return abandon(s, code);
	}
	s->num = c.srqn;
	pthread_mutex_init(&s->ibv.mutex, NULL);
	pthread_cond_init(&s->ibv.cond, NULL);
	s->handle = c.handle, s->ring = c.ring, s->watched = c.watched;
	s->ibv.handle = visible(device_of(pd->context), c.handle);
	a->attr.max_wr = c.max_wr, a->attr.max_sge = s->max_sge = c.max_sge;
	add_object(pd->context, &s->o, &srq_kind, s->ibv.handle);
	if (UNLIKELY(checking))
		check_new_srq(s, c.max_wr);
	return &s->ibv;
}

EXPORT VERB(struct ibv_srq *, ibv_create_srq, (struct ibv_pd *pd, struct ibv_srq_init_attr *a), pd, a)
{
	return new_srq(pd, a, NULL, NULL);
}

VERB(struct ibv_srq *, create_srq_ex, (struct ibv_context *c, struct ibv_srq_init_attr_ex *a), c, a)
{
	enum { KNOWN = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD };
	enum { XRC = KNOWN | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ };
	(void)c;
	if (a->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && a->srq_type == IBV_SRQT_XRC) {
		if (a->comp_mask & ~(uint32_t)XRC)
			return fail(EOPNOTSUPP);
		if (a->comp_mask != XRC || a->pd == NULL || a->xrcd == NULL || a->cq == NULL)
			return fail(EINVAL);
		return new_srq(a->pd, (struct ibv_srq_init_attr *)a, a->xrcd, a->cq);
	}
	if (!(a->comp_mask & IBV_SRQ_INIT_ATTR_PD) || a->comp_mask & ~(uint32_t)KNOWN ||
	    (a->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && a->srq_type != IBV_SRQT_BASIC))
		return fail(EOPNOTSUPP);
	return ibv_create_srq(a->pd, (struct ibv_srq_init_attr *)a);
}

// resize changes the size of the queue; no thread may post meanwhile.
static int resize(struct srq *s, struct device *d, uint32_t wr)
{
	spin_lock(RECV_LOCK, &s->lock);
	int code = ENGINE(d, resize_srq, s->handle, wr);
	spin_unlock(&s->lock);
	if (UNLIKELY(checking))
		check_resizes(s);
	return code;
}

EXPORT VERB(int, ibv_modify_srq, (struct ibv_srq *ibv, struct ibv_srq_attr *a, int flags), ibv, a, flags)
{
	struct srq *s = CONTAINER(ibv, struct srq, ibv);
	struct device *d = device_of(ibv->context);
	bool resizes = flags & IBV_SRQ_MAX_WR, limits = flags & IBV_SRQ_LIMIT;
	struct softhca_srq had = {0};
	if (!resizes)
		return limits ? ENGINE(d, limit_srq, s->handle, a->srq_limit) : 0;
	if (limits && a->srq_limit > a->max_wr)
		return EINVAL;
	int code = ENGINE(d, query_srq, s->handle, &had);
	if (code == 0 && limits) // the old limit may be more than the new size holds
		code = ENGINE(d, limit_srq, s->handle, 0);
	if (code == 0)
		code = resize(s, d, a->max_wr);
	if (limits && (code != 0 || (code = ENGINE(d, limit_srq, s->handle, a->srq_limit)) != 0))
		ENGINE(d, limit_srq, s->handle, had.limit);
	return code;
}

EXPORT VERB(int, ibv_query_srq, (struct ibv_srq *ibv, struct ibv_srq_attr *a), ibv, a)
{
	struct srq *s = CONTAINER(ibv, struct srq, ibv);
	struct softhca_srq c;
	int code = ENGINE(device_of(ibv->context), query_srq, s->handle, &c);
	if (code == 0)
		*a = (struct ibv_srq_attr){.max_wr = c.max_wr, .max_sge = c.max_sge, .srq_limit = c.limit};
	return code;
}

EXPORT VERB(int, ibv_destroy_srq, (struct ibv_srq *s), s)
{
	return end_srq(CONTAINER(s, struct srq, ibv), true);
}

EXPORT VERB(int, ibv_attach_mcast, (struct ibv_qp *q, const union ibv_gid *gid, uint16_t lid), q, gid, lid)
{
	(void)lid;
	return ENGINE(device_of(q->context), attach, CONTAINER(q, struct qp, ibv)->handle, (uint8_t *)gid->raw);
}

EXPORT VERB(int, ibv_detach_mcast, (struct ibv_qp *q, const union ibv_gid *gid, uint16_t lid), q, gid, lid)
{
	(void)lid;
	return ENGINE(device_of(q->context), detach, CONTAINER(q, struct qp, ibv)->handle, (uint8_t *)gid->raw);
}

// Parent domains and XRC domains over the recorder: what the engine gets, and what programs get
// back, even if the engine fails.
#define _GNU_SOURCE
#include "recorded.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { SLOTS = 4, SLOT = 4096 };

// given is memory that a program provides for queues.
static struct {
	struct ibv_pd *pd;
	_Alignas(64) char mem[SLOTS][SLOT];
	size_t size[SLOTS];
	uint64_t type[SLOTS];
	int calls, live;
	int none, usual; // numbers, from 1, of the calls that return NULL and IBV_ALLOCATOR_USE_DEFAULT
	int code;        // error of the engine after the first call
} given;

static void *give(struct ibv_pd *pd, void *context, size_t size, size_t alignment, uint64_t type)
{
	must(pd == given.pd && context == &given);
	SAME(alignment, 64);
	int i = given.calls++;
	given.size[i] = size, given.type[i] = type;
	rec->code = given.code;
	if (given.calls == given.none)
		return NULL;
	if (given.calls == given.usual)
		return IBV_ALLOCATOR_USE_DEFAULT;
	given.live++;
	return given.mem[i];
}

static void take_back(struct ibv_pd *pd, void *context, void *at, uint64_t type)
{
	int i = (int)(((char *)at - given.mem[0]) / SLOT);
	must(pd == given.pd && context == &given && at == given.mem[i]);
	SAME(type, given.type[i]);
	given.live--;
}

static void begin(int none, int usual, int code)
{
	given.calls = 0, given.none = none, given.usual = usual, given.code = code;
	rec->code = 0;
	rec->qp = (struct softhca_qp){0}, rec->srq = (struct softhca_srq){0};
}

static struct ibv_qp *new_qp(struct recording *r, enum ibv_qp_type t, struct ibv_srq *srq, uint32_t wr)
{
	struct ibv_qp_init_attr a = {.send_cq = r->cq, .recv_cq = r->cq, .srq = srq, .qp_type = t, .cap = {wr, 1, 1, 1, 0}};
	return ibv_create_qp(given.pd, &a);
}

static void rooms_of_pairs(struct recording *r)
{
	begin(0, 0, 0);
	struct ibv_qp *q = new_qp(r, IBV_QPT_RC, NULL, 4);
	must(q != NULL && given.calls == 2 && given.size[0] == 3000 && given.size[1] == 4000);
	must(rec->qp.send_room.addr == given.mem[0] && rec->qp.recv_room.addr == given.mem[1] && rec->qp.send_room.size == 3000);
	must(given.type[0] == 1 && given.type[1] == 2 && ibv_dealloc_pd(given.pd) == EBUSY);
	must(ibv_destroy_qp(q) == 0 && given.live == 0);
	begin(0, 1, 0);
	must((q = new_qp(r, IBV_QPT_RC, NULL, 4)) != NULL && rec->qp.send_room.addr == NULL && rec->qp.recv_room.addr == given.mem[1]);
	must(given.live == 1 && ibv_destroy_qp(q) == 0 && given.live == 0);
	for (int none = 1; none <= 2; none++) {
		begin(none, 0, 0);
		must(new_qp(r, IBV_QPT_RC, NULL, 4) == NULL && errno == ENOMEM && given.live == 0);
		must(rec->qp.object == NULL); // the engine has not been asked
	}
	begin(0, 0, EMFILE);
	must(new_qp(r, IBV_QPT_RC, NULL, 4) == NULL && errno == EMFILE && given.calls == 2 && given.live == 0);
	begin(0, 0, 0);
	must((q = new_qp(r, IBV_QPT_RC, r->srq, 4)) != NULL && given.calls == 1 && rec->qp.recv_room.addr == NULL && ibv_destroy_qp(q) == 0);
	begin(0, 0, 0);
	must((q = new_qp(r, IBV_QPT_XRC_SEND, NULL, 4)) != NULL && given.calls == 1 && given.type[0] == 1 && ibv_destroy_qp(q) == 0);
	// A queue pair that the adapter refuses needs no memory.
	begin(0, 0, 0);
	must((q = new_qp(r, IBV_QPT_RC, NULL, rec->adapter.max_qp_wr + 1)) != NULL && given.calls == 0 && ibv_destroy_qp(q) == 0);
	rec->code = EINVAL;
	must(new_qp(r, IBV_QPT_RC, NULL, 4) == NULL && errno == EINVAL && given.calls == 0);
	SAME(given.live, 0);
}

static void rooms_of_others(struct recording *r)
{
	struct ibv_srq_init_attr a = {.attr = {4, 1, 0}};
	struct ibv_cq_init_attr_ex ca = {.cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = given.pd};
	begin(0, 0, 0);
	struct ibv_srq *s = ibv_create_srq(given.pd, &a);
	must(s != NULL && given.calls == 1 && given.size[0] == 2000 && given.type[0] == 3 && rec->srq.room.addr == given.mem[0]);
	must(given.live == 1 && ibv_destroy_srq(s) == 0 && given.live == 0);
	begin(0, 0, 0);
	struct ibv_cq_ex *q = ibv_create_cq_ex(r->ctx, &ca);
	must(q != NULL && given.calls == 1 && given.size[0] == 1000 && given.type[0] == 4 && rec->cq.room.addr == given.mem[0]);
	must(given.live == 1 && ibv_destroy_cq(ibv_cq_ex_to_cq(q)) == 0 && given.live == 0);
	for (int i = 0; i < 2; i++) {
		int code = i == 0 ? ENOMEM : EMFILE;
		begin(i == 0, 0, i == 0 ? 0 : EMFILE);
		must(ibv_create_srq(given.pd, &a) == NULL && errno == code && given.live == 0);
		begin(i == 0, 0, i == 0 ? 0 : EMFILE);
		must(ibv_create_cq_ex(r->ctx, &ca) == NULL && errno == code && given.live == 0);
	}
	begin(0, 0, 0);
	a.attr.max_wr = rec->adapter.max_srq_wr + 1, ca.cqe = rec->adapter.max_cqe + 1;
	must((s = ibv_create_srq(given.pd, &a)) != NULL && (q = ibv_create_cq_ex(r->ctx, &ca)) != NULL && given.calls == 0);
	must(ibv_destroy_srq(s) == 0 && ibv_destroy_cq(ibv_cq_ex_to_cq(q)) == 0);
}

static void rooms(void)
{
	struct recording r = {0};
	recording_open(&r);
	struct ibv_parent_domain_init_attr a = {.pd = r.pd, .alloc = give, .free = take_back, .pd_context = &given};
	// Without the flag, or without one of the functions, the library allocates.
	for (int i = 0; i < 3; i++) {
		a.comp_mask = i == 0 ? 0 : IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
		a.alloc = i == 1 ? NULL : give, a.free = i == 2 ? NULL : take_back;
		must((given.pd = ibv_alloc_parent_domain(r.ctx, &a)) != NULL);
		struct ibv_qp *q = new_qp(&r, IBV_QPT_RC, NULL, 4);
		must(q != NULL && given.calls == 0 && ibv_destroy_qp(q) == 0 && ibv_dealloc_pd(given.pd) == 0);
	}
	a.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
	a.alloc = give, a.free = take_back;
	must((given.pd = ibv_alloc_parent_domain(r.ctx, &a)) != NULL);
	rooms_of_pairs(&r);
	rooms_of_others(&r);
	begin(0, 0, 0);
	must(ibv_dealloc_pd(given.pd) == 0);
	// The functions are not called for a queue that is left when its context closes.
	struct ibv_context *c = ibv_open_device(r.ctx->device);
	struct ibv_pd *pd = ibv_alloc_pd(c);
	must((a.pd = pd) != NULL && (given.pd = ibv_alloc_parent_domain(c, &a)) != NULL);
	struct ibv_cq *cq = ibv_create_cq(c, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr qa = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {4, 4, 1, 1, 0}};
	struct ibv_qp *left = ibv_create_qp(given.pd, &qa);
	must(left != NULL && ibv_close_device(c) == 0 && given.live == 2);
	must(ibv_destroy_qp(left) == 0 && given.live == 2);
	given.live = 0;
	recording_close(&r);
}

static struct ibv_xrcd *open_domain(struct ibv_context *c, int fd, int oflags)
{
	struct ibv_xrcd_init_attr a = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = fd, .oflags = oflags};
	return ibv_open_xrcd(c, &a);
}

static void extended(void)
{
	struct recording r = {0};
	struct stat file;
	char name[RECORDED_TEXT];
	recording_open(&r);
	int fd = memfd_create("domain", MFD_CLOEXEC);
	must(fd >= 0 && fstat(fd, &file) == 0);
	snprintf(name, sizeof name, "%llx/%llx", (unsigned long long)file.st_dev, (unsigned long long)file.st_ino);
	must(open_domain(r.ctx, fd, 0) == NULL && errno == EAGAIN);
	SAME(rec->domains, rec->domains_closed); // the library has closed the engine's domain at once
	unsigned before = rec->domains;
	struct ibv_xrcd *x = open_domain(r.ctx, fd, O_CREAT), *again = open_domain(r.ctx, fd, 0), *alone;
	must(x != NULL && again != NULL && strcmp(rec->file, name) == 0 && rec->file_descriptor == fd && rec->domains == before + 1);
	must((alone = open_domain(r.ctx, -1, O_CREAT)) != NULL && strcmp(rec->file, "") == 0 && rec->domains == before + 2);

	struct ibv_srq_init_attr_ex a = {
		.attr = {.max_wr = 5, .max_sge = 2}, .srq_type = IBV_SRQT_XRC, .pd = r.pd, .xrcd = x, .cq = r.cq,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	};
	struct ibv_srq *s = ibv_create_srq_ex(r.ctx, &a);
	uint32_t number = 0;
	must(s != NULL && ibv_get_srq_num(s, &number) == 0 && rec->srq.xrcd != 0 && rec->srq.cq == rec->cq.handle && rec->srq.max_wr == 5);
	SAME(number, 0x789);
	handle_t domain = rec->srq.xrcd;
	struct ibv_qp_init_attr_ex qa = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = again};
	struct ibv_qp *q = ibv_create_qp_ex(r.ctx, &qa);
	must(q != NULL && q->qp_num == 0x456 && rec->in == domain && rec->target.qpn == 0 && rec->target.type == IBV_QPT_XRC_RECV);
	struct ibv_qp_open_attr oa = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE | IBV_QP_OPEN_ATTR_CONTEXT, .qp_num = 0x456, .xrcd = x,
		.qp_type = IBV_QPT_XRC_RECV, .qp_context = &oa,
	};
	struct ibv_qp *q2 = ibv_open_qp(r.ctx, &oa);
	must(q2 != NULL && q2->qp_context == &oa && rec->target.qpn == 0x456 && rec->in == domain);
	oa.comp_mask &= ~(unsigned)IBV_QP_OPEN_ATTR_CONTEXT;
	struct ibv_qp *q3 = ibv_open_qp(r.ctx, &oa);
	must(q3 != NULL && q3->qp_context == NULL && ibv_destroy_qp(q3) == 0);

	// Calls that fail in the engine leave nothing behind.
	rec->code = EMFILE;
	must(ibv_open_qp(r.ctx, &oa) == NULL && errno == EMFILE && ibv_create_qp_ex(r.ctx, &qa) == NULL && errno == EMFILE);
	must(ibv_create_srq_ex(r.ctx, &a) == NULL && errno == EMFILE && open_domain(r.ctx, -1, O_CREAT) == NULL && errno == EMFILE);
	must(ibv_close_xrcd(alone) == EMFILE);
	rec->code = 0;
	must(ibv_close_xrcd(x) == EBUSY && ibv_close_xrcd(again) == EBUSY);
	must(ibv_destroy_qp(q2) == 0 && ibv_close_xrcd(x) == EBUSY && ibv_destroy_srq(s) == 0);
	unsigned closed = rec->domains_closed;
	must(ibv_close_xrcd(x) == 0 && rec->domains_closed == closed && ibv_destroy_qp(q) == 0); // one opening is left
	must(ibv_close_xrcd(again) == 0 && rec->domains_closed == closed + 1 && rec->in == domain);
	must(ibv_close_xrcd(alone) == 0 && rec->domains_closed == closed + 2);
	close(fd);
	recording_close(&r);
}

const struct scenario recorded_domains[] = {{"recorded-rooms", rooms}, {"recorded-xrc", extended}, {NULL, NULL}};

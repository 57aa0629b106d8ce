// Refused calls: printing the lines, and the cases that concern devices, domains, memory,
// addresses, and operations that the adapter does not provide.
#define _GNU_SOURCE
#include "refusals.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>

enum { WATCHED = 8, POISON = 0xa5 };

static struct {
	const void *now;
	void *before;
	size_t size;
} watched[WATCHED];
static int watching;
static struct ibv_context *raised;

void watch(void *p, size_t size)
{
	must(watching < WATCHED);
	void *copy = malloc(size);
	must(copy != NULL);
	memcpy(copy, p, size);
	watched[watching].now = p, watched[watching].before = copy, watched[watching++].size = size;
}

void poison(void *p, size_t size)
{
	memset(p, POISON, size);
	watch(p, size);
}

// unchanged reports whether the watched memory is unchanged, and stops watching it.
static bool unchanged(void)
{
	bool same = true;
	for (int i = 0; i < watching; i++) {
		same = same && memcmp(watched[i].now, watched[i].before, watched[i].size) == 0;
		free(watched[i].before);
	}
	watching = 0;
	return same;
}

void event_of(struct ibv_context *c) { raised = c; }

static const char *event_name(void)
{
	if (raised == NULL)
		return "none";
	struct pollfd p = {raised->async_fd, POLLIN, 0};
	struct ibv_async_event e;
	must(poll(&p, 1, 10000) == 1 && ibv_get_async_event(raised, &e) == 0);
	ibv_ack_async_event(&e);
	raised = NULL;
	return ibv_event_type_str(e.event_type);
}

static void line(const char *function, const char *condition, const char *returned, int error)
{
	const char *name = error == UNTOUCHED ? "kept" : strerrorname_np(error);
	printf("%s\t%s\t%s%s\t%s\t%s\n", function, condition, returned, unchanged() ? "" : " and writes", name, event_name());
}

void said_code(const char *function, const char *condition, int code, int error)
{
	char text[64];
	const char *name = strerrorname_np(code < 0 ? -code : code);
	snprintf(text, sizeof text, "%s%s", code < 0 ? "-" : "", name);
	line(function, condition, code == 0 ? "0" : text, error);
}

void said_pointer(const char *function, const char *condition, const void *p, int error)
{
	line(function, condition, p == NULL ? "NULL" : "a pointer", error);
}

void said_number(const char *function, const char *condition, long n, int error)
{
	char text[32];
	snprintf(text, sizeof text, "%ld", n);
	line(function, condition, text, error);
}

static void refuse_ports(struct rig *r)
{
	struct ibv_port_attr p;
	union ibv_gid gid;
	struct ibv_gid_entry e, few[1];
	__be16 pkey;
	poison(&p, sizeof p);
	CODE_OF("ibv_query_port", "port 0", ibv_query_port(r->ctx, 0, &p));
	memset(&p, 0, sizeof p);
	CODE_OF("ibv_query_port", "port 2 of 1", ibv_query_port(r->ctx, 2, &p));
	poison(&gid, sizeof gid);
	NUMBER_OF("ibv_query_gid", "port 2 of 1", ibv_query_gid(r->ctx, 2, 0, &gid));
	NUMBER_OF("ibv_query_gid", "index -1", ibv_query_gid(r->ctx, 1, -1, &gid));
	poison(&gid, sizeof gid);
	NUMBER_OF("ibv_query_gid", "an index beyond the table", ibv_query_gid(r->ctx, 1, 4000, &gid));
	poison(&e, sizeof e);
	CODE_OF("_ibv_query_gid_ex", "port 2 of 1", ibv_query_gid_ex(r->ctx, 2, 0, &e, 0));
	CODE_OF("_ibv_query_gid_ex", "an index beyond the table", ibv_query_gid_ex(r->ctx, 1, 4000, &e, 0));
	poison(&e, sizeof e);
	CODE_OF("_ibv_query_gid_ex", "an unknown flag", ibv_query_gid_ex(r->ctx, 1, 0, &e, 1));
	poison(few, sizeof few);
	CODE_OF("_ibv_query_gid_table", "an unknown flag", (int)ibv_query_gid_table(r->ctx, few, 1, 1));
	CODE_OF("_ibv_query_gid_table", "no room", (int)ibv_query_gid_table(r->ctx, few, 0, 0));
	poison(&pkey, sizeof pkey);
	NUMBER_OF("ibv_query_pkey", "port 2 of 1", ibv_query_pkey(r->ctx, 2, 0, &pkey));
	NUMBER_OF("ibv_query_pkey", "index -1", ibv_query_pkey(r->ctx, 1, -1, &pkey));
	poison(&pkey, sizeof pkey);
	NUMBER_OF("ibv_query_pkey", "an index beyond the table", ibv_query_pkey(r->ctx, 1, 4000, &pkey));
	NUMBER_OF("ibv_get_pkey_index", "a P_Key that the table does not have", ibv_get_pkey_index(r->ctx, 1, 0x1234));
	NUMBER_OF("ibv_get_pkey_index", "port 2 of 1", ibv_get_pkey_index(r->ctx, 2, 0xffff));
}

// The second adapter of the program has the last address of SOFTHCA_ADDR.
static void refuse_open(void)
{
	const char *addr = strrchr(getenv("SOFTHCA_ADDR"), ';');
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(4791)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), n;
	must(addr != NULL && inet_pton(AF_INET, addr + 1, &at.sin_addr) == 1 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0);
	struct ibv_device **list = ibv_get_device_list(&n);
	must(n == 2);
	NULL_OF("ibv_open_device", "another program has the address", ibv_open_device(list[1]));
	ibv_free_device_list(list);
	close(fd);
}

// An imported region cannot be deregistered, nor imported device memory freed.
static void refuse_imported(struct rig *r)
{
	struct ibv_dm *d = ibv_alloc_dm(r->ctx, &(struct ibv_alloc_dm_attr){.length = 64}), *d2;
	struct ibv_mr *m = ibv_import_mr(r->pd, r->mr[0]->handle);
	must(d != NULL && m != NULL && (d2 = ibv_import_dm(r->ctx, d->handle)) != NULL);
	CODE_OF("ibv_dereg_mr", "an imported region", ibv_dereg_mr(m));
	CODE_OF("ibv_free_dm", "imported memory", ibv_free_dm(d2));
	ibv_unimport_mr(m);
	ibv_unimport_dm(d2);
	must(ibv_free_dm(d) == 0);
}

void refuse_devices(struct rig *r)
{
	struct ibv_query_device_ex_input in = {.comp_mask = 1};
	struct ibv_device_attr_ex dx;
	struct ibv_values_ex v = {.comp_mask = 1u << 31};
	int null = open("/dev/null", O_RDONLY), file = open("/proc/self/exe", O_RDONLY);
	refuse_open();
	poison(&dx, sizeof dx);
	CODE_OF("ibv_query_device_ex", "an unknown bit of comp_mask", ibv_query_device_ex(r->ctx, &in, &dx));
	watch(&v, sizeof v);
	CODE_OF("ibv_query_rt_values_ex", "an unknown bit of comp_mask", ibv_query_rt_values_ex(r->ctx, &v));
	refuse_ports(r);
	NULL_OF("ibv_import_device", "a descriptor that is not open", ibv_import_device(-1));
	NULL_OF("ibv_import_device", "another character device", ibv_import_device(null));
	NULL_OF("ibv_import_device", "a file", ibv_import_device(file));
	NULL_OF("ibv_import_pd", "an unknown handle", ibv_import_pd(r->ctx, 0xfffff));
	NULL_OF("ibv_import_mr", "an unknown handle", ibv_import_mr(r->pd, 0xfffff));
	NULL_OF("ibv_import_dm", "an unknown handle", ibv_import_dm(r->ctx, 0xfffff));
	refuse_imported(r);
	close(null);
	close(file);
}

static void *no_memory(struct ibv_pd *pd, void *context, size_t size, size_t alignment, uint64_t type)
{
	(void)pd, (void)context, (void)size, (void)alignment, (void)type;
	return NULL;
}

static void no_free(struct ibv_pd *pd, void *context, void *at, uint64_t type)
{
	(void)pd, (void)context, (void)at, (void)type;
	abort(); // nothing was allocated
}

// refuse_rooms creates queues for which the program's function returns no memory.
static void refuse_rooms(struct rig *r)
{
	static const char condition[] = "the parent domain has no memory for it";
	struct ibv_parent_domain_init_attr pa = {.pd = r->pd, .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS, .alloc = no_memory, .free = no_free};
	struct ibv_pd *pd = ibv_alloc_parent_domain(r->ctx, &pa);
	must(pd != NULL);
	struct ibv_srq_init_attr sa = {.attr = {1, 1, 0}};
	struct ibv_cq_init_attr_ex ca = {.cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = pd};
	struct ibv_qp_init_attr qa = {.send_cq = r->cq[0], .recv_cq = r->cq[0], .qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
	NULL_OF("ibv_create_srq", condition, ibv_create_srq(pd, &sa));
	NULL_OF("ibv_create_cq_ex", condition, ibv_create_cq_ex(r->ctx, &ca));
	NULL_OF("ibv_create_qp", condition, ibv_create_qp(pd, &qa));
	must(ibv_dealloc_pd(pd) == 0);
}

void refuse_domains(struct rig *r)
{
	struct ibv_td_init_attr ta = {.comp_mask = 1};
	struct ibv_parent_domain_init_attr pa = {.comp_mask = 1u << 31};
	NULL_OF("ibv_alloc_td", "an unknown bit of comp_mask", ibv_alloc_td(r->ctx, &ta));
	ta.comp_mask = 0;
	struct ibv_td *td = ibv_alloc_td(r->ctx, &ta);
	struct ibv_pd *pd = ibv_alloc_pd(r->ctx);
	must(td != NULL && pd != NULL);
	NULL_OF("ibv_alloc_parent_domain", "no protection domain", ibv_alloc_parent_domain(r->ctx, &(struct ibv_parent_domain_init_attr){.td = td}));
	pa.pd = pd;
	NULL_OF("ibv_alloc_parent_domain", "an unknown bit of comp_mask", ibv_alloc_parent_domain(r->ctx, &pa));
	pa = (struct ibv_parent_domain_init_attr){.pd = pd, .td = td};
	struct ibv_pd *parent = ibv_alloc_parent_domain(r->ctx, &pa);
	must(parent != NULL);
	CODE_OF("ibv_dealloc_td", "a parent domain uses it", ibv_dealloc_td(td));
	CODE_OF("ibv_dealloc_pd", "a parent domain uses it", ibv_dealloc_pd(pd));
	must(ibv_dealloc_pd(parent) == 0 && ibv_dealloc_td(td) == 0);
	static char buf[64];
	struct ibv_mr *mr = ibv_reg_mr(pd, buf, sizeof buf, 0);
	must(mr != NULL);
	CODE_OF("ibv_dealloc_pd", "a memory region is in it", ibv_dealloc_pd(pd));
	must(ibv_dereg_mr(mr) == 0);
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &sa);
	must(srq != NULL);
	CODE_OF("ibv_dealloc_pd", "an SRQ is in it", ibv_dealloc_pd(pd));
	must(ibv_destroy_srq(srq) == 0);
	struct ibv_ah_attr aa = to_self(r->ctx);
	struct ibv_ah *ah = ibv_create_ah(pd, &aa);
	must(ah != NULL);
	CODE_OF("ibv_dealloc_pd", "an address handle is in it", ibv_dealloc_pd(pd));
	must(ibv_destroy_ah(ah) == 0 && ibv_dealloc_pd(pd) == 0);
	CODE_OF("ibv_dealloc_pd", "a queue pair is in it", ibv_dealloc_pd(r->pd));
	refuse_rooms(r);
}

// The functions that register memory differ only in their addresses, so most conditions are
// tried with ibv_reg_mr alone.
static void refuse_reg(struct rig *r)
{
	enum { PAGE = 4096, UNKNOWN = 1 << 30 };
	char *hole = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *const buf = r->buf[0];
	char *ro = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(hole != MAP_FAILED && ro != MAP_FAILED);
	struct ibv_mr *none;
	NULL_OF("ibv_reg_mr", "0 bytes", none = ibv_reg_mr(r->pd, ro, 0, 0));
	must(ibv_dereg_mr(none) == 0);
	NULL_OF("ibv_reg_mr", "memory that is not mapped", ibv_reg_mr(r->pd, hole, PAGE, 0));
	NULL_OF("ibv_reg_mr", "IBV_ACCESS_LOCAL_WRITE of memory that is read-only", ibv_reg_mr(r->pd, ro, PAGE, IBV_ACCESS_LOCAL_WRITE));
	NULL_OF("ibv_reg_mr", "IBV_ACCESS_REMOTE_WRITE without IBV_ACCESS_LOCAL_WRITE", ibv_reg_mr(r->pd, buf, PAGE, IBV_ACCESS_REMOTE_WRITE));
	NULL_OF("ibv_reg_mr", "IBV_ACCESS_REMOTE_ATOMIC without IBV_ACCESS_LOCAL_WRITE", ibv_reg_mr(r->pd, buf, PAGE, IBV_ACCESS_REMOTE_ATOMIC));
	NULL_OF("ibv_reg_mr", "an unknown access right", ibv_reg_mr(r->pd, buf, PAGE, UNKNOWN));
	NULL_OF("ibv_reg_mr", "IBV_ACCESS_ON_DEMAND of memory that is not mapped", none = ibv_reg_mr(r->pd, hole, PAGE, IBV_ACCESS_ON_DEMAND));
	must(ibv_dereg_mr(none) == 0);
	NULL_OF("ibv_reg_mr", "the address space without IBV_ACCESS_ON_DEMAND", ibv_reg_mr(r->pd, NULL, SIZE_MAX, 0));
	NULL_OF("ibv_reg_mr", "a length beyond the address space", ibv_reg_mr(r->pd, buf, SIZE_MAX - PAGE, 0));
	NULL_OF("ibv_reg_mr_iova", "memory that is not mapped", ibv_reg_mr_iova(r->pd, hole, PAGE, 0, 0));
	NULL_OF("ibv_reg_mr_iova", "an address and an IOVA with different offsets in a page",
		none = ibv_reg_mr_iova(r->pd, buf, PAGE, (uintptr_t)buf + 1, 0));
	must(ibv_dereg_mr(none) == 0);
	NULL_OF("ibv_reg_mr_iova2", "an unknown access right", ibv_reg_mr_iova2(r->pd, buf, PAGE, 0, UNKNOWN));
	NULL_OF("ibv_reg_mr_iova2", "the address space at another address", ibv_reg_mr_iova2(r->pd, NULL, SIZE_MAX, PAGE, IBV_ACCESS_ON_DEMAND));
	must(munmap(hole, PAGE) == 0 && munmap(ro, PAGE) == 0);
}

void refuse_memory(struct rig *r)
{
	enum { TRANSLATION = IBV_REREG_MR_CHANGE_TRANSLATION, ACCESS = IBV_REREG_MR_CHANGE_ACCESS, PD = IBV_REREG_MR_CHANGE_PD, PAGE = 4096 };
	static const char f[] = "ibv_rereg_mr";
	struct ibv_mr *m = r->mr[0];
	void *hole = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(hole != MAP_FAILED);
	refuse_reg(r);
	watch(m, sizeof *m);
	NUMBER_OF(f, "no flag", ibv_rereg_mr(m, 0, NULL, NULL, 0, 0));
	NUMBER_OF(f, "an unknown flag", ibv_rereg_mr(m, 1 << 30, NULL, NULL, 0, 0));
	NUMBER_OF(f, "IBV_REREG_MR_CHANGE_TRANSLATION without an address", ibv_rereg_mr(m, TRANSLATION, NULL, NULL, PAGE, 0));
	NUMBER_OF(f, "IBV_REREG_MR_CHANGE_TRANSLATION without a length", ibv_rereg_mr(m, TRANSLATION, NULL, r->buf[1], 0, 0));
	NUMBER_OF(f, "access rights without IBV_REREG_MR_CHANGE_ACCESS", ibv_rereg_mr(m, TRANSLATION, NULL, r->buf[1], PAGE, IBV_ACCESS_LOCAL_WRITE));
	NUMBER_OF(f, "IBV_REREG_MR_CHANGE_PD without a protection domain", ibv_rereg_mr(m, PD, NULL, NULL, 0, 0));
	watch(m, sizeof *m);
	NUMBER_OF(f, "memory that is not mapped", ibv_rereg_mr(m, TRANSLATION, NULL, hole, PAGE, 0));
	watch(m, sizeof *m);
	NUMBER_OF(f, "IBV_ACCESS_REMOTE_WRITE without IBV_ACCESS_LOCAL_WRITE", ibv_rereg_mr(m, ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE));
	must(munmap(hole, PAGE) == 0 && post(r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
	want(r->cq[0], IBV_WC_SUCCESS); // the region is unchanged
}

static void refuse_wc(struct rig *r)
{
	static const char f[] = "ibv_init_ah_from_wc";
	struct ibv_wc wc = {.wc_flags = 0};
	struct ibv_ah_attr out;
	struct ibv_grh grh = {0};
	uint8_t *ipv4 = (uint8_t *)&grh + 20;
	union ibv_gid gid;
	must(ibv_query_gid(r->ctx, 1, 0, &gid) == 0);
	NUMBER_OF(f, "no GRH", ibv_init_ah_from_wc(r->ctx, 1, &wc, &grh, &out));
	NULL_OF("ibv_create_ah_from_wc", "no GRH", ibv_create_ah_from_wc(r->pd, &wc, &grh, 1));
	wc.wc_flags = IBV_WC_GRH;
	NUMBER_OF(f, "neither an IPv4 nor an IPv6 header", ibv_init_ah_from_wc(r->ctx, 1, &wc, &grh, &out));
	NULL_OF("ibv_create_ah_from_wc", "neither an IPv4 nor an IPv6 header", ibv_create_ah_from_wc(r->pd, &wc, &grh, 1));
	memcpy(ipv4, (uint8_t[]){0x45, [12] = 127, 0, 0, 1, 239, 1, 2, 3}, 20);
	NUMBER_OF(f, "a message to a multicast group", ibv_init_ah_from_wc(r->ctx, 1, &wc, &grh, &out));
	memcpy(ipv4 + 16, (uint8_t[]){192, 0, 2, 1}, 4);
	NUMBER_OF(f, "a message to an address that is not the adapter's", ibv_init_ah_from_wc(r->ctx, 1, &wc, &grh, &out));
	memcpy(ipv4 + 16, gid.raw + 12, 4);
	NUMBER_OF(f, "port 2 of 1", ibv_init_ah_from_wc(r->ctx, 2, &wc, &grh, &out));
}

void refuse_addresses(struct rig *r)
{
	static const char f[] = "ibv_create_ah";
	const struct ibv_ah_attr good = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}};
	struct ibv_ah_attr a = good;
	uint8_t mac[6];
	uint16_t vid;
	NULL_OF(f, "no destination GID", ibv_create_ah(r->pd, &a));
	must(ibv_query_gid(r->ctx, 1, 0, &a.grh.dgid) == 0);
	a.is_global = 0;
	NULL_OF(f, "is_global 0", ibv_create_ah(r->pd, &a));
	a.is_global = 1, a.port_num = 2;
	NULL_OF(f, "port 2 of 1", ibv_create_ah(r->pd, &a));
	a.port_num = 1, a.grh.sgid_index = 200;
	NULL_OF(f, "a source GID beyond the table", ibv_create_ah(r->pd, &a));
	a.grh.sgid_index = 0, a.static_rate = 63;
	NULL_OF(f, "an undefined static rate", ibv_create_ah(r->pd, &a));
	a.static_rate = 0, a.grh.hop_limit = 0;
	NULL_OF(f, "hop limit 0", ibv_create_ah(r->pd, &a));
	a.grh.hop_limit = 64, a.grh.dgid.raw[10] = 0;
	NULL_OF(f, "an IPv6 destination from an IPv4 source", ibv_create_ah(r->pd, &a));
	poison(mac, sizeof mac);
	poison(&vid, sizeof vid);
	CODE_OF("ibv_resolve_eth_l2_from_gid", "always", ibv_resolve_eth_l2_from_gid(r->ctx, &a, mac, &vid));
	refuse_wc(r);
}

// Inline functions of the header that call an operation which the context does not provide.
void refuse_unprovided(struct rig *r)
{
	struct ibv_ops_wr op = {0}, *bad = NULL;
	static const char always[] = "always";
	NULL_OF("ibv_create_wq", always, ibv_create_wq(r->ctx, &(struct ibv_wq_init_attr){.pd = r->pd}));
	NULL_OF("ibv_create_flow", always, ibv_create_flow(r->qp[0], &(struct ibv_flow_attr){.port = 1}));
	NULL_OF("ibv_create_counters", always, ibv_create_counters(r->ctx, &(struct ibv_counters_init_attr){0}));
	NULL_OF("ibv_create_rwq_ind_table", always, ibv_create_rwq_ind_table(r->ctx, &(struct ibv_rwq_ind_table_init_attr){0}));
	NULL_OF("ibv_create_flow_action_esp", always, ibv_create_flow_action_esp(r->ctx, &(struct ibv_flow_action_esp_attr){0}));
	CODE_OF("ibv_post_srq_ops", always, ibv_post_srq_ops(r->srq, &op, &bad));
	must(bad == &op);
}

// The first event that the program reads is that of the last call: no refused call raised
// one.
static void no_events(struct rig *r)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
	struct ibv_async_event e;
	must(ibv_modify_qp(r->qp[1], &a, IBV_QP_STATE) == 0 && ibv_get_async_event(r->ctx, &e) == 0);
	must(e.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && e.element.qp == r->qp[1]);
	ibv_ack_async_event(&e);
}

static void refused(void)
{
	static void (*const cases[])(struct rig *) = {
		refuse_devices, refuse_domains, refuse_memory, refuse_windows, refuse_addresses, refuse_srqs, refuse_cqs, refuse_events, refuse_qps,
		refuse_moves, refuse_groups, refuse_posts, refuse_builders, refuse_xrc, refuse_unprovided, refuse_later, refuse_device_memory,
	};
	struct rig r = {.shared = true};
	setlinebuf(stdout); // a crash must not lose the lines before it
	rig_open(&r, IBV_QPT_RC);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		cases[i](&r);
	no_events(&r);
	rig_close(&r);
}

const struct scenario refusing[] = {{"refused", refused}, {NULL, NULL}};

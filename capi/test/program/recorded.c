// Each argument that the library passes to the engine, and each value that the engine
// returns.
#define _GNU_SOURCE
#include "recorded.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <endian.h>
#include <sys/mman.h>
#include <sys/wait.h>

// A function that the header does not declare.
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

struct recorder *rec;

// find_recorder finds the recorder. The file is loaded here, before the library loads it.
void find_recorder(void)
{
	void *so = dlopen(getenv("SOFTHCA_ENGINE"), RTLD_NOW);
	must(so != NULL && (rec = dlsym(so, "recorder")) != NULL);
}

void recording_open(struct recording *r)
{
	find_recorder();
	r->ctx = open_first();
	must((r->pd = ibv_alloc_pd(r->ctx)) != NULL);
	must((r->channel = ibv_create_comp_channel(r->ctx)) != NULL);
	must((r->srq = ibv_create_srq(r->pd, &(struct ibv_srq_init_attr){.attr = {.max_wr = DEPTH, .max_sge = 2}})) != NULL);
	struct ibv_cq_init_attr_ex ca = {
		.cqe = DEPTH, .cq_context = r, .channel = r->channel,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
	};
	must((r->cq = ibv_cq_ex_to_cq(ibv_create_cq_ex(r->ctx, &ca))) != NULL);
	struct ibv_qp_init_attr_ex a = {
		.send_cq = r->cq, .recv_cq = r->cq, .srq = r->srq, .qp_type = IBV_QPT_RC, .pd = r->pd, .sq_sig_all = 1,
		.cap = {DEPTH, 21, 2, 22, 64}, .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_BIND_MW |
				  IBV_QP_EX_WITH_LOCAL_INV,
	};
	must((r->with_srq = ibv_create_qp_ex(r->ctx, &a)) != NULL);
	SAME(rec->qp.cap.recv_wr, 0); // the SRQ has the receives
	SAME(rec->qp.cap.recv_sge, 0);
	SAME(rec->qp.srq != 0, true);
	SAME(rec->qp.sig_all, 1);
	a.srq = NULL, a.sq_sig_all = 0, a.cap.max_recv_wr = DEPTH, a.cap.max_recv_sge = 2;
	must((r->qp = ibv_create_qp_ex(r->ctx, &a)) != NULL && (r->ex = ibv_qp_to_qp_ex(r->qp)) != NULL);
	SAME(rec->qp.sig_all, 0);
	SAME(rec->qp.srq, 0);
	SAME(rec->qp.type, IBV_QPT_RC);
	must(rec->qp.send_cq == rec->cq.handle && rec->qp.recv_cq == rec->cq.handle && rec->qp.object == r->qp);
	must(ibv_modify_qp(r->qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_RTS}, IBV_QP_STATE) == 0);
}

void recording_close(struct recording *r)
{
	must(ibv_destroy_qp(r->qp) == 0 && ibv_destroy_qp(r->with_srq) == 0);
	SAME(rec->detach, 0);
	must(ibv_destroy_cq(r->cq) == 0 && ibv_destroy_comp_channel(r->channel) == 0);
	must(ibv_destroy_srq(r->srq) == 0 && ibv_dealloc_pd(r->pd) == 0 && ibv_close_device(r->ctx) == 0);
}

static void is(const char *name, const char *got, const char *want)
{
	if (strcmp(got, want) == 0)
		return;
	fprintf(stderr, "%s is \"%s\", want \"%s\"\n", name, got, want);
	exit(1);
}

// config sets all variables of the environment that the library passes on.
static void config(void)
{
	static const char *const set[][2] = {
		{"SOFTHCA_ADDR", "an address"}, {"SOFTHCA_CAPTURE", "a capture"},
		{"SOFTHCA_LOG_LEVEL", "a level"}, {"SOFTHCA_LOG_FORMAT", "a format"}, {"SOFTHCA_FATAL_EVENTS", "1"}, {"SOFTHCA_SYSFS", "an image"}, {"SOFTHCA_GUID", "a GUID"},
		{"SOFTHCA_FAULTS", "faults"}, {"SOFTHCA_FAULTS_SEED", "a seed"}, {"SOFTHCA_WIRE", "a wire"}, {"SOFTHCA_NASTY", "a text"}, {"HOME", "/home/me"},
	};
	find_recorder();
	unsetenv("XDG_CONFIG_HOME");
	for (size_t i = 0; i < sizeof set / sizeof *set; i++)
		setenv(set[i][0], set[i][1], 1);
	struct ibv_context *c = open_first();
	const struct recorded *t = &rec->text;
	is("addr", t->addr, "an address");
	is("capture", t->capture, "a capture");
	is("log_level", t->log_level, "a level");
	is("log_format", t->log_format, "a format");
	is("sysfs", t->sysfs, "an image");
	is("guid", t->guid, "a GUID");
	is("faults", t->faults, "faults");
	is("faults_seed", t->faults_seed, "a seed");
	is("wire", t->wire, "a wire");
	is("nasty", t->nasty, "a text");
	is("config_dir", t->config_dir, "/home/me/.config");
	SAME(rec->config.fatal_events, 1);
	SAME(rec->config.adapter, 0);
	must(ibv_close_device(c) == 0);
	setenv("XDG_CONFIG_HOME", "/xdg", 1);
	must((c = open_first()) != NULL && ibv_close_device(c) == 0);
	is("config_dir", t->config_dir, "/xdg");
	setenv("XDG_CONFIG_HOME", "not absolute", 1);
	must((c = open_first()) != NULL && ibv_close_device(c) == 0);
	is("config_dir", t->config_dir, "");
}

// in_child runs f in a child process and returns its result.
static int in_child(int (*f)(void))
{
	pid_t pid = begin_child();
	if (pid == 0)
		_exit(f());
	return exit_code(pid);
}

static int one_adapter(void)
{
	int n = 0;
	setenv("SOFTHCA_ADDR", "one", 1);
	return ibv_get_device_list(&n) == NULL || n != 1;
}

// The table of adapters is full with 16 of them: more addresses are ignored.
static void table(void)
{
	enum { ADAPTERS = 16 };
	char name[64];
	int n = 0;
	setenv("SOFTHCA_ADDR", "a0;a1;a2;a3;a4;a5;a6;a7;a8;a9;a10;a11;a12;a13;a14;a15;a16;a17", 1);
	find_recorder();
	struct ibv_device **list = ibv_get_device_list(&n);
	SAME(n, ADAPTERS);
	SAME(in_child(one_adapter), 0); // a child that has changed its environment
	must(list[n] == NULL);
	snprintf(name, sizeof name, "softhca%d", ADAPTERS - 1);
	is("the name of the last adapter", ibv_get_device_name(list[ADAPTERS - 1]), name);
	struct ibv_context *c = ibv_open_device(list[ADAPTERS - 1]);
	must(c != NULL);
	is("addr", rec->text.addr, "a15");
	SAME(rec->config.adapter, ADAPTERS - 1);
	must(ibv_close_device(c) == 0);
	ibv_free_device_list(list);
}

// The attributes of a queue pair, each with its member in the structure of the engine.
#define QP_ATTRIBUTES(X) \
	X(qp_state, state) X(cur_qp_state, cur_state) X(path_mtu, path_mtu) X(path_mig_state, mig_state) \
	X(qkey, qkey) X(rq_psn, rq_psn) X(sq_psn, sq_psn) X(dest_qp_num, dest_qpn) \
	X(qp_access_flags, access) X(rate_limit, rate_limit) X(pkey_index, pkey_index) \
	X(alt_pkey_index, alt_pkey_index) X(en_sqd_async_notify, sqd_notify) \
	X(max_rd_atomic, max_rd_atomic) X(max_dest_rd_atomic, max_dest_rd_atomic) \
	X(min_rnr_timer, min_rnr_timer) X(port_num, port) X(timeout, timeout) X(retry_cnt, retry_cnt) \
	X(rnr_retry, rnr_retry) X(alt_port_num, alt_port) X(alt_timeout, alt_timeout)

static void want_av(const struct softhca_av *v, const struct ibv_ah_attr *a)
{
	must(memcmp(v->dgid, a->grh.dgid.raw, sizeof v->dgid) == 0);
	SAME(v->flow_label, a->grh.flow_label);
	SAME(v->sgid_index, a->grh.sgid_index);
	SAME(v->hop_limit, a->grh.hop_limit);
	SAME(v->traffic_class, a->grh.traffic_class);
	SAME(v->sl, a->sl);
	SAME(v->static_rate, a->static_rate);
	SAME(v->port, a->port_num);
}

// ah returns the attributes of a path, in which no two fields have the same value.
static struct ibv_ah_attr ah(uint8_t from)
{
	struct ibv_ah_attr a = {
		.grh = {.flow_label = 0x12300u + from, .sgid_index = from + 1, .hop_limit = from + 2, .traffic_class = from + 3},
		.sl = from + 4, .static_rate = from + 5, .port_num = from + 6, .is_global = 1,
	};
	memset(&a.grh.dgid, from + 7, sizeof a.grh.dgid);
	return a;
}

static void modify(struct recording *r)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_SQD, .cur_qp_state = IBV_QPS_RTS, .path_mtu = IBV_MTU_2048, .path_mig_state = IBV_MIG_REARM, .qkey = 1001,
		.rq_psn = 1002, .sq_psn = 1003, .dest_qp_num = 1004, .qp_access_flags = 15, .ah_attr = ah(40), .alt_ah_attr = ah(60),
		.pkey_index = 1005, .alt_pkey_index = 1006, .en_sqd_async_notify = 1, .max_rd_atomic = 2, .max_dest_rd_atomic = 3, .min_rnr_timer = 4,
		.port_num = 5, .timeout = 6, .retry_cnt = 7, .rnr_retry = 8, .alt_port_num = 9, .alt_timeout = 10, .rate_limit = 1007,
	};
	int mask = (2 * IBV_QP_RATE_LIMIT - 1) & ~IBV_QP_CAP;
	must(ibv_modify_qp(r->qp, &a, mask) == 0);
	SAME(rec->mask, mask);
#define MODIFIED(of, field) SAME(rec->modified.field, a.of);
	QP_ATTRIBUTES(MODIFIED)
	want_av(&rec->modified.av, &a.ah_attr);
	want_av(&rec->modified.alt_av, &a.alt_ah_attr);
	must(ibv_modify_qp(r->qp, &a, IBV_QP_CAP) == EINVAL);
	must(ibv_modify_qp_rate_limit(r->qp, &(struct ibv_qp_rate_limit_attr){.rate_limit = 1008, .max_burst_sz = 1009}) == 0);
	SAME(rec->rate, 1008);
	SAME(rec->burst, 1009);
	struct ibv_ah *h = ibv_create_ah(r->pd, &a.ah_attr);
	must(h != NULL);
	want_av(&rec->av, &a.ah_attr);
	must(ibv_destroy_ah(h) == 0);
}

static void query(struct recording *r)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	memset(&a, 0xa5, sizeof a);
	rec->queried = (struct softhca_qp_attr){
		.state = 4, .cur_state = 4, .path_mtu = 3, .mig_state = 1, .qkey = 2001, .rq_psn = 2002, .sq_psn = 2003, .dest_qpn = 2004, .access = 7,
		.rate_limit = 2005, .pkey_index = 2006, .alt_pkey_index = 2007, .sqd_notify = 1, .sq_draining = 1, .max_rd_atomic = 12,
		.max_dest_rd_atomic = 13, .min_rnr_timer = 14, .port = 15, .timeout = 16, .retry_cnt = 17, .rnr_retry = 18, .alt_port = 19, .alt_timeout = 20,
		.av = {{1, 2, 3}, 21, 22, 23, 24, 25, 26, 27}, .alt_av = {{4, 5, 6}, 31, 32, 33, 34, 35, 36, 37},
	};
	must(ibv_query_qp(r->qp, &a, 2 * IBV_QP_RATE_LIMIT - 1, &init) == 0);
#define QUERIED(field, of) SAME(a.field, rec->queried.of);
	QP_ATTRIBUTES(QUERIED)
	SAME(a.sq_draining, rec->queried.sq_draining);
	want_av(&rec->queried.av, &a.ah_attr);
	want_av(&rec->queried.alt_av, &a.alt_ah_attr);
	must(a.ah_attr.is_global && a.alt_ah_attr.is_global && ibv_query_qp(r->qp, &a, 2 * IBV_QP_RATE_LIMIT, &init) == EOPNOTSUPP);
}

static void limits(struct recording *r)
{
	struct ibv_srq_attr a = {.srq_limit = 7};
	must(ibv_modify_srq(r->srq, &a, 0) == 0);
	SAME(rec->limit, 0); // without its flag the limit is not changed
	must(ibv_modify_srq(r->srq, &a, IBV_SRQ_LIMIT) == 0);
	SAME(rec->limit, 7);
	a.max_wr = 9, a.srq_limit = 8;
	must(ibv_modify_srq(r->srq, &a, IBV_SRQ_MAX_WR) == 0);
	SAME(rec->resized, 9);
	SAME(rec->limit, 7);
	must(ibv_modify_srq(r->srq, &a, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) == 0);
	SAME(rec->limit, 8);
	a.max_wr = 7;
	must(ibv_modify_srq(r->srq, &a, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) == EINVAL);
	SAME(rec->resized, 9); // a limit of more than the size
	struct ibv_modify_cq_attr m = {.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {10, 11}};
	must(ibv_modify_cq(r->cq, &m) == 0);
	SAME(rec->count, 10);
	SAME(rec->period, 11);
	m.attr_mask = 2;
	must(ibv_modify_cq(r->cq, &m) == EOPNOTSUPP && ibv_modify_cq(r->cq, &(struct ibv_modify_cq_attr){0}) == EINVAL);
	must(ibv_modify_cq(r->cq, &(struct ibv_modify_cq_attr){.attr_mask = IBV_CQ_ATTR_MODERATE}) == 0);
	rec->limit_is = 33;
	must(ibv_query_srq(r->srq, &a) == 0);
	SAME(a.max_wr, 31);
	SAME(a.max_sge, 32);
	SAME(a.srq_limit, 33);
	struct ibv_srq_init_attr_ex x = {.attr = {1, 1, 0}, .pd = r->pd, .comp_mask = IBV_SRQ_INIT_ATTR_PD | 1u << 30};
	errno = 0;
	must(ibv_create_srq_ex(r->ctx, &x) == NULL && errno == EOPNOTSUPP);
}

static void regions(struct recording *r)
{
	static char mem[4096];
	struct ibv_pd *other = ibv_alloc_pd(r->ctx);
	struct ibv_mr *m = ibv_reg_mr(r->pd, mem, 0, 0); // an empty region
	must(other != NULL && m != NULL && m->length == 0 && ibv_dereg_mr(m) == 0);
	must((m = ibv_reg_mr_iova2(r->pd, mem + 8, 100, 0x5000, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	SAME(rec->mr.addr, (uintptr_t)mem + 8);
	SAME(rec->mr.length, 100);
	SAME(rec->mr.iova, 0x5000);
	SAME(rec->mr.access, IBV_ACCESS_LOCAL_WRITE);
	SAME(rec->mr.memory, SOFTHCA_PROGRAM);
	SAME(m->lkey, 0x11);
	SAME(m->rkey, 0x22);
	int what = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD;
	must(ibv_rereg_mr(m, what, other, mem, 50, 0) == 0);
	SAME(rec->what, what);
	SAME(rec->mr.addr, (uintptr_t)mem);
	SAME(rec->mr.iova, (uintptr_t)mem);
	SAME(rec->mr.length, 50);
	SAME(m->lkey, 0x33);
	SAME(m->rkey, 0x44);
	must(m->pd == other && ibv_rereg_mr(m, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, mem, 0, 0) == IBV_REREG_MR_ERR_INPUT && errno == EINVAL);
	must(ibv_dereg_mr(m) == 0 && ibv_dealloc_pd(other) == 0);
	must(ibv_reg_mr(r->pd, (void *)(UINTPTR_MAX - 100), 1000, 0) == NULL && errno == EINVAL); // past the end of the address space
	must(ibv_reg_mr(r->pd, (void *)(UINTPTR_MAX - 100), 1000, IBV_ACCESS_ON_DEMAND) == NULL && errno == EINVAL);
	must((m = ibv_reg_mr(r->pd, NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND)) != NULL && ibv_dereg_mr(m) == 0);
	SAME(rec->mr.memory, SOFTHCA_IMPLICIT);
	must((m = ibv_alloc_null_mr(r->pd)) != NULL && ibv_dereg_mr(m) == 0);
	SAME(rec->mr.memory, SOFTHCA_NULL);
	SAME(rec->mr.access, IBV_ACCESS_LOCAL_WRITE);
}

static void device_memory(struct recording *r)
{
	char text[8] = "12345678";
	struct ibv_dm *d = ibv_alloc_dm(r->ctx, &(struct ibv_alloc_dm_attr){.length = 64, .log_align_req = 5});
	must(d != NULL && d->context == r->ctx && d->comp_mask == 0 && d->handle == (uint32_t)rec->dm.handle);
	SAME(rec->dm.length, 64);
	SAME(rec->dm.log_align, 5);
	must(ibv_memcpy_to_dm(d, 8, text, 8) == 0 && memcmp(rec->dm.memory + 8, text, 8) == 0);
	must(ibv_memcpy_from_dm(text, d, 12, 4) == 0 && memcmp(text, "56785678", 8) == 0);
	struct ibv_mr *m = ibv_reg_dm_mr(r->pd, d, 16, 32, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
	must(m != NULL && m->addr == NULL && m->length == 32);
	SAME(rec->mr.memory, SOFTHCA_DM);
	SAME(rec->mr.dm, rec->dm.handle);
	SAME(rec->mr.addr, 16);
	SAME(rec->mr.length, 32);
	must(ibv_dereg_mr(m) == 0 && ibv_free_dm(d) == 0);
	struct ibv_sge s[2] = {{0x1000, 10, 0x77}, {0x2000, 20, 0x88}};
	must(ibv_advise_mr(r->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, s, 2) == 0);
	SAME(rec->advice, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE);
	SAME(rec->advised, 2);
	SAME(rec->wait, 1);
	must(rec->first.addr == 0x1000 && rec->first.length == 10 && rec->first.lkey == 0x77);
	must(ibv_advise_mr(r->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, s, 1) == 0);
	SAME(rec->wait, 0);
}

// Memory that cannot be written is refused with each right to write it.
static void read_only(struct recording *r)
{
	static const int writes[] = {IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_MW_BIND};
	void *mem = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(mem != MAP_FAILED);
	for (size_t i = 0; i < sizeof writes / sizeof *writes; i++)
		must(ibv_reg_mr(r->pd, mem, 4096, writes[i]) == NULL && errno == EFAULT);
	struct ibv_mr *m = ibv_reg_mr(r->pd, mem, 4096, IBV_ACCESS_REMOTE_READ);
	must(m != NULL && ibv_dereg_mr(m) == 0 && munmap(mem, 4096) == 0);
	must(ibv_reg_mr(r->pd, mem, 4096, 0) == NULL && errno == EFAULT);
}

// A thread domain is in use as long as a parent domain has it.
static void thread_domains(struct recording *r)
{
	struct ibv_td *t = ibv_alloc_td(r->ctx, &(struct ibv_td_init_attr){0});
	must(t != NULL);
	struct ibv_pd *p = ibv_alloc_parent_domain(r->ctx, &(struct ibv_parent_domain_init_attr){.pd = r->pd, .td = t});
	must(p != NULL && ibv_dealloc_td(t) == EBUSY && ibv_dealloc_pd(r->pd) == EBUSY);
	must(ibv_dealloc_pd(p) == 0 && ibv_dealloc_td(t) == 0);
	struct ibv_qp_init_attr_ex a = {.send_cq = r->cq, .recv_cq = r->cq, .qp_type = IBV_QPT_RC};
	must(ibv_create_qp_ex(r->ctx, &a) == NULL && errno == EINVAL); // a queue pair without a domain
}

// A text that fills the buffer is not terminated.
static void read_file(void)
{
	char dir[] = "/tmp/recorded-XXXXXX", path[64], b[6];
	must(mkdtemp(dir) != NULL);
	snprintf(path, sizeof path, "%s/file", dir);
	FILE *f = fopen(path, "w");
	must(f != NULL && fputs("text", f) >= 0 && fclose(f) == 0);
	for (size_t size = 3; size < 6; size++) {
		memset(b, '#', sizeof b);
		SAME(ibv_read_sysfs_file(dir, "file", b, size), size < 4 ? size : 4);
		SAME(b[size], '#');
		SAME(b[4], size > 4 ? 0 : '#');
	}
	must(unlink(path) == 0 && rmdir(dir) == 0);
}

#define DEVICE(field, of) SAME(d.field, rec->adapter.of)

static void describe_device(struct recording *r)
{
	struct ibv_device_attr d;
	struct ibv_device_attr_ex x;
	memset(&d, 0xa5, sizeof d);
	must(ibv_query_device(r->ctx, &d) == 0 && ibv_query_device_ex(r->ctx, NULL, &x) == 0);
	SAME(be64toh(d.node_guid), rec->adapter.node_guid);
	DEVICE(max_qp, max_qp);
	DEVICE(max_qp_wr, max_qp_wr);
	DEVICE(max_sge, max_sge);
	DEVICE(max_sge_rd, max_sge);
	DEVICE(max_cq, max_cq);
	DEVICE(max_cqe, max_cqe);
	DEVICE(max_mr, max_mr);
	DEVICE(max_mw, max_mw);
	DEVICE(max_pd, max_pd);
	DEVICE(max_ah, max_ah);
	DEVICE(max_srq, max_srq);
	DEVICE(max_srq_wr, max_srq_wr);
	DEVICE(max_srq_sge, max_sge);
	DEVICE(max_qp_rd_atom, max_rd_atomic);
	DEVICE(max_qp_init_rd_atom, max_rd_atomic);
	DEVICE(max_mcast_grp, max_mcast_grp);
	DEVICE(max_mcast_qp_attach, max_mcast_qp_attach);
	DEVICE(max_total_mcast_qp_attach, max_total_mcast_qp_attach);
	DEVICE(max_pkeys, pkeys);
	SAME(d.local_ca_ack_delay, 15);
	SAME(d.device_cap_flags, IBV_DEVICE_AUTO_PATH_MIG | IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
					 IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_SRQ_RESIZE |
					 IBV_DEVICE_XRC);
	SAME(x.cq_mod_caps.max_cq_count, UINT16_MAX);
	SAME(x.cq_mod_caps.max_cq_period, 4095);
	SAME(x.max_dm_size, rec->adapter.max_dm_size);
	SAME(x.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	SAME(x.odp_caps.per_transport_caps.rc_odp_caps, 0xff);
	SAME(x.xrc_odp_caps, 0x3f);
	SAME(x.odp_caps.per_transport_caps.uc_odp_caps, 0x27);
	SAME(x.odp_caps.per_transport_caps.ud_odp_caps, 0x23);
	SAME(x.packet_pacing_caps.qp_rate_limit_min, 1);
	SAME(x.packet_pacing_caps.qp_rate_limit_max, 100000000);
}

static void describe_port(struct recording *r)
{
	struct ibv_port_attr p;
	must(ibv_query_port(r->ctx, 1, &p) == 0);
	SAME(p.state, IBV_PORT_ACTIVE);
	SAME(p.phys_state, 5);
	SAME(p.active_mtu, rec->adapter.active_mtu);
	SAME(p.gid_tbl_len, rec->adapter.gids);
	SAME(p.pkey_tbl_len, rec->adapter.pkeys);
	SAME(p.max_vl_num, 1);
	SAME(p.max_msg_sz, rec->adapter.max_msg_size);
	rec->adapter.port_state = IBV_PORT_DOWN;
	must(ibv_query_port(r->ctx, 1, &p) == 0);
	SAME(p.state, IBV_PORT_DOWN);
	SAME(p.phys_state, 3);
}

// tables reads the whole tables of GIDs and P_Keys, and one entry past their ends.
static void tables(struct recording *r)
{
	struct ibv_gid_entry all[3], e;
	union ibv_gid g;
	__be16 key;
	SAME(ibv_query_gid_table(r->ctx, all, 3, 0), 3); // a table that just fits
	SAME(ibv_query_gid_table(r->ctx, all, 2, 0), -EINVAL);
	for (uint32_t i = 0; i < 3; i++) {
		SAME(all[i].gid.raw[15], i + 1);
		SAME(all[i].gid_index, i);
		SAME(all[i].ndev_ifindex, rec->adapter.if_index);
		must(ibv_query_gid(r->ctx, 1, (int)i, &g) == 0 && ibv_query_gid_ex(r->ctx, 1, i, &e, 0) == 0);
		must(memcmp(&g, &all[i].gid, sizeof g) == 0 && memcmp(&e, &all[i], sizeof e) == 0);
	}
	SAME(ibv_query_gid_ex(r->ctx, 1, 3, &e, 0), EINVAL);
	SAME(ibv_query_gid_ex(r->ctx, 2, 0, &e, 0), EINVAL);
	SAME(ibv_query_gid(r->ctx, 1, 3, &g), -1);
	must(ibv_query_pkey(r->ctx, 1, 1, &key) == 0 && ntohs(key) == 0x8001);
	SAME(ibv_query_pkey(r->ctx, 1, 2, &key), -1);
	SAME(ibv_get_pkey_index(r->ctx, 1, htons(0x8001)), 1);
	SAME(ibv_get_pkey_index(r->ctx, 2, htons(0x8001)), -1);
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
	struct ibv_grh grh = {.version_tclass_flow = htonl(6u << 28), .dgid = {.raw = {[15] = 2}}};
	struct ibv_ah_attr a;
	must(ibv_init_ah_from_wc(r->ctx, 1, &wc, &grh, &a) == 0);
	SAME(a.grh.sgid_index, 1);
	SAME(ibv_init_ah_from_wc(r->ctx, 2, &wc, &grh, &a), -1);
	must(ibv_create_cq(r->ctx, 1, NULL, NULL, -1) == NULL && errno == EINVAL);
	struct ibv_cq_init_attr_ex ca = {.cqe = 1, .comp_vector = 1};
	must(ibv_create_cq_ex(r->ctx, &ca) == NULL && errno == EINVAL);
}

static void fields(void)
{
	struct recording r = {0};
	recording_open(&r);
	modify(&r);
	query(&r);
	limits(&r);
	regions(&r);
	device_memory(&r);
	read_only(&r);
	thread_domains(&r);
	read_file();
	describe_device(&r);
	describe_port(&r);
	tables(&r);
	recording_close(&r);
}

const struct scenario recorded[] = {{"recorded-config", config}, {"recorded-table", table}, {"recorded-fields", fields}, {NULL, NULL}};

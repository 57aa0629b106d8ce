// Scenarios for the tests of the library. The command line names one; the program prints
// "ok" if it succeeds, and otherwise what failed. Errors are in errors.c, many threads in
// crowd.c, signals in signals.c, child processes in children.c, the newest verbs in later.c, kinds of
// memory in memory.c, ATOMIC WRITE and FLUSH in ordered.c.
#define _GNU_SOURCE
#include "asleep.h"
#include "rig.h"
#include "count.h"

#include <dirent.h>
#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

// A request of each kind, and its effect on memory.
static void transfer(void)
{
	struct rig r = {0};
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	rig_open(&r, IBV_QPT_RC);
	must(ibv_query_qp(r.qp[0], &a, IBV_QP_AV, &init) == 0 && a.ah_attr.grh.flow_label == 0xfffff); // the flow label has 20 bits; more were set
	strcpy(r.buf[0], "through the queues");
	receive(&r, 1, 64);
	must(post(&r, 0, IBV_WR_SEND, 19) == 0);
	struct ibv_wc wc = wait_wc(r.cq[1]);
	must(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.byte_len == 19 && wc.wr_id == 1064);
	must(wc.qp_num == r.qp[1]->qp_num && strcmp(r.buf[1], "through the queues") == 0);
	wc = wait_wc(r.cq[0]);
	must(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_SEND && wc.wr_id == 19);

	memset(r.buf[0], 7, BUF);
	must(post(&r, 0, IBV_WR_RDMA_WRITE, BUF) == 0);
	want(r.cq[0], IBV_WC_SUCCESS);
	must(memcmp(r.buf[0], r.buf[1], BUF) == 0);
	memset(r.buf[1], 9, BUF);
	must(post(&r, 0, IBV_WR_RDMA_READ, BUF) == 0);
	want(r.cq[0], IBV_WC_SUCCESS);
	must(memcmp(r.buf[0], r.buf[1], BUF) == 0);
	*(uint64_t *)r.buf[1] = 5;
	must(post(&r, 0, IBV_WR_ATOMIC_CMP_AND_SWP, 8) == 0);
	want(r.cq[0], IBV_WC_SUCCESS);
	must(*(uint64_t *)r.buf[0] == 5 && *(uint64_t *)r.buf[1] == 9);
	must(post(&r, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, 8) == 0);
	want(r.cq[0], IBV_WC_SUCCESS);
	must(*(uint64_t *)r.buf[0] == 9 && *(uint64_t *)r.buf[1] == 14);
	must(post(&r, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, 24) == 0); // the value goes into the first 8 bytes of a longer list
	must(wait_wc(r.cq[0]).status == IBV_WC_SUCCESS && *(uint64_t *)r.buf[0] == 14 && *(uint64_t *)r.buf[1] == 19);
	must(((uint64_t *)r.buf[0])[1] == 0x0909090909090909);
	must(ibv_dealloc_pd(r.pd) == EBUSY && ibv_destroy_cq(r.cq[0]) == EBUSY && ibv_destroy_comp_channel(r.channel) == EBUSY);
	rig_close(&r);
}

// Datagrams, and a reply to the sender of one. UCX reads from sl which IP header is in
// the first 40 bytes.
static void post_datagram(struct rig *r, int side, struct ibv_ah *ah, uint32_t n)
{
	struct ibv_sge s = {(uintptr_t)r->buf[side], n, r->mr[side]->lkey};
	struct ibv_send_wr *bad, wr = {
		.wr_id = n, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
		.wr.ud = {ah, r->qp[1 - side]->qp_num, 0x1234},
	};
	must(ibv_post_send(r->qp[side], &wr, &bad) == 0);
}

static void datagrams(void)
{
	enum { GRH = 40, IPV4_WITH_UDP = 8 | 2 };
	struct rig r = {0};
	rig_open(&r, IBV_QPT_UD);
	struct ibv_ah_attr a = to_self(r.ctx);
	a.grh.flow_label = UINT32_MAX;
	struct ibv_ah *ah = ibv_create_ah(r.pd, &a);
	must(ah != NULL);
	strcpy(r.buf[0], "to whom it concerns");
	receive(&r, 1, GRH + 100);
	post_datagram(&r, 0, ah, 20);
	struct ibv_wc wc = wait_wc(r.cq[1]);
	must(wc.status == IBV_WC_SUCCESS && wc.byte_len == GRH + 20 && wc.wc_flags == IBV_WC_GRH && wc.src_qp == r.qp[0]->qp_num);
	must(wc.sl == IPV4_WITH_UDP && strcmp(r.buf[1] + GRH, "to whom it concerns") == 0);
	want(r.cq[0], IBV_WC_SUCCESS);
	struct ibv_ah *back = ibv_create_ah_from_wc(r.pd, &wc, (struct ibv_grh *)r.buf[1], 1);
	must(back != NULL);
	receive(&r, 0, GRH + 100);
	post_datagram(&r, 1, back, 30);
	wc = wait_wc(r.cq[0]);
	must(wc.status == IBV_WC_SUCCESS && wc.byte_len == GRH + 30);
	want(r.cq[1], IBV_WC_SUCCESS);
	must(ibv_destroy_ah(ah) == 0 && ibv_destroy_ah(back) == 0);
	rig_close(&r);
}

// A single address has two entries in the GID table. Queue pairs and address handles of the
// second one send from it, and tell its index.
static void second_gid(void)
{
	struct rig r = {.sgid_index = 1}, u = {0};
	struct ibv_port_attr p;
	union ibv_gid gid[2];
	char *addrs = strdup(getenv("SOFTHCA_ADDR"));
	must(setenv("SOFTHCA_ADDR", strtok(addrs, ","), 1) == 0);
	rig_open(&r, IBV_QPT_RC);
	must(ibv_query_port(r.ctx, 1, &p) == 0 && p.gid_tbl_len == 2);
	for (int i = 0; i < 2; i++)
		must(ibv_query_gid(r.ctx, 1, i, &gid[i]) == 0);
	must(memcmp(&gid[0], &gid[1], sizeof gid[0]) == 0 && ibv_query_gid(r.ctx, 1, 2, &gid[0]) == -1);
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	must(ibv_query_qp(r.qp[0], &a, IBV_QP_AV, &init) == 0 && a.ah_attr.grh.sgid_index == 1);
	must(post(&r, 0, IBV_WR_RDMA_READ, 100) == 0);
	want(r.cq[0], IBV_WC_SUCCESS);
	rig_close(&r);
	rig_open(&u, IBV_QPT_UD);
	struct ibv_ah_attr to = to_self(u.ctx);
	to.grh.sgid_index = 1;
	struct ibv_ah *ah = ibv_create_ah(u.pd, &to);
	must(ah != NULL);
	receive(&u, 1, 100);
	post_datagram(&u, 0, ah, 20);
	want(u.cq[1], IBV_WC_SUCCESS);
	must(ibv_destroy_ah(ah) == 0);
	rig_close(&u);
}

// An address handle can be destroyed after the parent domain in which it was created. A
// parent domain of a parent domain uses the protection domain of both. A parent domain that permits
// memory shared with the host of a confidential guest is like any other.
static void domains(void)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_UD);
	struct ibv_ah_attr a = to_self(r.ctx);
	struct ibv_parent_domain_init_attr of = {.pd = r.pd};
	struct ibv_pd *parent = ibv_alloc_parent_domain(r.ctx, &of);
	must(parent != NULL && ibv_dealloc_pd(r.pd) == EBUSY);
	struct ibv_ah *ah = ibv_create_ah(parent, &a);
	must(ah != NULL && ibv_dealloc_pd(parent) == 0 && ibv_destroy_ah(ah) == 0);
	struct ibv_pd *empty = ibv_alloc_pd(r.ctx); // except for its parent domains
	must((of.pd = empty) != NULL && (parent = ibv_alloc_parent_domain(r.ctx, &of)) != NULL);
	must((of.pd = parent) != NULL && (parent = ibv_alloc_parent_domain(r.ctx, &of)) != NULL);
	must(ibv_dealloc_pd(of.pd) == 0 && ibv_dealloc_pd(empty) == EBUSY);
	must(ibv_dealloc_pd(parent) == 0 && ibv_dealloc_pd(empty) == 0);
	enum { ALLOW_CC_UNPROTECTED_ALLOC = 1 << 2 };
	of.pd = r.pd, of.comp_mask = ALLOW_CC_UNPROTECTED_ALLOC;
	must((parent = ibv_alloc_parent_domain(r.ctx, &of)) != NULL && ibv_dealloc_pd(r.pd) == EBUSY && ibv_dealloc_pd(parent) == 0);
	rig_close(&r);
}

// Requests that posting refuses.
static void refusals(void)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	struct ibv_sge s[3] = {{(uintptr_t)r.buf[0], 65, r.mr[0]->lkey}};
	struct ibv_send_wr *bad, second = {.opcode = IBV_WR_SEND, .sg_list = s, .num_sge = 3};
	struct ibv_send_wr first = {.opcode = IBV_WR_RDMA_WRITE, .next = &second, .wr.rdma = {(uintptr_t)r.buf[1], r.mr[1]->rkey}, .send_flags = IBV_SEND_SIGNALED};
	must(ibv_post_send(r.qp[0], &first, &bad) == EINVAL && bad == &second);
	want(r.cq[0], IBV_WC_SUCCESS); // of the first request
	second.num_sge = 1, second.send_flags = IBV_SEND_INLINE;
	must(ibv_post_send(r.qp[0], &second, &bad) == EINVAL && bad == &second);
	s[0].length = 8, second.opcode = IBV_WR_RDMA_READ;
	must(ibv_post_send(r.qp[0], &second, &bad) == EINVAL && bad == &second);
	second.opcode = IBV_WR_SEND, second.num_sge = -1;
	must(ibv_post_send(r.qp[0], &second, &bad) == EINVAL && bad == &second);
	second.num_sge = 1;
	second.send_flags = 0, second.opcode = IBV_WR_TSO;
	must(ibv_post_send(r.qp[0], &second, &bad) == EINVAL);
	struct ibv_recv_wr *badr, rw = {.num_sge = 3, .sg_list = s};
	must(ibv_post_recv(r.qp[0], &rw, &badr) == EINVAL && badr == &rw);
	rw.num_sge = 0;
	for (int i = 0; i < DEPTH; i++)
		must(ibv_post_recv(r.qp[0], &rw, &badr) == 0);
	must(ibv_post_recv(r.qp[0], &rw, &badr) == ENOMEM);
	struct ibv_qp *fresh = make_qp(&r, IBV_QPT_RC, 0);
	second = (struct ibv_send_wr){.opcode = IBV_WR_SEND};
	must(ibv_post_send(fresh, &second, &bad) == EINVAL && ibv_post_recv(fresh, &rw, &badr) == EINVAL);
	struct ibv_ece ece;
	must(ibv_query_ece(fresh, &ece) == EOPNOTSUPP);
	must(ibv_destroy_qp(fresh) == 0);
	struct ibv_qp_init_attr plain = {
		.qp_type = IBV_QPT_RC, .send_cq = r.cq[0], .recv_cq = r.cq[0],
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 2, .max_recv_sge = 1},
	};
	fresh = ibv_create_qp(r.pd, &plain);
	must(fresh != NULL && plain.cap.max_inline_data == 2 * sizeof(struct ibv_sge)); // inline data may use the room of the elements
	must(ibv_destroy_qp(fresh) == 0);
	rig_close(&r);
}

// write_fails posts a WRITE from a region whose memory is protected after it was registered.
static void write_fails(struct rig *r, struct ibv_mr *m)
{
	struct ibv_mr *mine = r->mr[0];
	char *buf = r->buf[0];
	must(m != NULL && mprotect(m->addr, m->length, PROT_NONE) == 0);
	r->mr[0] = m, r->buf[0] = m->addr;
	must(post(r, 0, IBV_WR_RDMA_WRITE, 100) == 0);
	want(r->cq[0], IBV_WC_LOC_PROT_ERR);
	must(ibv_dereg_mr(m) == 0);
	r->mr[0] = mine, r->buf[0] = buf;
}

// Memory that is not mapped, and memory that is protected after it was registered.
static void gone(void)
{
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	char *p = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(p != MAP_FAILED && munmap(p + 4096, 4096) == 0 && mprotect(p + 3 * 4096, 4096, PROT_READ) == 0);
	must(ibv_reg_mr(r.pd, p, 3 * 4096, ALL_ACCESS) == NULL);
	must(ibv_reg_mr(r.pd, p + 3 * 4096, 4096, ALL_ACCESS) == NULL);
	errno = 0;
	if (ibv_reg_mr(r.pd, p, 3 * 4096, ALL_ACCESS) != NULL || errno != EFAULT) {
		fprintf(stderr, "a hole in the memory gives errno %d, want EFAULT\n", errno);
		exit(1);
	}
	struct ibv_mr *ro = ibv_reg_mr(r.pd, p + 3 * 4096, 4096, IBV_ACCESS_REMOTE_READ);
	must(ro != NULL && ibv_dereg_mr(ro) == 0);
	write_fails(&r, ibv_reg_mr(r.pd, p, 4096, ALL_ACCESS));
	rig_close(&r);
}

// The GUID of an adapter in sysfs is read from there. The adapter is not opened: another
// process may have it open.
static void guid(void)
{
	char root[] = "/tmp/softhca-guid-XXXXXX", path[256];
	const char *const parts[] = {"/sys", "/class", "/infiniband", "/softhca0", NULL};
	must(mkdtemp(root) != NULL);
	strcpy(path, root);
	for (int i = 0; parts[i] != NULL; i++)
		must(mkdir(strcat(path, parts[i]), 0700) == 0);
	FILE *f = fopen(strcat(path, "/node_guid"), "w");
	must(f != NULL && fputs("0212:3456:789a:bcde\n", f) >= 0 && fclose(f) == 0);
	must(setenv("SOFTHCA_SYSFS", root, 1) == 0 && setenv("SOFTHCA_ENGINE", "/no/such/engine", 1) == 0);
	struct ibv_device **list = ibv_get_device_list(NULL);
	must(list != NULL && be64toh(ibv_get_device_guid(list[0])) == 0x02123456789abcdeULL);
	ibv_free_device_list(list);
	do
		must(remove(path) == 0);
	while ((*strrchr(path, '/') = 0, strcmp(path, "/tmp") != 0));
}

static sigjmp_buf out;
static volatile sig_atomic_t faults;
static void on_fault(int sig)
{
	(void)sig;
	faults++;
	siglongjmp(out, 1);
}

static void own_fault(void)
{
	int before = faults;
	if (sigsetjmp(out, 1) == 0)
		*(volatile int *)8 = 1;
	must(faults == before + 1);
}

// The program's own fault handler, set before or after the adapter is opened, gets the
// program's faults.
static void handler(bool before)
{
	struct sigaction a = {.sa_handler = on_fault};
	struct rig r = {0};
	if (before) {
		must(sigaction(SIGSEGV, &a, NULL) == 0);
		own_fault();
	}
	rig_open(&r, IBV_QPT_RC);
	if (!before)
		must(sigaction(SIGSEGV, &a, NULL) == 0);
	own_fault();
	must(post(&r, 0, IBV_WR_RDMA_WRITE, 100) == 0);
	want(r.cq[0], IBV_WC_SUCCESS);
	own_fault();
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int seen = faults;
	write_fails(&r, ibv_reg_mr(r.pd, p, 4096, ALL_ACCESS));
	must(faults == seen);
	own_fault();
	rig_close(&r);
}

static void handler_before(void) { handler(true); }
static void handler_after(void) { handler(false); }

// A handler is set after all memory is registered. The preload library reports it; without
// that library, some polls must precede the fault.
static void handler_late(void)
{
	struct sigaction a = {.sa_handler = on_fault, .sa_flags = SA_NODEFER}, had;
	struct rig r = {0};
	struct ibv_wc wc;
	rig_open(&r, IBV_QPT_RC);
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *m = ibv_reg_mr(r.pd, p, 4096, ALL_ACCESS);
	must(signal(SIGBUS, on_fault) != SIG_ERR && sigaction(SIGSEGV, &a, NULL) == 0);
	for (int i = 0; getenv("LD_PRELOAD") == NULL && i < 1000; i++)
		must(ibv_poll_cq(r.cq[0], 1, &wc) == 0);
	if (getenv("LD_PRELOAD") != NULL) {
		must(sigaction(SIGSEGV, NULL, &had) == 0 && had.sa_handler == on_fault && had.sa_flags == SA_NODEFER);
		must(signal(SIGBUS, on_fault) == on_fault);
	}
	write_fails(&r, m);
	must(faults == 0);
	own_fault();
	own_fault();
	rig_close(&r);
}

// A handler with SA_RESETHAND handles one fault; the second fault ends the program. The
// same holds for signals that are sent.
static void once(int sig) { faults += sig == SIGSEGV; }

static void handler_once(void)
{
	struct rig r = {0};
	for (int sent = 0; sent < 2; sent++) {
		int status;
		pid_t pid = begin_child();
		if (pid > 0) {
			must(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
			continue;
		}
		struct rlimit none = {0, 0};
		struct sigaction a = {.sa_handler = once, .sa_flags = (int)SA_RESETHAND};
		must(setrlimit(RLIMIT_CORE, &none) == 0);
		rig_open(&r, IBV_QPT_RC);
		must(sigaction(SIGSEGV, &a, NULL) == 0);
		struct ibv_mr *m = ibv_reg_mr(r.pd, r.buf[0], 100, 0); // puts the library's handler in front
		must(m != NULL);
		if (sent) {
			raise(SIGSEGV);
			must(faults == 1);
			raise(SIGSEGV);
		} else {
			*(volatile int *)8 = 1; // the store is repeated when the handler returns
		}
		_exit(0);
	}
}

// Adapters are opened and closed, and leave nothing behind.
static long resident(void)
{
	long all, pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	must(f != NULL && fscanf(f, "%ld %ld", &all, &pages) == 2);
	fclose(f);
	return pages * 4;
}

static void cycles(void)
{
	long fds = 0, kb = 0;
	for (int i = 0; i < 1000; i++) {
		struct rig r = {0};
		if (i == 300)
			fds = count_descriptors(), kb = resident();
		rig_open(&r, IBV_QPT_RC);
		must(post(&r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
		want(r.cq[0], IBV_WC_SUCCESS);
		if (i % 2) {
			rig_close(&r);
			continue;
		}
		rig_drop(&r);
	}
	printf("%ld KiB, then %ld KiB\n", kb, resident());
	must(count_descriptors() == fds && resident() < kb + 20000);
}

// outlived closes a device before the objects in it are destroyed, as Python's garbage
// collector may. Destroying them later succeeds, and does nothing to the objects that were
// made since.
static void outlived(void)
{
	struct rig old = {.shared = true}, r = {.shared = true};
	rig_open(&old, IBV_QPT_RC);
	struct ibv_ah_attr to = to_self(old.ctx);
	struct ibv_ah *ah = ibv_create_ah(old.pd, &to);
	must(ah != NULL && ibv_close_device(old.ctx) == 0);
	rig_open(&r, IBV_QPT_RC);
	for (int i = 0; i < SIDES; i++)
		must(ibv_destroy_qp(old.qp[i]) == 0 && ibv_destroy_cq(old.cq[i]) == 0 && ibv_dereg_mr(old.mr[i]) == 0);
	must(ibv_destroy_ah(ah) == 0 && ibv_destroy_srq(old.srq) == 0);
	must(ibv_destroy_comp_channel(old.channel) == 0 && ibv_dealloc_pd(old.pd) == 0);
	must(post(&r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
	want(r.cq[0], IBV_WC_SUCCESS);
	rig_close(&r);
	free(old.buf[0]);
	free(old.buf[1]);
}

static void many(void)
{
	enum { MANY = 10000 };
	static struct ibv_qp *q[MANY];
	struct rig r = {0};
	rig_open(&r, IBV_QPT_RC);
	for (int i = 0; i < MANY; i++)
		q[i] = make_qp(&r, IBV_QPT_UD, 0);
	must(post(&r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
	want(r.cq[0], IBV_WC_SUCCESS);
	for (int i = 0; i < MANY; i++)
		must(ibv_destroy_qp(q[i]) == 0);
	rig_close(&r);
}

// Threads that share a queue pair and a completion queue.
enum { THREADS = 4, EACH = 5000 };
static struct rig common;
static _Atomic long completed;

static void *work(void *arg)
{
	long *posted = arg;
	struct ibv_wc wc[4];
	while (*posted < EACH || atomic_load(&completed) < THREADS * EACH) {
		if (*posted < EACH && post(&common, 0, IBV_WR_RDMA_WRITE, 8) == 0)
			++*posted;
		int n = ibv_poll_cq(common.cq[0], 4, wc);
		must(n >= 0);
		for (int i = 0; i < n; i++)
			must(wc[i].status == IBV_WC_SUCCESS);
		atomic_fetch_add(&completed, n);
	}
	return NULL;
}

static void threads(void)
{
	pthread_t t[THREADS];
	long posted[THREADS] = {0};
	rig_open(&common, IBV_QPT_RC);
	for (int i = 0; i < THREADS; i++)
		must(pthread_create(&t[i], NULL, work, &posted[i]) == 0);
	for (int i = 0; i < THREADS; i++)
		must(pthread_join(t[i], NULL) == 0);
	must(completed == THREADS * EACH);
	rig_close(&common);
}

// Completion channels: descriptors, events, acknowledgements.
static _Atomic bool acknowledged;

static void *ack_later(void *q)
{
	until_locked(getpid()); // in ibv_destroy_cq
	atomic_store(&acknowledged, true);
	ibv_ack_cq_events(q, 1);
	return NULL;
}

static void channel(void)
{
	struct rig r = {0};
	struct ibv_cq *q;
	void *context;
	pthread_t t;
	rig_open(&r, IBV_QPT_RC);
	struct pollfd p = {r.channel->fd, POLLIN, 0};
	must(poll(&p, 1, 0) == 0);
	must(ibv_req_notify_cq(r.cq[0], 0) == 0 && ibv_req_notify_cq(r.cq[1], 1) == 0);
	receive(&r, 1, 64);
	receive(&r, 1, 64);
	must(post(&r, 0, IBV_WR_SEND, 8) == 0); // not solicited
	must(poll(&p, 1, 10000) == 1);
	must(ibv_get_cq_event(r.channel, &q, &context) == 0 && q == r.cq[0] && context == &r);
	want(r.cq[0], IBV_WC_SUCCESS);
	want(r.cq[1], IBV_WC_SUCCESS);
	must(poll(&p, 1, 0) == 0);
	must(fcntl(r.channel->fd, F_SETFL, O_NONBLOCK) == 0);
	int rc = ibv_get_cq_event(r.channel, &q, &context);
	if (rc != -1 || errno != EAGAIN) {
		fprintf(stderr, "no event: %d, errno %d\n", rc, errno);
		exit(1);
	}
	// Destroying a queue discards unread events, and waits until read ones are
	// acknowledged.
	must(ibv_req_notify_cq(r.cq[0], 0) == 0);
	must(post(&r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
	must(poll(&p, 1, 10000) == 1);
	must(ibv_destroy_qp(r.qp[0]) == 0);
	must(pthread_create(&t, NULL, ack_later, r.cq[0]) == 0);
	must(ibv_destroy_cq(r.cq[0]) == 0 && atomic_load(&acknowledged) && pthread_join(t, NULL) == 0);
	must(poll(&p, 1, 0) == 0);
	must((r.cq[0] = ibv_create_cq(r.ctx, 16, NULL, NULL, 0)) != NULL);
	r.qp[0] = make_qp(&r, IBV_QPT_RC, 0);
	rig_close(&r);
}

// A completion queue has a size as on adapters: the next 2^n - 1.
static void sizes(void)
{
	struct ibv_context *c = open_first();
	const int asked[][2] = {{1, 1}, {2, 3}, {3, 3}, {4, 7}, {7, 7}, {8, 15}, {16, 31}, {100, 127}};
	struct ibv_device_attr a;
	must(ibv_query_device(c, &a) == 0);
	struct ibv_cq *q, *other = ibv_create_cq(c, 1, NULL, NULL, 0);
	must(other != NULL);
	for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
		must((q = ibv_create_cq(c, asked[i][0], NULL, NULL, 0)) != NULL && q->cqe == asked[i][1] && ibv_destroy_cq(q) == 0);
		must(ibv_resize_cq(other, asked[i][0]) == 0 && other->cqe == asked[i][1]);
	}
	must((q = ibv_create_cq(c, a.max_cqe, NULL, NULL, 0)) != NULL && q->cqe == a.max_cqe && ibv_destroy_cq(q) == 0);
	must(ibv_destroy_cq(other) == 0 && ibv_close_device(c) == 0);
}

// drain waits until the requests of a queue pair have completed, without polling.
static void drain(struct ibv_qp *q)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD, .sq_draining = 1};
	struct ibv_qp_init_attr init;
	must(ibv_modify_qp(q, &a, IBV_QP_STATE) == 0);
	while (a.sq_draining != 0)
		must(ibv_query_qp(q, &a, IBV_QP_STATE, &init) == 0);
	a.qp_state = IBV_QPS_RTS;
	must(ibv_modify_qp(q, &a, IBV_QP_STATE) == 0);
}

// Arming a queue raises an event at once if it holds an entry for which no event was
// raised.
static void arm_late(void)
{
	struct rig r = {0};
	struct ibv_cq *q;
	struct ibv_wc wc;
	void *context;
	rig_open(&r, IBV_QPT_RC);
	struct pollfd p = {r.channel->fd, POLLIN, 0};
	must(ibv_req_notify_cq(r.cq[1], 0) == 0);
	for (int i = 0; i < 2; i++)
		receive(&r, 1, 64);
	must(ibv_poll_cq(r.cq[0], 1, &wc) == 0);
	must(post(&r, 0, IBV_WR_SEND, 8) == 0 && poll(&p, 1, 10000) == 1); // the event of the receive
	while (ibv_poll_cq(r.cq[1], 1, &wc) == 0) {
	}
	must(ibv_get_cq_event(r.channel, &q, &context) == 0 && q == r.cq[1] && poll(&p, 1, 0) == 0);
	want(r.cq[0], IBV_WC_SUCCESS);
	must(post(&r, 0, IBV_WR_SEND, 8) == 0);
	want(r.cq[1], IBV_WC_SUCCESS);
	drain(r.qp[0]);
	must(poll(&p, 1, 0) == 0 && ibv_req_notify_cq(r.cq[0], 1) == 0 && poll(&p, 1, 0) == 0); // not solicited
	must(ibv_req_notify_cq(r.cq[0], 0) == 0 && poll(&p, 1, 10000) == 1);
	must(ibv_get_cq_event(r.channel, &q, &context) == 0 && q == r.cq[0] && poll(&p, 1, 0) == 0);
	must(ibv_req_notify_cq(r.cq[0], 0) == 0 && poll(&p, 1, 0) == 0); // an event was raised for it
	want(r.cq[0], IBV_WC_SUCCESS);
	must(post(&r, 0, IBV_WR_RDMA_WRITE, 8) == 0 && poll(&p, 1, 10000) == 1);
	must(ibv_get_cq_event(r.channel, &q, &context) == 0 && q == r.cq[0]);
	want(r.cq[0], IBV_WC_SUCCESS);
	must(ibv_req_notify_cq(r.cq[0], 0) == 0 && post(&r, 0, IBV_WR_RDMA_WRITE, 8) == 0 && poll(&p, 1, 10000) == 1);
	must(post(&r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
	drain(r.qp[0]); // the pending event is older than this entry
	must(ibv_get_cq_event(r.channel, &q, &context) == 0 && poll(&p, 1, 0) == 0);
	must(ibv_req_notify_cq(r.cq[0], 0) == 0 && poll(&p, 1, 10000) == 1);
	must(ibv_get_cq_event(r.channel, &q, &context) == 0 && q == r.cq[0]);
	must(ibv_req_notify_cq(r.cq[0], 0) == 0 && poll(&p, 1, 0) == 0); // events were raised for both entries
	want(r.cq[0], IBV_WC_SUCCESS);
	want(r.cq[0], IBV_WC_SUCCESS);
	ibv_ack_cq_events(r.cq[0], 4);
	ibv_ack_cq_events(r.cq[1], 1);
	rig_close(&r);
}

// Threads of the engine have short slices, so that they run soon after they are woken. The
// slices of the program's own threads are unchanged.
static void slices(void)
{
	struct slice {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} before = {0}, now = {0};
	struct rig r = {0};
	must(syscall(SYS_sched_getattr, 0, &before, sizeof before, 0) == 0);
	rig_open(&r, IBV_QPT_RC);
	DIR *d = opendir("/proc/self/task");
	must(d != NULL);
	int engines = 0, shorts = 0;
	for (struct dirent *e; (e = readdir(d)) != NULL;) {
		int tid = atoi(e->d_name);
		if (tid == 0 || syscall(SYS_sched_getattr, tid, &now, sizeof now, 0) != 0)
			continue;
		engines += tid != getpid();
		// Kernels before 6.12 have no slices per thread: 0. A thread that the engine starts later, while the program calls it, has the program's slices.
		bool is_short = now.runtime == 100000 && tid != getpid();
		must(is_short || now.runtime == before.runtime);
		shorts += is_short;
	}
	must(closedir(d) == 0 && engines > 0);
	must(shorts > 0 || before.runtime == 0 || before.policy != SCHED_OTHER);
	rig_close(&r);
}

// Forks: the child of a process that has used its adapter opens its own adapter.
static void child(int next)
{
	char addr[32];
	struct rig r = {0};
	snprintf(addr, sizeof addr, "127.%d.%d.%d", 192 + (getpid() >> 14 & 31), getpid() >> 7 & 127, (getpid() & 127) + 1);
	setenv("SOFTHCA_ADDR", addr, 1);
	rig_open(&r, IBV_QPT_RC);
	must(post(&r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
	want(r.cq[0], IBV_WC_SUCCESS);
	if (next == 1)
		rig_close(&r);
	_exit(0);
}

static void forks(int before)
{
	enum { FORKS = 100, TOGETHER = 4 };
	struct rig r = {0};
	pid_t pid[TOGETHER];
	if (!before)
		rig_open(&r, IBV_QPT_RC);
	for (int i = 0; i < FORKS; i++) {
		pid[i % TOGETHER] = begin_child();
		if (pid[i % TOGETHER] == 0)
			child(i % 2);
		for (int k = 0; i % TOGETHER == TOGETHER - 1 && k < TOGETHER; k++)
			ended_well(pid[k]);
	}
	if (before)
		rig_open(&r, IBV_QPT_RC);
	must(post(&r, 0, IBV_WR_RDMA_WRITE, 8) == 0);
	want(r.cq[0], IBV_WC_SUCCESS);
	rig_close(&r);
}

static void fork_before(void) { forks(1); }
static void fork_after(void) { forks(0); }

// A child does not keep the address of its parent's adapter in use, and its calls on the
// parent's objects fail.
static void fork_keeps(void)
{
	struct rig r = {0};
	int go[2];
	must(pipe(go) == 0);
	rig_open(&r, IBV_QPT_RC);
	pid_t pid = begin_child();
	if (pid == 0) {
		char c;
		struct ibv_wc wc;
		struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE}, *bad = NULL;
		must(ibv_post_send(r.qp[0], &wr, &bad) != 0 && bad == &wr);
		must(ibv_alloc_pd(r.ctx) == NULL && post(&r, 0, IBV_WR_RDMA_WRITE, 8) != 0 && ibv_poll_cq(r.cq[0], 1, &wc) < 0);
		must(read(go[0], &c, 1) == 1);
		_exit(0);
	}
	rig_close(&r);
	memset(&r, 0, sizeof r);
	rig_open(&r, IBV_QPT_RC);
	must(write(go[1], "x", 1) == 1);
	ended_well(pid);
	rig_close(&r);
}

// A thread ends the program in the middle of a transfer.
static void *end_it(void *quick)
{
	while (atomic_load(&completed) < DEPTH)
		sched_yield();
	puts("ok");
	fflush(stdout);
	if (quick != NULL)
		_exit(0);
	exit(0);
}

static void leave(void *quick)
{
	struct ibv_wc wc[16];
	pthread_t t;
	rig_open(&common, IBV_QPT_RC);
	must(pthread_create(&t, NULL, end_it, quick) == 0);
	for (;;) {
		post(&common, 0, IBV_WR_RDMA_WRITE, BUF);
		int n = ibv_poll_cq(common.cq[0], 16, wc);
		must(n >= 0);
		atomic_fetch_add(&completed, n);
	}
}

static void exits(void) { leave(NULL); }
static void exits_at_once(void) { leave(&common); }

static const struct scenario basics[] = {
	{"transfer", transfer}, {"datagrams", datagrams}, {"domains", domains}, {"second-gid", second_gid}, {"refusals", refusals}, {"gone", gone}, {"handler-before", handler_before},
	{"handler-after", handler_after}, {"handler-late", handler_late}, {"handler-once", handler_once}, {"guid", guid},
	{"cycles", cycles}, {"outlived", outlived}, {"many", many}, {"threads", threads}, {"channel", channel}, {"arm-late", arm_late}, {"sizes", sizes}, {"slices", slices},
	{"fork-before", fork_before}, {"fork-after", fork_after}, {"fork-keeps", fork_keeps}, {"exit", exits}, {"_exit", exits_at_once}, {NULL, NULL},
};

int main(int argc, char **argv)
{
	const struct scenario *all[] = {basics, errors, crowds, connects, caught, children, laters, extending, xrcs, naming, refusing, files, refusing_cm, sending, memories, ordered, recorded, recorded_posts, recorded_events, recorded_ends, recorded_handlers, recorded_domains, windowed, modes, sets, recorded_sets, recorded_nasty};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		for (const struct scenario *s = all[i]; argc == 2 && s->name != NULL; s++) {
			if (strcmp(argv[1], s->name) == 0) {
				s->run();
				puts("ok");
				return 0;
			}
		}
	}
	fprintf(stderr, "no such scenario\n");
	return 2;
}

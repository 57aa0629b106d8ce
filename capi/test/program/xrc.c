// Extended reliable connections: transfers over both ways to post, targets with several handles,
// and domains by descriptor.
#define _GNU_SOURCE
#include "rig.h"
#include "ends.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { FD_OFLAGS = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS };

static struct ibv_xrcd *open_domain(struct ibv_context *c, int fd, int oflags)
{
	return ibv_open_xrcd(c, &(struct ibv_xrcd_init_attr){.comp_mask = FD_OFLAGS, .fd = fd, .oflags = oflags});
}

static struct ibv_qp *make_target(struct ibv_context *c, struct ibv_xrcd *x)
{
	return ibv_create_qp_ex(c, &(struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = x});
}

static struct ibv_srq *make_srq(struct ends *e, uint32_t wr)
{
	return ibv_create_srq_ex(e->r.ctx, &(struct ibv_srq_init_attr_ex){
		.attr = {.max_wr = wr, .max_sge = 1}, .srq_type = IBV_SRQT_XRC, .pd = e->r.pd, .xrcd = e->xrcd, .cq = e->r.cq[1],
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	});
}

// move_rc moves a queue pair to RTS with all attributes of RC: each end ignores those of the other.
static void move_rc(struct ends *e, struct ibv_qp *q, uint32_t to)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL_ACCESS, .path_mtu = IBV_MTU_1024, .dest_qp_num = to,
		.max_dest_rd_atomic = 4, .max_rd_atomic = 4, .min_rnr_timer = 1, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}},
	};
	must(ibv_query_gid(e->r.ctx, 1, 0, &a.ah_attr.grh.dgid) == 0);
	must(ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
	a.qp_state = IBV_QPS_RTR;
	must(ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
	a.qp_state = IBV_QPS_RTS;
	must(ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
	must(q->state == IBV_QPS_RTS);
}

static void ends_make(struct ends *e)
{
	struct rig *r = &e->r;
	struct ibv_device_attr d;
	rig_open(r, IBV_QPT_RC);
	must(ibv_query_device(r->ctx, &d) == 0 && d.device_cap_flags & IBV_DEVICE_XRC);
	must((e->xrcd = open_domain(r->ctx, -1, O_CREAT)) != NULL);
	must((e->srq = make_srq(e, 8)) != NULL && ibv_get_srq_num(e->srq, &e->srqn) == 0 && e->srqn != 0);
	must((e->tgt = make_target(r->ctx, e->xrcd)) != NULL && e->tgt->qp_type == IBV_QPT_XRC_RECV && e->tgt->pd == NULL);
	struct ibv_qp_init_attr_ex a = {
		.send_cq = r->cq[0], .cap = {.max_send_wr = 8, .max_send_sge = 1, .max_recv_wr = 8}, .qp_type = IBV_QPT_XRC_SEND, .pd = r->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE,
	};
	must((e->ini = ibv_create_qp_ex(r->ctx, &a)) != NULL && a.cap.max_recv_wr == 0 && a.cap.max_send_wr >= 8);
}

void ends_open(struct ends *e)
{
	ends_make(e);
	move_rc(e, e->ini, e->tgt->qp_num);
	move_rc(e, e->tgt, e->ini->qp_num);
}

void ends_close(struct ends *e)
{
	must(ibv_destroy_qp(e->ini) == 0 && ibv_destroy_qp(e->tgt) == 0);
	must(ibv_destroy_srq(e->srq) == 0 && ibv_close_xrcd(e->xrcd) == 0);
	rig_close(&e->r);
}

static struct ibv_wc poll_one(struct ibv_cq *q)
{
	struct ibv_wc wc;
	int n;
	while ((n = ibv_poll_cq(q, 1, &wc)) == 0) {
	}
	must(n == 1);
	return wc;
}

void receive_xrc(struct ends *e, uint64_t id)
{
	struct ibv_sge s = {(uintptr_t)e->r.buf[1], BUF, e->r.mr[1]->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = id, .sg_list = &s, .num_sge = 1};
	must(ibv_post_srq_recv(e->srq, &wr, &bad) == 0);
}

// transfers sends to the shared receive queue, with each way to post.
static void transfers(struct ends *e)
{
	struct rig *r = &e->r;
	struct ibv_sge s = {(uintptr_t)r->buf[0], 5000, r->mr[0]->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = 1, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	wr.qp_type.xrc.remote_srqn = e->srqn;
	memset(r->buf[0], 'x', BUF);
	receive_xrc(e, 11);
	must(ibv_post_send(e->ini, &wr, &bad) == 0);
	struct ibv_wc wc = poll_one(r->cq[0]);
	must(wc.wr_id == 1 && wc.status == IBV_WC_SUCCESS && wc.qp_num == e->ini->qp_num);
	wc = poll_one(r->cq[1]);
	must(wc.wr_id == 11 && wc.status == IBV_WC_SUCCESS && wc.byte_len == 5000 && wc.qp_num == e->tgt->qp_num && wc.src_qp == e->ini->qp_num);
	must(memcmp(r->buf[0], r->buf[1], 5000) == 0);

	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(e->ini);
	receive_xrc(e, 12);
	memset(r->buf[1], 0, BUF);
	ibv_wr_start(x);
	x->wr_id = 2, x->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(x, r->mr[1]->rkey, (uintptr_t)r->buf[1] + 100);
	ibv_wr_set_xrc_srqn(x, e->srqn);
	ibv_wr_set_sge(x, r->mr[0]->lkey, (uintptr_t)r->buf[0], 10);
	x->wr_id = 3;
	ibv_wr_send(x);
	ibv_wr_set_xrc_srqn(x, e->srqn);
	ibv_wr_set_inline_data(x, r->buf[0], 4);
	must(ibv_wr_complete(x) == 0);
	must(poll_one(r->cq[0]).wr_id == 2 && poll_one(r->cq[0]).wr_id == 3);
	wc = poll_one(r->cq[1]);
	must(wc.wr_id == 12 && wc.byte_len == 4 && memcmp(r->buf[1], "xxxx", 5) == 0 && memcmp(r->buf[1] + 99, "\0xxxxxxxxxx", 12) == 0);
}

// limited limits the rates of both ends: of the initiator's WRITE, and of the target's answer to a READ.
static void limited(struct ends *e)
{
	enum { KBPS = 400, BYTES = 5000, LEAST_NS = 50000000 }; // half of the time for the bytes after a burst
	struct ibv_qp *const limit[] = {e->ini, e->tgt};
	struct ibv_device_attr_ex d;
	must(ibv_query_device_ex(e->r.ctx, NULL, &d) == 0);
	must(d.packet_pacing_caps.supported_qpts & 1 << IBV_QPT_XRC_SEND && d.packet_pacing_caps.supported_qpts & 1 << IBV_QPT_XRC_RECV);
	for (int i = 0; i < 2; i++) {
		struct ibv_sge s = {(uintptr_t)e->r.buf[0], BYTES, e->r.mr[0]->lkey};
		struct ibv_send_wr *bad, wr = {.sg_list = &s, .num_sge = 1, .opcode = i == 0 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED};
		wr.wr.rdma.remote_addr = (uintptr_t)e->r.buf[1], wr.wr.rdma.rkey = e->r.mr[1]->rkey;
		wr.qp_type.xrc.remote_srqn = e->srqn;
		must(ibv_modify_qp_rate_limit(limit[i], &(struct ibv_qp_rate_limit_attr){.rate_limit = KBPS, .max_burst_sz = 1024}) == 0);
		int64_t from = now_ns();
		must(ibv_post_send(e->ini, &wr, &bad) == 0 && poll_one(e->r.cq[0]).status == IBV_WC_SUCCESS);
		must(now_ns() - from > LEAST_NS);
		must(ibv_modify_qp_rate_limit(limit[i], &(struct ibv_qp_rate_limit_attr){0}) == 0);
	}
}

// nothing_to_post checks that the ends have no queues to which others post.
static void nothing_to_post(struct ends *e)
{
	struct ibv_send_wr *bad_send = NULL, send = {.opcode = IBV_WR_SEND};
	struct ibv_recv_wr *bad = NULL, recv = {0};
	must(ibv_post_send(e->tgt, &send, &bad_send) == EINVAL && bad_send == &send);
	must(ibv_post_recv(e->tgt, &recv, &bad) == EINVAL && bad == &recv);
	must(ibv_post_recv(e->ini, &recv, &bad) == EINVAL);
}

// opens opens the target again: each handle gets the events, and the last one ends the target.
static void opens(struct ends *e)
{
	struct ibv_qp_open_attr o = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE | IBV_QP_OPEN_ATTR_CONTEXT,
		.qp_num = e->tgt->qp_num, .xrcd = e->xrcd, .qp_type = IBV_QPT_XRC_RECV, .qp_context = e,
	};
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_init_attr init;
	struct ibv_qp *q = ibv_open_qp(e->r.ctx, &o);
	must(q != NULL && q != e->tgt && q->qp_num == e->tgt->qp_num && q->qp_context == e && q->state == IBV_QPS_UNKNOWN);
	must(ibv_query_qp(q, &a, IBV_QP_STATE, &init) == 0 && a.qp_state == IBV_QPS_RTS && q->state == IBV_QPS_RTS);
	a.qp_state = IBV_QPS_ERR;
	must(ibv_modify_qp(q, &a, IBV_QP_STATE) == 0);
	bool heard[2] = {false, false};
	for (int i = 0; i < 2; i++) {
		struct ibv_async_event ev;
		must(ibv_get_async_event(e->r.ctx, &ev) == 0 && ev.event_type == IBV_EVENT_QP_LAST_WQE_REACHED);
		heard[ev.element.qp == q] = true;
		ibv_ack_async_event(&ev);
	}
	must(heard[0] && heard[1]);
	must(ibv_close_xrcd(e->xrcd) == EBUSY);
	must(ibv_destroy_qp(e->tgt) == 0);
	a.qp_state = IBV_QPS_RESET;
	must(ibv_modify_qp(q, &a, IBV_QP_STATE) == 0);
	must(ibv_destroy_qp(q) == 0);
	must(ibv_open_qp(e->r.ctx, &o) == NULL && errno == EINVAL);
	// librdmacm names a protection domain too, and reads it again.
	q = ibv_create_qp_ex(e->r.ctx, &(struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_PD, .xrcd = e->xrcd, .pd = e->r.pd,
	});
	must(q != NULL && q->pd == e->r.pd && ibv_destroy_qp(q) == 0);
	must((e->tgt = make_target(e->r.ctx, e->xrcd)) != NULL);
}

static void xrc(void)
{
	struct ends e = {0};
	ends_open(&e);
	transfers(&e);
	limited(&e);
	nothing_to_post(&e);
	opens(&e);
	ends_close(&e);
	// A context that closes destroys what is left.
	ends_open(&e);
	rig_drop(&e.r);
}

// elsewhere opens a domain in another process, which must fail with a code, or succeed if that is 0.
static void elsewhere(int file, int oflags, int code)
{
	pid_t child = begin_child();
	if (child == 0) {
		struct ibv_context *c = open_first();
		struct ibv_xrcd *x;
		must((x = open_domain(c, file, oflags)) != NULL || errno == code);
		must((x != NULL) == (code == 0) && (x == NULL || ibv_close_xrcd(x) == 0));
		must(ibv_close_device(c) == 0);
		_exit(0);
	}
	ended_well(child);
}

// xrc_files opens domains by descriptors of files.
static void xrc_files(void)
{
	int file = memfd_create("one", 0), other = memfd_create("two", 0), again = dup(file);
	struct ibv_context *c = open_first(), *c2 = open_first();
	struct ibv_xrcd *x, *same, *apart;
	must(open_domain(c, 999, O_CREAT) == NULL && errno == EBADF);
	must(open_domain(c, file, 0) == NULL && errno == EAGAIN);
	must((x = open_domain(c, file, O_CREAT | O_EXCL)) != NULL);
	must(open_domain(c, again, O_CREAT | O_EXCL) == NULL && errno == EINVAL);
	// The other context has the same domain: it can open a target of the first.
	must((same = open_domain(c2, again, 0)) != NULL);
	must((apart = open_domain(c, other, O_CREAT)) != NULL);
	struct ibv_qp *q = make_target(c, x);
	struct ibv_qp_open_attr o = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE, .qp_num = q->qp_num, .xrcd = apart, .qp_type = IBV_QPT_XRC_RECV,
	};
	must(ibv_open_qp(c2, &o) == NULL && errno == EINVAL);
	o.xrcd = same;
	struct ibv_qp *handle = ibv_open_qp(c2, &o);
	must(handle != NULL && ibv_close_xrcd(x) == EBUSY && ibv_close_xrcd(same) == EBUSY);
	must(ibv_destroy_qp(q) == 0 && ibv_close_xrcd(x) == 0);
	elsewhere(file, O_CREAT, EOPNOTSUPP);
	elsewhere(file, 0, EOPNOTSUPP);
	elsewhere(file, O_CREAT | O_EXCL, EINVAL);
	must(ibv_destroy_qp(handle) == 0 && ibv_close_xrcd(same) == 0);
	// The last opening has closed the domain.
	must(open_domain(c, file, 0) == NULL && errno == EAGAIN);
	elsewhere(file, O_CREAT, 0);
	elsewhere(file, 0, EAGAIN);
	must(ibv_close_xrcd(apart) == 0 && ibv_close_device(c2) == 0 && ibv_close_device(c) == 0);
}

// names returns the number of the process's sockets with an abstract name. A domain must not use
// one, because another user could take any name first.
static int names(void)
{
	int n = 0;
	for (int fd = 0; fd < 1024; fd++) {
		struct sockaddr_un a;
		socklen_t size = sizeof a;
		n += getsockname(fd, (struct sockaddr *)&a, &size) == 0 && a.sun_family == AF_UNIX && size > sizeof a.sun_family && a.sun_path[0] == 0;
	}
	return n;
}

// temporary opens a new file that has no name, read-only.
static int temporary(struct stat *st)
{
	char path[4096];
	const char *dir = getenv("TMPDIR");
	snprintf(path, sizeof path, "%s/xrc-XXXXXX", dir != NULL ? dir : "/tmp");
	int fd = mkstemp(path), file = open(path, O_RDONLY | O_CLOEXEC);
	must(fd >= 0 && file >= 0 && unlink(path) == 0 && close(fd) == 0 && fstat(file, st) == 0);
	return file;
}

// xrc_inode checks that the inode identifies the domain of a file: no other file gets its number
// while the domain is open, even if the file is deleted. The domain keeps no lock of the file, and
// needs no socket with a name.
static void xrc_inode(void)
{
	struct stat first, next;
	struct ibv_context *c = open_first();
	int file = temporary(&first), before = names();
	struct ibv_xrcd *x = open_domain(c, file, O_CREAT), *none = open_domain(c, -1, 0), *dir;
	must(x != NULL && none != NULL && names() == before);
	char path[32];
	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	int again = open(path, O_RDONLY), self = open("/proc/self/fd", O_RDONLY);
	must(again >= 0 && self >= 0 && flock(file, LOCK_EX) == 0 && flock(again, LOCK_EX | LOCK_NB) != 0);
	must(close(file) == 0 && flock(again, LOCK_EX | LOCK_NB) == 0 && close(again) == 0);
	for (int i = 0; i < 100; i++) {
		file = temporary(&next);
		must(next.st_ino != first.st_ino);
		must(open_domain(c, file, 0) == NULL && errno == EAGAIN);
		must(close(file) == 0);
	}
	must((dir = open_domain(c, self, O_CREAT | O_EXCL)) != NULL && ibv_close_xrcd(dir) == 0);
	must(ibv_close_xrcd(x) == 0 && ibv_close_xrcd(none) == 0 && ibv_close_device(c) == 0 && close(self) == 0);
}

// holder starts a process that opens the domain of a file, starts a child that lives on, and calls
// after.
static pid_t holder(int file, void (*after)(struct ibv_context *c, struct ibv_xrcd *x), pid_t *child)
{
	int ready[2];
	must(pipe(ready) == 0);
	pid_t pid = begin_child();
	if (pid == 0) {
		struct ibv_context *c = open_first();
		struct ibv_xrcd *x = open_domain(c, file, O_CREAT);
		must(x != NULL);
		pid_t own = begin_child();
		if (own == 0)
			for (;;)
				pause(); // with all descriptors of its parent
		must(write(ready[1], &own, sizeof own) == sizeof own);
		after(c, x);
		for (;;)
			pause();
	}
	must(read(ready[0], child, sizeof *child) == sizeof *child && close(ready[0]) == 0 && close(ready[1]) == 0);
	return pid;
}

static void closes(struct ibv_context *c, struct ibv_xrcd *x) { must(c != NULL && ibv_close_xrcd(x) == 0); }

static void keeps(struct ibv_context *c, struct ibv_xrcd *x) { must(c != NULL && x != NULL); }

static void executes(struct ibv_context *c, struct ibv_xrcd *x)
{
	keeps(c, x);
	execl("/bin/sleep", "sleep", "100", NULL);
}

// becomes_free retries to open the domain of a file until that succeeds, for at most ten seconds.
static void becomes_free(struct ibv_context *c, int file)
{
	struct ibv_xrcd *x;
	int64_t end = now_ns() + 10000000000;
	while ((x = open_domain(c, file, O_CREAT)) == NULL && errno == EOPNOTSUPP && now_ns() < end)
		usleep(1000);
	must(x != NULL && ibv_close_xrcd(x) == 0);
}

static void end_holder(pid_t pid, pid_t child)
{
	int status;
	kill(child, SIGKILL);
	kill(pid, SIGKILL);
	must(waitpid(pid, &status, 0) == pid);
}

// xrc_processes opens a domain that another process had. The domain is free when that process has
// closed it, has ended or executes another program, even if a child has all its descriptors.
static void xrc_processes(void)
{
	int file = memfd_create("one", MFD_CLOEXEC);
	pid_t child, pid;
	struct ibv_context *c = open_first();
	pid = holder(file, keeps, &child);
	must(open_domain(c, file, O_CREAT) == NULL && errno == EOPNOTSUPP);
	must(kill(pid, SIGKILL) == 0);
	becomes_free(c, file);
	end_holder(pid, child);
	pid = holder(file, closes, &child);
	becomes_free(c, file);
	end_holder(pid, child);
	pid = holder(file, executes, &child);
	must(kill(child, SIGKILL) == 0);
	becomes_free(c, file);
	must(kill(pid, 0) == 0);
	end_holder(pid, child);
	must(ibv_close_device(c) == 0 && close(file) == 0);
}

// address contains the numbers of a process's ends, for the other process.
struct address {
	uint32_t ini, tgt, srqn;
};

// tell sends an address to the other process, and returns that of the other.
static struct address tell(int other, struct address own)
{
	must(write(other, &own, sizeof own) == sizeof own && read(other, &own, sizeof own) == sizeof own);
	return own;
}

// send_to posts a message to a shared receive queue, and returns the status of its completion.
static enum ibv_wc_status send_to(struct ends *e, uint32_t srqn, uint32_t size)
{
	struct ibv_sge s = {(uintptr_t)e->r.buf[0], size, e->r.mr[0]->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	wr.qp_type.xrc.remote_srqn = srqn;
	must(ibv_post_send(e->ini, &wr, &bad) == 0);
	return poll_one(e->r.cq[0]).status;
}

// again resets both ends and connects them to the ends of an address.
static void again(struct ends *e, struct address to)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};
	must(ibv_modify_qp(e->ini, &a, IBV_QP_STATE) == 0 && ibv_modify_qp(e->tgt, &a, IBV_QP_STATE) == 0);
	move_rc(e, e->ini, to.tgt);
	move_rc(e, e->tgt, to.ini);
}

// meet is the main function of one of two processes on an address, which are connected to each
// other. Both post all receives before any message is sent.
static void meet(int other, char letter)
{
	struct ends e = {0};
	ends_make(&e);
	struct address own = {e.ini->qp_num, e.tgt->qp_num, e.srqn}, to = tell(other, own);
	must(own.srqn >> 16 == own.tgt >> 16 && to.srqn >> 16 == to.tgt >> 16 && own.srqn >> 16 != to.srqn >> 16);
	again(&e, to);
	receive_xrc(&e, 21);
	receive_xrc(&e, 22);
	memset(e.r.buf[0], letter, BUF);
	tell(other, own);
	must(send_to(&e, to.srqn, 5000) == IBV_WC_SUCCESS);
	struct ibv_wc wc = poll_one(e.r.cq[1]);
	must(wc.wr_id == 21 && wc.status == IBV_WC_SUCCESS && wc.byte_len == 5000 && wc.qp_num == own.tgt && wc.src_qp == to.ini);
	must(e.r.buf[1][0] == 'A' + 'B' - letter && memcmp(e.r.buf[1], e.r.buf[1] + 1, 4999) == 0);
	tell(other, own);

	// Refused are the sender's number, and the receiver's number in the slot of the sender or of no process.
	uint32_t wrong[] = {own.srqn, (to.srqn ^ own.srqn) >> 16 << 16 ^ to.srqn, to.srqn ^ 1u << 23};
	for (int i = 0; i < 3; i++) {
		must(send_to(&e, wrong[i], 10) == IBV_WC_REM_INV_REQ_ERR);
		tell(other, own);
		again(&e, to);
		tell(other, own);
	}
	// A target of this process also refuses the number of the other process.
	again(&e, own);
	must(send_to(&e, to.srqn, 10) == IBV_WC_REM_INV_REQ_ERR);
	again(&e, own);
	must(send_to(&e, own.srqn, 10) == IBV_WC_SUCCESS && poll_one(e.r.cq[1]).wr_id == 22 && ibv_poll_cq(e.r.cq[1], 1, &wc) == 0);
	tell(other, own);
	ends_close(&e);
}

// xrc_shared lets two processes on one address send to each other's shared receive queues.
static void xrc_shared(void)
{
	int ends[2];
	must(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
	pid_t child = begin_child();
	if (child == 0) {
		must(close(ends[0]) == 0);
		meet(ends[1], 'B');
		_exit(0);
	}
	must(close(ends[1]) == 0);
	meet(ends[0], 'A');
	ended_well(child);
	must(close(ends[0]) == 0);
}

// RESTS is the number of destroyed objects whose numbers are not yet used again.
enum { DOMAINS = 4096, NUMBERS = (1 << 16) - 2, RESTS = 2048 };

// full_domains opens domains until there is none left.
static void full_domains(struct ends *e)
{
	static struct ibv_xrcd *all[DOMAINS];
	all[0] = e->xrcd;
	for (int i = 1; i < DOMAINS; i++)
		must((all[i] = open_domain(e->r.ctx, -1, O_CREAT)) != NULL);
	int file = memfd_create("one more", MFD_CLOEXEC), before = open("/dev/null", O_RDONLY), after;
	must(open_domain(e->r.ctx, -1, O_CREAT) == NULL && errno == ENOMEM);
	must(open_domain(e->r.ctx, file, O_CREAT) == NULL && errno == ENOMEM);
	must((after = open("/dev/null", O_RDONLY)) == before + 1 && close(after) == 0 && close(before) == 0);
	elsewhere(file, O_CREAT, 0); // the failed call has released the domain of the file
	must(ibv_close_xrcd(all[DOMAINS - 1]) == 0 && (all[DOMAINS - 1] = open_domain(e->r.ctx, file, O_CREAT)) != NULL);
	for (int i = 1; i < DOMAINS; i++)
		must(ibv_close_xrcd(all[i]) == 0);
	close(file);
}

// full_numbers creates shared receive queues until all numbers are taken.
static void full_numbers(struct ends *e)
{
	static struct ibv_srq *all[NUMBERS];
	static bool taken[1 << 16];
	uint32_t num, last = 0, falls = 0;
	all[0] = e->srq;
	for (int i = 0; i < NUMBERS; i++) {
		must(i == 0 || (all[i] = make_srq(e, 1)) != NULL);
		must(ibv_get_srq_num(all[i], &num) == 0 && num >> 16 == e->srqn >> 16 && !taken[num & 0xffff]);
		taken[num & 0xffff] = true;
		falls += num < last, last = num;
	}
	must(falls > NUMBERS / 4); // the numbers are not in ascending order
	must(make_srq(e, 1) == NULL && errno == ENOMEM);
	for (int i = 1; i <= RESTS; i++)
		must(ibv_destroy_srq(all[i]) == 0);
	must(make_srq(e, 1) == NULL && errno == ENOMEM);
	must(ibv_destroy_srq(all[RESTS + 1]) == 0 && (all[RESTS + 1] = make_srq(e, 1)) != NULL);
	for (int i = RESTS + 1; i < NUMBERS; i++)
		must(ibv_destroy_srq(all[i]) == 0);
}

// xrc_full fills the tables of the adapter: creating a further object fails with ENOMEM, and leaves
// nothing behind.
static void xrc_full(void)
{
	struct ends e = {0};
	ends_open(&e);
	full_domains(&e);
	full_numbers(&e);
	transfers(&e);
	ends_close(&e);
}

const struct scenario xrcs[] = {
	{"xrc", xrc}, {"xrc-files", xrc_files}, {"xrc-inode", xrc_inode}, {"xrc-processes", xrc_processes}, {"xrc-full", xrc_full},
	{"xrc-shared", xrc_shared}, {NULL, NULL},
};

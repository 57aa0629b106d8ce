// Work requests.
#define _GNU_SOURCE
#include "agent.h"

#include <arpa/inet.h>

enum {
	SGE_MAX = 32,
	LIST_MAX = 512, // work requests in one request
	WR_ATOMIC_WRITE = 15, // IBV_WR_ATOMIC_WRITE, which older headers lack
};

static const struct name OPCODES[] = {
	{ "SEND", IBV_WR_SEND }, { "SEND_WITH_IMM", IBV_WR_SEND_WITH_IMM }, { "SEND_WITH_INV", IBV_WR_SEND_WITH_INV },
	{ "RDMA_WRITE", IBV_WR_RDMA_WRITE }, { "RDMA_WRITE_WITH_IMM", IBV_WR_RDMA_WRITE_WITH_IMM }, { "RDMA_READ", IBV_WR_RDMA_READ },
	{ "ATOMIC_CMP_AND_SWP", IBV_WR_ATOMIC_CMP_AND_SWP }, { "ATOMIC_FETCH_AND_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD },
	{ "LOCAL_INV", IBV_WR_LOCAL_INV }, { "BIND_MW", IBV_WR_BIND_MW }, { "ATOMIC_WRITE", WR_ATOMIC_WRITE }, { 0, 0 }
};

static const struct name SEND_FLAGS[] = {
	{ "FENCE", IBV_SEND_FENCE }, { "SIGNALED", IBV_SEND_SIGNALED }, { "SOLICITED", IBV_SEND_SOLICITED }, { "INLINE", IBV_SEND_INLINE }, { 0, 0 }
};

static struct ibv_send_wr send_wrs[LIST_MAX];
static struct ibv_recv_wr recv_wrs[LIST_MAX];
static struct ibv_sge sges[LIST_MAX][SGE_MAX];

// One element: MR:OFF:LEN within a region, which nothing checks against its size, or @ADDR:LKEY:LEN.
static void to_sge(const char *s, struct ibv_sge *sge)
{
	char text[3][24];
	bool raw = *s == '@';
	uint64_t v[3];

	if (sscanf(s + raw, "%23[0-9a-fA-Fx]:%23[0-9a-fA-Fx]:%23[0-9a-fA-Fx]", text[0], text[1], text[2]) != 3) {
		fail(EINVAL, "sge=%.80s is not MR:OFF:LEN or @ADDR:LKEY:LEN", s);
		return;
	}
	v[0] = to_number("sge", text[0], UINT64_MAX);
	v[1] = to_number("sge", text[1], raw ? UINT32_MAX : UINT64_MAX);
	v[2] = to_number("sge", text[2], UINT32_MAX);
	if (failed)
		return;
	sge->length = v[2];
	if (raw) {
		sge->addr = v[0];
		sge->lkey = v[1];
	} else {
		struct object *mr = object(MR, "sge", v[0]);

		if (!mr)
			return;
		sge->addr = (uint64_t)(uintptr_t)mr->addr + v[1];
		sge->lkey = mr->mr->lkey;
	}
}

static int sge_list(int from, int to, struct ibv_sge *list)
{
	int n = 0;

	for (int i = from; i < to; i++) {
		if (strcmp(rq.key[i], "sge"))
			continue;
		if (n == SGE_MAX) {
			fail(ERANGE, "more than %d sge=", SGE_MAX);
			return 0;
		}
		to_sge(rq.value[i], &list[n++]);
	}
	return n;
}

// This process reads inline data, and must not crash at a bad address.
static void check_inline(const struct ibv_sge *list, int n)
{
	for (int i = 0; i < n && !failed; i++) {
		uint64_t from = list[i].addr, len = list[i].length;
		bool inside = len == 0;

		for (int h = 1; h < OBJECTS_MAX && !inside; h++) {
			const struct object *o = &objects[h];
			uint64_t map = (uint64_t)(uintptr_t)o->map;

			inside = o->kind == MR && from >= map && len <= o->map_len && from - map <= o->map_len - len;
		}
		if (!inside)
			fail(EFAULT, "inline data of element %d is in no region", i);
	}
}

// The end of the work request that begins at from: a ; or the end of the line.
static int segment(int from)
{
	while (from < rq.n && strcmp(rq.key[from], ";"))
		from++;
	return from;
}

// The library accepts any number as an operation, and some providers do not check
// it.
static enum ibv_wr_opcode opcode_in(int from, int to)
{
	uint64_t v = names_in(from, to, OPCODES, "op", IBV_WR_SEND);

	for (const struct name *n = OPCODES; n->text; n++)
		if (n->value == v)
			return v;
	fail(EINVAL, "op=%" PRIu64 " is no operation", v);
	return IBV_WR_SEND;
}

static void send_operation(int from, int to, struct ibv_send_wr *wr, struct ibv_qp *qp)
{
	uint64_t raddr = number_in(from, to, "raddr", 0, UINT64_MAX);
	uint32_t rkey = number_in(from, to, "rkey", 0, UINT32_MAX);
	struct object *o;

	wr->opcode = opcode_in(from, to);
	wr->send_flags = names_in(from, to, SEND_FLAGS, "flags", 0);
	if (find(from, to, "imm"))
		wr->imm_data = htonl(number_in(from, to, "imm", 0, UINT32_MAX));
	if (find(from, to, "inv"))
		wr->invalidate_rkey = number_in(from, to, "inv", 0, UINT32_MAX);
	if (wr->opcode == IBV_WR_BIND_MW) {
		if ((o = object_in(from, to, MW, "mw")))
			wr->bind_mw.mw = o->mw;
		wr->bind_mw.rkey = rkey;
		if ((o = object_in(from, to, MR, "mr"))) {
			wr->bind_mw.bind_info.mr = o->mr;
			wr->bind_mw.bind_info.addr = (uint64_t)(uintptr_t)o->addr + number_in(from, to, "off", 0, UINT64_MAX);
		}
		wr->bind_mw.bind_info.length = number_in(from, to, "len", 0, UINT64_MAX);
		wr->bind_mw.bind_info.mw_access_flags = names_in(from, to, ACCESS, "access", 0);
	} else if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.remote_addr = raddr;
		wr->wr.atomic.rkey = rkey;
		wr->wr.atomic.compare_add = number_in(from, to, "compare_add", 0, UINT64_MAX);
		wr->wr.atomic.swap = number_in(from, to, "swap", 0, UINT64_MAX);
	} else if (qp->qp_type == IBV_QPT_UD) {
		if ((o = object_in(from, to, AH, "ah")))
			wr->wr.ud.ah = o->ah;
		wr->wr.ud.remote_qpn = number_in(from, to, "rqpn", 0, UINT32_MAX);
		wr->wr.ud.remote_qkey = number_in(from, to, "rqkey", 0, UINT32_MAX);
	} else {
		wr->wr.rdma.remote_addr = raddr;
		wr->wr.rdma.rkey = rkey;
	}
}

// count= copies of the last work request: the ID grows by 1, addresses by stride=, the remote one by rstride=.
static uint64_t copies(int from, int to, int have)
{
	uint64_t count = number_in(from, to, "count", 1, LIST_MAX);

	if (!failed && (count == 0 || have + count > LIST_MAX))
		fail(ERANGE, "at most %d work requests at once", LIST_MAX);
	return failed ? 0 : count;
}

// Repeats work request n for its copies.
static void repeat(int n, uint64_t count, uint64_t stride, uint64_t rstride, bool remote)
{
	for (uint64_t i = 0; i < count; i++) {
		struct ibv_send_wr *wr = &send_wrs[n + i];

		*wr = send_wrs[n];
		wr->wr_id += i;
		wr->sg_list = sges[n + i];
		for (int k = 0; k < wr->num_sge; k++) {
			sges[n + i][k] = sges[n][k];
			sges[n + i][k].addr += i * stride;
		}
		if (wr->send_flags & IBV_SEND_INLINE)
			check_inline(wr->sg_list, wr->num_sge);
		if (remote)
			wr->wr.rdma.remote_addr += i * rstride;
	}
}

// Writes the work requests into send_wrs and returns their number. A receive, without a queue pair
// here, has the members that it shares with a send.
static int work_requests(struct ibv_qp *qp)
{
	int n = 0;

	for (int from = 0, to; !failed && from < rq.n; from = to + 1) {
		struct ibv_send_wr *wr = &send_wrs[n];
		uint64_t count;

		to = segment(from);
		count = copies(from, to, n);
		if (failed)
			break;
		memset(wr, 0, sizeof *wr);
		wr->wr_id = number_in(from, to, "wr", 0, UINT64_MAX);
		wr->num_sge = sge_list(from, to, sges[n]);
		if (qp)
			send_operation(from, to, wr, qp);
		repeat(n, count, number_in(from, to, "stride", 0, UINT32_MAX), number_in(from, to, "rstride", 0, UINT32_MAX),
		       qp && wr->opcode != IBV_WR_BIND_MW && qp->qp_type != IBV_QPT_UD);
		n += count;
	}
	return n;
}

// Posts an ATOMIC_WRITE, which only the extended interface has. Its value is in the memory of the element.
static void post_atomic_write(struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
	const struct ibv_sge *sge = wr->sg_list;

	if (wr->num_sge != 1 || sge->length != 8) {
		fail(EINVAL, "ATOMIC_WRITE takes one sge= of 8 bytes");
		return;
	}
	check_inline(sge, 1);
	if (!ready())
		return;
#ifdef WITH_ATOMIC_WRITE
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	int rc;

	if (!ex) {
		fail(EOPNOTSUPP, "the queue pair was created without atomic_write=1");
		return;
	}
	ibv_wr_start(ex);
	ex->wr_id = wr->wr_id;
	ex->wr_flags = wr->send_flags;
	ibv_wr_atomic_write(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, (const void *)(uintptr_t)sge->addr);
	if ((rc = ibv_wr_complete(ex)))
		fail(error_of(rc), "wr_complete bad=0");
	else
		put("n=1");
#else
	(void)qp;
	fail(EOPNOTSUPP, "this program was compiled without WITH_ATOMIC_WRITE");
#endif
}

void do_post(void)
{
	struct object *qp = arg(QP, "qp");
	struct ibv_send_wr *bad = NULL;
	int n = qp ? work_requests(qp->qp) : 0, rc;

	for (int i = 0; i < n; i++) {
		if ((int)send_wrs[i].opcode == WR_ATOMIC_WRITE && n > 1)
			fail(EINVAL, "ATOMIC_WRITE is posted alone");
		send_wrs[i].next = i + 1 < n ? &send_wrs[i + 1] : NULL;
	}
	if (n == 1 && (int)send_wrs[0].opcode == WR_ATOMIC_WRITE) {
		post_atomic_write(qp->qp, send_wrs);
		return;
	}
	if (!ready())
		return;
	if ((rc = ibv_post_send(qp->qp, send_wrs, &bad)))
		fail(error_of(rc), "post_send bad=%d", bad ? (int)(bad - send_wrs) : 0);
	else
		put("n=%d", n);
	// The next bind of a window of type 2 reads its current key from mw->rkey, which the library does not set.
	for (int i = 0; i < n && !rc; i++)
		if (send_wrs[i].opcode == IBV_WR_BIND_MW)
			send_wrs[i].bind_mw.mw->rkey = send_wrs[i].bind_mw.rkey;
}

void do_recv(void)
{
	struct object *qp = given("srq") ? NULL : arg(QP, "qp"), *srq = given("srq") ? arg(SRQ, "srq") : NULL;
	struct ibv_recv_wr *bad = NULL;
	int n = work_requests(NULL), rc;

	for (int i = 0; i < n; i++)
		recv_wrs[i] = (struct ibv_recv_wr){
			.wr_id = send_wrs[i].wr_id, .sg_list = send_wrs[i].sg_list, .num_sge = send_wrs[i].num_sge, .next = i + 1 < n ? &recv_wrs[i + 1] : NULL
		};
	if (!ready())
		return;
	rc = srq ? ibv_post_srq_recv(srq->srq, recv_wrs, &bad) : ibv_post_recv(qp->qp, recv_wrs, &bad);
	if (rc)
		fail(error_of(rc), "%s bad=%d", srq ? "post_srq_recv" : "post_recv", bad ? (int)(bad - recv_wrs) : 0);
	else
		put("n=%d", n);
}

// Binds a window of type 1, or unbinds it with len=0. Windows of type 2 are bound by post op=BIND_MW.
// Even unbinding needs a region: the rxe provider crashes without one.
void do_bind(void)
{
	struct object *qp = arg(QP, "qp"), *mw = arg(MW, "mw"), *mr = arg(MR, "mr");
	struct ibv_mw_bind b;

	memset(&b, 0, sizeof b);
	b.wr_id = number("wr", 0, UINT64_MAX);
	b.send_flags = names_in(0, rq.n, SEND_FLAGS, "flags", 0);
	b.bind_info.length = number("len", 0, UINT64_MAX);
	b.bind_info.mw_access_flags = names_in(0, rq.n, ACCESS, "access", 0);
	if (failed)
		return;
	b.bind_info.mr = mr->mr;
	b.bind_info.addr = (uint64_t)(uintptr_t)mr->addr + number("off", 0, UINT64_MAX);
	if (ready() && done(ibv_bind_mw(qp->qp, mw->mw, &b), "bind_mw"))
		put("rkey=0x%x", mw->mw->rkey);
}

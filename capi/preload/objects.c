// Objects of running processes as netlink shows them: queue pairs, completion queues and others.

#define _GNU_SOURCE
#include "nldev.h"

#include "preload.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

// list is a list of objects, or one object, in the making.
struct list {
	struct work *w;
	struct message *m;
	const struct kind *kind;
	uint32_t port;   // only objects of this port; 0: of all
	uint32_t number; // only the object with this number, if single is set
	bool single, found;
};

// kind is how a command shows objects. Each kind has the number of a row, and writes the
// attributes of a row: false if the row is not shown.
struct kind {
	int op, res;      // the command and what it names in ATTR_STAT_RES
	int rows;         // kind of the rows
	int attribute;    // of the list; the next one is that of an entry
	int number;       // attribute with the number of an object
	const char *name; // in the summary; NULL: not there
	uint32_t (*number_of)(const struct table *t, const void *row);
	bool (*put)(struct list *l, const struct table *t, const void *row);
};

// number_in returns the number of an object on the device: processes that share an address number
// their objects alike, except for queue pairs, and differ in their slot.
static uint32_t number_in(const struct table *t, uint32_t number)
{
	return (uint32_t)(t->header.process.slot & 0xff) << 24 | (number & 0xffffff);
}

static void put_pid(struct list *l, const struct table *t) { put_u32(l->m, ATTR_RES_PID, (uint32_t)t->header.process.pid); }

static void put_context(struct list *l, const struct table *t) { put_u32(l->m, ATTR_RES_CTXN, number_in(t, 0)); }

// Types and states of queue pairs, numbered as in ib and in the kernel.
enum { QP_RC = 2, QP_UC = 3, QP_RD = 5, QP_EEC = 6, QP_UNKNOWN = 7, QP_XRC_INI = 9, QP_XRC_TGT = 10, QP_RESET = 0 };

// The only port.
enum { PORT = 1 };

// type_of returns the type of a queue pair in the kernel, which knows no reliable datagrams.
static uint8_t type_of(uint8_t type) { return type == QP_RD ? QP_UNKNOWN : type; }

static uint32_t number_of_qp(const struct table *t, const void *row)
{
	(void)t;
	return ((const struct table_qp *)row)->info.num;
}

static bool put_qp(struct list *l, const struct table *t, const void *row)
{
	const struct table_qp *qp = row;
	const uint8_t type = qp->info.type, state = qp->info.state;
	const bool connected = type == QP_RC || type == QP_UC;

	if (type == QP_EEC || (l->port != 0 && state == QP_RESET))
		return false;
	if (state != QP_RESET) // the port is an attribute of INIT
		put_u32(l->m, ATTR_PORT_INDEX, PORT);
	put_u32(l->m, ATTR_RES_LQPN, qp->info.num);
	put_u32(l->m, ATTR_RES_PDN, number_in(t, qp->info.pd));
	put_pid(l, t);
	if (connected) {
		put_u32(l->m, ATTR_RES_RQPN, qp->info.peer);
		put_u32(l->m, ATTR_RES_RQ_PSN, (uint32_t)qp->counts.recv_psn);
	}
	put_u32(l->m, ATTR_RES_SQ_PSN, (uint32_t)qp->counts.send_psn);
	if (connected || type == QP_XRC_INI || type == QP_XRC_TGT)
		put_u8(l->m, ATTR_RES_PATH_MIG_STATE, qp->info.mig);
	put_u8(l->m, ATTR_RES_TYPE, type_of(type));
	put_u8(l->m, ATTR_RES_STATE, state);
	return true;
}

// attached counts the queue pairs that use an object, and lists their numbers.
struct attached {
	uint32_t cq, srq; // the object; 0: another kind
	uint64_t users;
	uint32_t ranges;
	struct range {
		uint32_t from, to;
	} range[RANGES_MAX];
};

static bool attach(const struct table *t, const void *row, void *to)
{
	const struct table_qp_info *qp = &((const struct table_qp *)row)->info;
	struct attached *a = to;

	(void)t;
	if (a->cq != 0)
		a->users += (qp->send_cq == a->cq) + (qp->recv_cq == a->cq);
	if (a->srq == 0 || qp->srq != a->srq)
		return true;
	a->users++;
	if (a->ranges > 0 && a->range[a->ranges - 1].to + 1 == qp->num)
		a->range[a->ranges - 1].to++;
	else if (a->ranges < RANGES_MAX)
		a->range[a->ranges++] = (struct range){ qp->num, qp->num };
	return true;
}

static uint32_t number_of_cq(const struct table *t, const void *row) { return number_in(t, ((const struct table_cq *)row)->info.num); }

static bool put_cq(struct list *l, const struct table *t, const void *row)
{
	const struct table_cq *cq = row;
	struct attached a = { .cq = cq->info.num };

	each_row_of(l->w, t, &(struct walk){ TABLE_QP, attach, &a });
	put_u32(l->m, ATTR_RES_CQE, cq->info.depth);
	put_u64(l->m, ATTR_RES_USECNT, a.users);
	put_u8(l->m, ATTR_DEV_DIM, 0);
	put_u32(l->m, ATTR_RES_CQN, number_of_cq(t, row));
	put_context(l, t);
	put_pid(l, t);
	return true;
}

static uint32_t number_of_mr(const struct table *t, const void *row) { return number_in(t, ((const struct table_mr *)row)->info.num); }

// put_mr writes no keys: the kernel shows them to administrators only.
static bool put_mr(struct list *l, const struct table *t, const void *row)
{
	const struct table_mr *mr = row;

	if (mr->info.form == TABLE_FORM_WINDOW)
		return false;
	put_u64(l->m, ATTR_RES_MRLEN, mr->info.length);
	put_u32(l->m, ATTR_RES_MRN, number_of_mr(t, row));
	put_u32(l->m, ATTR_RES_PDN, number_in(t, mr->info.pd));
	put_pid(l, t);
	return true;
}

static uint32_t number_of_pd(const struct table *t, const void *row) { return number_in(t, ((const struct table_pd *)row)->info.num); }

static bool put_pd(struct list *l, const struct table *t, const void *row)
{
	put_u64(l->m, ATTR_RES_USECNT, ((const struct table_pd *)row)->counts.users);
	put_u32(l->m, ATTR_RES_PDN, number_of_pd(t, row));
	put_context(l, t);
	put_pid(l, t);
	return true;
}

static uint32_t number_of_srq(const struct table *t, const void *row) { return number_in(t, ((const struct table_srq *)row)->info.num); }

// put_srq writes a shared receive queue and the queue pairs that use it, at most RANGES_MAX ranges
// of their numbers.
static bool put_srq(struct list *l, const struct table *t, const void *row)
{
	const struct table_srq *srq = row;
	struct attached a = { .srq = srq->info.num };

	each_row_of(l->w, t, &(struct walk){ TABLE_QP, attach, &a });
	put_u32(l->m, ATTR_RES_SRQN, number_of_srq(t, row));
	put_u8(l->m, ATTR_RES_TYPE, srq->info.xrc != 0);
	put_u32(l->m, ATTR_RES_PDN, number_in(t, srq->info.pd));
	if (srq->info.xrc != 0 && srq->info.cq != 0)
		put_u32(l->m, ATTR_RES_CQN, number_in(t, srq->info.cq));
	const size_t all = open_nest(l->m, ATTR_RES_QP | NLA_F_NESTED);
	for (uint32_t i = 0; i < a.ranges; i++) {
		const size_t one = open_nest(l->m, ATTR_RES_QP_ENTRY | NLA_F_NESTED);
		if (a.range[i].from == a.range[i].to) {
			put_u32(l->m, ATTR_RES_LQPN, a.range[i].from);
		} else {
			put_u32(l->m, ATTR_MIN_RANGE, a.range[i].from);
			put_u32(l->m, ATTR_MAX_RANGE, a.range[i].to);
		}
		close_nest(l->m, one);
	}
	close_nest(l->m, all);
	put_pid(l, t);
	return true;
}

static uint32_t number_of_context(const struct table *t, const void *row)
{
	(void)row;
	return number_in(t, 0);
}

static bool put_one_context(struct list *l, const struct table *t, const void *row)
{
	(void)row;
	put_context(l, t);
	put_pid(l, t);
	return true;
}

// The states of an rdma_cm ID.
enum { CM_IDLE = 0, CM_CONNECT = 5, CM_DISCONNECT = 6, CM_LISTEN = 8 };

static uint8_t cm_state(uint8_t state)
{
	switch (state) {
	case TABLE_CM_IDLE:
		return CM_IDLE;
	case TABLE_CM_LISTEN:
		return CM_LISTEN;
	case TABLE_CM_DREQ_SENT:
	case TABLE_CM_DREQ_RCVD:
	case TABLE_CM_TIMEWAIT:
		return CM_DISCONNECT;
	default:
		return CM_CONNECT;
	}
}

// Port spaces are in the service ID if it is that of an IP service.
enum { PS_SHIFT = 16, PS_IB = 0x13f };

static uint32_t port_space(uint64_t service) { return service >> 32 == 0 ? (uint32_t)service >> PS_SHIFT : PS_IB; }

static const uint8_t v4_mapped[12] = { [10] = 0xff, [11] = 0xff };

// put_address writes an address as a sockaddr_storage, like an IPv4 address if the other one is
// one, for an address of zeros.
static void put_address(struct message *m, int type, const uint8_t addr[16], bool v4, uint16_t port)
{
	struct sockaddr_storage s = { 0 };
	struct sockaddr_in *in = (struct sockaddr_in *)&s;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&s;

	if (v4) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		memcpy(&in->sin_addr, addr + sizeof(v4_mapped), sizeof(in->sin_addr));
	} else {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		memcpy(&in6->sin6_addr, addr, sizeof(in6->sin6_addr));
	}
	put(m, type, &s, sizeof(s));
}

static uint32_t number_of_cm_id(const struct table *t, const void *row) { return number_in(t, ((const struct table_cm_id *)row)->info.num); }

static bool put_cm_id(struct list *l, const struct table *t, const void *row)
{
	static const uint8_t none[16];
	const struct table_cm_id_info *id = &((const struct table_cm_id *)row)->info;
	// A listener for all addresses listens at the adapter's.
	const uint8_t *local = memcmp(id->local, none, sizeof(none)) == 0 ? t->header.process.addr : id->local;
	const bool v4 = memcmp(local, v4_mapped, sizeof(v4_mapped)) == 0;

	put_u32(l->m, ATTR_PORT_INDEX, PORT);
	if (id->qpn != 0) {
		put_u32(l->m, ATTR_RES_LQPN, id->qpn);
		put_u8(l->m, ATTR_RES_TYPE, type_of(id->type));
	}
	put_u32(l->m, ATTR_RES_PS, port_space(id->service_id));
	put_u8(l->m, ATTR_RES_STATE, cm_state(id->state));
	put_address(l->m, ATTR_RES_SRC_ADDR, local, v4, id->local_port);
	put_address(l->m, ATTR_RES_DST_ADDR, id->remote, v4, id->remote_port);
	put_u32(l->m, ATTR_RES_CM_IDN, number_of_cm_id(t, row));
	put_pid(l, t);
	return true;
}

// Counters of a queue pair, with the names of the adapter's counters where these exist.
static const struct {
	const char *name;
	size_t at;
} qp_counters[] = {
	{ "sent_pkts", offsetof(struct table_qp, counts.sent_packets) },
	{ "sent_bytes", offsetof(struct table_qp, counts.sent_bytes) },
	{ "sent_msgs", offsetof(struct table_qp, counts.sent_messages) },
	{ "rcvd_pkts", offsetof(struct table_qp, counts.rcvd_packets) },
	{ "rcvd_bytes", offsetof(struct table_qp, counts.rcvd_bytes) },
	{ "rcvd_msgs", offsetof(struct table_qp, counts.rcvd_messages) },
	{ "retransmitted", offsetof(struct table_qp, counts.retransmitted) },
	{ "timeouts", offsetof(struct table_qp, counts.timeouts) },
	{ "send_rnr_err", offsetof(struct table_qp, counts.rnr_sent) },
	{ "rcvd_rnr_err", offsetof(struct table_qp, counts.rnr_rcvd) },
	{ "rcvd_seq_err", offsetof(struct table_qp, counts.seq_errors) },
	{ "errors", offsetof(struct table_qp, counts.errors) },
};

// put_qp_counters writes the counters of a queue pair as those of a counter that is bound to it.
static bool put_qp_counters(struct list *l, const struct table *t, const void *row)
{
	const struct table_qp *qp = row;
	uint64_t value;

	if (qp->info.type == QP_EEC)
		return false;
	put_u32(l->m, ATTR_PORT_INDEX, PORT);
	put_u32(l->m, ATTR_STAT_COUNTER_ID, qp->info.num);
	put_u8(l->m, ATTR_RES_TYPE, type_of(qp->info.type));
	put_pid(l, t);
	const size_t qps = open_nest(l->m, ATTR_RES_QP), one = open_nest(l->m, ATTR_RES_QP_ENTRY);
	put_u32(l->m, ATTR_RES_LQPN, qp->info.num);
	close_nest(l->m, one);
	close_nest(l->m, qps);
	const size_t all = open_nest(l->m, ATTR_STAT_HWCOUNTERS);
	for (size_t i = 0; i < sizeof(qp_counters) / sizeof(qp_counters[0]); i++) {
		const size_t counter = open_nest(l->m, ATTR_STAT_HWCOUNTER_ENTRY);
		memcpy(&value, (const char *)row + qp_counters[i].at, sizeof(value));
		put_string(l->m, ATTR_STAT_HWCOUNTER_ENTRY_NAME, qp_counters[i].name);
		put_u64(l->m, ATTR_STAT_HWCOUNTER_ENTRY_VALUE, value);
		close_nest(l->m, counter);
	}
	close_nest(l->m, all);
	return true;
}

static bool put_mr_counters(struct list *l, const struct table *t, const void *row)
{
	if (((const struct table_mr *)row)->info.form == TABLE_FORM_WINDOW)
		return false;
	put_u32(l->m, ATTR_RES_MRN, number_of_mr(t, row));
	return true;
}

static const struct kind kinds[] = {
	{ CMD_RES_PD_GET, 0, TABLE_PD, ATTR_RES_PD, ATTR_RES_PDN, "pd", number_of_pd, put_pd },
	{ CMD_RES_CQ_GET, 0, TABLE_CQ, ATTR_RES_CQ, ATTR_RES_CQN, "cq", number_of_cq, put_cq },
	{ CMD_RES_QP_GET, 0, TABLE_QP, ATTR_RES_QP, ATTR_RES_LQPN, "qp", number_of_qp, put_qp },
	{ CMD_RES_CM_ID_GET, 0, TABLE_CM_ID, ATTR_RES_CM_ID, ATTR_RES_CM_IDN, "cm_id", number_of_cm_id, put_cm_id },
	{ CMD_RES_MR_GET, 0, TABLE_MR, ATTR_RES_MR, ATTR_RES_MRN, "mr", number_of_mr, put_mr },
	{ CMD_RES_CTX_GET, 0, TABLE_ANY, ATTR_RES_CTX, ATTR_RES_CTXN, "ctx", number_of_context, put_one_context },
	{ CMD_RES_SRQ_GET, 0, TABLE_SRQ, ATTR_RES_SRQ, ATTR_RES_SRQN, "srq", number_of_srq, put_srq },
	{ CMD_STAT_GET, ATTR_RES_QP, TABLE_QP, ATTR_STAT_COUNTER, ATTR_STAT_COUNTER_ID, NULL, number_of_qp, put_qp_counters },
	{ CMD_STAT_GET, ATTR_RES_MR, TABLE_MR, ATTR_RES_MR, ATTR_RES_MRN, NULL, number_of_mr, put_mr_counters },
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static const struct kind *kind_of(const struct dump *what)
{
	for (int i = 0; i < KINDS; i++)
		if (kinds[i].op == (int)what->op && (kinds[i].res == 0 || kinds[i].res == (int)what->res))
			return &kinds[i];
	return NULL;
}

bool is_listed(const struct dump *what) { return kind_of(what) != NULL; }

// add writes a row into a list. It stops the walk if the row does not fit.
static bool add(const struct table *t, const void *row, void *to)
{
	struct list *l = to;
	const size_t at = l->m->len;

	if (l->single && l->kind->number_of(t, row) != l->number)
		return true;
	if (l->single) {
		l->found = l->kind->put(l, t, row);
		return !l->found;
	}
	const size_t entry = open_nest(l->m, l->kind->attribute + 1);
	const bool shown = l->kind->put(l, t, row);
	const bool fits = !l->m->full, first = !l->found;
	if (shown && fits) {
		close_nest(l->m, entry);
		l->found = true;
		return true;
	}
	l->m->len = at;
	l->m->full = false;
	return fits || first; // a row that fits into no part is left out
}

bool put_objects(struct work *w, struct message *m, const struct device *d, struct dump *from)
{
	struct list l = { .w = w, .m = m, .kind = kind_of(from), .port = from->port };
	const size_t before = m->len;

	if (l.kind == NULL)
		return true;
	const size_t all = open_nest(m, l.kind->attribute);
	const bool last = each_row(w, d, &(struct walk){ l.kind->rows, add, &l }, &from->at);
	close_nest(m, all);
	if (!l.found)
		m->len = before;
	return last;
}

int put_object(struct work *w, struct message *m, const struct device *d, const struct dump *which)
{
	struct list l = { .w = w, .m = m, .kind = kind_of(which), .port = which->port, .single = true };
	struct cursor at = { 0 };

	if (l.kind == NULL || !w->r.has[l.kind->number])
		return EINVAL;
	l.number = w->r.values[l.kind->number];
	each_row(w, d, &(struct walk){ l.kind->rows, add, &l }, &at);
	return l.found ? 0 : ENOENT;
}

// count counts the rows that a list would have.
static bool count(const struct table *t, const void *row, void *to)
{
	uint64_t *counts = to;

	(void)t;
	(void)row;
	++*counts;
	return true;
}

static bool count_qp(const struct table *t, const void *row, void *to)
{
	return ((const struct table_qp *)row)->info.type == QP_EEC || count(t, row, to);
}

static bool count_mr(const struct table *t, const void *row, void *to)
{
	return ((const struct table_mr *)row)->info.form == TABLE_FORM_WINDOW || count(t, row, to);
}

void put_summary(struct work *w, struct message *m, const struct device *d)
{
	const size_t all = open_nest(m, ATTR_RES_SUMMARY);

	for (int i = 0; i < KINDS && kinds[i].name != NULL; i++) {
		struct cursor at = { 0 };
		uint64_t n = 0;
		const int rows = kinds[i].rows;
		each_row(w, d, &(struct walk){ rows, rows == TABLE_QP ? count_qp : rows == TABLE_MR ? count_mr : count, &n }, &at);
		const size_t one = open_nest(m, ATTR_RES_SUMMARY_ENTRY);
		put_string(m, ATTR_RES_SUMMARY_ENTRY_NAME, kinds[i].name);
		put_u64(m, ATTR_RES_SUMMARY_ENTRY_CURR, n);
		close_nest(m, one);
	}
	close_nest(m, all);
}

// Answers to requests of netlink, as the kernel gives them for a RoCE device.

#define _GNU_SOURCE
#include "nldev.h"

#include "preload.h"

#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

// The ABI of the connection manager, as sysfs has it, and the driver's number of the verbs: none.
enum { CONNECT_ABI = 4, DRIVER_UNKNOWN = 0 };

// Values of ATTR_STAT_MODE and ATTR_SYS_NETNS_MODE.
enum { MODE_MANUAL = 2, NETNS_EXCLUSIVE = 0 };

// STARTED is the result of a request whose answer acknowledges it: a dump.
enum { STARTED = -1 };

// parse reads the attributes of a request. It returns EINVAL if one is too short; like the
// kernel, it ignores unknown ones and what follows a malformed one.
static int parse(struct request *r)
{
	const unsigned char *p = (const unsigned char *)r->header + NLMSG_HDRLEN;
	size_t left = r->header->nlmsg_len - NLMSG_HDRLEN;
	struct nlattr a;

	memset(r->has, 0, sizeof(r->has));
	r->chardev[0] = '\0';
	while (left >= NLA_HDRLEN) {
		memcpy(&a, p, sizeof(a));
		if (a.nla_len < NLA_HDRLEN || a.nla_len > left)
			return 0;
		const int type = a.nla_type & NLA_TYPE_MASK;
		const size_t len = a.nla_len - NLA_HDRLEN, whole = NLA_ALIGN(a.nla_len);
		if (type == ATTR_CHARDEV_TYPE) {
			if (len == 0 || len > sizeof(r->chardev) || p[NLA_HDRLEN + len - 1] != '\0')
				return EINVAL;
			memcpy(r->chardev, p + NLA_HDRLEN, len);
		} else if (type == ATTR_DEV_INDEX || type == ATTR_PORT_INDEX || type == ATTR_STAT_RES || type == ATTR_STAT_MODE ||
			   type == ATTR_STAT_COUNTER_ID || type == ATTR_RES_LQPN || type == ATTR_RES_SRQN ||
			   (type >= ATTR_RES_PDN && type <= ATTR_RES_CTXN)) {
			if (len < sizeof(uint32_t))
				return EINVAL;
			memcpy(&r->values[type], p + NLA_HDRLEN, sizeof(uint32_t));
			r->has[type] = true;
		}
		if (whole >= left)
			return 0;
		p += whole;
		left -= whole;
	}
	return 0;
}

static size_t begin(struct message *m, uint16_t type, uint16_t flags, const struct dump *q)
{
	const size_t at = m->len;

	if (m->full || PART_MAX - m->len < NLMSG_HDRLEN) {
		m->full = true;
		return at;
	}
	*(struct nlmsghdr *)(m->bytes + at) =
		(struct nlmsghdr){ .nlmsg_type = type, .nlmsg_flags = flags, .nlmsg_seq = q->seq, .nlmsg_pid = q->port_id };
	m->len += NLMSG_HDRLEN;
	return at;
}

static void end(struct message *m, size_t at)
{
	if (!m->full)
		((struct nlmsghdr *)(m->bytes + at))->nlmsg_len = (uint32_t)(m->len - at);
}

static uint16_t type_of(uint32_t op) { return (uint16_t)(NLDEV << CLIENT_SHIFT | op); }

static void put_handle(struct message *m, const struct device *d)
{
	put_u32(m, ATTR_DEV_INDEX, d->index);
	put_string(m, ATTR_DEV_NAME, d->name);
}

// put_chardev writes the character device of a kind.
static int put_chardev(struct message *m, const struct request *r)
{
	char name[32] = "rdma_cm";
	uint64_t number = makedev(MISC_MAJOR, RDMA_CM_MINOR), abi = CONNECT_ABI;
	struct device d;

	if (strcmp(r->chardev, "uverbs") == 0) {
		if (!r->has[ATTR_DEV_INDEX] || !find_device(r->values[ATTR_DEV_INDEX], &d))
			return EINVAL;
		number = makedev(DEVICE_MAJOR, DEVICE_MINOR + d.index);
		abi = 1;
		*decimal(stpcpy(name, "uverbs"), d.index) = '\0';
		put_u64(m, ATTR_UVERBS_DRIVER_ID, DRIVER_UNKNOWN);
	} else if (r->chardev[0] == '\0') {
		return EINVAL;
	} else if (strcmp(r->chardev, name) != 0 || r->has[ATTR_DEV_INDEX]) {
		return ENOENT;
	}
	put_u64(m, ATTR_CHARDEV, number);
	put_u64(m, ATTR_CHARDEV_ABI, abi);
	put_string(m, ATTR_CHARDEV_NAME, name);
	return 0;
}

static int put_system(struct message *m)
{
	put_u8(m, ATTR_SYS_NETNS_MODE, NETNS_EXCLUSIVE); // an adapter is in one namespace
	put_u8(m, ATTR_SYS_PRIVILEGED_QKEY, 0);
	put_u8(m, ATTR_SYS_MONITOR, 1);      // but nothing is ever reported
	put_u8(m, ATTR_SYS_COPY_ON_FORK, 1); // forks do no harm
	return 0;
}

// put_statistic writes the counters of a port, or how queue pairs get theirs.
static int put_statistic(struct work *w, struct message *m, const struct device *d)
{
	const struct request *r = &w->r;

	if (!r->has[ATTR_PORT_INDEX])
		return EINVAL;
	if (!r->has[ATTR_STAT_RES]) {
		put_port_counters(w, m, d, true);
		return 0;
	}
	if (r->values[ATTR_STAT_RES] != ATTR_RES_QP || !r->has[ATTR_STAT_MODE] || r->has[ATTR_STAT_COUNTER_ID])
		return EINVAL;
	put_u32(m, ATTR_PORT_INDEX, 1);
	put_u32(m, ATTR_STAT_MODE, MODE_MANUAL);
	return 0;
}

// put_one writes the answer to a request for one thing of a device.
static int put_one(struct work *w, struct message *m, const struct device *d, const struct dump *q)
{
	const struct request *r = &w->r;

	put_handle(m, d);
	switch (q->op) {
	case CMD_GET:
		put_device(m, d);
		return 0;
	case CMD_PORT_GET:
		if (!r->has[ATTR_PORT_INDEX])
			return EINVAL;
		put_port(m, d);
		return 0;
	case CMD_RES_GET:
		put_summary(w, m, d);
		return 0;
	case CMD_STAT_GET:
		return put_statistic(w, m, d);
	case CMD_STAT_GET_STATUS:
		if (!r->has[ATTR_PORT_INDEX])
			return EINVAL;
		put_port_counters(w, m, d, false);
		return 0;
	default:
		return put_object(w, m, d, q);
	}
}

// device_of finds the device of a request, and checks the port.
static int device_of(const struct dump *q, struct device *d)
{
	return q->port > 1 || !find_device(q->device, d) ? EINVAL : 0;
}

// get answers a request for one thing.
static int get(struct work *w, struct dump *q, int fd)
{
	const struct request *r = &w->r;
	struct message m = { .bytes = w->part };
	struct device d;
	int error;

	// The kernel names the answer for a port as that for a device.
	const size_t at = begin(&m, type_of(q->op == CMD_PORT_GET ? CMD_GET : q->op), 0, q);
	if (q->op == CMD_GET_CHARDEV) {
		error = put_chardev(&m, r);
	} else if (q->op == CMD_SYS_GET) {
		error = put_system(&m);
	} else {
		error = r->has[ATTR_DEV_INDEX] ? device_of(q, &d) : EINVAL;
		if (error == 0 && r->has[ATTR_PORT_INDEX] && q->port == 0)
			error = EINVAL;
		if (error == 0)
			error = put_one(w, &m, &d, q);
	}
	if (error != 0)
		return error;
	if (m.full)
		return EMSGSIZE;
	end(&m, at);
	return send_part(fd, m.bytes, m.len) ? 0 : ENOBUFS;
}

// put_part writes a part of a dump and returns true if it is the last one.
static bool put_part(struct work *w, struct message *m, struct dump *q)
{
	struct device d;

	if (q->op == CMD_GET || q->op == CMD_RES_GET) {
		while (find_device(q->device, &d)) {
			const size_t before = m->len, at = begin(m, type_of(q->op), NLM_F_MULTI, q);
			put_one(w, m, &d, q);
			if (m->full) {
				m->len = before;
				m->full = false;
				return before == 0;
			}
			end(m, at);
			q->device++;
		}
		return true;
	}
	if (device_of(q, &d) != 0)
		return true;
	const size_t before = m->len, at = begin(m, type_of(q->op), NLM_F_MULTI, q);
	bool last = true;
	put_handle(m, &d);
	const size_t empty = m->len;
	if (q->op == CMD_PORT_GET)
		put_port(m, &d);
	else
		last = put_objects(w, m, &d, q);
	if (m->len == empty)
		m->len = before;
	else
		end(m, at);
	return last;
}

enum progress go_on(struct work *w, int fd, struct dump *q)
{
	struct message m = { .bytes = w->part };
	const int done = 0;
	const bool last = put_part(w, &m, q);

	if (m.len > 0 && !send_part(fd, m.bytes, m.len))
		return DUMP_FULL;
	if (!last)
		return DUMP_MORE;
	m.len = 0;
	const size_t at = begin(&m, NLMSG_DONE, NLM_F_MULTI, q);
	memcpy(m.bytes + m.len, &done, sizeof(done));
	m.len += sizeof(done);
	end(&m, at);
	return send_part(fd, m.bytes, m.len) ? DUMP_DONE : DUMP_FULL;
}

// start begins a dump. netlink.c keeps an unfinished one until the program receives again.
static int start(struct work *w, struct dump *q, int fd)
{
	const struct request *r = &w->r;
	struct device d;

	switch (q->op) {
	case CMD_GET:
	case CMD_RES_GET:
		q->device = 0;
		break;
	case CMD_PORT_GET:
		q->port = 0;
		// fallthrough
	default:
		if (!r->has[ATTR_DEV_INDEX] || device_of(q, &d) != 0 || (q->op != CMD_PORT_GET && !is_listed(q)))
			return EINVAL;
	}
	switch (go_on(w, fd, q)) {
	case DUMP_FULL:
		return ENOBUFS;
	case DUMP_MORE:
		return keep_dump(fd, q) ? STARTED : ENOBUFS;
	default:
		return STARTED;
	}
}

// refusal returns the error of a command that changes something: the adapter has no
// administrator, so it is that of an ordinary user, or that of a device that cannot do it.
static int refusal(uint32_t op)
{
	switch (op) {
	case CMD_SET:
	case CMD_SYS_SET:
	case CMD_STAT_SET:
	case CMD_STAT_DEL:
	case CMD_NEWDEV:
	case CMD_DELDEV:
		return geteuid() == 0 ? EOPNOTSUPP : EPERM;
	case CMD_NEWLINK:
	case CMD_DELLINK:
	case CMD_RES_QP_GET_RAW:
	case CMD_RES_CQ_GET_RAW:
	case CMD_RES_MR_GET_RAW:
	case CMD_RES_SRQ_GET_RAW:
		return geteuid() == 0 ? EINVAL : EPERM;
	default:
		return 0;
	}
}

// known reports whether a command asks for something.
static bool known(uint32_t op)
{
	return op > 0 && op <= CMD_STAT_GET_STATUS && op != CMD_SYS_SET + 1;
}

// serve answers one request and returns its error.
static int serve(struct work *w, int fd)
{
	struct request *r = &w->r;
	const uint32_t op = r->header->nlmsg_type & OP_MASK;
	const int refused = refusal(op);

	if (r->header->nlmsg_type >> CLIENT_SHIFT != NLDEV)
		return EINVAL;
	if (refused != 0)
		return refused;
	if (!known(op) || parse(r) != 0)
		return EINVAL;
	struct dump q = { .port_id = r->port_id, .seq = r->header->nlmsg_seq, .op = op };
	if (r->has[ATTR_DEV_INDEX])
		q.device = r->values[ATTR_DEV_INDEX];
	if (r->has[ATTR_PORT_INDEX])
		q.port = r->values[ATTR_PORT_INDEX];
	if (r->has[ATTR_STAT_RES])
		q.res = r->values[ATTR_STAT_RES];
	if ((r->header->nlmsg_flags & NLM_F_DUMP) != 0)
		return op == CMD_SYS_GET || op == CMD_GET_CHARDEV || op == CMD_STAT_GET_STATUS ? EINVAL : start(w, &q, fd);
	return get(w, &q, fd);
}

// acknowledge sends the error of a request, 0 if there was none. It never includes the request.
static bool acknowledge(struct work *w, int fd, int error)
{
	const struct request *r = &w->r;
	const struct dump q = { .port_id = r->port_id, .seq = r->header->nlmsg_seq };
	struct message m = { .bytes = w->part };
	const struct nlmsgerr e = { .error = -error, .msg = *r->header };
	const size_t at = begin(&m, NLMSG_ERROR, NLM_F_CAPPED, &q);

	memcpy(m.bytes + m.len, &e, sizeof(e));
	m.len += sizeof(e);
	end(&m, at);
	return send_part(fd, m.bytes, m.len);
}

bool answer(struct work *w, int fd, size_t len)
{
	const unsigned char *p = w->request;
	struct nlmsghdr h;

	while (len >= NLMSG_HDRLEN) {
		memcpy(&h, p, sizeof(h));
		if (h.nlmsg_len < NLMSG_HDRLEN || h.nlmsg_len > len)
			return true;
		w->r.header = (const struct nlmsghdr *)p;
		int error = 0;
		if ((h.nlmsg_flags & NLM_F_REQUEST) != 0 && h.nlmsg_type >= NLMSG_MIN_TYPE)
			error = serve(w, fd);
		if (error == ENOBUFS)
			return false;
		if (error != STARTED && (error != 0 || (h.nlmsg_flags & NLM_F_ACK) != 0) && !acknowledge(w, fd, error))
			return false;
		const size_t whole = NLMSG_ALIGN(h.nlmsg_len);
		if (whole >= len)
			return true;
		p += whole;
		len -= whole;
	}
	return true;
}

//go:build ignore
/*
 * (The line above is for the Go compiler, which would take this for a part of
 * the package that embeds it.)
 *
 * agent - a user of verbs that is controlled over TCP.
 *
 * It makes queue pairs, regions and work requests on the adapter under test
 * exactly as its controller requests, and reports the results. It decides
 * nothing by itself, so that one program serves every test of a peer.
 *
 *   gcc -O2 -Wall -Wextra -o agent agent.c -libverbs
 *   ./agent -d rxe0            # listens on port 18516, all addresses
 *
 * One controller at a time: a new connection that sends a request ends the one
 * before, and destroys all its objects. Every host that can connect can make
 * this machine send packets, and sees the memory of this program; let it listen
 * (-b) only on a trusted network.
 *
 * A request is a line, COMMAND KEY=VALUE ..., at most 65535 bytes; each gets a
 * line back, "ok KEY=VALUE ..." or "err ERRNO TEXT". Numbers are decimal or
 * 0x..., names of states, operations and flags are those of the InfiniBand
 * specification (RTR, RDMA_WRITE_WITH_IMM, SIGNALED|FENCE) or their numbers in
 * verbs.h. "help" lists the commands with their keys.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum {
	PROTOCOL = 1,
	LINE_MAX_BYTES = 65536, /* a request or a reply, newline included */
	TOKENS_MAX = 4096,
	OBJECTS_MAX = 4096,
	HEX_MAX = 16384,        /* bytes of memory in one line */
	WC_MAX = 512,           /* completions in one reply */
	EVENTS_MAX = 512,
	GROUPS_MAX = 64,        /* attachments to multicast groups */
	SGE_MAX = 32,
	LIST_MAX = 512,         /* work requests in one request */
	WAIT_MAX_MS = 60000,
	GUARD = 4096,           /* bytes before and behind each region */
	GUARD_BYTE = 0xa5,
};
static const uint64_t MEMORY_MAX = 256ull << 20; /* of all regions together */

/* ---- names ---- */

struct name {
	const char *text;
	uint64_t value;
};

static const struct name QP_TYPES[] = { { "RC", IBV_QPT_RC }, { "UC", IBV_QPT_UC }, { "UD", IBV_QPT_UD }, { 0, 0 } };

static const struct name QP_STATES[] = {
	{ "RESET", IBV_QPS_RESET }, { "INIT", IBV_QPS_INIT }, { "RTR", IBV_QPS_RTR }, { "RTS", IBV_QPS_RTS },
	{ "SQD", IBV_QPS_SQD }, { "SQE", IBV_QPS_SQE }, { "ERR", IBV_QPS_ERR }, { 0, 0 }
};

static const struct name OPCODES[] = {
	{ "SEND", IBV_WR_SEND }, { "SEND_WITH_IMM", IBV_WR_SEND_WITH_IMM }, { "SEND_WITH_INV", IBV_WR_SEND_WITH_INV },
	{ "RDMA_WRITE", IBV_WR_RDMA_WRITE }, { "RDMA_WRITE_WITH_IMM", IBV_WR_RDMA_WRITE_WITH_IMM }, { "RDMA_READ", IBV_WR_RDMA_READ },
	{ "ATOMIC_CMP_AND_SWP", IBV_WR_ATOMIC_CMP_AND_SWP }, { "ATOMIC_FETCH_AND_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD },
	{ "LOCAL_INV", IBV_WR_LOCAL_INV }, { "BIND_MW", IBV_WR_BIND_MW }, { 0, 0 }
};

static const struct name SEND_FLAGS[] = {
	{ "FENCE", IBV_SEND_FENCE }, { "SIGNALED", IBV_SEND_SIGNALED }, { "SOLICITED", IBV_SEND_SOLICITED }, { "INLINE", IBV_SEND_INLINE }, { 0, 0 }
};

static const struct name ACCESS[] = {
	{ "LOCAL_WRITE", IBV_ACCESS_LOCAL_WRITE }, { "REMOTE_WRITE", IBV_ACCESS_REMOTE_WRITE }, { "REMOTE_READ", IBV_ACCESS_REMOTE_READ },
	{ "REMOTE_ATOMIC", IBV_ACCESS_REMOTE_ATOMIC }, { "MW_BIND", IBV_ACCESS_MW_BIND }, { "ZERO_BASED", IBV_ACCESS_ZERO_BASED }, { 0, 0 }
};

/* ---- a request and its reply ---- */

struct request {
	int n;
	const char *key[TOKENS_MAX]; /* ";" stands between work requests */
	const char *value[TOKENS_MAX];
};

static struct request rq;
static char reply[LINE_MAX_BYTES];
static size_t reply_len;
static bool reply_full;
static bool failed; /* an error was written into reply */

__attribute__((format(printf, 1, 2))) static void put(const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(reply + reply_len, sizeof(reply) - reply_len, format, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(reply) - reply_len - 1)
		reply_full = true;
	else
		reply_len += n;
}

/* The first error of a request is its reply; later errors are ignored. */
__attribute__((format(printf, 2, 3))) static void fail(int err, const char *format, ...)
{
	va_list ap;

	if (failed)
		return;
	failed = true;
	reply_full = false;
	reply_len = 0;
	put("err %d ", err ? err : EIO);
	va_start(ap, format);
	if (reply_len < sizeof(reply)) {
		int n = vsnprintf(reply + reply_len, 1024, format, ap);
		reply_len += n < 0 ? 0 : n > 1023 ? 1023 : n;
	}
	va_end(ap);
}

/* A verb that returns NULL or -1 should set errno, and some do not. */
static int error_of(int rc)
{
	if (rc > 0)
		return rc;
	return errno ? errno : EIO;
}

static const char *find(int from, int to, const char *key)
{
	for (int i = from; i < to; i++)
		if (!strcmp(rq.key[i], key))
			return rq.value[i];
	return NULL;
}

static bool given(const char *key)
{
	return find(0, rq.n, key) != NULL;
}

static bool parse_number(const char *s, uint64_t *out)
{
	char *end;

	if (!isdigit((unsigned char)*s))
		return false;
	errno = 0;
	*out = strtoull(s, &end, 0);
	return !errno && !*end;
}

static uint64_t to_number(const char *key, const char *s, uint64_t max)
{
	uint64_t v = 0;

	if (!parse_number(s, &v))
		fail(EINVAL, "%s=%.40s is no number", key, s);
	else if (v > max)
		fail(ERANGE, "%s=%.40s is more than %" PRIu64, key, s, max);
	else
		return v;
	return 0;
}

static uint64_t number_in(int from, int to, const char *key, uint64_t otherwise, uint64_t max)
{
	const char *s = find(from, to, key);

	return s ? to_number(key, s, max) : otherwise;
}

static uint64_t number(const char *key, uint64_t otherwise, uint64_t max)
{
	return number_in(0, rq.n, key, otherwise, max);
}

/* Names joined by | in any case, or numbers. */
static uint64_t to_names(const struct name *names, const char *key, const char *s)
{
	uint64_t all = 0;
	char word[40];

	while (*s && !failed) {
		size_t n = strcspn(s, "|");
		const struct name *nm;
		uint64_t v;

		if (n == 0 || n >= sizeof word) {
			fail(EINVAL, "%s: an empty or overlong name", key);
			return 0;
		}
		memcpy(word, s, n);
		word[n] = 0;
		for (nm = names; nm->text && strcasecmp(nm->text, word); nm++)
			;
		if (nm->text)
			all |= nm->value;
		else if (parse_number(word, &v) && v <= UINT32_MAX)
			all |= v;
		else
			fail(EINVAL, "%s: unknown name %s", key, word);
		s += n;
		if (*s == '|')
			s++;
	}
	return all;
}

static uint64_t names_in(int from, int to, const struct name *names, const char *key, uint64_t otherwise)
{
	const char *s = find(from, to, key);

	return s ? to_names(names, key, s) : otherwise;
}

static bool to_gid(const char *key, const char *s, union ibv_gid *gid)
{
	struct in_addr v4;

	if (inet_pton(AF_INET6, s, gid->raw) == 1)
		return true;
	if (inet_pton(AF_INET, s, &v4) == 1) {
		memset(gid->raw, 0, 10);
		gid->raw[10] = gid->raw[11] = 0xff;
		memcpy(gid->raw + 12, &v4, 4);
		return true;
	}
	fail(EINVAL, "%s=%.60s is no address", key, s);
	return false;
}

/* ---- the device and the objects ---- */

enum kind { FREE, PD, MR, CQ, SRQ, QP, AH, MW, KINDS };
static const char *const KIND_NAMES[] = { "nothing", "pd", "mr", "cq", "srq", "qp", "ah", "mw" };

struct object {
	enum kind kind;
	union {
		struct ibv_pd *pd;
		struct ibv_mr *mr;
		struct ibv_cq *cq;
		struct ibv_srq *srq;
		struct ibv_qp *qp;
		struct ibv_ah *ah;
		struct ibv_mw *mw;
		void *any;
	};
	/* MR: the mapping around it; addr are its bytes. */
	uint8_t *map, *addr;
	size_t map_len, len;
	/* CQ: its channel, or NULL. */
	struct ibv_comp_channel *channel;
	unsigned taken; /* events not yet acknowledged */
};

static struct ibv_context *ctx;
static uint8_t port = 1;
static struct object objects[OBJECTS_MAX]; /* the handle is the index; 0 is none */
static int object_next = 1;
static uint64_t memory_used;

static struct {
	int type;
	enum kind kind;
	int handle;
} events[EVENTS_MAX];
static int events_n;
static uint64_t events_lost;

/* A queue pair that is in a group cannot be destroyed. */
static struct {
	int qp; /* 0: free */
	union ibv_gid gid;
} groups[GROUPS_MAX];

/* A handle is reused only after all others, so that a stale one names no object. */
static int new_object(enum kind kind, void *any)
{
	for (int i = 0; i < OBJECTS_MAX - 1; i++) {
		int h = object_next;

		object_next = object_next + 1 < OBJECTS_MAX ? object_next + 1 : 1;
		if (objects[h].kind == FREE) {
			memset(&objects[h], 0, sizeof objects[h]);
			objects[h].kind = kind;
			objects[h].any = any;
			return h;
		}
	}
	return 0;
}

static bool room_for_object(void)
{
	for (int i = 1; i < OBJECTS_MAX; i++)
		if (objects[i].kind == FREE)
			return true;
	fail(ENOSPC, "more than %d objects", OBJECTS_MAX - 1);
	return false;
}

static struct object *object(enum kind kind, const char *key, uint64_t handle)
{
	if (handle > 0 && handle < OBJECTS_MAX && objects[handle].kind == kind)
		return &objects[handle];
	fail(ENOENT, "%s=%" PRIu64 " is no %s", key, handle, KIND_NAMES[kind]);
	return NULL;
}

static struct object *object_in(int from, int to, enum kind kind, const char *key)
{
	const char *s = find(from, to, key);
	uint64_t h;

	if (!s) {
		fail(EINVAL, "%s= is missing", key);
		return NULL;
	}
	h = to_number(key, s, UINT32_MAX);
	return failed ? NULL : object(kind, key, h);
}

static struct object *arg(enum kind kind, const char *key)
{
	return object_in(0, rq.n, kind, key);
}

static int handle_of(enum kind kind, const void *any)
{
	for (int i = 1; i < OBJECTS_MAX; i++)
		if (objects[i].kind == kind && objects[i].any == any)
			return i;
	return 0;
}

/* Takes the pending asynchronous events. It acknowledges them at once, because a queue pair cannot
 * be destroyed before. */
static void take_events(void)
{
	struct ibv_async_event e;
	struct pollfd p = { .fd = ctx->async_fd, .events = POLLIN };

	for (int i = 0; i < EVENTS_MAX && poll(&p, 1, 0) == 1 && (p.revents & POLLIN) && !ibv_get_async_event(ctx, &e); i++) {
		enum kind kind = FREE;
		int handle = 0;

		switch (e.event_type) {
		case IBV_EVENT_CQ_ERR:
			kind = CQ;
			handle = handle_of(CQ, e.element.cq);
			break;
		case IBV_EVENT_QP_FATAL:
		case IBV_EVENT_QP_REQ_ERR:
		case IBV_EVENT_QP_ACCESS_ERR:
		case IBV_EVENT_COMM_EST:
		case IBV_EVENT_SQ_DRAINED:
		case IBV_EVENT_PATH_MIG:
		case IBV_EVENT_PATH_MIG_ERR:
		case IBV_EVENT_QP_LAST_WQE_REACHED:
			kind = QP;
			handle = handle_of(QP, e.element.qp);
			break;
		case IBV_EVENT_SRQ_ERR:
		case IBV_EVENT_SRQ_LIMIT_REACHED:
			kind = SRQ;
			handle = handle_of(SRQ, e.element.srq);
			break;
		default:
			break;
		}
		if (events_n < EVENTS_MAX) {
			events[events_n].type = e.event_type;
			events[events_n].kind = kind;
			events[events_n].handle = handle;
			events_n++;
		} else {
			events_lost++;
		}
		ibv_ack_async_event(&e);
	}
}

static int destroy(int h)
{
	struct object *o = &objects[h];
	int rc = 0;

	errno = 0;
	switch (o->kind) {
	case PD:
		rc = ibv_dealloc_pd(o->pd);
		break;
	case MR:
		rc = ibv_dereg_mr(o->mr);
		if (!rc) {
			munmap(o->map, o->map_len);
			memory_used -= o->map_len;
		}
		break;
	case CQ:
		if (o->taken)
			ibv_ack_cq_events(o->cq, o->taken);
		o->taken = 0;
		rc = ibv_destroy_cq(o->cq);
		if (!rc && o->channel)
			ibv_destroy_comp_channel(o->channel);
		break;
	case SRQ:
		rc = ibv_destroy_srq(o->srq);
		break;
	case QP:
		rc = ibv_destroy_qp(o->qp);
		for (int i = 0; !rc && i < GROUPS_MAX; i++)
			if (groups[i].qp == h)
				groups[i].qp = 0;
		break;
	case AH:
		rc = ibv_destroy_ah(o->ah);
		break;
	case MW:
		rc = ibv_dealloc_mw(o->mw);
		break;
	default:
		return 0;
	}
	if (rc)
		return error_of(rc);
	o->kind = FREE;
	return 0;
}

/* Destroys users before the objects that they use. */
static void destroy_all(void)
{
	static const enum kind order[] = { QP, AH, MW, SRQ, MR, CQ, PD };

	take_events();
	for (int i = 0; i < GROUPS_MAX; i++)
		if (groups[i].qp) {
			ibv_detach_mcast(objects[groups[i].qp].qp, &groups[i].gid, 0);
			groups[i].qp = 0;
		}
	for (size_t k = 0; k < sizeof order / sizeof *order; k++)
		for (int h = 1; h < OBJECTS_MAX; h++)
			if (objects[h].kind == order[k]) {
				int rc = destroy(h);

				if (rc)
					fprintf(stderr, "agent: %s %d is not destroyed: %s\n", KIND_NAMES[order[k]], h, strerror(rc));
			}
	take_events();
	events_n = 0;
	events_lost = 0;
}

/* ---- commands: device ---- */

static void do_hello(void)
{
	struct ibv_device_attr d;
	struct ibv_port_attr p;
	struct utsname u;
	char gid[INET6_ADDRSTRLEN];
	int rc;

	memset(&d, 0, sizeof d);
	memset(&p, 0, sizeof p);
	errno = 0;
	if ((rc = ibv_query_device(ctx, &d)) || (rc = ibv_query_port(ctx, port, &p))) {
		fail(error_of(rc), "query the device");
		return;
	}
	uname(&u);
	put("protocol=%d device=%s kernel=%s node_guid=0x%016" PRIx64 " fw=%.32s vendor=0x%x part=0x%x hw=0x%x caps=0x%x", PROTOCOL, ibv_get_device_name(ctx->device),
	    u.release, be64toh(d.node_guid), d.fw_ver[0] ? d.fw_ver : "-", d.vendor_id, d.vendor_part_id, d.hw_ver, d.device_cap_flags);
	put(" max_qp=%d max_qp_wr=%d max_sge=%d max_sge_rd=%d max_cq=%d max_cqe=%d max_mr=%d max_pd=%d max_qp_rd_atom=%d max_qp_init_rd_atom=%d", d.max_qp, d.max_qp_wr,
	    d.max_sge, d.max_sge_rd, d.max_cq, d.max_cqe, d.max_mr, d.max_pd, d.max_qp_rd_atom, d.max_qp_init_rd_atom);
	put(" atomic_cap=%d max_mw=%d max_mcast_grp=%d max_mcast_qp_attach=%d max_ah=%d max_srq=%d max_srq_wr=%d max_srq_sge=%d max_pkeys=%d ack_delay=%d", d.atomic_cap, d.max_mw,
	    d.max_mcast_grp, d.max_mcast_qp_attach, d.max_ah, d.max_srq, d.max_srq_wr, d.max_srq_sge, d.max_pkeys, d.local_ca_ack_delay);
	put(" port=%d state=%d active_mtu=%d max_mtu=%d link_layer=%d port_caps=0x%x max_msg_sz=%u", port, p.state, 128 << p.active_mtu, 128 << p.max_mtu, p.link_layer, p.port_cap_flags,
	    p.max_msg_sz);
	for (int i = 0; i < p.gid_tbl_len && i < 1024; i++) {
		struct ibv_gid_entry e;

		if (ibv_query_gid_ex(ctx, port, i, &e, 0))
			continue;
		if (inet_ntop(AF_INET6, e.gid.raw, gid, sizeof gid))
			put(" gid=%d,%d,%s", i, e.gid_type, gid);
	}
}

static void put_counters(const char *dir)
{
	char path[512], text[64];
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/%d/%s", ibv_get_device_name(ctx->device), port, dir);
	if (!(d = opendir(path)))
		return;
	while ((e = readdir(d))) {
		char file[1024];
		ssize_t n;
		int fd;

		if (e->d_name[0] == '.' || strcspn(e->d_name, " =\n") != strlen(e->d_name))
			continue;
		snprintf(file, sizeof file, "%s/%s", path, e->d_name);
		if ((fd = open(file, O_RDONLY)) < 0)
			continue;
		n = read(fd, text, sizeof text - 1);
		close(fd);
		if (n <= 0)
			continue;
		text[n] = 0;
		text[strcspn(text, "\n")] = 0;
		if (isdigit((unsigned char)text[0]) && strcmp(e->d_name, "lifespan"))
			put(" %s=%" PRIu64, e->d_name, (uint64_t)strtoull(text, NULL, 10));
	}
	closedir(d);
}

static void do_counters(void)
{
	put_counters("counters");
	put_counters("hw_counters");
}

static void do_events(void)
{
	uint64_t ms = number("ms", 0, WAIT_MAX_MS);

	if (failed)
		return;
	take_events();
	if (!events_n && ms) {
		struct pollfd p = { .fd = ctx->async_fd, .events = POLLIN };

		poll(&p, 1, (int)ms);
		take_events();
	}
	put("n=%d lost=%" PRIu64, events_n, events_lost);
	for (int i = 0; i < events_n; i++)
		put(" event=%d,%s,%d", events[i].type, events[i].kind == FREE ? "port" : KIND_NAMES[events[i].kind], events[i].handle);
	events_n = 0;
	events_lost = 0;
}

/* ---- commands: protection domains, memory ---- */

static void created(int h)
{
	put("id=%d", h);
}

static void do_pd(void)
{
	struct ibv_pd *pd;

	if (!room_for_object())
		return;
	errno = 0;
	if (!(pd = ibv_alloc_pd(ctx))) {
		fail(error_of(0), "alloc_pd");
		return;
	}
	created(new_object(PD, pd));
}

static void do_mr(void)
{
	uint64_t size = number("size", 0, MEMORY_MAX), align = number("align", 0, 4095), iova = number("iova", 0, UINT64_MAX);
	int access = names_in(0, rq.n, ACCESS, "access", 0);
	struct object *pd = arg(PD, "pd"), *o;
	size_t map_len = (align + size + 2 * GUARD + 4095) & ~(size_t)4095;
	struct ibv_mr *mr;
	uint8_t *map;
	int h;

	if (failed || !room_for_object())
		return;
	if (memory_used + map_len > MEMORY_MAX) {
		fail(ENOMEM, "more than %" PRIu64 " bytes of regions", MEMORY_MAX);
		return;
	}
	map = mmap(NULL, map_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED) {
		fail(error_of(0), "mmap");
		return;
	}
	memset(map, GUARD_BYTE, map_len);
	memset(map + GUARD + align, 0, size);
	errno = 0;
	mr = given("iova") ? ibv_reg_mr_iova(pd->pd, map + GUARD + align, size, iova, access) : ibv_reg_mr(pd->pd, map + GUARD + align, size, access);
	if (!mr) {
		fail(error_of(0), "reg_mr");
		munmap(map, map_len);
		return;
	}
	memory_used += map_len;
	h = new_object(MR, mr);
	o = &objects[h];
	o->map = map;
	o->map_len = map_len;
	o->addr = map + GUARD + align;
	o->len = size;
	created(h);
	put(" addr=0x%" PRIx64 " lkey=0x%x rkey=0x%x", given("iova") ? iova : (uint64_t)(uintptr_t)o->addr, mr->lkey, mr->rkey);
}

/* The bytes off..off+len of the region that the request names, NULL if the region has no such
 * bytes. */
static uint8_t *range(uint64_t *len, uint64_t otherwise)
{
	struct object *mr = arg(MR, "mr");
	uint64_t off = number("off", 0, MEMORY_MAX);

	if (!mr)
		return NULL;
	if (otherwise == UINT64_MAX)
		otherwise = off < mr->len ? mr->len - off : 0;
	*len = number("len", otherwise, MEMORY_MAX);
	if (!failed && (off > mr->len || *len > mr->len - off))
		fail(ERANGE, "off=%" PRIu64 " len=%" PRIu64 " is outside of the region's %zu bytes", off, *len, mr->len);
	return failed ? NULL : mr->addr + off;
}

/* The 8 bytes of the pattern SEED from position 8*WORD, little endian: splitmix64. */
static uint64_t pattern(uint64_t seed, uint64_t word)
{
	uint64_t z = seed + (word + 1) * 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static uint8_t pattern_byte(uint64_t seed, uint64_t at)
{
	return pattern(seed, at / 8) >> (8 * (at % 8));
}

static void do_fill(void)
{
	uint64_t len = 0, seed = number("seed", 0, UINT64_MAX), at = number("at", 0, UINT32_MAX);
	int byte = number("byte", 0, 255);
	uint8_t *p = range(&len, UINT64_MAX);

	if (!p || failed)
		return;
	if (given("byte")) {
		memset(p, byte, len);
		return;
	}
	for (uint64_t i = 0; i < len;) {
		if ((at + i) % 8 == 0 && len - i >= 8) {
			uint64_t w = htole64(pattern(seed, (at + i) / 8));

			memcpy(p + i, &w, 8);
			i += 8;
		} else {
			p[i] = pattern_byte(seed, at + i);
			i++;
		}
	}
}

static void do_verify(void)
{
	uint64_t len = 0, seed = number("seed", 0, UINT64_MAX), at = number("at", 0, UINT32_MAX), bad = 0, first = 0;
	int byte = number("byte", 0, 255), want = 0, got = 0;
	uint8_t *p = range(&len, UINT64_MAX);
	bool constant = given("byte");

	if (!p || failed)
		return;
	for (uint64_t i = 0; i < len; i++) {
		uint8_t w;

		if (!constant && (at + i) % 8 == 0 && len - i >= 8) {
			uint64_t word = htole64(pattern(seed, (at + i) / 8));

			if (!memcmp(p + i, &word, 8)) {
				i += 7;
				continue;
			}
		}
		w = constant ? byte : pattern_byte(seed, at + i);
		if (p[i] == w)
			continue;
		if (!bad++) {
			first = i;
			want = w;
			got = p[i];
		}
	}
	put("bad=%" PRIu64, bad);
	if (bad)
		put(" first=%" PRIu64 " want=0x%02x got=0x%02x", first, want, got);
}

static void do_guard(void)
{
	struct object *mr = arg(MR, "mr");
	uint64_t bad = 0;

	if (!mr)
		return;
	for (uint8_t *p = mr->map; p < mr->addr; p++)
		bad += *p != GUARD_BYTE;
	for (uint8_t *p = mr->addr + mr->len; p < mr->map + mr->map_len; p++)
		bad += *p != GUARD_BYTE;
	put("bad=%" PRIu64, bad);
}

/* FNV-1a, 64 bits. */
static void do_sum(void)
{
	uint64_t len = 0, sum = 0xcbf29ce484222325ull;
	uint8_t *p = range(&len, UINT64_MAX);

	if (!p)
		return;
	for (uint64_t i = 0; i < len; i++)
		sum = (sum ^ p[i]) * 0x100000001b3ull;
	put("sum=0x%016" PRIx64, sum);
}

static void do_read(void)
{
	uint64_t len = 0;
	uint8_t *p = range(&len, 0);

	if (!p)
		return;
	if (len > HEX_MAX) {
		fail(ERANGE, "len=%" PRIu64 " is more than %d; use sum or verify", len, HEX_MAX);
		return;
	}
	put("hex=");
	for (uint64_t i = 0; i < len; i++)
		put("%02x", p[i]);
}

static int nibble(int c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void do_write(void)
{
	const char *hex = find(0, rq.n, "hex");
	size_t n = hex ? strlen(hex) : 0;
	uint64_t len = n / 2;
	uint8_t *p = range(&len, n / 2);

	if (!p)
		return;
	if (!hex || n % 2 || len != n / 2 || n / 2 > HEX_MAX) {
		fail(EINVAL, "hex= wants pairs of digits, for at most %d bytes", HEX_MAX);
		return;
	}
	for (size_t i = 0; i < n; i++)
		if (nibble(hex[i]) < 0) {
			fail(EINVAL, "hex= has something else than digits");
			return;
		}
	for (size_t i = 0; i < n / 2; i++)
		p[i] = nibble(hex[2 * i]) << 4 | nibble(hex[2 * i + 1]);
}

/* ---- commands: completion queues, shared receive queues ---- */

static void do_cq(void)
{
	uint64_t cqe = number("cqe", 64, INT32_MAX), with_events = number("events", 0, 1);
	struct ibv_comp_channel *channel = NULL;
	struct ibv_cq *cq;
	int h;

	if (failed || !room_for_object())
		return;
	errno = 0;
	if (with_events) {
		if (!(channel = ibv_create_comp_channel(ctx))) {
			fail(error_of(0), "create_comp_channel");
			return;
		}
		fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
	}
	if (!(cq = ibv_create_cq(ctx, cqe, NULL, channel, 0))) {
		fail(error_of(0), "create_cq");
		if (channel)
			ibv_destroy_comp_channel(channel);
		return;
	}
	h = new_object(CQ, cq);
	objects[h].channel = channel;
	created(h);
	put(" cqe=%d", cq->cqe);
}

static void do_resize(void)
{
	struct object *cq = arg(CQ, "cq");
	uint64_t cqe = number("cqe", 0, INT32_MAX);
	int rc;

	if (failed)
		return;
	errno = 0;
	if ((rc = ibv_resize_cq(cq->cq, cqe)))
		fail(error_of(rc), "resize_cq");
	else
		put("cqe=%d", cq->cq->cqe);
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool controller_left(void);

static void do_poll(void)
{
	struct object *cq = arg(CQ, "cq");
	uint64_t n = number("n", 0, WC_MAX), ms = number("ms", 0, WAIT_MAX_MS);
	static struct ibv_wc wc[WC_MAX];
	int64_t end = now_ms() + (int64_t)ms;
	size_t got = 0, limit = n ? n : WC_MAX;

	if (failed)
		return;
	while (got < limit) {
		int k;

		errno = 0;
		k = ibv_poll_cq(cq->cq, limit - got, wc + got);
		if (k < 0) {
			fail(error_of(0), "poll_cq");
			return;
		}
		got += k;
		if (k)
			continue;
		if (got >= n || now_ms() >= end || controller_left())
			break;
		usleep(100);
	}
	put("n=%zu", got);
	for (size_t i = 0; i < got; i++) {
		struct ibv_wc *w = &wc[i];
		uint32_t imm = w->wc_flags & IBV_WC_WITH_INV ? w->invalidated_rkey : ntohl(w->imm_data);

		put(" wc=%" PRIx64 ",%d,%d,%u,%x,%x,%x,%x,%x,%u,%u", w->wr_id, w->status, w->opcode, w->byte_len, w->wc_flags, imm, w->qp_num, w->src_qp, w->vendor_err, w->pkey_index, w->sl);
	}
}

static void do_arm(void)
{
	struct object *cq = arg(CQ, "cq");
	uint64_t solicited = number("solicited", 0, 1);
	int rc;

	if (failed)
		return;
	errno = 0;
	if ((rc = ibv_req_notify_cq(cq->cq, solicited)))
		fail(error_of(rc), "req_notify_cq");
}

/* Takes completion events of a CQ until there is one, or ms have passed. */
static void do_notified(void)
{
	struct object *cq = arg(CQ, "cq");
	uint64_t ms = number("ms", 0, WAIT_MAX_MS);
	struct ibv_cq *which;
	struct pollfd p;
	void *context;
	int n = 0;

	if (failed)
		return;
	if (!cq->channel) {
		fail(EINVAL, "the cq was made without events=1");
		return;
	}
	p = (struct pollfd){ .fd = cq->channel->fd, .events = POLLIN };
	if (poll(&p, 1, (int)ms) == 1)
		while (n < EVENTS_MAX && !ibv_get_cq_event(cq->channel, &which, &context))
			n++;
	if (n)
		ibv_ack_cq_events(cq->cq, n);
	put("n=%d", n);
}

static void do_srq(void)
{
	struct object *pd = arg(PD, "pd");
	struct ibv_srq_init_attr a = { .attr = { .max_wr = number("wr", 16, UINT32_MAX), .max_sge = number("sge", 1, UINT32_MAX), .srq_limit = number("limit", 0, UINT32_MAX) } };
	struct ibv_srq *srq;

	if (failed || !room_for_object())
		return;
	errno = 0;
	if (!(srq = ibv_create_srq(pd->pd, &a))) {
		fail(error_of(0), "create_srq");
		return;
	}
	created(new_object(SRQ, srq));
	put(" wr=%u sge=%u", a.attr.max_wr, a.attr.max_sge);
}

static void do_srq_limit(void)
{
	struct object *srq = arg(SRQ, "srq");
	struct ibv_srq_attr a = { .srq_limit = number("limit", 0, UINT32_MAX) };
	int rc;

	if (failed)
		return;
	errno = 0;
	if ((rc = ibv_modify_srq(srq->srq, &a, IBV_SRQ_LIMIT)))
		fail(error_of(rc), "modify_srq");
}

/* ---- commands: queue pairs ---- */

static void put_caps(const struct ibv_qp_cap *c)
{
	put(" swr=%u rwr=%u ssge=%u rsge=%u inline=%u", c->max_send_wr, c->max_recv_wr, c->max_send_sge, c->max_recv_sge, c->max_inline_data);
}

static void do_qp(void)
{
	struct object *pd = arg(PD, "pd"), *scq = arg(CQ, "scq"), *rcq = given("rcq") ? arg(CQ, "rcq") : scq, *srq = given("srq") ? arg(SRQ, "srq") : NULL;
	struct ibv_qp_init_attr a;
	struct ibv_qp *qp;

	memset(&a, 0, sizeof a);
	a.qp_type = names_in(0, rq.n, QP_TYPES, "type", IBV_QPT_RC);
	a.cap.max_send_wr = number("swr", 16, UINT32_MAX);
	a.cap.max_recv_wr = number("rwr", srq ? 0 : 16, UINT32_MAX);
	a.cap.max_send_sge = number("ssge", 1, UINT32_MAX);
	a.cap.max_recv_sge = number("rsge", 1, UINT32_MAX);
	a.cap.max_inline_data = number("inline", 0, UINT32_MAX);
	a.sq_sig_all = number("sigall", 0, 1);
	if (failed || !room_for_object())
		return;
	a.send_cq = scq->cq;
	a.recv_cq = rcq->cq;
	a.srq = srq ? srq->srq : NULL;
	errno = 0;
	if (!(qp = ibv_create_qp(pd->pd, &a))) {
		fail(error_of(0), "create_qp");
		return;
	}
	created(new_object(QP, qp));
	put(" qpn=0x%x", qp->qp_num);
	put_caps(&a.cap);
}

/* An address vector from keys that begin with prefix; false if dgid is not given. */
static bool address(const char *prefix, struct ibv_ah_attr *av)
{
	char key[40];
	const char *s;

	memset(av, 0, sizeof *av);
	snprintf(key, sizeof key, "%sdgid", prefix);
	if (!(s = find(0, rq.n, key)))
		return false;
	to_gid(key, s, &av->grh.dgid);
	av->is_global = 1;
	av->port_num = port;
	snprintf(key, sizeof key, "%ssgid_index", prefix);
	av->grh.sgid_index = number(key, 0, 255);
	snprintf(key, sizeof key, "%shop_limit", prefix);
	av->grh.hop_limit = number(key, 64, 255);
	snprintf(key, sizeof key, "%straffic_class", prefix);
	av->grh.traffic_class = number(key, 0, 255);
	snprintf(key, sizeof key, "%sflow_label", prefix);
	av->grh.flow_label = number(key, 0, UINT32_MAX);
	snprintf(key, sizeof key, "%ssl", prefix);
	av->sl = number(key, 0, 255);
	snprintf(key, sizeof key, "%srate", prefix);
	av->static_rate = number(key, 0, 255);
	snprintf(key, sizeof key, "%sav_port", prefix);
	av->port_num = number(key, port, 255);
	return true;
}

static enum ibv_mtu to_mtu(uint64_t bytes)
{
	for (int m = IBV_MTU_256; m <= IBV_MTU_4096; m++)
		if (bytes == 128u << m)
			return m;
	fail(EINVAL, "path_mtu is 256, 512, 1024, 2048 or 4096");
	return 0;
}

static int attributes(struct ibv_qp_attr *a)
{
	int mask = 0;

	memset(a, 0, sizeof *a);
#define ATTR(key, bit, assign) do { if (given(key)) { mask |= bit; assign; } } while (0)
	ATTR("state", IBV_QP_STATE, a->qp_state = names_in(0, rq.n, QP_STATES, "state", 0));
	ATTR("cur_state", IBV_QP_CUR_STATE, a->cur_qp_state = names_in(0, rq.n, QP_STATES, "cur_state", 0));
	ATTR("sqd_notify", IBV_QP_EN_SQD_ASYNC_NOTIFY, a->en_sqd_async_notify = number("sqd_notify", 0, 1));
	ATTR("access", IBV_QP_ACCESS_FLAGS, a->qp_access_flags = names_in(0, rq.n, ACCESS, "access", 0));
	ATTR("pkey_index", IBV_QP_PKEY_INDEX, a->pkey_index = number("pkey_index", 0, UINT16_MAX));
	ATTR("port", IBV_QP_PORT, a->port_num = number("port", port, 255));
	ATTR("qkey", IBV_QP_QKEY, a->qkey = number("qkey", 0, UINT32_MAX));
	ATTR("path_mtu", IBV_QP_PATH_MTU, a->path_mtu = to_mtu(number("path_mtu", 0, 4096)));
	ATTR("timeout", IBV_QP_TIMEOUT, a->timeout = number("timeout", 0, 255));
	ATTR("retry_cnt", IBV_QP_RETRY_CNT, a->retry_cnt = number("retry_cnt", 0, 255));
	ATTR("rnr_retry", IBV_QP_RNR_RETRY, a->rnr_retry = number("rnr_retry", 0, 255));
	ATTR("rq_psn", IBV_QP_RQ_PSN, a->rq_psn = number("rq_psn", 0, UINT32_MAX));
	ATTR("sq_psn", IBV_QP_SQ_PSN, a->sq_psn = number("sq_psn", 0, UINT32_MAX));
	ATTR("max_rd_atomic", IBV_QP_MAX_QP_RD_ATOMIC, a->max_rd_atomic = number("max_rd_atomic", 0, 255));
	ATTR("max_dest_rd_atomic", IBV_QP_MAX_DEST_RD_ATOMIC, a->max_dest_rd_atomic = number("max_dest_rd_atomic", 0, 255));
	ATTR("min_rnr_timer", IBV_QP_MIN_RNR_TIMER, a->min_rnr_timer = number("min_rnr_timer", 0, 255));
	ATTR("dest_qpn", IBV_QP_DEST_QPN, a->dest_qp_num = number("dest_qpn", 0, UINT32_MAX));
	ATTR("path_mig", IBV_QP_PATH_MIG_STATE, a->path_mig_state = number("path_mig", 0, 2));
	ATTR("rate_limit", IBV_QP_RATE_LIMIT, a->rate_limit = number("rate_limit", 0, UINT32_MAX));
#undef ATTR
	if (address("", &a->ah_attr))
		mask |= IBV_QP_AV;
	if (address("alt_", &a->alt_ah_attr)) {
		mask |= IBV_QP_ALT_PATH;
		a->alt_port_num = a->alt_ah_attr.port_num;
		a->alt_timeout = number("alt_timeout", 0, 255);
		a->alt_pkey_index = number("alt_pkey_index", 0, UINT16_MAX);
	}
	if (given("swr")) {
		mask |= IBV_QP_CAP;
		a->cap.max_send_wr = number("swr", 0, UINT32_MAX);
		a->cap.max_recv_wr = number("rwr", 0, UINT32_MAX);
		a->cap.max_send_sge = number("ssge", 0, UINT32_MAX);
		a->cap.max_recv_sge = number("rsge", 0, UINT32_MAX);
		a->cap.max_inline_data = number("inline", 0, UINT32_MAX);
	}
	return mask;
}

static void do_modify(void)
{
	struct object *qp = arg(QP, "qp");
	struct ibv_qp_attr a;
	int mask = attributes(&a), rc;

	if (failed)
		return;
	errno = 0;
	if ((rc = ibv_modify_qp(qp->qp, &a, mask)))
		fail(error_of(rc), "modify_qp mask=0x%x", mask);
}

static void do_query(void)
{
	const int mask = IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_AV | IBV_QP_PATH_MTU |
			 IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_RQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_SQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			 IBV_QP_PATH_MIG_STATE | IBV_QP_CAP | IBV_QP_DEST_QPN;
	struct object *qp = arg(QP, "qp");
	struct ibv_qp_init_attr init;
	char gid[INET6_ADDRSTRLEN];
	struct ibv_qp_attr a;
	int rc;

	if (failed)
		return;
	memset(&a, 0, sizeof a);
	memset(&init, 0, sizeof init);
	errno = 0;
	if ((rc = ibv_query_qp(qp->qp, &a, mask, &init))) {
		fail(error_of(rc), "query_qp");
		return;
	}
	put("state=%d cur_state=%d access=0x%x pkey_index=%u port=%u qkey=0x%x path_mtu=%d", a.qp_state, a.cur_qp_state, a.qp_access_flags, a.pkey_index, a.port_num, a.qkey,
	    a.path_mtu ? 128 << a.path_mtu : 0);
	put(" timeout=%u retry_cnt=%u rnr_retry=%u min_rnr_timer=%u rq_psn=0x%x sq_psn=0x%x max_rd_atomic=%u max_dest_rd_atomic=%u dest_qpn=0x%x", a.timeout, a.retry_cnt, a.rnr_retry,
	    a.min_rnr_timer, a.rq_psn, a.sq_psn, a.max_rd_atomic, a.max_dest_rd_atomic, a.dest_qp_num);
	put(" path_mig=%d sq_draining=%d sgid_index=%u hop_limit=%u traffic_class=%u", a.path_mig_state, a.sq_draining, a.ah_attr.grh.sgid_index, a.ah_attr.grh.hop_limit,
	    a.ah_attr.grh.traffic_class);
	if (inet_ntop(AF_INET6, a.ah_attr.grh.dgid.raw, gid, sizeof gid))
		put(" dgid=%s", gid);
	put_caps(&a.cap);
}

/* ---- commands: work requests ---- */

static struct ibv_send_wr send_wrs[LIST_MAX];
static struct ibv_recv_wr recv_wrs[LIST_MAX];
static struct ibv_sge sges[LIST_MAX][SGE_MAX];

/* One element: MR:OFF:LEN within a region, which nothing checks against its size, or @ADDR:LKEY:LEN. */
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

/* This process reads inline data, and must not crash at a bad address. */
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

/* The end of the work request that begins at from: a ; or the end of the line.
 * */
static int segment(int from)
{
	while (from < rq.n && strcmp(rq.key[from], ";"))
		from++;
	return from;
}

/* The library accepts any number as an operation, and some providers do not check
 * it. */
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

/* count= copies of the last work request: the ID grows by 1, addresses by stride=, the remote one by rstride=. */
static uint64_t copies(int from, int to, int have)
{
	uint64_t count = number_in(from, to, "count", 1, LIST_MAX);

	if (!failed && (count == 0 || have + count > LIST_MAX))
		fail(ERANGE, "at most %d work requests at once", LIST_MAX);
	return failed ? 0 : count;
}

static void do_post(void)
{
	struct object *qp = arg(QP, "qp");
	struct ibv_send_wr *bad = NULL;
	int n = 0, rc, from = 0;

	while (!failed && from < rq.n) {
		int to = segment(from);
		uint64_t count = copies(from, to, n), stride = number_in(from, to, "stride", 0, UINT32_MAX), rstride = number_in(from, to, "rstride", 0, UINT32_MAX);
		struct ibv_send_wr *wr = &send_wrs[n];

		if (failed)
			return;
		memset(wr, 0, sizeof *wr);
		wr->opcode = opcode_in(from, to);
		wr->wr_id = number_in(from, to, "wr", 0, UINT64_MAX);
		wr->send_flags = names_in(from, to, SEND_FLAGS, "flags", 0);
		wr->sg_list = sges[n];
		wr->num_sge = sge_list(from, to, sges[n]);
		send_operation(from, to, wr, qp->qp);
		if (failed)
			return;
		for (uint64_t i = 0; i < count; i++) {
			send_wrs[n + i] = *wr;
			send_wrs[n + i].wr_id += i;
			send_wrs[n + i].sg_list = sges[n + i];
			for (int k = 0; k < wr->num_sge; k++) {
				sges[n + i][k] = sges[n][k];
				sges[n + i][k].addr += i * stride;
			}
			if (wr->send_flags & IBV_SEND_INLINE)
				check_inline(sges[n + i], wr->num_sge);
			if (wr->opcode != IBV_WR_BIND_MW && qp->qp->qp_type != IBV_QPT_UD)
				send_wrs[n + i].wr.rdma.remote_addr += i * rstride;
		}
		n += count;
		from = to + 1;
	}
	if (failed)
		return;
	for (int i = 0; i < n; i++)
		send_wrs[i].next = i + 1 < n ? &send_wrs[i + 1] : NULL;
	errno = 0;
	if ((rc = ibv_post_send(qp->qp, send_wrs, &bad)))
		fail(error_of(rc), "post_send bad=%d", bad ? (int)(bad - send_wrs) : 0);
	else
		put("n=%d", n);
}

static void do_recv(void)
{
	struct object *qp = given("srq") ? NULL : arg(QP, "qp"), *srq = given("srq") ? arg(SRQ, "srq") : NULL;
	struct ibv_recv_wr *bad = NULL;
	int n = 0, rc, from = 0;

	while (!failed && from < rq.n) {
		int to = segment(from);
		uint64_t count = copies(from, to, n), stride = number_in(from, to, "stride", 0, UINT32_MAX);
		struct ibv_recv_wr *wr = &recv_wrs[n];

		if (failed)
			return;
		memset(wr, 0, sizeof *wr);
		wr->wr_id = number_in(from, to, "wr", 0, UINT64_MAX);
		wr->sg_list = sges[n];
		wr->num_sge = sge_list(from, to, sges[n]);
		if (failed)
			return;
		for (uint64_t i = 1; i < count; i++) {
			recv_wrs[n + i] = *wr;
			recv_wrs[n + i].wr_id += i;
			recv_wrs[n + i].sg_list = sges[n + i];
			for (int k = 0; k < wr->num_sge; k++) {
				sges[n + i][k] = sges[n][k];
				sges[n + i][k].addr += i * stride;
			}
		}
		n += count;
		from = to + 1;
	}
	if (failed)
		return;
	for (int i = 0; i < n; i++)
		recv_wrs[i].next = i + 1 < n ? &recv_wrs[i + 1] : NULL;
	errno = 0;
	rc = srq ? ibv_post_srq_recv(srq->srq, recv_wrs, &bad) : ibv_post_recv(qp->qp, recv_wrs, &bad);
	if (rc)
		fail(error_of(rc), "%s bad=%d", srq ? "post_srq_recv" : "post_recv", bad ? (int)(bad - recv_wrs) : 0);
	else
		put("n=%d", n);
}

/* ---- commands: address handles, memory windows, multicast ---- */

static void do_ah(void)
{
	struct object *pd = arg(PD, "pd");
	struct ibv_ah_attr av;
	struct ibv_ah *ah;

	if (!address("", &av))
		fail(EINVAL, "dgid= is missing");
	if (failed || !room_for_object())
		return;
	errno = 0;
	if (!(ah = ibv_create_ah(pd->pd, &av))) {
		fail(error_of(0), "create_ah");
		return;
	}
	created(new_object(AH, ah));
}

static void do_mw(void)
{
	struct object *pd = arg(PD, "pd");
	uint64_t type = number("type", 2, 2);
	struct ibv_mw *mw;

	if (failed || !room_for_object())
		return;
	errno = 0;
	if (!(mw = ibv_alloc_mw(pd->pd, type == 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2))) {
		fail(error_of(0), "alloc_mw");
		return;
	}
	created(new_object(MW, mw));
	put(" rkey=0x%x", mw->rkey);
}

/* Binds a window of type 1; one of type 2 is bound by post op=BIND_MW. */
static void do_bind(void)
{
	struct object *qp = arg(QP, "qp"), *mw = arg(MW, "mw"), *mr = arg(MR, "mr");
	struct ibv_mw_bind b;
	int rc;

	memset(&b, 0, sizeof b);
	b.wr_id = number("wr", 0, UINT64_MAX);
	b.send_flags = names_in(0, rq.n, SEND_FLAGS, "flags", 0);
	b.bind_info.length = number("len", 0, UINT64_MAX);
	b.bind_info.mw_access_flags = names_in(0, rq.n, ACCESS, "access", 0);
	if (failed)
		return;
	b.bind_info.mr = mr->mr;
	b.bind_info.addr = (uint64_t)(uintptr_t)mr->addr + number("off", 0, UINT64_MAX);
	if (failed)
		return;
	errno = 0;
	if ((rc = ibv_bind_mw(qp->qp, mw->mw, &b)))
		fail(error_of(rc), "bind_mw");
	else
		put("rkey=0x%x", mw->mw->rkey);
}

/* The place of an attachment in groups, or with qp 0 a free one; -1 if there is none. */
static int group_of(int qp, const union ibv_gid *gid)
{
	for (int i = 0; i < GROUPS_MAX; i++)
		if (groups[i].qp == qp && (!qp || !memcmp(&groups[i].gid, gid, sizeof *gid)))
			return i;
	return -1;
}

static void mcast(bool attach)
{
	struct object *qp = arg(QP, "qp");
	const char *s = find(0, rq.n, "gid");
	union ibv_gid gid;
	int rc, at, known;

	if (!s)
		fail(EINVAL, "gid= is missing");
	if (failed || !to_gid("gid", s, &gid))
		return;
	known = group_of(qp - objects, &gid);
	at = known < 0 ? group_of(0, &gid) : known;
	if (attach && at < 0) {
		fail(ENOSPC, "more than %d attachments", GROUPS_MAX);
		return;
	}
	errno = 0;
	rc = attach ? ibv_attach_mcast(qp->qp, &gid, 0) : ibv_detach_mcast(qp->qp, &gid, 0);
	if (rc) {
		fail(error_of(rc), "%s_mcast", attach ? "attach" : "detach");
	} else if (attach) {
		groups[at].qp = qp - objects;
		groups[at].gid = gid;
	} else if (known >= 0) {
		groups[known].qp = 0;
	}
}

static void do_attach(void)
{
	mcast(true);
}

static void do_detach(void)
{
	mcast(false);
}

static void do_destroy(void)
{
	uint64_t h = number("id", 0, OBJECTS_MAX - 1);
	int rc;

	if (failed)
		return;
	if (objects[h].kind == FREE) {
		fail(ENOENT, "id=%" PRIu64 " is nothing", h);
		return;
	}
	take_events();
	if ((rc = destroy(h)))
		fail(rc, "destroy the %s", KIND_NAMES[objects[h].kind]);
}

static void do_reset(void)
{
	destroy_all();
}

/* ---- the table of commands ---- */

static void do_help(void);

#define AV_KEYS "dgid sgid_index hop_limit traffic_class flow_label sl rate av_port"
#define ALT_KEYS "alt_dgid alt_sgid_index alt_hop_limit alt_traffic_class alt_flow_label alt_sl alt_rate alt_av_port alt_timeout alt_pkey_index"

static const struct command {
	const char *name;
	void (*run)(void);
	const char *keys;
} COMMANDS[] = {
	{ "help", do_help, "" },
	{ "hello", do_hello, "" },
	{ "counters", do_counters, "" },
	{ "events", do_events, "ms" },
	{ "reset", do_reset, "" },
	{ "destroy", do_destroy, "id" },
	{ "pd", do_pd, "" },
	{ "mr", do_mr, "pd size access align iova" },
	{ "fill", do_fill, "mr off len seed at byte" },
	{ "verify", do_verify, "mr off len seed at byte" },
	{ "guard", do_guard, "mr" },
	{ "sum", do_sum, "mr off len" },
	{ "read", do_read, "mr off len" },
	{ "write", do_write, "mr off hex" },
	{ "cq", do_cq, "cqe events" },
	{ "resize", do_resize, "cq cqe" },
	{ "poll", do_poll, "cq n ms" },
	{ "arm", do_arm, "cq solicited" },
	{ "notified", do_notified, "cq ms" },
	{ "srq", do_srq, "pd wr sge limit" },
	{ "srq_limit", do_srq_limit, "srq limit" },
	{ "qp", do_qp, "pd type scq rcq srq swr rwr ssge rsge inline sigall" },
	{ "modify", do_modify,
	  "qp state cur_state sqd_notify access pkey_index port qkey path_mtu timeout retry_cnt rnr_retry rq_psn sq_psn max_rd_atomic max_dest_rd_atomic"
	  " min_rnr_timer dest_qpn path_mig rate_limit swr rwr ssge rsge inline " AV_KEYS " " ALT_KEYS },
	{ "query", do_query, "qp" },
	{ "post", do_post, "qp wr op flags sge imm inv raddr rkey compare_add swap ah rqpn rqkey mw mr off len access count stride rstride ;" },
	{ "recv", do_recv, "qp srq wr sge count stride ;" },
	{ "ah", do_ah, "pd " AV_KEYS },
	{ "mw", do_mw, "pd type" },
	{ "bind", do_bind, "qp mw mr off len access wr flags" },
	{ "attach", do_attach, "qp gid" },
	{ "detach", do_detach, "qp gid" },
	{ 0, 0, 0 }
};

static void do_help(void)
{
	for (const struct command *c = COMMANDS; c->name; c++) {
		put("%s%s", c == COMMANDS ? "" : " | ", c->name);
		if (*c->keys)
			put(" %s", c->keys);
	}
}

static bool is_key(const char *keys, const char *key)
{
	size_t n = strlen(key);

	for (const char *p = keys; n && *p;) {
		size_t k = strcspn(p, " ");

		if (k == n && !memcmp(p, key, n))
			return true;
		p += k;
		p += strspn(p, " ");
	}
	return false;
}

/* Executes one line, whose bytes it changes, and leaves the reply. */
static void execute(char *line)
{
	char *save = NULL, *word = strtok_r(line, " \t\r", &save);
	const struct command *c;

	reply_len = 0;
	reply_full = failed = false;
	rq.n = 0;
	if (!word) {
		fail(EINVAL, "an empty line; help lists the commands");
		return;
	}
	for (c = COMMANDS; c->name && strcmp(c->name, word); c++)
		;
	if (!c->name) {
		fail(ENOSYS, "unknown command; help lists the commands");
		return;
	}
	while ((word = strtok_r(NULL, " \t\r", &save))) {
		char *eq = strchr(word, '=');

		if (rq.n == TOKENS_MAX) {
			fail(ERANGE, "more than %d words", TOKENS_MAX);
			return;
		}
		if (eq)
			*eq = 0;
		if (!is_key(c->keys, word) || (!eq && strcmp(word, ";"))) {
			fail(EINVAL, "%s takes no %.40s%s", c->name, word, eq ? "=" : "");
			return;
		}
		rq.key[rq.n] = word;
		rq.value[rq.n++] = eq ? eq + 1 : "";
	}
	put("ok ");
	c->run();
	if (reply_full && !failed)
		fail(EMSGSIZE, "the reply is too long");
}

/* ---- the controller ---- */

static int listener = -1, controller = -1;
static char in[LINE_MAX_BYTES];
static size_t in_len;

/* Connections that have sent nothing yet. A connection that sends something becomes the
 * controller; until then the present controller keeps its objects. */
enum { NEWCOMERS_MAX = 8 };
static int newcomers[NEWCOMERS_MAX], newcomer_count;

static int leave_newcomers(int i)
{
	int fd = newcomers[i];

	memmove(newcomers + i, newcomers + i + 1, (--newcomer_count - i) * sizeof *newcomers);
	return fd;
}

/* Accepts a connection, which replaces the oldest newcomer if there are too
 * many. */
static void accept_newcomer(void)
{
	int fd = accept(listener, NULL, NULL);

	if (fd < 0)
		return;
	if (newcomer_count == NEWCOMERS_MAX)
		close(leave_newcomers(0));
	newcomers[newcomer_count++] = fd;
}

/* Returns a connection that has sent something, -1 if none has. Closes those that have ended. */
static int speaking_newcomer(void)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };
	char byte;

	for (int i = 0; i < NEWCOMERS_MAX && poll(&p, 1, 0) > 0; i++)
		accept_newcomer();
	for (int i = newcomer_count - 1; i >= 0; i--) {
		ssize_t n = recv(newcomers[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT);

		if (n > 0)
			return i;
		if (n == 0 || (errno != EAGAIN && errno != EINTR))
			close(leave_newcomers(i));
	}
	return -1;
}

/* Whether to stop waiting: the controller has hung up, or another connection
 * has sent a request. */
static bool controller_left(void)
{
	struct pollfd p = { .fd = controller, .events = POLLRDHUP };

	return (poll(&p, 1, 0) > 0 && p.revents) || speaking_newcomer() >= 0;
}

static void drop_controller(void)
{
	if (controller >= 0)
		close(controller);
	controller = -1;
	in_len = 0;
	destroy_all();
}

static void accept_controller(int newcomer)
{
	int one = 1, fd = leave_newcomers(newcomer);
	struct timeval limit = { .tv_sec = 10 };

	drop_controller();
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	controller = fd;
}

static bool send_reply(void)
{
	while (reply_len && reply[reply_len - 1] == ' ')
		reply_len--;
	reply[reply_len++] = '\n';
	for (size_t at = 0; at < reply_len;) {
		ssize_t n = send(controller, reply + at, reply_len - at, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		at += n;
	}
	return true;
}

static void serve_controller(void)
{
	ssize_t n = recv(controller, in + in_len, sizeof in - in_len, 0);
	size_t from = 0;
	char *nl;

	if (n <= 0) {
		drop_controller();
		return;
	}
	in_len += n;
	while ((nl = memchr(in + from, '\n', in_len - from))) {
		*nl = 0;
		take_events();
		execute(in + from);
		if (!send_reply()) {
			drop_controller();
			return;
		}
		from = nl + 1 - in;
	}
	in_len -= from;
	memmove(in, in + from, in_len);
	if (in_len == sizeof in) {
		reply_len = 0;
		failed = false;
		fail(EMSGSIZE, "a line is at most %d bytes", LINE_MAX_BYTES - 1);
		send_reply();
		drop_controller();
	}
}

static int listen_on(const char *address, const char *service)
{
	struct addrinfo hints = { .ai_flags = AI_PASSIVE | AI_NUMERICHOST, .ai_family = address ? AF_UNSPEC : AF_INET6, .ai_socktype = SOCK_STREAM }, *ai;
	int rc = getaddrinfo(address, service, &hints, &ai), one = 1, zero = 0, fd;

	if (rc) {
		fprintf(stderr, "agent: %s port %s: %s\n", address ? address : "any address", service, gai_strerror(rc));
		exit(2);
	}
	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) ||
	    (ai->ai_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero)) || bind(fd, ai->ai_addr, ai->ai_addrlen) || listen(fd, 4)) {
		fprintf(stderr, "agent: listen on port %s: %s\n", service, strerror(errno));
		exit(1);
	}
	freeaddrinfo(ai);
	return fd;
}

static struct ibv_context *open_device(const char *name)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);
	struct ibv_context *c = NULL;

	for (int i = 0; list && i < n && !c; i++)
		if (!name || !strcmp(name, ibv_get_device_name(list[i])))
			c = ibv_open_device(list[i]);
	if (!c) {
		fprintf(stderr, "agent: no device %s to open; ibv_devices lists them\n", name ? name : "");
		exit(1);
	}
	ibv_free_device_list(list);
	fcntl(c->async_fd, F_SETFL, fcntl(c->async_fd, F_GETFL) | O_NONBLOCK);
	return c;
}

static void usage(FILE *f)
{
	fprintf(f, "usage: agent [-d DEVICE] [-i PORT_OF_DEVICE] [-b ADDRESS] [-p TCP_PORT]\n"
		   "Does with the adapter what a controller tells it over TCP (port 18516), one controller at a time.\n"
		   "  agent -d rxe0                    first port, listens on all addresses\n"
		   "  agent -d mlx5_0 -b 192.0.2.7     listens on one address only\n");
}

int main(int argc, char **argv)
{
	const char *device = NULL, *address_text = NULL, *service = "18516";
	int c;

	while ((c = getopt(argc, argv, "d:i:b:p:h")) != -1) {
		switch (c) {
		case 'd':
			device = optarg;
			break;
		case 'i':
			port = atoi(optarg);
			break;
		case 'b':
			address_text = optarg;
			break;
		case 'p':
			service = optarg;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind < argc || !port) {
		usage(stderr);
		return 2;
	}
	ctx = open_device(device);
	listener = listen_on(address_text, service);
	printf("agent: %s serves port %s\n", ibv_get_device_name(ctx->device), service);
	fflush(stdout);
	for (;;) {
		struct pollfd p[3 + NEWCOMERS_MAX] = { { .fd = listener, .events = POLLIN }, { .fd = ctx->async_fd, .events = POLLIN }, { .fd = controller, .events = POLLIN } };

		for (int i = 0; i < newcomer_count; i++)
			p[3 + i] = (struct pollfd){ .fd = newcomers[i], .events = POLLIN };
		if (poll(p, 3 + newcomer_count, -1) < 0 && errno != EINTR)
			return 1;
		if (p[1].revents & (POLLERR | POLLHUP | POLLNVAL)) {
			fprintf(stderr, "agent: the device is gone\n");
			return 1;
		}
		if (p[1].revents)
			take_events();
		int speaks = speaking_newcomer();

		if (speaks >= 0)
			accept_controller(speaks);
		else if (controller >= 0 && p[2].revents)
			serve_controller();
	}
}

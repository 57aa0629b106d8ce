// Devices and contexts: listing, opening, closing and querying them.
#define _GNU_SOURCE
#include "check.h"
#include "private.h"

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

EXPORT VERB(struct ibv_device **, ibv_get_device_list, (int *num), num)
{
	int n;
	struct node **list = nodes(&n);
	struct ibv_device **out = calloc((size_t)n + 1, sizeof *out);
	if (out == NULL)
		return fail(ENOMEM);
	for (int i = 0; i < n; i++)
		out[i] = &list[i]->ibv;
	if (num != NULL)
		*num = n;
	return out;
}

EXPORT void ibv_free_device_list(struct ibv_device **list) { free(list); }
EXPORT const char *ibv_get_device_name(struct ibv_device *d) { return d->name; }
EXPORT int ibv_get_device_index(struct ibv_device *d) { return ((struct node *)d)->index + 1; }

// guid_of parses what sysfs shows: four groups of four hexadecimal digits.
static uint64_t guid_of(const char *s)
{
	unsigned a, b, c, d;
	if (sscanf(s, "%x:%x:%x:%x", &a, &b, &c, &d) != 4)
		return 0;
	return (uint64_t)a << 48 | (uint64_t)b << 32 | (uint64_t)c << 16 | d;
}

// The GUID follows from the address. An adapter may get its address only when it is opened, so
// without an image of it in sysfs the library opens it here.
EXPORT __be64 ibv_get_device_guid(struct ibv_device *ibv)
{
	struct node *n = (struct node *)ibv;
	char path[4096], text[64] = "";
	const char *root = secure_getenv("SOFTHCA_SYSFS");
	if (root != NULL && *root) {
		snprintf(path, sizeof path, "%s/sys/class/infiniband/%s", root, ibv->name);
		if (ibv_read_sysfs_file(path, "node_guid", text, sizeof text) > 0 && guid_of(text) != 0)
			return htobe64(guid_of(text));
	}
	struct device *d = open_device(n);
	if (d == NULL)
		return 0;
	uint64_t guid = d->info.node_guid;
	close_device(d);
	return htobe64(guid);
}

EXPORT VERB(struct ibv_context *, ibv_open_device, (struct ibv_device *ibv), ibv)
{
	int fd = command_fd();
	struct ibv_context *c = open_context((struct node *)ibv, fd);
	if (c == NULL && fd >= 0) {
		int code = errno;
		close(fd);
		errno = code;
	}
	return c;
}

// open_context opens an adapter, or another context of it; fd is the context's if
// that succeeds.
struct ibv_context *open_context(struct node *n, int fd)
{
	struct context *c = calloc(1, sizeof *c);
	if (c == NULL)
		return fail(ENOMEM);
	int code = source_init(&c->source);
	if (code != 0)
		return abandon(c, code);
	if ((c->dev = open_device(n)) == NULL) {
		code = errno;
		source_free(&c->source);
		return abandon(c, code);
	}
	c->v.sz = sizeof c->v;
	c->v.context.device = &n->ibv;
	c->v.context.cmd_fd = fd;
	c->v.context.async_fd = c->source.fd;
	c->v.context.num_comp_vectors = 1;
	c->v.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	pthread_mutex_init(&c->v.context.mutex, NULL);
	set_ops(c);
	if (UNLIKELY(checking))
		begin_findings();
	mutex_lock(DEVICE_LOCK, &c->dev->mu);
	c->next = c->dev->first;
	c->dev->first = c;
	mutex_unlock(&c->dev->mu);
	return &c->v.context;
}

// destroy_left destroys the objects that the program left, dependent objects first. In the child of
// a fork the objects are the parent's: the engine destroys none of them, and they outlive the context.
static void destroy_left(struct context *c)
{
	for (int rank = 4; rank > 0; rank--) {
		struct object *next;
		for (struct object *o = c->objects; o != NULL; o = next) {
			next = o->next;
			if (o->kind->rank == rank)
				o->kind->destroy(o);
		}
	}
	for (struct object *o = c->objects; o != NULL; o = o->next)
		o->outlives = true;
}

EXPORT VERB(int, ibv_close_device, (struct ibv_context *ibv), ibv)
{
	struct context *c = context_of(ibv), **at;
	mutex_lock(DEVICE_LOCK, &c->dev->mu);
	for (at = &c->dev->first; *at != c; at = &(*at)->next) {
	}
	*at = c->next;
	mutex_unlock(&c->dev->mu);
	c->closing = true;
	if (UNLIKELY(checking) && !c->dev->gone)
		check_closes(c);
	destroy_left(c);
	int code = close_device(c->dev);
	drop_notes(c);
	source_free(&c->source);
	if (ibv->cmd_fd >= 0)
		close(ibv->cmd_fd);
	free(c);
	return code;
}

void add_object(struct ibv_context *ibv, struct object *o, const struct kind *kind, uint32_t number)
{
	struct context *c = context_of(ibv);
	o->kind = kind, o->number = number;
	if (UNLIKELY(checking))
		o->made = stack_here();
	mutex_lock(SOURCE_LOCK, &c->source.mu);
	if ((o->next = c->objects) != NULL)
		o->next->prev = &o->next;
	o->prev = &c->objects;
	c->objects = o;
	mutex_unlock(&c->source.mu);
}

// release_object ends the life of an object in its context. Its memory is freed, except
// when the context closes with the object left in it: then the program may destroy the object
// later, as Python's garbage collector does, and that frees the memory.
void release_object(struct ibv_context *ibv, struct object *o, void *memory)
{
	struct context *c = context_of(ibv);
	mutex_lock(SOURCE_LOCK, &c->source.mu);
	if ((*o->prev = o->next) != NULL)
		o->next->prev = o->prev;
	mutex_unlock(&c->source.mu);
	if (c->closing) {
		o->outlives = true;
		if (UNLIKELY(checking))
			check_forgets(o);
	} else if (UNLIKELY(checking)) {
		check_keeps(o, memory);
	} else {
		free(memory);
	}
}

// outlived reports whether the context of an object is closed. If so, all that is left to
// destroy is the memory, and outlived frees it. It also reports true for an object that the program has
// destroyed, if that is checked.
bool outlived(const struct object *o, void *memory)
{
	if (UNLIKELY(checking) && check_ended_twice(o))
		return true;
	if (!o->outlives)
		return false;
	free(memory);
	return true;
}

EXPORT VERB(int, ibv_query_device, (struct ibv_context *c, struct ibv_device_attr *a), c, a)
{
	const struct softhca_adapter *i = &device_of(c)->info;
	*a = (struct ibv_device_attr){
		.fw_ver = "1.0", .node_guid = htobe64(i->node_guid), .sys_image_guid = htobe64(i->node_guid),
		.max_mr_size = UINT64_MAX, .page_size_cap = 0xfffff000, .vendor_id = 0xffffff,
		.max_qp = (int)i->max_qp, .max_qp_wr = (int)i->max_qp_wr,
		.device_cap_flags = IBV_DEVICE_AUTO_PATH_MIG | IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
				    IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_MEM_WINDOW |
				    IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC,
		.max_sge = (int)i->max_sge, .max_sge_rd = (int)i->max_sge, .max_cq = (int)i->max_cq, .max_cqe = (int)i->max_cqe,
		.max_mr = (int)i->max_mr, .max_mw = (int)i->max_mw, .max_pd = (int)i->max_pd,
		.max_qp_rd_atom = (int)i->max_rd_atomic, .max_qp_init_rd_atom = (int)i->max_rd_atomic,
		.max_res_rd_atom = (int)(i->max_rd_atomic * i->max_qp), .atomic_cap = IBV_ATOMIC_HCA,
		.max_mcast_grp = (int)i->max_mcast_grp, .max_mcast_qp_attach = (int)i->max_mcast_qp_attach,
		.max_total_mcast_qp_attach = (int)i->max_total_mcast_qp_attach, .max_ah = (int)i->max_ah,
		.max_srq = (int)i->max_srq, .max_srq_wr = (int)i->max_srq_wr, .max_srq_sge = (int)i->max_sge,
		.max_pkeys = (uint16_t)i->pkeys, .local_ca_ack_delay = 15, .phys_port_cnt = 1,
	};
	return 0;
}

enum { MAX_PERIOD = 4095 }; // of CQ moderation, in µs

// The adapter pins no memory: every operation works on memory that is mapped on demand.
enum {
	ODP_DATAGRAM = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV,
	ODP_UNRELIABLE = ODP_DATAGRAM | IBV_ODP_SUPPORT_WRITE,
	ODP_XRC = ODP_UNRELIABLE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC,
	ODP_RELIABLE = ODP_XRC | ODP_SUPPORT_FLUSH | ODP_SUPPORT_ATOMIC_WRITE,
};

static const struct ibv_odp_caps on_demand = {
	.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
	.per_transport_caps = {.rc_odp_caps = ODP_RELIABLE, .uc_odp_caps = ODP_UNRELIABLE, .ud_odp_caps = ODP_DATAGRAM},
};

VERB(int, query_device_ex, (struct ibv_context *c, const struct ibv_query_device_ex_input *in,
	struct ibv_device_attr_ex *out, size_t size), c, in, out, size)
{
	struct ibv_device_attr_ex a = {.phys_port_cnt_ex = 1};
	if (in != NULL && in->comp_mask != 0)
		return EINVAL;
	ibv_query_device(c, &a.orig_attr);
	a.device_cap_flags_ex = a.orig_attr.device_cap_flags | DEVICE_FLUSH_GLOBAL | DEVICE_FLUSH_PERSISTENT | DEVICE_ATOMIC_WRITE;
	a.completion_timestamp_mask = UINT64_MAX;
	a.hca_core_clock = 1000000; // kHz: a tick is a nanosecond
	a.cq_mod_caps = (struct ibv_cq_moderation_caps){.max_cq_count = UINT16_MAX, .max_cq_period = MAX_PERIOD};
	a.packet_pacing_caps = (struct ibv_packet_pacing_caps){
		.qp_rate_limit_min = 1, .qp_rate_limit_max = 100000000,
		.supported_qpts = 1 << IBV_QPT_RC | 1 << IBV_QPT_UC | 1 << IBV_QPT_UD | 1 << IBV_QPT_XRC_SEND | 1 << IBV_QPT_XRC_RECV,
	};
	a.odp_caps = on_demand, a.xrc_odp_caps = ODP_XRC;
	a.max_dm_size = device_of(c)->info.max_dm_size;
	memset(out, 0, size);
	memcpy(out, &a, size < sizeof a ? size : sizeof a);
	return 0;
}

VERB(int, query_rt_values, (struct ibv_context *c, struct ibv_values_ex *v), c, v)
{
	(void)c;
	if (v->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return EINVAL;
	if (!(v->comp_mask & IBV_VALUES_MASK_RAW_CLOCK))
		return 0;
	uint64_t now = now_ns();
	v->raw_clock = (struct timespec){.tv_sec = (time_t)(now / 1000000000), .tv_nsec = (long)(now % 1000000000)};
	return 0;
}

// The rate of the port is that of four lanes of EDR, 100 Gb/s; nothing slows it
// to that.
enum { WIDTH_4X = 2, SPEED_EDR = 32, PHYS_LINK_UP = 5, PHYS_DISABLED = 3 };

VERB(int, query_port, (struct ibv_context *c, uint8_t port, struct ibv_port_attr *out, size_t size), c, port, out, size)
{
	struct device *d = device_of(c);
	struct softhca_adapter i;
	if (port != PORT)
		return EINVAL;
	int code = ENGINE(d, describe, d->handle, &i);
	if (code != 0)
		return code;
	bool up = i.port_state == IBV_PORT_ACTIVE;
	struct ibv_port_attr a = {
		.state = (enum ibv_port_state)i.port_state, .max_mtu = IBV_MTU_4096, .active_mtu = (enum ibv_mtu)i.active_mtu,
		.gid_tbl_len = (int)i.gids, .port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
		.max_msg_sz = (uint32_t)i.max_msg_size, .pkey_tbl_len = (uint16_t)i.pkeys, .max_vl_num = 1,
		.active_width = WIDTH_4X, .active_speed = SPEED_EDR, .phys_state = up ? PHYS_LINK_UP : PHYS_DISABLED,
		.link_layer = IBV_LINK_LAYER_ETHERNET, .flags = IBV_QPF_GRH_REQUIRED,
	};
	memset(out, 0, size);
	memcpy(out, &a, size < sizeof a ? size : sizeof a);
	return 0;
}

// The width and speed of a port in the units of ibv_query_port_speed: lanes, and 100 Mb/s of
// each lane.
enum { LANES = 4, LANE_SPEED = 250 };

LATER(int, ibv_query_port_speed, struct ibv_context *c, uint32_t port, uint64_t *speed)
{
	struct ibv_port_attr a;
	int code = port > UINT8_MAX ? EINVAL : query_port(c, (uint8_t)port, &a, sizeof a);
	if (code == 0)
		*speed = LANES * LANE_SPEED;
	else
		errno = code;
	return code;
}

// Old programs do not know the context's query_port, and give room for the port attributes of
// their time.
enum { OLD_PORT_ATTR = 48 };

EXPORT VERB(int, ibv_query_port, (struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *a), c, port, a)
{
	return query_port(c, port, (struct ibv_port_attr *)a, OLD_PORT_ATTR);
}

EXPORT VERB(int, ibv_query_gid, (struct ibv_context *c, uint8_t port, int index, union ibv_gid *gid),
	c, port, index, gid)
{
	const struct softhca_adapter *i = &device_of(c)->info;
	if (port != PORT || index < 0 || index >= (int)i->gids)
		return failure(EINVAL);
	memcpy(gid->raw, i->gid[index], sizeof gid->raw);
	return 0;
}

static struct ibv_gid_entry gid_entry(const struct softhca_adapter *i, uint32_t index)
{
	struct ibv_gid_entry e = {.gid_index = index, .port_num = PORT, .gid_type = IBV_GID_TYPE_ROCE_V2, .ndev_ifindex = i->if_index};
	memcpy(e.gid.raw, i->gid[index], sizeof e.gid.raw);
	return e;
}

EXPORT VERB(int, _ibv_query_gid_ex, (struct ibv_context *c, uint32_t port, uint32_t index,
	struct ibv_gid_entry *out, uint32_t flags, size_t size), c, port, index, out, flags, size)
{
	const struct softhca_adapter *i = &device_of(c)->info;
	if (flags != 0 || port != PORT || index >= i->gids)
		return EINVAL;
	struct ibv_gid_entry e = gid_entry(i, index);
	memset(out, 0, size);
	memcpy(out, &e, size < sizeof e ? size : sizeof e);
	return 0;
}

EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *out, size_t max, uint32_t flags, size_t size)
{
	const struct softhca_adapter *i = &device_of(c)->info;
	if (flags != 0 || max < i->gids) {
		errno = EINVAL;
		return -EINVAL;
	}
	memset(out, 0, size * i->gids);
	for (uint32_t n = 0; n < i->gids; n++) {
		struct ibv_gid_entry e = gid_entry(i, n);
		memcpy((char *)out + n * size, &e, size < sizeof e ? size : sizeof e);
	}
	return (ssize_t)i->gids;
}

// The kinds of GIDs as sysfs counts them, not as ibv_gid_entry does.
enum { SYSFS_ROCE_V2 = 1 };

EXPORT int query_gid_type(struct ibv_context *c, uint8_t port, unsigned index, int *type)
{
	if (port != PORT || index >= device_of(c)->info.gids)
		return failure(EINVAL);
	*type = SYSFS_ROCE_V2;
	return 0;
}
PRIVATE(query_gid_type, ibv_query_gid_type)

EXPORT VERB(int, ibv_query_pkey, (struct ibv_context *c, uint8_t port, int index, __be16 *pkey), c, port, index, pkey)
{
	const struct softhca_adapter *i = &device_of(c)->info;
	if (port != PORT || index < 0 || index >= (int)i->pkeys)
		return failure(ENOENT); // like the sysfs file that rdma-core reads
	*pkey = htons(i->pkey[index]);
	return 0;
}

EXPORT int ibv_get_pkey_index(struct ibv_context *c, uint8_t port, __be16 pkey)
{
	const struct softhca_adapter *a = &device_of(c)->info;
	for (int i = 0; port == PORT && i < (int)a->pkeys; i++)
		if (htons(a->pkey[i]) == pkey)
			return i;
	return failure(ENOENT);
}

EXPORT const char *ibv_get_sysfs_path(void)
{
	const char *path = secure_getenv("SYSFS_PATH");
	return path != NULL ? path : "/sys";
}

EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[4096];
	if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, file) >= sizeof path)
		return -1;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = read(fd, buf, size);
	close(fd);
	if (n > 0 && buf[n - 1] == '\n')
		buf[--n] = '\0';
	else if (n >= 0 && (size_t)n < size)
		buf[n] = '\0';
	return (int)n;
}

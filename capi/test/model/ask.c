// Queries of devices, contexts and ports, and objects that another context of the process
// imports.
#define _GNU_SOURCE
#include "model.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <time.h>
#include <unistd.h>

// Calls that the headers do not declare.
int ibv_query_gid_type(struct ibv_context *c, uint8_t port, unsigned index, int *type);

static void ask_devices(void)
{
	int n = 0;
	struct ibv_device **list = MADE(ibv_get_device_list(&n)), **again = MADE(ibv_get_device_list(NULL));
	const char *call = "ibv_get_device_list";
	for (int i = 0; i < n; i++) {
		char name[64];
		WANT(call, again[i], list[i]);
		snprintf(name, sizeof name, "softhca%d", i);
		if (strcmp(ibv_get_device_name(list[i]), name) != 0)
			fails("ibv_get_device_name", "%s, want %s", ibv_get_device_name(list[i]), name);
		WANT("ibv_get_device_index", ibv_get_device_index(list[i]), i + 1);
		WANT(call, list[i]->node_type, IBV_NODE_CA);
		WANT(call, list[i]->transport_type, IBV_TRANSPORT_IB);
		if (list[i] == me->ctx[0]->device)
			WANT("ibv_get_device_guid", ibv_get_device_guid(list[i]), me->dev.node_guid);
	}
	WANT(call, list[n], NULL);
	ibv_free_device_list(list);
	ibv_free_device_list(again);
}

static void ask_device(struct ibv_context *c)
{
	struct ibv_device_attr a;
	struct ibv_port_attr p;
	const char *call = "ibv_query_device";
	poison(&a, sizeof a);
	WORKS(ibv_query_device(c, &a));
	WORKS(ibv_query_port(c, 1, &p));
	WANT(call, strcmp(a.fw_ver, "1.0"), 0);
	WANT(call, a.node_guid, ibv_get_device_guid(c->device));
	WANT(call, a.sys_image_guid, a.node_guid);
	WANT(call, a.max_mr_size, UINT64_MAX);
	WANT(call, a.page_size_cap, 0xfffff000);
	WANT(call, a.vendor_id, 0xffffff);
	WANT(call, a.phys_port_cnt, 1);
	WANT(call, a.max_pkeys, p.pkey_tbl_len);
	WANT(call, a.max_sge_rd, a.max_sge);
	WANT(call, a.max_srq_sge, a.max_sge);
	WANT(call, a.max_qp_init_rd_atom, a.max_qp_rd_atom);
	WANT(call, a.max_res_rd_atom, a.max_qp_rd_atom * a.max_qp);
	WANT(call, a.atomic_cap, IBV_ATOMIC_HCA);
	const int none[] = {a.max_ee_rd_atom, a.max_ee_init_rd_atom, a.max_ee, a.max_rdd, a.max_raw_ipv6_qp, a.max_raw_ethy_qp, a.max_fmr, a.max_map_per_fmr};
	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		WANT(call, none[i], 0);
	const int some[] = {a.max_qp, a.max_qp_wr, a.max_sge, a.max_cq, a.max_cqe, a.max_mr, a.max_mw, a.max_pd, a.max_qp_rd_atom, a.max_mcast_grp,
		a.max_mcast_qp_attach, a.max_total_mcast_qp_attach, a.max_ah, a.max_srq, a.max_srq_wr};
	for (size_t i = 0; i < sizeof some / sizeof *some; i++)
		WANT(call, some[i] > 0, true);
}

// ibv_query_device_ex writes no more bytes than the program has room for, and none past
// the end of its own structure.
static void ask_device_ex(struct ibv_context *c)
{
	struct ibv_device_attr plain;
	struct ibv_query_device_ex_input in = {0};
	struct {
		struct ibv_device_attr_ex a;
		char more[64];
	} room;
	const char *call = "ibv_query_device_ex";
	WORKS(ibv_query_device(c, &plain));
	poison(&room, sizeof room);
	WORKS(ibv_query_device_ex(c, chance(50) ? &in : NULL, &room.a));
	want_bytes(call, "orig_attr", &room.a.orig_attr, &plain, sizeof plain);
	WANT(call, room.a.comp_mask, 0);
	WANT(call, room.a.phys_port_cnt_ex, 1);
	WANT(call, room.a.device_cap_flags_ex, plain.device_cap_flags | 7ull << 38); // FLUSH of both types, ATOMIC WRITE
	WANT(call, room.a.completion_timestamp_mask, UINT64_MAX);
	WANT(call, room.a.hca_core_clock, 1000000);
	WANT(call, room.a.packet_pacing_caps.supported_qpts,
		1 << IBV_QPT_RC | 1 << IBV_QPT_UC | 1 << IBV_QPT_UD | 1 << IBV_QPT_XRC_SEND | 1 << IBV_QPT_XRC_RECV);
	WANT(call, room.a.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	WANT(call, room.a.max_dm_size, 1 << 20);
	WANT(call, is_poison(room.more, sizeof room.more), true);
	struct verbs_context *v = (struct verbs_context *)((char *)c - offsetof(struct verbs_context, context));
	size_t size = sizeof plain + draw(sizeof room.a - sizeof plain);
	struct ibv_device_attr_ex whole = room.a;
	poison(&room, sizeof room);
	WORKS(v->query_device_ex(c, NULL, &room.a, size));
	want_bytes(call, "a part", &room, &whole, size);
	WANT(call, is_poison((char *)&room + size, sizeof room - size), true);
	in.comp_mask = 1;
	REFUSES(v->query_device_ex(c, &in, &room.a, sizeof room.a), EINVAL);
}

static void ask_port(struct ibv_context *c)
{
	enum { OLD = 48, RATE_4X = 2, SPEED_25 = 32, LINK_UP = 5 };
	union {
		struct ibv_port_attr a;
		struct _compat_ibv_port_attr *none;
		char room[sizeof(struct ibv_port_attr) + 16];
	} p;
	const char *call = "ibv_query_port";
	poison(&p, sizeof p);
	WORKS(ibv_query_port(c, 1, &p.a));
	struct ibv_port_attr whole = p.a;
	WANT(call, p.a.state, IBV_PORT_ACTIVE);
	WANT(call, p.a.max_mtu, IBV_MTU_4096);
	WANT(call, p.a.active_mtu, IBV_MTU_4096);
	WANT(call, p.a.max_msg_sz, 1u << 31);
	WANT(call, p.a.gid_tbl_len > 0, true);
	WANT(call, p.a.pkey_tbl_len, 1);
	WANT(call, p.a.bad_pkey_cntr, 0);
	WANT(call, p.a.lid, 0);
	WANT(call, p.a.sm_lid, 0);
	WANT(call, p.a.lmc, 0);
	WANT(call, p.a.active_width, RATE_4X);
	WANT(call, p.a.active_speed, SPEED_25);
	WANT(call, p.a.phys_state, LINK_UP);
	WANT(call, p.a.link_layer, IBV_LINK_LAYER_ETHERNET);
	WANT(call, p.a.flags, IBV_QPF_GRH_REQUIRED);
	WANT(call, p.a.port_cap_flags, IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS);
	WANT(call, is_poison(p.room + sizeof p.a, sizeof p.room - sizeof p.a), true);
	poison(&p, sizeof p);
	WORKS((ibv_query_port)(c, 1, (struct _compat_ibv_port_attr *)&p)); // the entry point of old programs
	want_bytes(call, "what old programs have", &p, &whole, OLD);
	WANT(call, is_poison(p.room + OLD, sizeof p.room - OLD), true);
	REFUSES(ibv_query_port(c, 2, &p.a), EINVAL);
	REFUSES(ibv_query_port(c, 0, &p.a), EINVAL);
}

static void ask_gids(struct ibv_context *c)
{
	struct ibv_port_attr p;
	struct ibv_gid_entry e, all[256];
	union ibv_gid g;
	int type = -1;
	WORKS(ibv_query_port(c, 1, &p));
	poison(all, sizeof all);
	WANT("ibv_query_gid_table", ibv_query_gid_table(c, all, 256, 0), p.gid_tbl_len);
	for (int i = 0; i < p.gid_tbl_len; i++) {
		poison(&g, sizeof g);
		poison(&e, sizeof e);
		WORKS(ibv_query_gid(c, 1, i, &g));
		WORKS(ibv_query_gid_ex(c, 1, (uint32_t)i, &e, 0));
		want_bytes("ibv_query_gid_ex", "gid", &e.gid, &g, sizeof g);
		WANT("ibv_query_gid_ex", e.gid_index, i);
		WANT("ibv_query_gid_ex", e.port_num, 1);
		WANT("ibv_query_gid_ex", e.gid_type, IBV_GID_TYPE_ROCE_V2);
		WANT("ibv_query_gid_ex", e.ndev_ifindex, if_nametoindex("lo"));
		want_bytes("ibv_query_gid_table", "an entry", &all[i], &e, sizeof e);
		WORKS(ibv_query_gid_type(c, 1, (unsigned)i, &type));
		WANT("ibv_query_gid_type", type, 1);
	}
	WANT("ibv_query_gid_table", is_poison(&all[p.gid_tbl_len], sizeof e), true);
	REFUSES_MINUS(ibv_query_gid(c, 1, p.gid_tbl_len, &g), EINVAL);
	REFUSES_MINUS(ibv_query_gid(c, 1, -1, &g), EINVAL);
	REFUSES_MINUS(ibv_query_gid(c, 2, 0, &g), EINVAL);
	REFUSES_MINUS(ibv_query_gid_type(c, 1, (unsigned)p.gid_tbl_len, &type), EINVAL);
	REFUSES(ibv_query_gid_ex(c, 1, 0, &e, 1), EINVAL);
	if (ibv_query_gid_table(c, all, 0, 0) >= 0)
		fails("ibv_query_gid_table", "found room where there is none");
}

static void ask_pkeys(struct ibv_context *c)
{
	__be16 key = 0;
	WORKS(ibv_query_pkey(c, 1, 0, &key));
	WANT("ibv_query_pkey", key, 0xffff);
	WANT("ibv_get_pkey_index", ibv_get_pkey_index(c, 1, key), 0);
	REFUSES_MINUS(ibv_query_pkey(c, 1, 1, &key), ENOENT);
	REFUSES_MINUS(ibv_query_pkey(c, 1, -1, &key), ENOENT);
	REFUSES_MINUS(ibv_query_pkey(c, 2, 0, &key), ENOENT);
	REFUSES_MINUS(ibv_get_pkey_index(c, 1, htons(0x1234)), ENOENT);
}

static void ask_clock(struct ibv_context *c)
{
	struct ibv_values_ex v = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	uint64_t from = now_ns();
	poison(&v.raw_clock, sizeof v.raw_clock);
	WORKS(ibv_query_rt_values_ex(c, &v));
	uint64_t at = (uint64_t)v.raw_clock.tv_sec * 1000000000 + (uint64_t)v.raw_clock.tv_nsec;
	if (at < from || at > now_ns())
		fails("ibv_query_rt_values_ex", "%llu is not between %llu and now", (unsigned long long)at, (unsigned long long)from);
	v.comp_mask = 1u << 31;
	REFUSES(ibv_query_rt_values_ex(c, &v), EINVAL);
}

static void step_ask(void)
{
	struct ibv_context *c = me->ctx[draw(ADAPTERS)];
	switch (draw(7)) {
	case 0:
		ask_devices();
		break;
	case 1:
		ask_device(c);
		break;
	case 2:
		ask_device_ex(c);
		break;
	case 3:
		ask_port(c);
		break;
	case 4:
		ask_gids(c);
		break;
	case 5:
		ask_pkeys(c);
		break;
	case 6:
		ask_clock(c);
	}
}

// An address handle is made from the header of a datagram.
static void step_grh(void)
{
	struct ibv_context *c = me->ctx[draw(ADAPTERS)];
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH, .slid = (uint16_t)draw(1 << 16)};
	struct ibv_ah_attr a;
	struct ibv_grh grh;
	const char *call = "ibv_init_ah_from_wc";
	uint32_t tclass = draw(256), label = draw(1 << 20);
	scribble(&grh, sizeof grh);
	grh.version_tclass_flow = htonl(6u << 28 | tclass << 20 | label);
	WORKS(ibv_query_gid(c, 1, 0, &grh.dgid));
	poison(&a, sizeof a);
	WORKS(ibv_init_ah_from_wc(c, 1, &wc, &grh, &a));
	want_bytes(call, "dgid", &a.grh.dgid, &grh.sgid, sizeof grh.sgid);
	WANT(call, a.grh.traffic_class, tclass);
	WANT(call, a.grh.flow_label, label);
	WANT(call, a.grh.hop_limit, 64);
	WANT(call, a.grh.sgid_index, 0);
	WANT(call, a.dlid, wc.slid);
	WANT(call, a.is_global, 1);
	WANT(call, a.port_num, 1);
	WANT(call, a.sl, 0);
	WANT(call, a.static_rate, 0);
	WANT(call, a.src_path_bits, 0);
	grh.dgid.raw[15] ^= 0xff; // not an address of this adapter
	REFUSES_MINUS(ibv_init_ah_from_wc(c, 1, &wc, &grh, &a), EINVAL);
	struct ibv_pd *pd = MADE(ibv_alloc_pd(c));
	REFUSES_NULL(ibv_create_ah_from_wc(pd, &wc, &grh, 1), EINVAL);
	grh.dgid.raw[15] ^= 0xff;
	WORKS(ibv_query_gid(c, 1, 0, &grh.sgid));
	struct ibv_ah *ah = MADE(ibv_create_ah_from_wc(pd, &wc, &grh, 1));
	WANT("ibv_create_ah_from_wc", ah->pd, pd);
	REFUSES(ibv_dealloc_pd(pd), EBUSY);
	WORKS(ibv_destroy_ah(ah));
	WORKS(ibv_dealloc_pd(pd));
}

// A second context imports the objects of the first.
static void step_import(void)
{
	struct ibv_context *c = me->ctx[draw(ADAPTERS)];
	char buf[64];
	struct ibv_pd *pd = MADE(ibv_alloc_pd(c));
	struct ibv_mr *mr = MADE(ibv_reg_mr(pd, buf, sizeof buf, IBV_ACCESS_LOCAL_WRITE));
	struct ibv_context *other = MADE(ibv_import_device(dup(c->cmd_fd)));
	WANT("ibv_import_device", other->device, c->device);
	WANT("ibv_import_device", other->num_comp_vectors, c->num_comp_vectors);
	struct ibv_pd *pd2 = MADE(ibv_import_pd(other, pd->handle));
	WANT("ibv_import_pd", pd2->context, other);
	WANT("ibv_import_pd", pd2->handle, pd->handle);
	struct ibv_mr *mr2 = MADE(ibv_import_mr(pd2, mr->handle));
	WANT("ibv_import_mr", mr2->context, other);
	WANT("ibv_import_mr", mr2->pd, pd2);
	WANT("ibv_import_mr", mr2->handle, mr->handle);
	WANT("ibv_import_mr", mr2->length, mr->length);
	WANT("ibv_import_mr", mr2->lkey, mr->lkey);
	WANT("ibv_import_mr", mr2->rkey, mr->rkey);
	REFUSES_NULL(ibv_import_pd(other, 0xdeadbeef), ENOENT);
	REFUSES_NULL(ibv_import_mr(pd2, 0xdeadbeef), ENOENT);
	REFUSES_NULL(ibv_import_dm(other, 0xdeadbeef), ENOENT);
	REFUSES_NULL(ibv_import_device(-1), EINVAL);
	int fd = open("/dev/null", O_RDONLY);
	REFUSES_NULL(ibv_import_device(fd), ENODEV);
	close(fd);
	REFUSES(ibv_dereg_mr(mr2), EINVAL);
	ibv_unimport_mr(mr2);
	REFUSES(ibv_dealloc_pd(pd), EBUSY);
	WORKS(ibv_dereg_mr(mr));
	REFUSES(ibv_dealloc_pd(pd), EBUSY);
	ibv_unimport_pd(pd2);
	WORKS(ibv_dealloc_pd(pd));
	WORKS(ibv_close_device(other));
}

// Closing a context destroys the objects that are left in it.
static void step_leave(void)
{
	struct ibv_context *c = MADE(ibv_open_device(me->ctx[draw(ADAPTERS)]->device));
	struct ibv_pd *pd = MADE(ibv_alloc_pd(c));
	struct ibv_comp_channel *ch = MADE(ibv_create_comp_channel(c));
	struct ibv_cq *cq = MADE(ibv_create_cq(c, 8, NULL, ch, 0)), *got;
	struct source s;
	char buf[64];
	void *context;
	MADE(ibv_reg_mr(pd, buf, sizeof buf, 0));
	source_open(&s, c, cq);
	WORKS(ibv_req_notify_cq(cq, 0));
	source_emit(&s, 1);
	int files[] = {watch_open(ch->fd), watch_open(c->async_fd)};
	if (chance(50)) // this event is never acknowledged
		WORKS(ibv_get_cq_event(ch, &got, &context));
	WORKS(ibv_close_device(c));
	for (int i = 0; i < 2; i++)
		WANT("a descriptor of a context that is closed", is_open(files[i]), false);
}

// Calls for features that the adapter lacks fail with EOPNOTSUPP or EINVAL.
static void step_absent(void)
{
	struct ibv_context *c = me->ctx[draw(ADAPTERS)];
	struct ibv_ece ece = {0};
	struct ibv_pd *pd = MADE(ibv_alloc_pd(c));
	struct ibv_cq *cq = MADE(ibv_create_cq(c, 8, NULL, NULL, 0));
	struct source s;
	source_open(&s, c, cq);
	REFUSES(ibv_query_ece(s.qp, &ece), EOPNOTSUPP);
	REFUSES(ibv_set_ece(s.qp, &ece), EOPNOTSUPP);
	ece.vendor_id = 1;
	REFUSES(ibv_set_ece(s.qp, &ece), EOPNOTSUPP);
	REFUSES_NULL(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, c->cmd_fd, 0), EINVAL); // a file, but no DMA-buf
	struct ibv_td_init_attr ta = {.comp_mask = 1};
	REFUSES_NULL(ibv_alloc_td(c, &ta), EINVAL);
	struct ibv_parent_domain_init_attr da = {.pd = NULL};
	REFUSES_NULL(ibv_alloc_parent_domain(c, &da), EINVAL);
	da.pd = pd, da.comp_mask = 1u << 31;
	REFUSES_NULL(ibv_alloc_parent_domain(c, &da), EOPNOTSUPP);
	WORKS(ibv_fork_init());
	WANT("ibv_is_fork_initialized", ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
	WANT("ibv_query_qp_data_in_order", ibv_query_qp_data_in_order(s.qp, IBV_WR_SEND, 0), 0);
	source_close(&s);
	WORKS(ibv_destroy_cq(cq));
	WORKS(ibv_dealloc_pd(pd));
}

// is_joined reports whether the host has joined a group.
static bool is_joined(const union ibv_gid *group)
{
	char line[200], address[9];
	uint32_t ip;
	bool found = false;
	memcpy(&ip, group->raw + 12, sizeof ip);
	snprintf(address, sizeof address, "%08X", ip);
	FILE *f = MADE(fopen("/proc/net/igmp", "r"));
	while (fgets(line, sizeof line, f) != NULL)
		found = found || strstr(line, address) != NULL;
	fclose(f);
	return found;
}

// A queue pair attaches to groups that nothing else on the host has joined. The host is in a group
// while the queue pair is attached to it.
static void step_group(void)
{
	struct ibv_context *c = me->ctx[draw(ADAPTERS)];
	uint8_t own[] = {(uint8_t)(1 + (getpid() >> 8) % 255), (uint8_t)getpid(), (uint8_t)((unsigned)me->id << 4 | draw(16))};
	union ibv_gid group = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 239, [13] = own[0], [14] = own[1], [15] = own[2]}}, ours;
	struct ibv_pd *pd = MADE(ibv_alloc_pd(c));
	struct ibv_cq *cq = MADE(ibv_create_cq(c, 8, NULL, NULL, 0));
	struct ibv_qp_init_attr a = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .cap = {1, 1, 1, 1, 0}};
	struct ibv_qp *qp = MADE(ibv_create_qp(pd, &a));
	WORKS(ibv_query_gid(c, 1, 0, &ours));
	REFUSES(ibv_attach_mcast(qp, &ours, 0), EINVAL);
	REFUSES(ibv_detach_mcast(qp, &group, 0), EINVAL);
	WORKS(ibv_attach_mcast(qp, &group, 0));
	WANT("a group of a queue pair", is_joined(&group), true);
	if (chance(50)) // nothing changes
		WORKS(ibv_attach_mcast(qp, &group, 0));
	if (chance(50)) {
		WORKS(ibv_detach_mcast(qp, &group, 0));
		REFUSES(ibv_detach_mcast(qp, &group, 0), EINVAL);
	} else {
		REFUSES(ibv_destroy_qp(qp), EBUSY);
		WORKS(ibv_detach_mcast(qp, &group, 0));
	}
	WANT("a group that the queue pair has left", is_joined(&group), false);
	WORKS(ibv_destroy_qp(qp));
	WORKS(ibv_destroy_cq(cq));
	WORKS(ibv_dealloc_pd(pd));
}

const struct step ask_steps[] = {
	{"ask", 8, step_ask}, {"grh", 2, step_grh}, {"import", 2, step_import}, {"leave", 1, step_leave}, {"absent", 1, step_absent}, {"group", 1, step_group},
	{NULL, 0, NULL},
};

// The device: its attributes and counters.
#define _GNU_SOURCE
#include "agent.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <endian.h>
#include <sys/utsname.h>

enum { PROTOCOL = 1 };

void do_hello(void)
{
	struct ibv_device_attr d = { 0 };
	struct ibv_port_attr p = { 0 };
	struct utsname u;
	char gid[INET6_ADDRSTRLEN];

	if (!ready() || !done(ibv_query_device(ctx, &d), "query the device") || !done(ibv_query_port(ctx, port, &p), "query the device"))
		return;
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
	char path[512], text[32];
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/%d/%s", ibv_get_device_name(ctx->device), port, dir);
	if (!(d = opendir(path)))
		return;
	while ((e = readdir(d))) {
		char file[1024];
		FILE *f;

		if (e->d_name[0] == '.' || strcspn(e->d_name, " =\n") != strlen(e->d_name))
			continue;
		snprintf(file, sizeof file, "%s/%s", path, e->d_name);
		if (!(f = fopen(file, "r")))
			continue;
		if (fscanf(f, "%31[0-9]", text) == 1 && strcmp(e->d_name, "lifespan"))
			put(" %s=%" PRIu64, e->d_name, (uint64_t)strtoull(text, NULL, 10));
		fclose(f);
	}
	closedir(d);
}

void do_counters(void)
{
	put_counters("counters");
	put_counters("hw_counters");
}

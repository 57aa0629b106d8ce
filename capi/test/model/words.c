// Names, rates, and conversions of attributes from and to the kernel's interface for
// connection managers. Programs parse some of the names.
#define _GNU_SOURCE
#include "model.h"

#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

// Calls that the headers do not declare.
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, struct ib_uverbs_ah_attr *src);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst, struct ib_user_path_rec *src);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, struct ibv_sa_path_rec *src);

static void want_name(const char *call, int number, const char *got, const char *want)
{
	if (got == NULL || strcmp(got, want) != 0)
		fails(call, "%d is \"%s\", want \"%s\"", number, got != NULL ? got : "(NULL)", want);
}

static void name_statuses(void)
{
	static const char *const names[] = {
		"success", "local length error", "local QP operation error", "local EE context operation error", "local protection error",
		"Work Request Flushed Error", "memory management operation error", "bad response error", "local access error",
		"remote invalid request error", "remote access error", "remote operation error", "transport retry counter exceeded",
		"RNR retry counter exceeded", "local RDD violation error", "remote invalid RD request", "aborted error",
		"invalid EE context number", "invalid EE context state", "fatal error", "response timeout error", "general error", "TM error",
		"TM software rendezvous",
	};
	int n = sizeof names / sizeof *names;
	for (int i = 0; i < n; i++)
		want_name("ibv_wc_status_str", i, ibv_wc_status_str((enum ibv_wc_status)i), names[i]);
	want_name("ibv_wc_status_str", n, ibv_wc_status_str((enum ibv_wc_status)n), "unknown");
	want_name("ibv_wc_status_str", -1, ibv_wc_status_str((enum ibv_wc_status)-1), "unknown");
}

static void name_events(void)
{
	static const char *const names[] = {
		"CQ error", "local work queue catastrophic error", "invalid request local work queue error",
		"local access violation work queue error", "communication established", "send queue drained", "path migrated",
		"path migration request error", "local catastrophic error", "port active", "port error", "LID change", "P_Key change", "SM change",
		"SRQ catastrophic error", "SRQ limit reached", "last WQE reached", "client reregistration", "GID table change", "WQ fatal",
	};
	int n = sizeof names / sizeof *names;
	for (int i = 0; i < n; i++)
		want_name("ibv_event_type_str", i, ibv_event_type_str((enum ibv_event_type)i), names[i]);
	want_name("ibv_event_type_str", n, ibv_event_type_str((enum ibv_event_type)n), "unknown");
}

static void name_ports_and_nodes(void)
{
	static const char *const states[] = {"no state change (NOP)", "down", "init", "armed", "active", "active defer", "unknown"};
	static const char *const nodes[] = {
		"unknown", "InfiniBand channel adapter", "InfiniBand switch", "InfiniBand router", "iWARP NIC", "usNIC", "usNIC UDP", "unspecified", "unknown",
	};
	for (int i = 0; i < 7; i++)
		want_name("ibv_port_state_str", i, ibv_port_state_str((enum ibv_port_state)i), states[i]);
	for (int i = 0; i < 9; i++)
		want_name("ibv_node_type_str", i, ibv_node_type_str((enum ibv_node_type)i), nodes[i]);
	want_name("ibv_port_state_str", -1, ibv_port_state_str((enum ibv_port_state)-1), "unknown");
}

static void count_rates(void)
{
	static const struct {
		enum ibv_rate rate;
		int mult, mbps;
	} all[] = {
		{IBV_RATE_2_5_GBPS, 1, 2500}, {IBV_RATE_5_GBPS, 2, 5000}, {IBV_RATE_10_GBPS, 4, 10000}, {IBV_RATE_20_GBPS, 8, 20000},
		{IBV_RATE_30_GBPS, 12, 30000}, {IBV_RATE_40_GBPS, 16, 40000}, {IBV_RATE_60_GBPS, 24, 60000}, {IBV_RATE_80_GBPS, 32, 80000},
		{IBV_RATE_120_GBPS, 48, 120000}, {IBV_RATE_14_GBPS, -1, 14062}, {IBV_RATE_56_GBPS, -1, 56250}, {IBV_RATE_112_GBPS, -1, 112500},
		{IBV_RATE_168_GBPS, -1, 168750}, {IBV_RATE_25_GBPS, -1, 25781}, {IBV_RATE_100_GBPS, -1, 103125}, {IBV_RATE_200_GBPS, -1, 206250},
		{IBV_RATE_300_GBPS, -1, 309375}, {IBV_RATE_28_GBPS, 11, 28125}, {IBV_RATE_50_GBPS, 20, 53125}, {IBV_RATE_400_GBPS, 160, 425000},
		{IBV_RATE_600_GBPS, 240, 637500}, {IBV_RATE_800_GBPS, 320, 850000}, {IBV_RATE_1200_GBPS, 480, 1275000},
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		WANT("ibv_rate_to_mult", ibv_rate_to_mult(all[i].rate), all[i].mult);
		WANT("mult_to_ibv_rate", mult_to_ibv_rate(all[i].mult), all[i].mult > 0 ? all[i].rate : IBV_RATE_MAX);
		WANT("ibv_rate_to_mbps", ibv_rate_to_mbps(all[i].rate), all[i].mbps);
		WANT("mbps_to_ibv_rate", mbps_to_ibv_rate(all[i].mbps), all[i].rate);
	}
	WANT("ibv_rate_to_mult", ibv_rate_to_mult(IBV_RATE_MAX), -1);
	WANT("ibv_rate_to_mbps", ibv_rate_to_mbps(IBV_RATE_MAX), -1);
	WANT("mult_to_ibv_rate", mult_to_ibv_rate(3), IBV_RATE_MAX);
	WANT("mbps_to_ibv_rate", mbps_to_ibv_rate(3), IBV_RATE_MAX);
}

#define SAME(call, to, from, field) WANT(call, (to)->field, (from)->field)

static void want_ah(const char *call, const struct ibv_ah_attr *a, const struct ib_uverbs_ah_attr *k)
{
	want_bytes(call, "dgid", a->grh.dgid.raw, k->grh.dgid, 16);
	SAME(call, a, k, grh.flow_label);
	SAME(call, a, k, grh.sgid_index);
	SAME(call, a, k, grh.hop_limit);
	SAME(call, a, k, grh.traffic_class);
	SAME(call, a, k, dlid);
	SAME(call, a, k, sl);
	SAME(call, a, k, src_path_bits);
	SAME(call, a, k, static_rate);
	SAME(call, a, k, is_global);
	SAME(call, a, k, port_num);
}

static void copy_qp_attr(void)
{
	struct ib_uverbs_qp_attr k;
	struct ibv_qp_attr a;
	struct ibv_ah_attr ah;
	const char *call = "ibv_copy_qp_attr_from_kern";
	scribble(&k, sizeof k);
	poison(&a, sizeof a);
	poison(&ah, sizeof ah);
	ibv_copy_ah_attr_from_kern(&ah, &k.ah_attr);
	want_ah("ibv_copy_ah_attr_from_kern", &ah, &k.ah_attr);
	ibv_copy_qp_attr_from_kern(&a, &k);
	want_ah(call, &a.ah_attr, &k.ah_attr);
	want_ah(call, &a.alt_ah_attr, &k.alt_ah_attr);
	WANT(call, (uint32_t)a.qp_state, k.qp_state);
	WANT(call, (uint32_t)a.cur_qp_state, k.cur_qp_state);
	WANT(call, (uint32_t)a.path_mtu, k.path_mtu);
	WANT(call, (uint32_t)a.path_mig_state, k.path_mig_state);
	SAME(call, &a, &k, qkey);
	SAME(call, &a, &k, rq_psn);
	SAME(call, &a, &k, sq_psn);
	SAME(call, &a, &k, dest_qp_num);
	WANT(call, (uint32_t)a.qp_access_flags, k.qp_access_flags);
	WANT(call, a.cap.max_send_wr, k.max_send_wr);
	WANT(call, a.cap.max_recv_wr, k.max_recv_wr);
	WANT(call, a.cap.max_send_sge, k.max_send_sge);
	WANT(call, a.cap.max_recv_sge, k.max_recv_sge);
	WANT(call, a.cap.max_inline_data, k.max_inline_data);
	SAME(call, &a, &k, pkey_index);
	SAME(call, &a, &k, alt_pkey_index);
	SAME(call, &a, &k, en_sqd_async_notify);
	SAME(call, &a, &k, sq_draining);
	SAME(call, &a, &k, max_rd_atomic);
	SAME(call, &a, &k, max_dest_rd_atomic);
	SAME(call, &a, &k, min_rnr_timer);
	SAME(call, &a, &k, port_num);
	SAME(call, &a, &k, timeout);
	SAME(call, &a, &k, retry_cnt);
	SAME(call, &a, &k, rnr_retry);
	SAME(call, &a, &k, alt_port_num);
	SAME(call, &a, &k, alt_timeout);
}

static void want_path(const char *call, const struct ibv_sa_path_rec *a, const struct ib_user_path_rec *k)
{
	want_bytes(call, "dgid", a->dgid.raw, k->dgid, 16);
	want_bytes(call, "sgid", a->sgid.raw, k->sgid, 16);
	SAME(call, a, k, dlid);
	SAME(call, a, k, slid);
	WANT(call, (uint32_t)a->raw_traffic, k->raw_traffic);
	SAME(call, a, k, flow_label);
	SAME(call, a, k, hop_limit);
	SAME(call, a, k, traffic_class);
	WANT(call, (uint32_t)a->reversible, k->reversible);
	SAME(call, a, k, numb_path);
	SAME(call, a, k, pkey);
	SAME(call, a, k, sl);
	SAME(call, a, k, mtu_selector);
	WANT(call, a->mtu, k->mtu & 0xff);
	SAME(call, a, k, rate_selector);
	SAME(call, a, k, rate);
	SAME(call, a, k, packet_life_time_selector);
	SAME(call, a, k, packet_life_time);
	SAME(call, a, k, preference);
}

static void copy_path(void)
{
	struct ib_user_path_rec k, back;
	struct ibv_sa_path_rec a;
	scribble(&k, sizeof k);
	poison(&a, sizeof a);
	ibv_copy_path_rec_from_kern(&a, &k);
	want_path("ibv_copy_path_rec_from_kern", &a, &k);
	poison(&back, sizeof back);
	ibv_copy_path_rec_to_kern(&back, &a);
	want_path("ibv_copy_path_rec_to_kern", &a, &back);
}

static void step_words(void)
{
	name_statuses();
	name_events();
	name_ports_and_nodes();
	count_rates();
	copy_qp_attr();
	copy_path();
}

const struct step word_steps[] = {{"words", 2, step_words}, {NULL, 0, NULL}};

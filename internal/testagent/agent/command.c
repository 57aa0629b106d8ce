// The commands.
#define _GNU_SOURCE
#include "agent.h"

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
	{ "reset", destroy_all, "" },
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
	{ "qp", do_qp, "pd type scq rcq srq swr rwr ssge rsge inline sigall atomic_write" },
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

void do_help(void)
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

// Executes one line, whose bytes it changes, and leaves the reply.
void execute(char *line)
{
	char *save = NULL, *word = strtok_r(line, " \t\r", &save);
	const struct command *c;

	begin_reply();
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

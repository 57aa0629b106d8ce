//go:build mutation

package mutation

// cObjectMutants are bugs of protection domains, regions, address handles, SRQs, groups,
// and of contexts and what they are asked.
var cObjectMutants = []cMutant{
	{
		name: "domain-destroyed-in-use", in: "capi/libibverbs/object.c:free_pd",
		old: "if (atomic_load(&p->children) != 0)", new: "if (false)",
		sees: "a domain of which there is a parent domain can be destroyed",
	},
	{
		name: "domain-in-use-for-ever", in: "capi/libibverbs/object.c:free_pd",
		old: "p->parent->children--;", new: ";",
		sees: "EBUSY for a domain whose parent domain is gone",
	},
	{
		name: "parent-of-a-parent-counted-elsewhere", in: "capi/libibverbs/object.c:pd_of",
		old: "p->parent = parent->parent != NULL ? parent->parent : parent;", new: "p->parent = parent;",
		sees: "the domain of a parent domain's parent domain can be destroyed",
	},
	{
		name: "rereg-keeps-the-domain", in: "capi/libibverbs/object.c:ibv_rereg_mr",
		old: "ibv->pd = pd;", new: ";",
		sees: "the old domain in the region",
	},
	{
		name: "rereg-keeps-the-length", in: "capi/libibverbs/object.c:ibv_rereg_mr",
		old: "ibv->addr = addr, ibv->length = length;", new: "ibv->addr = addr;",
		sees: "the old length in the region",
	},
	{
		name: "rereg-fails-without-errno", in: "capi/libibverbs/object.c:ibv_rereg_mr",
		old: "errno = code;", new: "",
		sees: "errno as it was before",
	},
	{
		name: "reply-to-oneself", in: "capi/libibverbs/object.c:ibv_init_ah_from_wc",
		old: "raw, src, sizeof src", new: "raw, dst, sizeof dst",
		sees: "its own address as that of the sender",
	},
	{
		name: "srq-limit-not-told", in: "capi/libibverbs/object.c:ibv_query_srq",
		old: ", .srq_limit = c.limit", new: "",
		sees: "no limit in an SRQ that has one",
	},
	{
		name: "attach-detaches", in: "capi/libibverbs/object.c:ibv_attach_mcast",
		old: "attach, CONTAINER", new: "detach, CONTAINER",
		sees: "an error of ibv_attach_mcast",
	},
	{
		name: "objects-end-with-their-context", in: "capi/libibverbs/context.c:release_object",
		old: "if (c->closing)", new: "if (false)",
		sees: "memory that was freed, in an object whose context is closed",
	},
	{
		name: "gid-behind-the-table", in: "capi/libibverbs/context.c:ibv_query_gid",
		old: "index >= (int)i->gids", new: "index > (int)i->gids",
		sees: "a GID of zeros instead of EINVAL",
	},
	{
		name: "pkey-behind-the-table", in: "capi/libibverbs/context.c:ibv_query_pkey",
		old: "index >= (int)i->pkeys", new: "index > (int)i->pkeys",
		sees: "a P_Key of zero instead of EINVAL",
	},
	{
		name: "first-rate-that-is-enough", in: "capi/libibverbs/names.c:mult_to_ibv_rate",
		old: "rates[i].mult == mult", new: "rates[i].mult >= mult",
		sees: "a rate for a multiple that no link has",
	},
	{
		name: "name-of-an-event", in: "capi/libibverbs/names.c:ibv_event_type_str",
		old: `"path migrated"`, new: `"path migration"`,
		sees: "another text",
	},
	{
		name: "imported-region-of-the-old-domain", in: "capi/libibverbs/import.c:ibv_import_mr",
		old: "m->context = pd->context, m->pd = pd;", new: "",
		sees: "the domain by which the region was registered",
	},
	{
		name: "rereg-of-nothing", in: "capi/libibverbs/object.c:ibv_rereg_mr",
		old: "addr == NULL || length == 0", new: "addr == NULL",
		sees: "a region of length 0",
	},
	{
		name: "header-of-another-port", in: "capi/libibverbs/object.c:ibv_init_ah_from_wc",
		old: "port == PORT && ", new: "",
		sees: "an address of a port that there is not",
	},
	{
		name: "srq-limit-without-its-flag", in: "capi/libibverbs/object.c:ibv_modify_srq",
		old: "if (!(flags & IBV_SRQ_LIMIT))", new: "if (false)",
		sees: "a limit that it has not set",
	},
	{
		name: "thread-domain-freed-in-use", in: "capi/libibverbs/object.c:dealloc_td",
		old: "if (atomic_load(&own->domains) != 0)", new: "if (false)",
		sees: "a thread domain of which there is a parent domain can be destroyed",
	},
	{
		name: "atomics-on-read-only-memory", in: "capi/libibverbs/object.c:mapped",
		old: "| IBV_ACCESS_REMOTE_ATOMIC ", new: "",
		sees: "a region for atomics in memory that cannot be written",
	},
	{
		name: "failed-open-keeps-its-descriptor", in: "capi/libibverbs/context.c:ibv_open_device",
		old: "close(fd);", new: ";",
		sees: "a descriptor more for each adapter that does not open",
	},
	{
		name: "failed-open-keeps-its-events", in: "capi/libibverbs/context.c:open_context",
		old: "source_free(&c->source);", new: ";",
		sees: "a descriptor more for each adapter that does not open",
	},
	{
		name: "gid-table-that-just-fits", in: "capi/libibverbs/context.c:_ibv_query_gid_table",
		old: "max < i->gids", new: "max <= i->gids",
		sees: "EINVAL where there is room for all GIDs",
	},
	{
		name: "link-of-a-port-that-is-down", in: "capi/libibverbs/context.c:query_port",
		old: "up ? PHYS_LINK_UP : PHYS_DISABLED", new: "PHYS_LINK_UP",
		sees: "a link that is up of a port that is down",
	},
	{
		name: "pkey-of-another-port", in: "capi/libibverbs/context.c:ibv_get_pkey_index",
		old: "port == PORT && ", new: "",
		sees: "an index in the table of a port that there is not",
	},
	{
		name: "text-one-byte-too-long", in: "capi/libibverbs/context.c:ibv_read_sysfs_file",
		old: "(size_t)n < size", new: "(size_t)n <= size",
		sees: "a byte behind its buffer overwritten",
	},
}

// cPairMutants are bugs of queue pairs.
var cPairMutants = []cMutant{
	{
		name: "state-of-a-move-that-failed", in: "capi/libibverbs/qp.c:ibv_modify_qp",
		old: "code == 0 && mask & IBV_QP_STATE", new: "mask & IBV_QP_STATE",
		sees: "the state that it has asked for in vain",
	},
	{
		name: "state-not-noted", in: "capi/libibverbs/qp.c:ibv_modify_qp",
		old: "ibv->state = a->qp_state;", new: ";",
		sees: "EINVAL for whatever it posts",
	},
	{
		name: "state-not-learned", in: "capi/libibverbs/qp.c:ibv_query_qp",
		old: "ibv->state = a->qp_state;", new: "",
		sees: "RTS of a queue pair that has failed",
	},
	{
		name: "send-psn-of-the-receiver", in: "capi/libibverbs/qp.c:ibv_modify_qp",
		old: ".sq_psn = a->sq_psn", new: ".sq_psn = a->rq_psn",
		sees: "packets out of order at the peer",
	},
	{
		name: "flow-label-dropped", in: "capi/libibverbs/qp.c:attr_of",
		old: ".flow_label = v->flow_label, ", new: "",
		sees: "no flow label in a path that has one",
	},
	{
		name: "success-changes-errno", in: "capi/libibverbs/softhca.h:errno_of_code",
		old: "return before;", new: "return errno;",
		sees: "the errno of some step within a call that succeeds",
	},
	{
		name: "errno-only-of-the-kernel", in: "capi/libibverbs/softhca.h:errno_of_code",
		old: "return code > 0 ? code : errno;", new: "return errno;",
		sees: "errno as it was before a call that fails",
	},
	{
		name: "flow-label-of-32-bits", in: "capi/libibverbs/softhca.h:av_of",
		old: "a->grh.flow_label & 0xfffff", new: "a->grh.flow_label",
		sees: "an error where the bits beyond 20 are set",
	},
	{
		name: "sig-all-not-told", in: "capi/libibverbs/qp.c:ibv_query_qp",
		old: ".sq_sig_all = q->sig_all", new: ".sq_sig_all = 0",
		sees: "sq_sig_all 0 of a queue pair that has it",
	},
	{
		name: "rate-limit-not-set", in: "capi/libibverbs/qp.c:ibv_modify_qp",
		old: ".rate_limit = a->rate_limit", new: ".rate_limit = 0",
		sees: "packets as fast as ever",
	},
	{
		name: "rate-limit-not-told", in: "capi/libibverbs/qp.c:ibv_query_qp",
		old: ".rate_limit = s.rate_limit", new: ".rate_limit = 0",
		sees: "no rate limit where it has set one",
	},
	{
		name: "draining-not-told", in: "capi/libibverbs/qp.c:ibv_query_qp",
		old: ".sq_draining = s.sq_draining", new: ".sq_draining = 0",
		sees: "a send queue that is drained while it is not",
	},
	{
		name: "burst-dropped", in: "capi/libibverbs/qp.c:modify_qp_rate_limit",
		old: "a->max_burst_sz", new: "0",
		sees: "shorter bursts than it has asked for",
	},
	{
		name: "left-queue-pair-stays-in-its-groups", in: "capi/libibverbs/qp.c:end_qp",
		old: "q->handle, !wait)", new: "q->handle, 0)",
		sees: "memory that was freed, after the context was closed",
	},
	{
		name: "queue-pair-without-a-domain", in: "capi/libibverbs/qp.c:create_qp_ex",
		old: "if (!(a->comp_mask & IBV_QP_INIT_ATTR_PD))", new: "if (false)",
		sees: "a crash instead of EINVAL",
	},
	{
		name: "handler-not-sought-by-a-move", in: "capi/libibverbs/qp.c:ibv_modify_qp",
		old: "keep_faults();", new: ";",
		sees: "its handler called for memory that the adapter touches",
	},
}

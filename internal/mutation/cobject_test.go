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
}

//go:build mutation

package mutation

// cPostMutants are bugs in how requests and receives are posted.
var cPostMutants = []cMutant{
	{
		name: "inline-pieces-all-at-the-start", in: "capi/libibverbs/post.c:put_inline",
		old: "memcpy((uint8_t *)(e + 1) + *at, data, n);", new: "memcpy(e + 1, data, n);",
		sees: "the last piece of inline data in the place of the first",
	},
	{
		name: "inline-limit-of-each-piece", in: "capi/libibverbs/post.c:put_inline",
		old: "n > q->cap.inline_data - *at", new: "n > q->cap.inline_data",
		sees: "more inline data than an entry holds is accepted",
	},
	{
		name: "inline-read-accepted", in: "capi/libibverbs/post.c:put_inline",
		old: "!operation_of(e)->carries || ", new: "",
		sees: "a READ with inline data is no error",
	},
	{
		name: "full-queue-takes-one-more", in: "capi/libibverbs/post.c:full",
		old: "> r->mask", new: "> r->mask + 1",
		sees: "a request overwrites one that is not sent",
	},
	{
		name: "list-longer-than-max-send-sge", in: "capi/libibverbs/post.c:put_list",
		old: "if (n > q->cap.send_sge)", new: "if (n > q->cap.send_sge + 1)",
		sees: "a list that does not fit is accepted",
	},
	{
		name: "negative-num-sge-accepted", in: "capi/libibverbs/post.c:put_send",
		old: " || wr->num_sge < 0", new: "",
		sees: "num_sge of -1 is an empty inline message",
	},
	{
		name: "solicited-flag-lost", in: "capi/libibverbs/post.c:put_send",
		old: "wr->send_flags & KNOWN_FLAGS", new: "wr->send_flags & KNOWN_FLAGS & ~IBV_SEND_SOLICITED",
		sees: "no event of a queue that is armed for solicited completions",
	},
	{
		name: "immediate-in-host-order", in: "capi/libibverbs/post.c:put_send",
		old: ": ntohl(wr->imm_data)", new: ": wr->imm_data",
		sees: "the immediate data reversed",
	},
	{
		name: "atomic-operands-swapped", in: "capi/libibverbs/post.c:put_send",
		old: "e->compare_add = wr->wr.atomic.compare_add;", new: "e->compare_add = wr->wr.atomic.swap;",
		sees: "a compare-and-swap that compares with the new value",
	},
	{
		name: "bad-wr-is-the-next", in: "capi/libibverbs/post.c:post_list",
		old: "*bad = wr;", new: "*bad = wr->next;",
		sees: "the wrong request in bad_wr",
	},
	{
		name: "receive-in-reset", in: "capi/libibverbs/post.c:post_recv",
		old: "q->ibv.state == IBV_QPS_RESET", new: "false",
		sees: "a receive is accepted in RESET",
	},
	{
		name: "srq-without-bad-wr", in: "capi/libibverbs/post.c:post_srq_recv",
		old: "*bad = wr;", new: "",
		sees: "bad_wr as it was before",
	},
	{
		name: "aborted-requests-stay", in: "capi/libibverbs/post.c:wr_start",
		old: "q->first = q->prod =", new: "q->first =",
		sees: "a list that was aborted is sent with the next",
	},
	{
		name: "abort-keeps-the-lock", in: "capi/libibverbs/post.c:wr_abort",
		old: "spin_unlock(&CONTAINER(ex, struct qp, ex)->send_lock);", new: "(void)ex;",
		sees: "the next post hangs",
	},
	{
		name: "atomic-with-a-short-list", in: "capi/libibverbs/post.c:put_list",
		old: " || length < operation_of(e)->size", new: "",
		sees: "an atomic with room for 4 bytes is accepted",
	},
	{
		name: "longest-message-refused", in: "capi/libibverbs/post.c:put_list",
		old: "length > MAX_MESSAGE", new: "length >= MAX_MESSAGE",
		sees: "EINVAL for a message of 2^31 bytes",
	},
	{
		name: "longer-receive-than-a-message", in: "capi/libibverbs/post.c:put_recv",
		old: "if (length > MAX_MESSAGE)", new: "if (false)",
		sees: "a receive of more than 2^31 bytes is accepted",
	},
	{
		name: "invalidated-key-reversed", in: "capi/libibverbs/post.c:put_send",
		old: "? wr->invalidate_rkey :", new: "? ntohl(wr->invalidate_rkey) :",
		sees: "another key than it has named is invalidated",
	},
	{
		name: "suppressed-doorbell-for-ever", in: "capi/libibverbs/post.c:publish",
		old: " && now_ns() - since < OVERDUE", new: "",
		sees: "requests that are not sent until there are 32",
	},
	{
		name: "spared-requests-not-counted", in: "capi/libibverbs/post.c:publish",
		old: "q->spared = *p;", new: ";",
		sees: "more than 32 requests that are not sent",
	},
	{
		name: "waiting-requests-not-noted", in: "capi/libibverbs/post.c:ring_doorbell",
		old: "if (waits && ", new: "if (false && ",
		sees: "a system call for each request",
	},
	{
		name: "watched-request-not-sent", in: "capi/libibverbs/post.c:post_watched",
		old: "ring_doorbell(q, &none);", new: "",
		sees: "a request that is sent with the next poll only",
	},
	{
		name: "extended-post-to-a-dead-adapter", in: "capi/libibverbs/post.c:wr_complete",
		old: "return ring ? ring_doorbell(q, &p) : 0;", new: "return ring && ring_doorbell(q, &p) > 1 << 20;",
		sees: "no error of an adapter that has failed",
	},
}

//go:build mutation

package mutation

// cQueueMutants are bugs of completion queues.
var cQueueMutants = []cMutant{
	{
		name: "byte-len-not-copied", in: "capi/libibverbs/cq.c:take",
		old: "wc->byte_len = e->byte_len;", new: "",
		sees: "byte_len as it was before",
	},
	{
		name: "completion-immediate-in-host-order", in: "capi/libibverbs/cq.c:imm_of",
		old: "htonl(e->imm_data)", new: "e->imm_data",
		sees: "the immediate data reversed",
	},
	{
		name: "source-queue-pair-not-copied", in: "capi/libibverbs/cq.c:take",
		old: "wc->src_qp = e->src_qp;", new: "",
		sees: "src_qp as it was before",
	},
	{
		name: "flags-not-copied", in: "capi/libibverbs/cq.c:take",
		old: "wc->wc_flags = e->wc_flags;", new: "",
		sees: "wc_flags as they were before",
	},
	{
		name: "qp-num-not-copied", in: "capi/libibverbs/cq.c:take",
		old: "wc->qp_num = e->qp_num;", new: "",
		sees: "qp_num as it was before",
	},
	{
		name: "opcode-of-the-send-only", in: "capi/libibverbs/cq.c:take",
		old: "(enum ibv_wc_opcode)e->opcode", new: "(enum ibv_wc_opcode)(e->opcode & IBV_WC_RECV)",
		sees: "all requests as SEND",
	},
	{
		name: "poll-writes-one-more", in: "capi/libibverbs/cq.c:take",
		old: "got < n &&", new: "got <= n &&",
		sees: "memory behind its array overwritten",
	},
	{
		name: "solicited-arms-for-all", in: "capi/libibverbs/cq.c:req_notify_cq",
		old: "q->handle, solicited)", new: "q->handle, 0)",
		sees: "an event of a completion that is not solicited",
	},
	{
		name: "no-event-of-what-came-before", in: "capi/libibverbs/cq.c:req_notify_cq",
		old: "q->told && q->told_to == prod", new: "q->told",
		sees: "no event of an entry that came before the queue was armed",
	},
	{
		name: "resize-not-shown", in: "capi/libibverbs/cq.c:ibv_resize_cq",
		old: "ibv->cqe = (int)n;", new: "",
		sees: "the old size in cqe",
	},
	{
		name: "channel-not-counted", in: "capi/libibverbs/cq.c:create",
		old: "ch->ibv.refcnt++;", new: "",
		sees: "a channel in use can be destroyed",
	},
	{
		name: "next-poll-does-not-move-on", in: "capi/libibverbs/cq.c:take_one",
		old: "atomic_store(&r->cons, cons + 1);", new: "",
		sees: "the same completion for ever",
	},
	{
		name: "timestamp-of-the-first-completion", in: "capi/libibverbs/cq.c:take_one",
		old: "q->read_at = 0;", new: "",
		sees: "one time for all completions",
	},
	{
		name: "wall-clock-of-the-last-tick", in: "capi/libibverbs/cq.c:read_wallclock",
		old: "CLOCK_REALTIME", new: "CLOCK_REALTIME_COARSE",
		sees: "a wall-clock time before the completion",
	},
	{
		name: "timestamp-anew-at-each-call", in: "capi/libibverbs/cq.c:read_ts",
		old: "q->read_at = now_ns();", new: "return now_ns();",
		sees: "two times of one completion",
	},
	{
		name: "busy-poll-sends-nothing", in: "capi/libibverbs/cq.c:poll_cq",
		old: "overdue(q->dev);", new: ";",
		sees: "requests that are not sent while it finds completions",
	},
	{
		name: "end-of-a-poll-sends-nothing", in: "capi/libibverbs/cq.c:end_poll",
		old: "overdue(q->dev);", new: ";",
		sees: "requests that are not sent while it polls an extended queue",
	},
	{
		name: "poll-of-a-dead-adapter", in: "capi/libibverbs/cq.c:poll_cq",
		old: "if (empty_poll(q) != 0)", new: "if (empty_poll(q), false)",
		sees: "0 completions for ever of an adapter that has failed",
	},
	{
		name: "wall-clock-of-the-question", in: "capi/libibverbs/cq.c:read_wallclock",
		old: " - since", new: "",
		sees: "a wall-clock time that is later than the timestamp",
	},
	{
		name: "negative-completion-vector", in: "capi/libibverbs/cq.c:ibv_create_cq",
		old: " || vector < 0", new: "",
		sees: "a queue with completion vector -1",
	},
}

// cEventMutants are bugs of channels and events.
var cEventMutants = []cMutant{
	{
		name: "tail-of-the-list-destroyed", in: "capi/libibverbs/event.c:forget_completions",
		old: "ch->tail = before;", new: ";",
		sees: "no events of other queues after one was destroyed",
	},
	{
		name: "second-waiter-not-woken", in: "capi/libibverbs/event.c:more",
		old: "if (waited && head != NULL)", new: "if (false)",
		sees: "a thread sleeps though there is an event",
	},
	{
		name: "queue-armed-again-lost", in: "capi/libibverbs/event.c:take_completion",
		old: "if (--q->pending > 0)", new: "if (q->pending = 0)",
		sees: "one event of two",
	},
	{
		name: "events-not-counted", in: "capi/libibverbs/event.c:take_completion",
		old: "q->taken++;", new: "",
		sees: "the destruction of a queue hangs",
	},
	{
		name: "channel-readable-for-ever", in: "capi/libibverbs/event.c:set_head",
		old: "lower_fd(&ch->source);", new: ";",
		sees: "poll tells of events that are taken",
	},
	{
		name: "async-descriptor-readable-for-ever", in: "capi/libibverbs/event.c:ibv_get_async_event",
		old: "lower_fd(&c->source);", new: ";",
		sees: "poll tells of events that are taken",
	},
	{
		name: "async-events-not-counted", in: "capi/libibverbs/event.c:ibv_get_async_event",
		old: "++*a.taken;", new: ";",
		sees: "the destruction of an object does not wait, or hangs",
	},
	{
		name: "event-of-an-object-that-is-gone", in: "capi/libibverbs/event.c:forget_async",
		old: "drop_where(c, object);", new: ";",
		sees: "an event of an object that it has destroyed",
	},
	{
		name: "port-event-without-port", in: "capi/libibverbs/event.c:notify_context",
		old: "n->e.element.port_num = PORT;", new: ";",
		sees: "port_num 0",
	},
	{
		name: "list-of-events-without-bound", in: "capi/libibverbs/event.c:notify_context",
		old: "c->notes >= MAX_NOTES", new: "false",
		sees: "memory that grows with each event that it does not read",
	},
	{
		name: "read-events-take-room", in: "capi/libibverbs/event.c:ibv_get_async_event",
		old: "c->notes--;", new: "",
		sees: "no events after 65,536",
	},
	{
		name: "dropped-events-take-room", in: "capi/libibverbs/event.c:drop_where",
		old: "c->notes--;", new: "",
		sees: "fewer events after queue pairs with events were destroyed",
	},
	{
		name: "migration-not-counted", in: "capi/libibverbs/event.c:about",
		old: "case IBV_EVENT_PATH_MIG:", new: "",
		sees: "the destruction of a queue pair does not wait",
	},
	{
		name: "port-event-of-one-context", in: "capi/libibverbs/event.c:event",
		old: "c != NULL; c = c->next)", new: "c != NULL; c = NULL)",
		sees: "no event of the port in another context",
	},
	{
		name: "blocked-signal-ends-a-sleep", in: "capi/libibverbs/event.c:interrupts",
		old: " || sigismember(blocked, sig) == 1", new: "",
		sees: "EINTR for a signal that it blocks",
	},
	{
		name: "signals-of-the-first-sleeper", in: "capi/libibverbs/event.c:ends_of",
		old: "ch->ends >= 0 && memcmp(&ch->blocked, blocked, sizeof *blocked) == 0", new: "ch->ends >= 0",
		sees: "a thread that does not sleep while a signal that it blocks is pending",
	},
	{
		name: "sleep-that-must-not-block", in: "capi/libibverbs/event.c:sleep_in_engine",
		old: "fcntl(ch->ibv.fd, F_GETFL) & O_NONBLOCK || ", new: "",
		sees: "a call that blocks on a descriptor that does not",
	},
	{
		name: "sleepers-descriptors-left-open", in: "capi/libibverbs/event.c:free_channel",
		old: "close_ends(ch);", new: "",
		sees: "two descriptors more for each channel",
	},
}

//go:build mutation

package mutation

// requesterMutants are bugs of the sending side.
var requesterMutants = []mutant{
	{
		name: "address-handle-gone-called-a-key-error", file: "internal/qp/ud.go",
		old: "return 0, ib.WCLocQPOpErr", new: "return 0, ib.WCLocProtErr",
		breaks: "E2", sim: "status", profile: "errors",
	},
	{
		name: "address-handle-of-another-domain-used", file: "internal/qp/ud.go",
		old: "case ah == nil, ah.PD != q.pd:", new: "case ah == nil:",
		breaks: "E2",
	},
	{
		name: "uc-may-post-a-read", file: "internal/qp/post.go",
		old: "ib.WRRDMARead:         {types: onRC,", new: "ib.WRRDMARead:         {types: onConnected,",
		breaks: "E2",
	},
	{
		name: "data-that-cannot-be-gathered-sent", file: "internal/qp/packet.go",
		old: "if !q.gather(payload, r.next, off) {", new: "if q.gather(payload, r.next, off); false {",
		breaks: "E3 Q22", sim: "status message", profile: "errors",
	},
	{
		name: "datagram-over-the-mtu-sent", file: "internal/qp/ud.go",
		old: "case w.Length > uint32(q.env.Limits.ActiveMTU.Bytes()):", new: "case w.Length > 1<<16:",
		breaks: "E3",
	},
	{
		name: "local-error-before-its-turn", file: "internal/qp/requester.go",
		old: "if !q.req.failed || q.req.next != q.sq.Cons() {", new: "if !q.req.failed {",
		breaks: "E3", sim: "status completion order flush message memory", profile: "errors",
	},
	{
		name: "retransmission-from-the-start-of-the-message", file: "internal/qp/retry.go",
		old: "r.psn = r.una\n", new: "r.psn = q.sq.At(q.sq.Cons()).FirstPSN\n",
		breaks: "E4",
	},
	{
		name: "read-asked-again-from-its-first-address", file: "internal/qp/packet.go",
		old: "VA: w.RemoteAddr + uint64(done), RKey", new: "VA: w.RemoteAddr + 0*uint64(done), RKey",
		breaks: "E4",
	},
	{
		name: "read-asked-again-in-its-full-length", file: "internal/qp/packet.go",
		old: "Length: uint32(min(uint64(w.Length-done), uint64(n)*uint64(q.mtu))),", new: "Length: w.Length,",
		breaks: "E4",
	},
	{
		name: "retransmission-gathers-from-the-wrong-offset", file: "internal/qp/packet.go",
		old: "if !q.gather(payload, r.next, off) {", new: "if r.psn.Diff(r.fresh) < 0 {\n\t\toff = 0\n\t}\n\tif !q.gather(payload, r.next, off) {",
		breaks: "E4", sim: "memory message", profile: "loss",
	},
	{
		name: "retry-timer-not-started", file: "internal/qp/requester.go",
		old: "if q.timers[timerAck] == clock.Never {\n\t\t\tq.startAckTimer(now)\n\t\t}", new: "",
		breaks: "E5", sim: "liveness", profile: "loss",
	},
	{
		name: "retry-timer-not-started-again-after-progress", file: "internal/qp/completer.go",
		old: "if r.outstanding() {\n\t\tq.startAckTimer(now)\n\t}", new: "",
		breaks: "E5", sim: "liveness", profile: "loss",
	},
	{
		name: "retry-timer-not-stopped-when-all-is-answered", file: "internal/qp/completer.go",
		old: "q.timers[timerAck] = clock.Never\n\tif r.outstanding() {", new: "if r.outstanding() {",
		breaks: "E5",
	},
	{
		name: "retry-timer-runs-half-its-time", file: "internal/qp/retry.go",
		old: "q.timers[timerAck] = now.Add(d)", new: "q.timers[timerAck] = now.Add(d / 2)",
		breaks: "E5", sim: "timer", profile: "loss",
	},
	{
		name: "retries-never-used-up", file: "internal/qp/retry.go",
		old: "r.retries--\n", new: "",
		breaks: "E8", sim: "retry liveness", profile: "restart",
	},
	{
		name: "one-retry-too-few", file: "internal/qp/retry.go",
		old: "if r.retries == 0 {", new: "if r.retries <= 1 {",
		breaks: "E8", sim: "status", profile: "loss",
	},
	{
		name: "retry-count-7-is-for-ever", file: "internal/qp/retry.go",
		old: "r.retries--\n", new: "if q.attr.RetryCnt != 7 {\n\t\tr.retries--\n\t}\n",
		breaks: "E8", sim: "retry liveness", profile: "restart",
	},
	{
		name: "retry-count-not-reloaded-by-progress", file: "internal/qp/completer.go",
		old: "r.retries, r.rnrLeft = q.attr.RetryCnt, q.attr.RNRRetry", new: "r.rnrLeft = q.attr.RNRRetry",
		breaks: "E8", sim: "status", profile: "loss",
	},
	{
		name: "exhausted-retries-reported-as-rnr", file: "internal/qp/retry.go",
		old: "q.sendError(now, ib.WCRetryExcErr,", new: "q.sendError(now, ib.WCRNRRetryExcErr,",
		breaks: "E8", sim: "status", profile: "restart",
	},
	{
		name: "sequence-nak-taken-every-time", file: "internal/qp/retry.go",
		old: "if q.req.retrying || q.req.waitRNR {", new: "if q.req.waitRNR {",
		breaks: "E8",
	},
	{
		name: "rnr-timer-not-kept", file: "internal/qp/requester.go",
		old: "if r.waitRNR || r.failed {", new: "if r.failed {",
		breaks: "E12 E25", sim: "rnr", profile: "slow",
	},
	{
		name: "rnr-wait-shorter-than-asked", file: "internal/qp/retry.go",
		old: "now.Add(ib.RNRTimer(code))", new: "now.Add(ib.RNRTimer(code) / 2)",
		breaks: "E12 E25", sim: "rnr", profile: "slow",
	},
	{
		name: "rnr-timer-never-fires", file: "internal/qp/retry.go",
		old: "q.timers[timerRNR] = now.Add(ib.RNRTimer(code))", new: "_ = code",
		breaks: "E12 E25", sim: "liveness", profile: "slow",
	},
	{
		name: "rnr-retry-7-is-finite", file: "internal/qp/retry.go",
		old: "if q.attr.RNRRetry != ib.RNRInfiniteRetry {", new: "{",
		breaks: "E12", sim: "status", profile: "slow",
	},
	{
		name: "rnr-retries-never-used-up", file: "internal/qp/retry.go",
		old: "r.rnrLeft--", new: "",
		breaks: "E12", sim: "retry", profile: "slow",
	},
	{
		name: "rnr-nak-counts-as-a-retry", file: "internal/qp/retry.go",
		old: "r.waitRNR = true\n", new: "r.waitRNR = true\n\tr.retries -= min(r.retries, 1)\n",
		breaks: "E25", sim: "status", profile: "slow",
	},
	{
		name: "window-never-given-back", file: "internal/qp/flow.go",
		old: "q.inFlow.cost -= freed\n\tf.inFlight -= freed", new: "_ = freed",
		breaks: "", sim: "liveness status", profile: "clean",
	},
	{
		name: "more-reads-than-the-initiator-depth", file: "internal/qp/requester.go",
		old: "q.req.rdOut >= max(1, uint32(q.attr.MaxRDAtomic)) {", new: "q.req.rdOut >= 64 {",
		breaks: "E4",
	},
	{
		name: "credits-of-the-peer-ignored", file: "internal/qp/credit.go",
		old: "return c.unlimited ||", new: "return true || c.unlimited ||",
		breaks: "E12",
	},
	{
		name: "psn-does-not-wrap", file: "ib/psn.go",
		old: "return int32((p.v-o.v)<<8) >> 8", new: "return int32(p.v) - int32(o.v)",
		breaks: "", sim: "status state panic liveness timer wire message", profile: "clean",
	},
}

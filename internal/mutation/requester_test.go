//go:build mutation

package mutation

// requesterMutants are bugs of the sending side.
var requesterMutants = []mutant{
	{
		name: "address-handle-gone-called-a-key-error", in: "internal/qp.sendDatagram",
		old:    "ib.WCLocQPOpErr",
		new:    "ib.WCLocProtErr",
		breaks: "E2", sim: "status", profile: "errors",
	},
	{
		name: "address-handle-of-another-domain-used", in: "internal/qp.sendDatagram",
		old:    "case ah == nil, $ah.PD != $q.pd: return 0, ib.WCLocQPOpErr",
		new:    "case ah == nil: return 0, ib.WCLocQPOpErr",
		breaks: "E2",
	},
	{
		name: "uc-may-post-a-read", in: "internal/qp.requests",
		old:    "ib.WRRDMARead: {onReliable, $*rest}",
		new:    "ib.WRRDMARead: {onStreams, $*rest}",
		breaks: "E2",
	},
	{
		name: "data-that-cannot-be-gathered-sent", in: "internal/qp.sendData",
		old:    "if !$r.gather($*args) { $b.Unappend(); return 0, ib.WCLocProtErr }",
		new:    "$r.gather($*args)",
		breaks: "E3 Q22", sim: "status message", profile: "errors",
	},
	{
		name: "datagram-over-the-mtu-sent", in: "internal/qp.sendDatagram",
		old:    "uint32($ActiveMTU.Bytes())",
		new:    "1 << 16",
		breaks: "E3",
	},
	{
		name: "local-error-before-its-turn", in: "internal/qp.reapFailed",
		old:    "$failed && $r.next == $r.queue.Cons()",
		new:    "$failed",
		breaks: "E3", sim: "status completion order flush message memory", profile: "errors",
	},
	{
		name: "retransmission-from-the-start-of-the-message", in: "internal/qp.rewind",
		old:    "$r.goTo($r.una)",
		new:    "$r.goTo($r.queue.oldest().first)",
		breaks: "E4",
	},
	{
		name: "read-asked-again-from-its-first-address", in: "internal/qp.encodeRead",
		old:    "$e.RemoteAddr + uint64(off)",
		new:    "$e.RemoteAddr",
		breaks: "E4",
	},
	{
		name: "read-asked-again-in-its-full-length", in: "internal/qp.sendBare",
		old:    "uint32(min(uint64($w.length-done), $chunk))",
		new:    "$w.length",
		breaks: "E4",
	},
	{
		name: "retransmission-gathers-from-the-wrong-offset", in: "internal/qp.sendData",
		old:    "if !$r.gather(payload, $w, off) { $*body }",
		new:    "if $r.psn.Diff($r.fresh) < 0 { off = 0 }; if !$r.gather(payload, $w, off) { $*body }",
		breaks: "E4", sim: "memory message", profile: "loss",
	},
	{
		name: "retry-timer-not-started", in: "internal/qp.sent",
		old:    "if $ep.timers[timerAck] == clock.Never { $r.startAckTimer(now) }",
		new:    "",
		breaks: "E5", sim: "liveness delay", profile: "loss",
	},
	{
		name: "retry-timer-not-started-again-after-progress", in: "internal/qp.advance",
		old:    "$r.startAckTimer(now)",
		new:    "",
		breaks: "E5", sim: "liveness delay", profile: "loss",
	},
	{
		name: "retry-timer-not-stopped-when-all-is-answered", in: "internal/qp.advance",
		old:    "$q.timers[timerAck], $q.timers[timerLoss] = clock.Never, clock.Never",
		new:    "$q.timers[timerLoss] = clock.Never",
		breaks: "E5",
	},
	{
		name: "retry-timer-runs-half-its-time", in: "internal/qp.startAckTimer",
		old:    "$now.Add(d)",
		new:    "$now.Add(d / 2)",
		breaks: "E5", sim: "timer", profile: "loss",
	},
	{
		name: "retries-never-used-up", in: "internal/qp.countRetry",
		old:    "$r.retries--",
		new:    "",
		breaks: "E8", sim: "retry liveness", profile: "restart",
	},
	{
		name: "one-retry-too-few", in: "internal/qp.countRetry",
		old:    "$r.retries == 0",
		new:    "$r.retries <= 1",
		breaks: "E8", sim: "status", profile: "loss",
	},
	{
		name: "retry-count-7-is-for-ever", in: "internal/qp.countRetry",
		old:    "$r.retries--",
		new:    "if $r.ep.attr.RetryCnt != 7 { $r.retries-- }",
		breaks: "E8", sim: "retry liveness", profile: "restart",
	},
	{
		name: "retry-count-not-reloaded-by-progress", in: "internal/qp.advance",
		old:    "$r.retries, $r.rnrLeft = $attr.RetryCnt, $attr.RNRRetry",
		new:    "$r.rnrLeft = $attr.RNRRetry",
		breaks: "E8", sim: "status", profile: "loss",
	},
	{
		name: "exhausted-retries-reported-as-rnr", in: "internal/qp.countRetry",
		old:    "ib.WCRetryExcErr",
		new:    "ib.WCRNRRetryExcErr",
		breaks: "E8", sim: "status", profile: "restart",
	},
	{
		name: "sequence-nak-taken-every-time", in: "internal/qp.lostPackets",
		old:    "$req.retrying || $req.waitRNR",
		new:    "$req.waitRNR",
		breaks: "E8",
	},
	{
		name: "rnr-timer-not-kept", in: "internal/qp.nextRequest",
		old:    "$r.waitRNR || $failed",
		new:    "$failed",
		breaks: "E12 E25", sim: "rnr", profile: "slow",
	},
	{
		name: "rnr-wait-shorter-than-asked", in: "internal/qp.receiveRNR",
		old:    "ib.RNRTimer(code)",
		new:    "ib.RNRTimer(code) / 2",
		breaks: "E12 E25", sim: "rnr", profile: "slow",
	},
	{
		name: "rnr-timer-never-fires", in: "internal/qp.receiveRNR",
		old:    "$q.timers[timerRNR] = $now.Add(ib.RNRTimer(code))",
		new:    "_ = code",
		breaks: "E12 E25", sim: "liveness delay", profile: "slow",
	},
	{
		name: "rnr-retry-7-is-finite", in: "internal/qp.receiveRNR",
		old:    "$q.attr.RNRRetry != ib.RNRInfiniteRetry",
		new:    "true",
		breaks: "E12", sim: "status", profile: "slow",
	},
	{
		name: "rnr-retries-never-used-up", in: "internal/qp.receiveRNR",
		old:    "$r.rnrLeft--",
		new:    "",
		breaks: "E12", sim: "retry", profile: "slow",
	},
	{
		name: "rnr-nak-counts-as-a-retry", in: "internal/qp.receiveRNR",
		old:    "$r.waitRNR = true",
		new:    "$r.waitRNR = true; $r.retries -= min($r.retries, 1)",
		breaks: "E25", sim: "status", profile: "slow",
	},
	{
		name: "window-never-given-back", in: "internal/flow.Share.Credit",
		old: "$s.uncharge(freed)",
		new: "",
		sim: "liveness status delay", profile: "clean",
	},
	{
		name: "more-reads-than-the-initiator-depth", in: "internal/qp.mayTransmit",
		old:    "max(1, uint32($attr.MaxRDAtomic))",
		new:    "64",
		breaks: "E4",
	},
	{
		name: "credits-of-the-peer-ignored", in: "internal/qp.allows",
		old:    "$c.unlimited",
		new:    "true || $c.unlimited",
		breaks: "E12",
	},
	{
		name: "psn-does-not-wrap", in: "ib.Diff",
		old: "int32(($p.v-$o.v)<<8) >> 8",
		new: "int32($p.v) - int32($o.v)",
		sim: "status state panic liveness timer wire message delay", profile: "clean",
	},
}

//go:build mutation

package mutation

// churnMutants are bugs that need many objects, or many goroutines, or one
// thing after another that is seldom after it.
var churnMutants = []mutant{
	{
		name: "qpns-at-rest-never-expire", in: "internal/number.Pool.Free",
		old:  "*word &^= mask",
		new:  "_, _ = word, mask",
		test: "internal/hca TestChurnNumbers",
	},
	{
		name: "live-key-lost-when-one-is-forgotten", in: "internal/memory.keys.remove",
		old:  "(i-home)&mask >= (i-hole)&mask",
		new:  "(i-home)&mask > (i-hole)&mask",
		test: "internal/memory TestChurnKeys",
	},
	{
		name: "indices-at-rest-never-expire", in: "internal/memory.keys.expire",
		old:  "$k.remove($oldest)",
		new:  "",
		test: "internal/memory TestChurnKeys",
	},
	{
		name: "deadlines-not-sifted-up-on-removal", in: "internal/deadline.Heap.Remove",
		old:  "$h.sift(i)",
		new:  "for c := 2 * i; c <= len($h.all) && !$h.before(i, c); c = 2 * i { if c < len($h.all) && $h.before(c+1, c) { c++ }; $h.swap(i, c); i = c }",
		test: "internal/hca TestChurnTimers",
	},
	{
		name: "doorbell-cleared-after-it-was-answered", in: "internal/shard.doorbells.answer",
		old:  "$q.Doorbells.Rung.Store(false); f(q)",
		new:  "f(q); $q.Doorbells.Rung.Store(false)",
		test: "internal/hca TestRingDuringAnswer",
	},
	{
		name: "doorbell-under-the-lock-not-answered", in: "internal/driver.release",
		old:  "dead != nil || !$d.shard.DoorbellRung()",
		new:  "dead != nil || true",
		test: "internal/driver TestDoorbellWhileTheHolderSends",
	},
	{
		name: "calls-left-behind-the-goroutine", in: "internal/driver.turn",
		old:  "$d.queued.Load() > 0",
		new:  "false",
		test: "internal/driver TestCallsRunBeforeTheWait",
	},
	{
		name: "who-sleeps-posts-before-it-answers", in: "internal/driver.sendPosted",
		old:  "$d.answer($now)",
		new:  "$d.transmit($now)",
		test: "internal/driver TestAnswerOfWhoSleepsAtThePort",
	},
	{
		name: "event-signal-not-given-again", in: "internal/device.TakeEvent",
		old:  "if $more || $e.shut { $e.signal() }",
		new:  "",
		test: "verbs TestAsyncEventReadyAgain",
	},
	{
		name: "armed-for-any-then-for-solicited-only", in: "internal/ring.CQ.Arm",
		old:    "$c.hdr.Armed.CompareAndSwap(ArmNone, ArmSolicited)",
		new:    "$c.hdr.Armed.Store(ArmSolicited)",
		breaks: "E29",
	},
	{
		name: "loss-wakes-nobody-who-waits-for-the-window", in: "internal/flow.Share.GoBack",
		old:    "$s.peer.wake()",
		new:    "",
		breaks: "E4 E12",
	},
	{
		name: "longer-end-of-a-read-forgotten-by-a-duplicate", in: "internal/qp.duplicateRead",
		old:    "if $e.pending && $e.stop > stop { $*body }",
		new:    "",
		breaks: "E9",
	},
}

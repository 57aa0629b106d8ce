//go:build mutation

package mutation

import "slices"

// eventlogMutants are bugs of the log of events, and of the records that it gets.
var eventlogMutants = slices.Concat(
	bugsIn("internal/eventlog", []mutant{
		{name: "events-left-out-uncounted", in: "take", test: "TestLinesAreLimited",
			old: "$l.left.Add(1)"},
		{name: "burst-grows-with-time", in: "take", test: "TestLinesAreLimited",
			old: "max($n, int64($t))", new: "$n"},
		{name: "log-without-limit", in: "take", test: "TestLinesAreLimited",
			old: "$f-int64($n) > int64((maxBurst-1)*interval)", new: "false"},
		{name: "one-limit-for-all-statuses", in: "detail", test: "TestLinesAreLimited",
			old: "min(int($r.Status), maxDetails-1)", new: "0"},
		{name: "left-out-events-told-twice", in: "Log.leftOut", test: "TestLinesAreLimited",
			old: "$m.left.Swap(0)", new: "$m.left.Load()"},
		{name: "each-end-names-its-connection-itself", in: "Connection", test: "TestConnectionHasOneName",
			old: "$c > 0 || $c == 0 && $q > $p", new: "$c > 1"},
		{name: "exhausted-retries-unnamed", in: "message", test: "TestW1_OneLineForEachEvent",
			old: "ib.WCRNRRetryExcErr", new: "255"},
		{name: "syndrome-not-logged", in: "describePacket", test: "TestW1_OneLineForEachEvent",
			old: `$a.Syndrome.String()`, new: `""`},
	}),
	bugsIn("internal/cm", []mutant{
		{name: "reason-of-a-rejection-not-told", in: "reject", test: "rdmacm TestW1_ConnectionsAreLogged",
			old: "refuses($c, $a)", new: "false"},
		{name: "unanswered-request-told-as-rejected", in: "reject", test: "rdmacm TestW1_ConnectionsAreLogged",
			old: "refuses($c, $a)", new: "true"},
		{name: "refusal-without-listener-not-told", in: "answerREJ", test: "rdmacm TestW1_ConnectionsAreLogged",
			old: "traceRefusal($m, $x, $g.Reason)"},
		{name: "silent-peer-not-told", in: "tell", test: "rdmacm TestW1_ConnectionsAreLogged",
			old: "$on == TimerExhausted && $f != DReqSent", new: "false"},
		{name: "cause-of-an-end-not-told", in: "tell", test: "rdmacm TestW1_ConnectionsAreLogged",
			old: "traceChange($x.now, $c, trace.Ended, ending($on))", new: "traceChange($x.now, $c, trace.Ended, $on)"},
	}),
	bugsIn("internal/device", []mutant{
		{name: "event-of-a-completion-queue-not-logged", in: "Device.logEvent", test: "verbs TestW1_EventsAreLogged",
			old: `$d.log.Event($e.Type, slog.Uint64("cq", uint64($e.CQ.Number())))`},
		{name: "event-of-a-queue-pair-logged-twice", in: "Device.logEvent", test: "verbs TestW1_EventsAreLogged",
			old: "$e.QPN != 0 || $e.EEC != 0", new: "false"},
		{name: "log-makes-the-tracer-deaf", in: "tracer", test: "verbs TestLogLevels",
			old: "t($r)"},
		{name: "packets-traced-for-a-quiet-log", in: "tracer", test: "verbs TestW1_QuietLogCostsNoPackets",
			old: "!$log.Detailed()", new: "false"},
	}),
	bugsIn("internal/qp", []mutant{
		{name: "quiet-log-misses-flushed-requests", in: "QP.push", test: "verbs TestW1_QuietLogCostsNoPackets",
			old: "$w.Status != ib.WCSuccess", new: "false"},
		{name: "refusal-not-told", in: "QP.refuse", test: "verbs TestW1_ReasonsAreLogged",
			old: "traceRefusal(&$q.ep, $p, $f)"},
		{name: "reason-of-a-refused-key-not-told", in: "badKey", test: "verbs TestW1_ReasonsAreLogged",
			old: `$b.why = $w + ": " + $e.Mem.Why($f)`},
		{name: "memory-error-of-a-request-not-told", in: "denied", test: "verbs TestW1_ReasonsAreLogged",
			old: "$e.env.Trace != nil", new: "false"},
		{name: "records-without-the-peer", in: "record", test: "verbs TestW1_EventsAreLogged",
			old: "$r.Peer, $r.Local, $r.Remote = $e.dest.peer($e.typ), $e.path.Src, $e.path.Dst"},
	}),
	bugsIn("internal/memory", []mutant{
		{name: "older-access-explained", in: "Why", test: "TestWhy",
			old: "$t.denied = FaultNone"},
		{name: "another-fault-explained", in: "Why", test: "TestWhy",
			old: "$d != $f || $x.key == 0 || $f == FaultNone", new: "false && $d != $f"},
		{name: "whole-access-beyond-the-region", in: "beyond", test: "TestWhy",
			old: "inBytes($d.n-($s-$o))", new: "inBytes($d.n-($s-$o)*0)"},
		{name: "refused-range-not-noted", in: "Remote", test: "TestWhy",
			old: "$t.deny(denial{$v.PD, uint32($k), $a, $n, $r}, $f)", new: "$f"},
	}),
	bugsIn("internal/restrack", []mutant{
		{name: "layout-number-without-the-fields", in: "describeType", test: "TestLayoutNumberOfFields",
			old: "$t.Kind() != reflect.Struct", new: "true"},
	}),
)

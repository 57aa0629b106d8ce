//go:build mutation

package mutation

import "slices"

// insideMutants are bugs of the logs in captures: writing, reading and joining them, and what explain
// concludes from them.
var insideMutants = slices.Concat(
	bugsIn("internal/pcapfile", []mutant{
		{name: "entry-of-another-program-taken", in: "parseEntry", test: "TestForeignEntries",
			old: "$o = $v == program", new: "$o = true"},
		{name: "line-break-in-an-entry", in: "AppendEntry", test: "TestLinesOfEntries",
			old: `strings.NewReplacer("\n", " ", "\r", " ", "\x00", " ").Replace($v)`, new: "$v"},
		{name: "entries-without-record-numbers", in: "Reader.next", test: "TestEntries",
			old: "$e.Record = $r.records", new: "$e.Record = $r.records - 1"},
		{name: "entry-cut-off-is-the-end", in: "blocks.journal", test: "TestForeignEntries",
			old: "return errCut", new: "return io.ErrUnexpectedEOF"},
		{name: "reader-goes-on-after-damage", in: "Reader.NextItem", test: "TestForeignEntries",
			old: "return Item{}, $r.err", new: "e := $r.err; $r.err = nil; return Item{}, e"},
		{name: "join-does-not-wait", in: "Join.Next", test: "TestJoinWaits",
			old: "$b < 0 || !$a", new: "$b < 0"},
		{name: "join-takes-the-last", in: "Join.Next", test: "TestJoin",
			old: "$i.at().Before($f.at())", new: "$f.at().Before($i.at())"},
		{name: "damaged-capture-ends-the-others", in: "Join.Next", test: "TestJoin",
			old: "$j.left = slices.Delete($j.left, $k, $k+1)", new: "$j.left = slices.Delete($j.left, 0, len($j.left))"},
		{name: "all-packets-from-one-interface", in: "Writer.Write", test: "TestEntries",
			old: "$w.interfaces <= $i.Source", new: "false"},
	}),
	bugsIn("internal/fabric/capture", []mutant{
		{name: "entry-after-close", in: "Port.entry", test: "TestJournal",
			old: "$p.err != nil || $p.closed", new: "$p.err != nil"},
		{name: "entry-waits-for-a-packet", in: "Port.entry", test: "TestJournal",
			old: "$p.quick", new: "false"},
		{name: "journal-without-the-logger's-attributes", in: "journal.WithAttrs", test: "TestJournal",
			old: "append(slices.Clip($j.attrs), $a...)", new: "$j.attrs"},
	}),
	bugsIn("internal/eventlog", []mutant{
		{name: "capture-limited-like-the-log", in: "Log.emit", test: "TestWholeLog",
			old: "takes($l.whole, $v)", new: "takes($l.whole, $v) && takes($l.out, $v)"},
		{name: "drops-of-all-causes-share-a-limit", in: "detail", test: "TestDropsOfOneCause",
			old: "int(dropOf($r.Cause))", new: "0"},
		{name: "drop-without-the-state", in: "describe", test: "TestDropsOfOneCause",
			old: "$r.Kind == trace.Drop && $r.Cause == counters.DropState.String()", new: "false"},
	}),
	bugsIn("internal/shard", []mutant{
		{name: "packet-for-nobody-not-told", in: "Shard.drop", test: "verbs TestK3_DropsAreLogged",
			old: "$s.env.Trace == nil", new: "true"},
	}),
	bugsIn("internal/explain", []mutant{
		{name: "stranger's-packet-is-the-reason", in: "Told.unanswered", test: "TestK3_Drops",
			old: "$m.from == $c.A.Addr", new: "true"},
		{name: "one-dropped-packet-is-the-reason", in: "Told.unanswered", test: "TestK3_Drops",
			old: "$m.Count > 1", new: "true"},
		{name: "drop-after-an-error-is-the-reason", in: "Remark.dropped", test: "TestK3_Drops",
			old: "$s != ib.ERR.String()", new: "$s != \"\""},
		{name: "strangers-fill-the-table", in: "inside.about", test: "TestK3_Strangers",
			old: "$t, $l = &$n.strays, maxStrays", new: "$t, $l = &$n.all, maxTold"},
		{name: "repeats-fill-the-list", in: "Told.put", test: "TestK3_Bounds",
			old: "$t.drops > maxDrops", new: "false"},
		{name: "status-found-no-room", in: "Told.put", test: "TestK3_Bounds",
			old: "statusOf($r.Status) != nil", new: "statusOf($r.Status) != nil && false"},
		{name: "refused-call-hides-the-failure", in: "Report.cause", test: "TestK3_OtherFailures",
			old: "$f.id == callFailed", new: "false"},
		{name: "late-nak-stays-in-doubt", in: "inside.settle", test: "TestK3_LateNAK",
			old: "$f.id != refusalLate", new: "true"},
		{name: "error-told-twice", in: "Report.addTold", test: "TestK3_Reasons",
			old: "$i == completionError && $o != 0 && $f[$o]", new: "false"},
		{name: "memory-error-not-named", in: "Report.addTold", test: "TestK3_Findings",
			old: `$d += "; " + $w.Detail`},
		{name: "peer-of-several-queue-pairs", in: "inside.pairUp", test: "TestK3_Drops",
			old: "$t = nil", new: "_ = $t"},
		{name: "peer-by-the-first-address", in: "Told.meet", test: "TestK3_SeveralAddresses",
			old: "slices.Contains($a, $i)", new: "slices.Index($a, $i) == 0"},
		{name: "process-that-ended-later-is-the-reason", in: "inside.left", test: "TestK3_EndedProcess",
			old: "$i.at >= $c.Start+$c.Length", new: "false"},
		{name: "zone-of-an-address-printed", in: "adapterAddrs", test: "TestK3_HostileLogs",
			old: `$a.Zone() == ""`, new: "true"},
		{name: "status-of-packets-beside-that-of-the-log", in: "Report.Statuses", test: "TestStatuses",
			old: "$c.heard", new: "false"},
		{name: "expected-status-beside-the-real-one", in: "unless", test: "TestK3_Reasons",
			old: "strings.Contains($g, $s)", new: "false && $s != $g"},
	}),
	bugsIn("cmd/softhca", []mutant{
		{name: "idle-adapter-delays-the-others-for-ever", in: "ears.overdue", test: "TestIdleAdapter",
			old: "$n.Sub($g.queue[0].since) >= reorderDelay", new: "$n.Sub($g.queue[0].since) >= 1000*reorderDelay"},
		{name: "packets-of-adapters-as-they-come", in: "ears.next", test: "TestOrderOfAdapters",
			old: "$e.held >= maxHeld/2 || $e.overdue(time.Now())", new: "true"},
		{name: "held-bytes-not-freed", in: "growing.Pop", test: "TestManyAdapters",
			old: "$g.ears.held -= $g.queue[0].Size()"},
		{name: "adapter-goes-in-silence", in: "growing.fill", test: "TestGoneAdapters",
			old: "$e && $l != nil", new: "$e && false"},
		{name: "failed-copy-not-told", in: "ears.follow", test: "TestFullCopy",
			old: "$e.failed = $e.copy.Flush()", new: "_ = $e.copy.Flush()"},
		{name: "packets-required-instead-of-the-verdict", in: "explaining.tell", test: "TestExplainExpectations",
			old: `$x.want.outcome != ""`, new: "$x.want.set()"},
		{name: "repaired-is-clean", in: "expected.met", test: "TestExplainExpectations",
			old: "$v.Outcome == $x.outcome || $v.Outcome == outcomeClean", new: "!$v.Bad()"},
		{name: "flushed-request-can-be-expected", in: "expected.check", test: "TestExplainExpectations",
			old: "$s != ib.WCWRFlushErr", new: "true"},
	}),
)

// cRefusedMutants are bugs in what the library says about refused posts.
var cRefusedMutants = cBugsIn("capi/libibverbs/refused.c", []cMutant{
	{name: "list-read-beyond-its-end", in: "payload",
		old: " && length <= limit", new: " && limit != 0", sees: "a crash at a post with num_sge 1048576"},
	{name: "list-of-a-local-request-read", in: "refused_send",
		old: "else if (o->local)", new: "else if (false)", sees: "a crash at a LOCAL_INV with num_sge 1"},
	{name: "refusal-in-the-wrong-state", in: "refused_send",
		old: "if (q->ibv.state < IBV_QPS_RTS)", new: "if (false)", sees: "a post before RTS is explained by its length"},
	{name: "refused-receive-in-reset-by-its-length", in: "refused_recv",
		old: "q->ibv.state == IBV_QPS_RESET", new: "false", sees: "a receive in RESET is explained by its length"},
})

// cToldMutants are bugs in when the library says so.
var cToldMutants = cBugsIn("capi/libibverbs/post.c", []cMutant{
	{name: "full-queue-told", in: "post_send",
		old: "if (UNLIKELY(code == EINVAL))", new: "if (UNLIKELY(code != 0))", sees: "a line in the log for each post to a full queue"},
	{name: "refused-list-not-told", in: "wr_complete",
		old: "if (q->failed == EINVAL)", new: "if (false)", sees: "no line in the log for a refused list"},
})

//go:build mutation

package mutation

import "slices"

// clocksMutants are bugs of the comparison of the clocks of captures.
var clocksMutants = slices.Concat(
	bugsIn("internal/pcapfile/clocks", []mutant{
		{name: "offset-is-the-delay-of-one-direction", in: "best", test: "TestOffsets",
			old: "least + (most-least)/2", new: "most"},
		{name: "drift-within-a-window-ignored", in: "bound.after", test: "TestOffsets",
			old: "($at - $b.at) / driftLimit", new: "($at - $b.at) / driftLimit / 1000"},
		{name: "first-window-only", in: "best", test: "TestOffsets",
			old: "$have && $m.at-$b >= $w", new: "false"},
		{name: "poor-measurements-used", in: "withoutPoor", test: "TestQueues",
			old: "$k.err/poor > $l+resolution/poor", new: "false"},
		{name: "packets-before-they-were-sent", in: "estimateOf", test: "TestUnsteadyClock",
			old: "$e.repair($l)", new: ""},
		{name: "wrong-matches-move-the-clock", in: "estimate.repair", test: "TestWrongMatches",
			old: "$o > 2*$e.err+resolution", new: "false"},
		{name: "lost-retransmission-matched", in: "matches", test: "TestRepeatsAreBounded",
			old: "$n == $m", new: "$n <= $m"},
		{name: "repeats-compared-without-a-bound", in: "matches", test: "TestRepeatsAreBounded",
			old: "$n <= maxRepeats", new: "true"},
		{name: "repeats-kept-without-a-bound", in: "Samples.group", test: "TestRepeatsAreBounded",
			old: "min($n, maxRepeats+1)", new: "min($n, 1<<30)"},
		{name: "samples-without-a-bound", in: "Samples.add", test: "TestSamplesAreBounded",
			old: "len($s.list) >= maxSamples", new: "len($s.list) >= 2*maxSamples"},
		{name: "first-packets-only", in: "Samples.thin", test: "TestSamplesAreBounded",
			old: "$s.limit /= 2", new: "$s.limit = 0"},
		{name: "captures-compared-without-a-bound", in: "Compare", test: "TestManyCaptures",
			old: "min(len($c), maxCaptures)", new: "min(len($c), 2*maxCaptures)"},
		{name: "sender-taken-for-the-receiver", in: "matchOf", test: "TestOneDirection",
			old: "$m.from = second", new: "$m.from = first"},
		{name: "sender-guessed-wrongly", in: "settle", test: "TestOffsets",
			old: "cmp.Compare($l[1].diff, $l[0].diff)", new: "cmp.Compare($l[0].diff, $l[1].diff)"},
		{name: "slow-packet-at-an-end-moves-the-clock", in: "curve.trim", test: "TestOneDirection",
			old: "steepness($c.knots[0], $c.knots[1]) < -$s", new: "false"},
		{name: "clock-of-the-one-between-not-corrected", in: "link.clock", test: "TestThreeCaptures",
			old: "append($c.chain, $t.chain...)", new: "$c.chain"},
		{name: "same-clock-corrected", in: "estimateOf", test: "TestSameClock",
			old: "agree($k, $l)", new: "false"},
		{name: "cut-packets-differ", in: "sampleOf", test: "TestCutPackets",
			old: "$p.Payload[:min(len($p.Payload), hashed)]", new: "$p.Payload"},
	}),
	bugsIn("internal/explain", []mutant{
		{name: "joined-by-different-clocks", in: "ReadAll", test: "TestBothEnds",
			old: "$w.Correct($a[$i].Correct)", new: ""},
		{name: "same-clock-reported", in: "Report.compared", test: "TestBothEnds",
			old: "$c.Method == clocks.Same", new: "false"},
		{name: "unknown-clock-not-reported", in: "Clock.caveat", test: "TestNoCommonPacket",
			old: "methods[clocks.None]", new: "\"no\""},
	}),
)

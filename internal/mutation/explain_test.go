//go:build mutation

package mutation

// explainMutants are bugs of explain: tables without a bound, and fields of its report.
var explainMutants = []mutant{
	{
		name: "keys-remembered-without-a-bound", in: "internal/explain.keys.put",
		old:  "len($k.known) >= maxKeys",
		new:  "false",
		test: "internal/explain TestFullTables",
	},
	{
		name: "q-keys-remembered-without-a-bound", in: "internal/explain.qkeys.announce",
		old:  "len($k.known) >= maxQKeys",
		new:  "false",
		test: "internal/explain TestFullTables",
	},
	{
		name: "connections-of-one-direction-without-a-bound", in: "internal/explain.Follower.begin",
		old:  "len(list) < maxAlone",
		new:  "len(list) < 2*maxAlone",
		test: "internal/explain TestManyAlone",
	},
	{
		name: "findings-of-unlisted-connections-counted-once", in: "internal/explain.Report.merge",
		old:  "$r.Findings[i].Count += $f.Count",
		new:  "r.Findings[i].Count++",
		test: "internal/explain TestUnlistedFindings",
	},
	{
		name: "connection-manager-with-a-queue-pair", in: "internal/explain.Report.addLink",
		old:  `$c.Service, $c.A.QPN, $c.B.QPN = "CM", nil, nil`,
		new:  `c.Service, c.A.QPN = "CM", nil`,
		test: "internal/explain TestTimesOfReports",
	},
	{
		name: "conversation-that-starts-at-its-end", in: "internal/explain.conversation.summary",
		old:  "$c.first.at",
		new:  "c.last.at",
		test: "internal/explain TestTimesOfReports",
	},
	{
		name: "senders-counted-without-a-bound", in: "internal/explain.Follower.sound",
		old:  "len($f.damage.senders) < maxSenders",
		new:  "true",
		test: "internal/explain TestManySenders",
	},
	{
		name: "gaps-remembered-without-a-bound", in: "internal/explain.conversation.fill",
		old:  "len($h.gaps) < maxGaps",
		new:  "true",
		test: "internal/explain TestManyGaps",
	},
	{
		name: "finding-of-the-first-conversation", in: "internal/explain.Report.number",
		old:  "$f.Conversation = to[$f.Conversation]",
		new:  "f.Conversation = min(f.Conversation, 1)",
		test: "internal/explain TestSecondConversation",
	},
	{
		name: "datagrams-put-off-without-a-bound", in: "internal/explain.deferred.put",
		old:  "len($d.list) >= maxDeferred",
		new:  "false",
		test: "internal/explain TestFullTables",
	},
}

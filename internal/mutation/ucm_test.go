//go:build mutation

package mutation

// ucmMutants are bugs of the commands that librdmacm writes to /dev/infiniband/rdma_cm.
var ucmMutants = []mutant{
	{
		name: "events-taken-not-counted", in: "capi/ucm.name",
		old:  "n.taken++",
		new:  "",
		test: "capi/ucm TestCMConnection",
	},
	{
		name: "events-of-a-join-not-counted", in: "capi/ucm.name",
		old:  "g.taken++",
		new:  "",
		test: "capi/ucm TestCMGroups",
	},
	{
		name: "failed-join-not-kept", in: "capi/ucm.name",
		old:  "$m.keepFailed($g)",
		new:  "",
		test: "capi/ucm TestCMGroupsInVain",
	},
	{
		name: "request-for-datagrams-with-parameters-of-a-connection", in: "capi/ucm.name",
		old:  "$n.datagrams = $listener.datagrams",
		new:  "_ = $listener",
		test: "capi/ucm TestCMDatagrams",
	},
	{
		name: "q-key-of-a-service-not-told", in: "capi/ucm.udParamOf",
		old:  "QKey: uint32($p.QKey)",
		new:  "",
		test: "capi/ucm TestCMDatagrams",
	},
	{
		name: "accepted-id-with-a-wrong-uid", in: "capi/ucm.accept",
		old:  "$n.uid = $c.UID",
		new:  "$n.uid = $c.UID + 1",
		test: "capi/ucm TestCMConnection",
	},
	{
		name: "reason-zero-rejected-as-no-reason", in: "capi/ucm.reject",
		old:  "cmp.Or(mad.RejReason($c.Reason), mad.RejConsumer)",
		new:  "cmp.Or(mad.RejReason($c.Reason))",
		test: "capi/ucm TestCMReject",
	},
	{
		name: "program-rejects-for-any-reason", in: "capi/ucm.reject",
		old:  "$reason != mad.RejConsumer && $reason != mad.RejVendorOptionUnsupported",
		new:  "false",
		test: "capi/ucm TestCMReject",
	},
	{
		name: "ack-timeout-set-as-tos", in: "capi/ucm.node.set",
		old:  "$n.id.SetAckTimeout($v)",
		new:  "$n.id.SetTOS($v)",
		test: "capi/ucm TestCMAckTimeout",
	},
	{
		name: "option-of-any-size", in: "capi/ucm.node.set",
		old:  "len($v) != $size",
		new:  "len($v) < $size",
		test: "capi/ucm TestCMOptions",
	},
	{
		name: "unknown-option-is-invalid", in: "capi/ucm.node.set",
		old:  `fmt.Errorf("option %d: %w", $o, syscall.ENOSYS)`,
		new:  `fmt.Errorf("option %d: %w", $o, ib.EINVAL)`,
		test: "capi/ucm TestCMOptions",
	},
	{
		name: "events-of-a-moved-id-still-announced", in: "capi/ucm.migrateID",
		old:  "$from.settle()",
		new:  "",
		test: "capi/ucm TestCMEventsThatGo",
	},
	{
		name: "port-of-a-closed-file-still-taken", in: "capi/ucm.Manager.claim",
		old:  "$m.closeUnread()",
		new:  "",
		test: "capi/ucm TestCMPortOfAClosedFile",
	},
	{
		name: "id-created-without-an-answer", in: "capi/ucm.createID",
		old:  "$a.undo = func() { $n.destroy($m) }",
		new:  "",
		test: "capi/ucm TestGarbage",
	},
	{
		name: "device-index-not-told", in: "capi/ucm.where",
		old:  "$w.index = $_",
		new:  "",
		test: "capi/ucm TestCMQueries",
	},
}

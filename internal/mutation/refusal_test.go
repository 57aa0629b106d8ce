//go:build mutation

package mutation

// refusalMutants are bugs of calls that must be refused.
var refusalMutants = bugsIn("internal/qp", []mutant{
	{name: "refused-modify-changes-something", in: "QP.Modify", sim: "post", profile: "lifecycle",
		old: "if err != nil { return err }",
		new: "if err != nil { if mask&ib.AttrState != 0 && attr.State == ib.RTS { q.ep.attr.RetryCnt++ }; return err }"},
	{name: "required-attributes-not-required", in: "checkAttributes", breaks: "Q3", sim: "post", profile: "lifecycle",
		old: "required &^ $c.mask",
		new: "required &^ $c.mask &^ required"},
	{name: "interface-error-found-too-late", in: "checkSend", breaks: "Q22",
		old: "int($sq.maxSGE)",
		new: "int($sq.maxSGE) + 1"},
	{name: "post-send-in-init", in: "behaviours", breaks: "Q6 Q24",
		old: "ib.INIT: {postQueue, postRefuse, false, false, sendNothing}",
		new: "ib.INIT: {postQueue, postQueue, false, false, sendNothing}"},
})

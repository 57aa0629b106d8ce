//go:build mutation

package mutation

// refusalMutants are bugs of calls that must be refused.
var refusalMutants = []mutant{
	{
		name: "refused-modify-changes-something", in: "internal/qp.QP.Modify",
		old: "if err != nil { return err }",
		new: "if err != nil { if mask&ib.AttrState != 0 && attr.State == ib.RTS { q.ep.attr.RetryCnt++ }; return err }",
		sim: "post", profile: "lifecycle",
	},
	{
		name: "required-attributes-not-required", in: "internal/qp.checkAttributes",
		old:    "required &^ $c.mask",
		new:    "required &^ $c.mask &^ required",
		breaks: "Q3", sim: "post", profile: "lifecycle",
	},
	{
		name: "interface-error-found-too-late", in: "internal/qp.checkSend",
		old:    "int($sq.maxSGE)",
		new:    "int($sq.maxSGE) + 1",
		breaks: "Q22",
	},
	{
		name: "post-send-in-init", in: "internal/qp.behaviours",
		old:    "ib.INIT: {postQueue, postRefuse, false, false, sendNothing}",
		new:    "ib.INIT: {postQueue, postQueue, false, false, sendNothing}",
		breaks: "Q6 Q24",
	},
}

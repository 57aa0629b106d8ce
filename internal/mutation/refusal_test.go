//go:build mutation

package mutation

// refusalMutants are bugs of calls that must be refused.
var refusalMutants = []mutant{
	{
		name: "refused-modify-changes-something", file: "internal/qp/apply.go",
		old: "if err != nil {\n\t\treturn err\n\t}\n\tpath := q.path", new: "if err != nil {\n\t\tif mask&ib.AttrState != 0 && attr.State == ib.RTS {\n\t\t\tq.attr.RetryCnt++\n\t\t}\n\t\treturn err\n\t}\n\tpath := q.path",
		breaks: "", sim: "post", profile: "lifecycle",
	},
	{
		name: "required-attributes-not-required", file: "internal/qp/modify.go",
		old: "missing := required &^ c.mask", new: "missing := required &^ c.mask &^ required",
		breaks: "Q3", sim: "post", profile: "lifecycle",
	},
	{
		name: "interface-error-found-too-late", file: "internal/qp/post.go",
		old: "if len(wr.SGList) > int(q.sq.maxSGE) {", new: "if len(wr.SGList) > int(q.sq.maxSGE)+1 {",
		breaks: "Q22",
	},
	{
		name: "post-send-in-init", file: "internal/qp/behaviour.go",
		old: "ib.INIT:  {postQueue, postRefuse,", new: "ib.INIT:  {postQueue, postQueue,",
		breaks: "Q6 Q24",
	},
}

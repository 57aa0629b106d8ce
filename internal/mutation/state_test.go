//go:build mutation

package mutation

// stateMutants are bugs of the state machine and of flushing.
var stateMutants = []mutant{
	{
		name: "send-queue-works-in-rtr", file: "internal/qp/behaviour.go",
		old: "ib.RTR:   {postProcess, postRefuse, true, false, sendNothing}", new: "ib.RTR:   {postProcess, postProcess, true, false, sendAll}",
		breaks: "E1 Q7 Q24",
	},
	{
		name: "packets-executed-in-err", file: "internal/qp/behaviour.go",
		old: "ib.ERR:   {postFlush, postFlush, false, false, sendNothing}", new: "ib.ERR:   {postFlush, postFlush, true, false, sendNothing}",
		breaks: "E7 Q20 Q24",
	},
	{
		name: "packets-executed-in-init", file: "internal/qp/behaviour.go",
		old: "ib.INIT:  {postQueue, postRefuse, false, false, sendNothing}", new: "ib.INIT:  {postQueue, postRefuse, true, false, sendNothing}",
		breaks: "Q6 Q24",
	},
	{
		name: "receives-posted-in-reset", file: "internal/qp/behaviour.go",
		old: "ib.RESET: {postRefuse, postRefuse, false,", new: "ib.RESET: {postQueue, postRefuse, false,",
		breaks: "Q4 Q24",
	},
	{
		name: "sends-posted-in-reset", file: "internal/qp/behaviour.go",
		old: "ib.RESET: {postRefuse, postRefuse, false,", new: "ib.RESET: {postRefuse, postQueue, false,",
		breaks: "Q4 Q24", sim: "post", profile: "lifecycle",
	},
	{
		name: "requests-dropped-in-rtr", file: "internal/qp/behaviour.go",
		old: "ib.RTR:   {postProcess, postRefuse, true,", new: "ib.RTR:   {postProcess, postRefuse, false,",
		breaks: "Q7 Q24",
	},
	{
		name: "responses-dropped-in-rts", file: "internal/qp/behaviour.go",
		old: "ib.RTS:   {postProcess, postProcess, true, true, sendAll}", new: "ib.RTS:   {postProcess, postProcess, true, false, sendAll}",
		breaks: "Q8 Q24", sim: "timer status", profile: "clean",
	},
	{
		name: "sends-begun-in-sqd", file: "internal/qp/behaviour.go",
		old: "ib.SQD:   {postProcess, postQueue, true, true, sendBegun}", new: "ib.SQD:   {postProcess, postQueue, true, true, sendAll}",
		breaks: "Q11 Q24", sim: "wire", profile: "lifecycle",
	},
	{
		name: "sends-kept-in-sqe", file: "internal/qp/behaviour.go",
		old: "ib.SQE:   {postProcess, postFlush,", new: "ib.SQE:   {postProcess, postQueue,",
		breaks: "Q15 Q24",
	},
	{
		name: "receives-flushed-in-sqe", file: "internal/qp/behaviour.go",
		old: "ib.SQE:   {postProcess, postFlush,", new: "ib.SQE:   {postFlush, postFlush,",
		breaks: "Q15 Q24", sim: "status", profile: "errors",
	},
	{
		name: "uc-error-goes-to-err", file: "internal/qp/state.go",
		old: "if q.typ == ib.RC {", new: "if q.connected() {",
		breaks: "Q14",
	},
	{
		name: "rc-error-goes-to-sqe", file: "internal/qp/state.go",
		old: "if q.typ == ib.RC {", new: "if q.typ == ib.RD {",
		breaks: "Q18 E8", sim: "state", profile: "errors",
	},
	{
		name: "sqe-not-entered", file: "internal/qp/state.go",
		old: "q.setState(ib.SQE, cause)", new: "_ = cause",
		breaks: "Q14", sim: "state", profile: "errors",
	},
	{
		name: "sends-not-flushed-in-sqe", file: "internal/qp/state.go",
		old: "q.req.failed = false\n\tq.flushSend(now)", new: "q.req.failed = false",
		breaks: "Q15", sim: "flush", profile: "errors",
	},
	{
		name: "receive-error-in-sqe-stays-there", file: "internal/qp/state.go",
		old: "if q.State() == ib.ERR {\n\t\treturn\n\t}\n\tq.setState(ib.ERR, cause)", new: "if q.State() == ib.ERR || q.State() == ib.SQE {\n\t\treturn\n\t}\n\tq.setState(ib.ERR, cause)",
		breaks: "Q17",
	},
	{
		name: "err-not-left-for-reset", file: "internal/qp/modify_table.go",
		old: "if to == ib.RESET || to == ib.ERR {", new: "if to == ib.RESET && from != ib.ERR || to == ib.ERR {",
		breaks: "Q2 Q3", sim: "state", profile: "lifecycle",
	},
	{
		name: "reset-to-err-refused", file: "internal/qp/modify_table.go",
		old: "if to == ib.RESET || to == ib.ERR {", new: "if to == ib.RESET || to == ib.ERR && from != ib.RESET {",
		breaks: "Q2", sim: "state", profile: "lifecycle",
	},
	{
		name: "any-move-from-sqd", file: "internal/qp/modify.go",
		old: "if _, _, ok := Transition(c.from.Type, c.from.State, c.next); !ok {", new: "if _, _, ok := Transition(c.from.Type, c.from.State, c.next); !ok && c.from.State != ib.SQD {",
		breaks: "Q3",
	},
	{
		name: "rtr-skipped", file: "internal/qp/modify_table.go",
		old: "ib.INIT: {\n\t\t\tib.INIT: {true, 0, aPKey | aPort | aAccess},\n\t\t\t// The timers", new: "ib.INIT: {\n\t\t\tib.RTS: {true, 0, 0}, ib.INIT: {true, 0, aPKey | aPort | aAccess},\n\t\t\t// The timers",
		breaks: "Q3",
	},
	{
		name: "sqd-with-attributes", file: "internal/qp/modify_table.go",
		old: "ib.RTS: {true, 0, aCurState | aAccess | aAlt | aMig | aMinRNR | aCap},\n\t\t\tib.SQD: {true, 0, aEnSQD},", new: "ib.RTS: {true, 0, aCurState | aAccess | aAlt | aMig | aMinRNR | aCap},\n\t\t\tib.SQD: {true, 0, aEnSQD | aAccess | aMinRNR | aTimers},",
		breaks: "Q10",
	},
	{
		name: "attributes-changed-while-draining", file: "internal/qp/modify.go",
		old: "if c.from.State != ib.SQD || !c.from.Draining {", new: "if c.from.State != ib.SQD || c.next == ib.SQD {",
		breaks: "Q12",
	},
	{
		name: "resumed-while-draining", file: "internal/qp/modify.go",
		old: "if c.next == ib.RTS || c.next == ib.SQD", new: "if c.next == ib.SQD",
		breaks: "Q12",
	},
	{
		name: "sq-drained-at-once", file: "internal/qp/state.go",
		old: "if !q.sqd.draining || q.sq.Cons() != q.req.began {", new: "if !q.sqd.draining {",
		breaks: "E6 Q12", sim: "state wire event", profile: "lifecycle",
	},
	{
		name: "sq-drained-not-raised", file: "internal/qp/state.go",
		old: "q.raise(ib.EventSQDrained)", new: "_ = q.sqd",
		breaks: "E6 Q12 E29", sim: "event", profile: "lifecycle",
	},
	{
		name: "never-drained", file: "internal/qp/completer.go",
		old: "q.reapFailed(now)\n\tq.checkDrained()", new: "q.reapFailed(now)",
		breaks: "E6 Q12", sim: "liveness", profile: "lifecycle",
	},
	{
		name: "resumed-queue-does-not-send", file: "internal/qp/apply.go",
		old: "q.sqd = drainState{}\n\t\tq.env.Wake(q)", new: "q.sqd = drainState{}",
		breaks: "Q13", sim: "liveness", profile: "lifecycle",
	},
	{
		name: "timeout-given-in-sqd-has-no-effect", file: "internal/qp/apply.go",
		old: "{ib.AttrTimeout, func() { q.attr.Timeout = a.Timeout }}", new: "{ib.AttrTimeout, func() { q.attr.Timeout = max(q.attr.Timeout, a.Timeout) }}",
		breaks: "Q13",
	},
	{
		name: "sqe-not-left-for-rts", file: "internal/qp/modify_table.go",
		old: "ib.SQE: {\n\t\tib.RTS: {true, 0, aCurState | aQKey | aCap},", new: "ib.SQE: {\n\t\tib.RTS: {false, 0, aCurState | aQKey | aCap},",
		breaks: "Q16", sim: "state", profile: "errors",
	},
	{
		name: "receives-not-flushed", file: "internal/qp/state.go",
		old: "q.flushSend(now)\n\tq.flushRecv(now)", new: "q.flushSend(now)",
		breaks: "Q19", sim: "flush", profile: "errors",
	},
	{
		name: "sends-not-flushed", file: "internal/qp/state.go",
		old: "q.flushSend(now)\n\tq.flushRecv(now)", new: "q.flushRecv(now)",
		breaks: "Q19", sim: "flush", profile: "errors",
	},
	{
		name: "flushed-before-the-failed-request-completes", file: "internal/qp/state.go",
		old:    "q.completeSend(now, status)\n\tif q.State() == ib.ERR {",
		new:    "if q.typ == ib.RC {\n\t\tq.fatal(now, cause)\n\t}\n\tq.completeSend(now, status)\n\tif q.State() == ib.ERR {",
		breaks: "Q19", sim: "completion order status state", profile: "errors",
	},
	{
		name: "posted-in-err-not-flushed", file: "internal/qp/qp.go",
		old: "if b.postSend == postFlush {", new: "if b.postSend == postFlush && q.typ != ib.RC {",
		breaks: "Q19",
	},
	{
		name: "nothing-taken-from-a-shared-queue-flushed", file: "internal/qp/flush.go",
		old: "if q.resp.recv.taken {\n\t\tq.completeRecv(now, &ib.WC{Status: ib.WCWRFlushErr}, false)", new: "if q.resp.recv.taken && q.srq == nil {\n\t\tq.completeRecv(now, &ib.WC{Status: ib.WCWRFlushErr}, false)",
		breaks: "Q19",
	},
	{
		name: "no-qp-fatal", file: "internal/qp/state.go",
		old: "q.raise(ib.EventQPFatal)", new: "",
		breaks: "Q18 E29", sim: "event", profile: "errors",
	},
	{
		name: "no-last-wqe-reached", file: "internal/qp/state.go",
		old: "if q.srq != nil {\n\t\tq.raise(ib.EventQPLastWQEReached)\n\t}", new: "",
		breaks: "E29", sim: "event", profile: "lifecycle",
	},
	{
		name: "requests-stay-after-reset", file: "internal/ring/ring.go",
		old: "r.cons.Store(r.prod.Load())", new: "",
		breaks: "Q5", sim: "post completion", profile: "lifecycle",
	},
	{
		name: "completions-stay-after-reset", file: "internal/qp/state.go",
		old: "q.sendCQ.remove(q.num)\n", new: "\n",
		breaks: "Q5", sim: "poll", profile: "lifecycle",
	},
	{
		name: "timers-run-after-reset", file: "internal/qp/state.go",
		old: "func (q *QP) clear() {\n\tq.timers.stopAll()", new: "func (q *QP) clear() {",
		breaks: "Q5",
	},
	{
		name: "moves-not-traced", file: "internal/qp/state.go",
		old: "q.record(trace.Record{Kind: trace.State,", new: "_ = (trace.Record{Kind: trace.State,",
		breaks: "Q1", sim: "state counters", profile: "clean",
	},
}

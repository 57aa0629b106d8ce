// Package live checks a Go program while it uses the verbs: it finds the bugs of package findings in the
// calls of the program, as the library in C does (capi/libibverbs/check.h) for programs in C.
//
// Package verbs calls a Checker, one for each adapter, at its verbs. Every method may be called on nil,
// which checks nothing. A call only notes what it finds; Tell, which verbs calls at the end of a verb,
// when no lock is held, reports it. Where the checker cannot be sure, it says nothing.
//
// Reading order: sink.go (what is reported, and once), stack.go, checker.go, object.go, region.go,
// request.go (the requests of a queue), post.go, full.go (posts to full queues), poll.go, setting.go.
package live

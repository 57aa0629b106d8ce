//go:build mutation

package mutation

import "slices"

// coalesceMutants are bugs of posts that wait for others to leave with.
var coalesceMutants = slices.Concat(
	bugsIn("internal/driver", []mutant{
		{name: "post-waits-though-nothing-is-in-flight", in: "coalescer.posted", test: "TestPostsLeaveWithThePoll",
			old: "!work.Behind",
			new: "false"},
		{name: "posts-wait-without-end", in: "coalescer.posted", test: "TestOverduePosts",
			old: "now.Sub($c.since) >= coalesceTime",
			new: "false"},
		{name: "overdue-posts-left-by-the-goroutine", in: "turn", test: "TestOverduePosts",
			old: "$d.sendWaiting(coalesceTime)"},
		{name: "posts-wait-while-their-program-sleeps", in: "Armed", test: "TestPostsDoNotOutlast",
			old: "$d.sendWaiting(0)"},
		{name: "posts-wait-of-who-polls-late", in: "coalescer.polled", test: "TestCoalescer",
			old: "now.Sub($c.last) > coalesceTime",
			new: "false"},
		{name: "posts-wait-of-who-posts-one-at-a-time", in: "coalescer.polled", test: "TestCoalescer",
			old: "$c.posts == 1",
			new: "false"},
		{name: "posts-wait-while-nobody-polls", in: "pollers.attended", test: "TestGuests",
			old: "asideFlag|lentToSleeperFlag|sleeperFlag",
			new: "asideFlag"},
		{name: "who-posts-taken-for-away", in: "Post", test: "TestWhoPostsIsThere",
			old: "$d.pollers.latest.Store(int64($n))"},
		{name: "posts-without-a-doorbell-forgotten", in: "suppressed.end", test: "TestSparedPostsInError",
			old: "$s.Doorbell(now, $q)",
			new: "_ = $s"},
		{name: "posts-without-a-doorbell-not-counted", in: "coalescer.polled", test: "TestSparedPostsPay",
			old: "$c.posts += $c.suppressed.posted()"},
		{name: "posts-wait-while-a-verb-is-called", in: "sendOwed", test: "TestPostsDoNotOutlast",
			old: "$d.shard.Owes() || $d.coalesce.waiting.Load()",
			new: "false"},
	}),
	bugsIn("internal/ring", []mutant{
		{name: "acknowledged-requests-taken-for-in-flight", in: "Ring.Idle", test: "internal/qp TestPosted",
			old: "i == $r.hdr.Cons.Load()",
			new: "false"},
		{name: "doorbells-suppressed-for-ever", in: "Header.WantDoorbell", test: "internal/driver TestSparedIsBounded",
			old: "$h.Flags.And(^FlagSuppressed)"},
	}),
)

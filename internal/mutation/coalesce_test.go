//go:build mutation

package mutation

// coalesceMutants are bugs of posts that wait for others to leave with.
var coalesceMutants = []mutant{
	{
		name: "post-waits-though-nothing-is-in-flight", in: "internal/driver.coalescer.posted",
		old:  "!work.Behind",
		new:  "false",
		test: "internal/driver TestPostsLeaveWithThePoll",
	},
	{
		name: "posts-wait-without-end", in: "internal/driver.coalescer.posted",
		old:  "now.Sub($c.since) >= coalesceTime",
		new:  "false",
		test: "internal/driver TestOverduePosts",
	},
	{
		name: "overdue-posts-left-by-the-goroutine", in: "internal/driver.turn",
		old:  "$d.sendWaiting(coalesceTime)",
		new:  "",
		test: "internal/driver TestOverduePosts",
	},
	{
		name: "posts-wait-while-their-program-sleeps", in: "internal/driver.Armed",
		old:  "$d.sendWaiting(0)",
		new:  "",
		test: "internal/driver TestPostsDoNotOutlast",
	},
	{
		name: "posts-wait-of-who-polls-late", in: "internal/driver.coalescer.polled",
		old:  "now.Sub($c.last) > coalesceTime",
		new:  "false",
		test: "internal/driver TestCoalescer",
	},
	{
		name: "posts-wait-of-who-posts-one-at-a-time", in: "internal/driver.coalescer.polled",
		old:  "$c.posts == 1",
		new:  "false",
		test: "internal/driver TestCoalescer",
	},
	{
		name: "posts-wait-while-nobody-polls", in: "internal/driver.pollers.attended",
		old:  "asideFlag|lentFlag|guestFlag",
		new:  "asideFlag",
		test: "internal/driver TestGuests",
	},
	{
		name: "who-posts-taken-for-away", in: "internal/driver.Post",
		old:  "$d.pollers.latest.Store(int64($n))",
		new:  "",
		test: "internal/driver TestWhoPostsIsThere",
	},
	{
		name: "acknowledged-requests-taken-for-in-flight", in: "internal/ring.Ring.Idle",
		old:  "i == $r.hdr.Cons.Load()",
		new:  "false",
		test: "internal/qp TestPosted",
	},
	{
		name: "doorbells-spared-for-ever", in: "internal/ring.Header.WantDoorbell",
		old:  "$h.Flags.And(^FlagSpare)",
		new:  "",
		test: "internal/driver TestSparedIsBounded",
	},
	{
		name: "posts-without-a-doorbell-forgotten", in: "internal/driver.spared.end",
		old:  "$s.Doorbell(now, $q)",
		new:  "_ = $s",
		test: "internal/driver TestSparedPostsInError",
	},
	{
		name: "posts-without-a-doorbell-not-counted", in: "internal/driver.coalescer.polled",
		old:  "$c.posts += $c.spared.posted()",
		new:  "",
		test: "internal/driver TestSparedPostsPay",
	},
	{
		name: "posts-wait-while-a-verb-is-called", in: "internal/driver.Do",
		old:  "$d.shard.Owes() || $d.coalesce.waiting.Load()",
		new:  "false",
		test: "internal/driver TestPostsDoNotOutlast",
	},
}

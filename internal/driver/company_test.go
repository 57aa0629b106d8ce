package driver

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric/pipe"
	"github.com/softhca/softhca/internal/qp"
)

// visitor is a thread of a program in C. What it used so far is what the test sets.
type visitor struct {
	Sleeper
	used      Usage
	elsewhere []time.Duration // the limits of its sleeps away from the port
	woken     bool            // how these end
	awake     bool
}

func newVisitor(key uintptr) *visitor {
	v := new(visitor)
	v.Sleeper = Sleeper{
		Awake: func() bool { return v.awake }, FDs: none, Limit: -1, Key: key, Yield: runtime.Gosched,
		Usage: func() Usage { return v.used },
		Elsewhere: func(left time.Duration) bool {
			v.elsewhere = append(v.elsewhere, left)
			return v.woken
		},
	}
	return v
}

// TestBriefPrograms shows when threads leave the port to each other: while their programs run
// briefly between two sleeps, and not if one computes, blocks, or does not come back.
func TestBriefPrograms(t *testing.T) {
	for _, c := range []struct {
		why   string
		runs  Usage // of each period
		brief bool
	}{
		{"short", Usage{Processor: briefTime - 1}, true},
		{"long", Usage{Processor: briefTime}, false},
		{"blocking", Usage{Blocked: 1}, false},
	} {
		var all company
		now, a, b := clock.Instant(0), newVisitor(1), newVisitor(2)
		for range mostBrief + 1 {
			for _, v := range []*visitor{a, b} {
				all.back(&v.Sleeper)
				all.left(&v.Sleeper, now)
				v.used.Processor += c.runs.Processor
				v.used.Blocked += c.runs.Blocked
			}
		}
		all.back(&b.Sleeper)
		if got := all.expects(&b.Sleeper, now); got != c.brief {
			t.Errorf("%s: a thread leaves the port to another that runs its program: %v", c.why, got)
		}
		if all.comes() {
			t.Errorf("%s: a thread leaves the port although no other sleeps", c.why)
		}
		all.elsewhere.Add(1)
		if got := all.comes(); got != c.brief {
			t.Errorf("%s: a thread leaves the port to those that it has woken: %v", c.why, got)
		}
		if all.expects(&a.Sleeper, now) {
			t.Errorf("%s: a thread waits for itself", c.why)
		}
		all.read.Store(int64(now.Add(companyTime)))
		if all.expects(&b.Sleeper, now.Add(companyTime)) {
			t.Errorf("%s: a thread waits for one that has been away for long", c.why)
		}
		if all.judge(true); all.brief() != c.brief {
			t.Errorf("%s: that one came in time changes it", c.why)
		}
		if all.judge(false); all.brief() {
			t.Errorf("%s: threads leave the port to one that has not come", c.why)
		}
	}
}

// TestOneThreadIsNotMeasured shows that a program with one thread pays for no measurements.
func TestOneThreadIsNotMeasured(t *testing.T) {
	var all company
	v, measured := newVisitor(1), 0
	v.Usage = func() Usage { measured++; return Usage{} }
	for now := clock.Instant(0); now < 100; now++ {
		all.back(&v.Sleeper)
		all.left(&v.Sleeper, now)
	}
	if measured > 0 {
		t.Errorf("%d measurements of a program with one thread", measured)
	}
}

// TestManyThreadsRun has more threads run their programs than are remembered, some for ever.
func TestManyThreadsRun(t *testing.T) {
	var all company
	all.score.Store(mostBrief)
	all.read.Store(int64(clock.Instant(0).Add(companyTime)))
	for key := range uintptr(4 * absentees) {
		all.left(&newVisitor(16*(key+1)).Sleeper, 0)
	}
	v, w, x := newVisitor(3), newVisitor(5), newVisitor(7)
	late := clock.Instant(0).Add(companyTime)
	if all.expects(&v.Sleeper, late) {
		t.Error("a thread waits for those that never come back")
	}
	all.left(&w.Sleeper, late)
	all.left(&x.Sleeper, late)
	all.back(&x.Sleeper)
	if !all.expects(&v.Sleeper, late) {
		t.Error("a thread is forgotten for those that never come back")
	}
	all.back(&w.Sleeper)
	if all.expects(&v.Sleeper, late) {
		t.Error("a thread waits for one that has come back")
	}
}

// TestPortIsLeftToOthers shows that a thread that goes to sleep while another runs its program sends
// what waits and sleeps elsewhere, and takes the port if that other one does not come in time.
func TestPortIsLeftToOthers(t *testing.T) {
	n := pipe.NewNetwork(pipe.Options{})
	a, b := newStillSide(t, n, 1), newStillSide(t, n, 2)
	a.connect(t, b, 0, 7)
	b.connect(t, a, 0, 7)
	d := a.drv
	d.pollers.state.Store(asideFlag | lentToSleeperFlag)
	d.company.score.Store(mostBrief)
	d.company.read.Store(int64(d.Now().Add(time.Hour)))
	other, v := newVisitor(1), newVisitor(2)
	d.company.left(&other.Sleeper, d.Now().Add(time.Hour)) // so it is not away for long
	a.locked(func() { d.coalesce.sleeping.score = mostCoalesce })
	a.post(t, b, 64)
	d.Post(a.qp, qp.Posted{Requests: 1, Bytes: 64})
	if before := a.port.Stats().SentPackets; before != 0 {
		t.Fatalf("a post of a thread that will sleep does not wait: %d packets", before)
	}
	v.woken = true
	d.SleepOn(&v.Sleeper)
	if sent := a.port.Stats().SentPackets; sent != 1 {
		t.Errorf("a thread that sleeps elsewhere has sent %d packets, want the waiting one", sent)
	}
	if !slices.Equal(v.elsewhere, []time.Duration{companyTime}) || d.pollers.hasSleeper() {
		t.Errorf("it slept elsewhere for %v, want %v", v.elsewhere, companyTime)
	}
	if d.pollers.state.Load()&cameFlag == 0 {
		t.Error("the goroutine does not know that threads come")
	}
	if !d.company.brief() {
		t.Error("an event of its own ends that threads leave the port to others")
	}

	v.woken, v.elsewhere = false, nil
	d.company.left(&other.Sleeper, d.Now().Add(time.Hour)) // so it is not away for long
	reads := func() { v.awake = d.pollers.hasSleeper() }
	a.port.onRecv.Store(&reads)
	d.first.Wake()
	d.SleepOn(&v.Sleeper)
	if !v.awake || len(v.elsewhere) != 1 {
		t.Errorf("nobody comes: it slept elsewhere %d times and came to the port: %v", len(v.elsewhere), v.awake)
	}
	if d.company.brief() {
		t.Error("nobody has come, and threads leave the port to others")
	}
}

// TestPortIsLeftToWoken shows that a thread at the port, which has read what wakes another, leaves
// the port to that one, and comes back if it does not.
func TestPortIsLeftToWoken(t *testing.T) {
	a := newStillSide(t, pipe.NewNetwork(pipe.Options{}), 1)
	d := a.drv
	d.pollers.state.Store(asideFlag | lentToSleeperFlag)
	d.company.score.Store(mostBrief)
	d.company.elsewhere.Store(1)
	v, reads := newVisitor(2), 0
	arrives := func() {
		d.Woke() // another program
		d.first.Wake()
		if reads++; reads > 1 {
			v.awake = true
		}
	}
	a.port.onRecv.Store(&arrives)
	d.first.Wake()
	d.SleepOn(&v.Sleeper)
	if reads != 2 || !slices.Equal(v.elsewhere, []time.Duration{companyTime}) {
		t.Errorf("it read %d times, and slept elsewhere for %v", reads, v.elsewhere)
	}
	if d.company.brief() {
		t.Error("nobody has come, and threads leave the port to others")
	}
}

// TestUnreadPortIsTaken shows that threads whose sleeps other descriptors end do not leave the port to
// each other for ever.
func TestUnreadPortIsTaken(t *testing.T) {
	var all company
	all.score.Store(mostBrief)
	v, w := newVisitor(1), newVisitor(2)
	late := clock.Instant(0).Add(companyTime)
	all.left(&w.Sleeper, late)
	if all.expects(&v.Sleeper, late) {
		t.Error("a thread leaves a port that nobody has read for long")
	}
	all.read.Store(1)
	if !all.expects(&v.Sleeper, late) {
		t.Error("a thread takes a port that another has just read")
	}
}

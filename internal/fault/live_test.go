package fault

import (
	"slices"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/roce"
)

// live returns one rule at work.
func live(t *testing.T, text string, seed uint64) *Live {
	t.Helper()
	rules, err := Parse(text)
	if err != nil || len(rules) != 1 {
		t.Fatalf("%q: %d rules, %v", text, len(rules), err)
	}
	return NewLive(rules[0], seed, 0)
}

// acts returns which of n packets, a millisecond apart, the rule acts on,
// counted from 1.
func acts(l *Live, n int) (on []int) {
	s := Subject{Dir: Out, Op: roce.RCSendOnly, Readable: true}
	for i := 1; i <= n; i++ {
		if l.Fires(clock.Instant(time.Duration(i)*time.Millisecond), &s) {
			l.Applied()
			on = append(on, i)
		}
	}
	return on
}

func TestWhichMatch(t *testing.T) {
	for _, c := range []struct {
		rule string
		want []int
	}{
		{"drop", []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
		{"drop nth=3", []int{3}},
		{"drop every=4", []int{4, 8}},
		{"drop nth=3 every=4", []int{3, 7}},
		{"drop nth=5 every=4", []int{5, 9}},
		{"drop count=2", []int{1, 2}},
		{"drop every=3 count=2", []int{3, 6}},
		{"drop after=4ms for=3ms", []int{4, 5, 6}},
		{"drop after=4ms nth=2", []int{5}},
		{"drop after=9ms", []int{9, 10}},
		{"drop for=2ms", []int{1}},
		{"drop p=0", nil},
		{"drop p=1 nth=2", []int{2}},
		{"drop dir=in", nil},
		{"drop op=RDMA_WRITE", nil},
		{"drop op=SEND nth=1", []int{1}},
		{"drop op=RC_SEND_ONLY,ACK nth=10", []int{10}},
		{"drop op=UC_SEND_ONLY", nil},
	} {
		if got := acts(live(t, c.rule, 1), 10); !slices.Equal(got, c.want) {
			t.Errorf("%s acts on %v of 10, want %v", c.rule, got, c.want)
		}
	}
}

// TestSeedRepeats shows that a seed, and nothing else, decides what p= draws.
func TestSeedRepeats(t *testing.T) {
	one, two, other := acts(live(t, "drop p=0.1", 7), 2000), acts(live(t, "drop p=0.1", 7), 2000), acts(live(t, "drop p=0.1", 8), 2000)
	if !slices.Equal(one, two) {
		t.Error("the same seed chose otherwise")
	}
	if slices.Equal(one, other) {
		t.Error("another seed chose the same")
	}
	if n := len(one); n < 150 || n > 250 {
		t.Errorf("p=0.1 chose %d of 2000", n)
	}
	rules, _ := Parse("drop p=0.1")
	if slices.Equal(one, acts(NewLive(rules[0], 7, 1), 2000)) {
		t.Error("two rules with one seed draw the same numbers")
	}
}

// TestDefaults: without dir= packets on the way out, with op= both ways; what
// moves or raises something does it once.
func TestDefaults(t *testing.T) {
	for rule, want := range map[string]Direction{
		"drop": Out, "drop dir=both": Both, "delay 5ms op=ACK": Both, "delay 5ms op=ACK dir=in": In, "partition": Both, "partition dir=in": In,
	} {
		if got := live(t, rule, 1).Dir(); got != want {
			t.Errorf("%s acts on the ways %b, want %b", rule, got, want)
		}
	}
	for rule, want := range map[string]int{
		"qp to=ERR": 1, "event CQ_ERR": 1, "fillcq": 1, "event CQ_ERR every=1": 4, "fail op=PostSend": 4, "fail op=PostRecv": 0, "qp to=ERR qpn=9": 0, "qp to=ERR qpn=5 nth=2": 1,
	} {
		l, got := live(t, rule, 1), 0
		for range 4 {
			if l.Fires(0, &Subject{Call: "PostSend", QPN: 5}) {
				got++
			}
		}
		if got != want {
			t.Errorf("%s acts at %d of 4 calls, want %d", rule, got, want)
		}
	}
	for rule, want := range map[string]bool{
		"event PORT_ERR after=1s": true, "event PORT_ERR after=1s nth=2": false, "event PORT_ERR": false, "fail op=RegMR after=1s": false, "qp to=ERR after=1s qpn=3": true,
	} {
		if got := live(t, rule, 1).Timed(); got != want {
			t.Errorf("%s acts by itself: %t", rule, got)
		}
	}
}

// TestAnswers tells acknowledges apart by their syndromes.
func TestAnswers(t *testing.T) {
	for rule, want := range map[string][3]bool{ // ACK, sequence NAK, RNR NAK
		"drop op=ACK": {true, true, true}, "drop op=NAK": {false, true, true}, "drop op=RNR_NAK": {false, false, true},
		"drop op=RNR_NAK,NAK": {false, true, true}, "drop op=NAK,ACK": {true, true, true}, "drop op=SEND,NAK": {false, true, true},
	} {
		for i, y := range [...]roce.Syndrome{roce.ACKUnlimited, roce.NAKSequence, roce.RNRNAK(3)} {
			s := Subject{Dir: In, Op: roce.RCAcknowledge, Syndrome: y, Readable: true}
			if got := live(t, rule, 1).Fires(0, &s); got != want[i] {
				t.Errorf("%s acts on %v: %t", rule, y, got)
			}
		}
	}
}

package top

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/observe"
)

// at returns an adapter, read some seconds after the beginning, with queue pairs that sent some
// numbers of messages of 1000 bytes.
func at(seconds float64, sent ...uint64) *observe.Adapter {
	a := &observe.Adapter{Path: "table", Running: true, Name: "softhca0", Command: "program", PID: 7, Started: time.Unix(5, 0), At: time.Unix(1000, 0).Add(time.Duration(seconds * 1e9))}
	for i, n := range sent {
		q := observe.QP{Num: ib.QPN(17 + i), Type: ib.RC, State: ib.RTS}
		q.SentMessages, q.SentBytes, q.SentPackets = n, 1000*n, n
		a.QPs = append(a.QPs, q)
	}
	return a
}

// see shows an adapter to a model.
func see(m *Model, a *observe.Adapter) *adapter {
	m.Update([]*observe.Adapter{a}, a.At)
	return m.adapters[0]
}

// TestW1_TopRates follows the rates of queue pairs that live, are replaced, and end.
func TestW1_TopRates(t *testing.T) {
	m := NewModel()
	if a := see(m, at(0, 1000)); a.known || a.connections[0].known || m.total.known {
		t.Error("the first read has rates")
	}
	a := see(m, at(2, 1500))
	if c := &a.connections[0]; !c.known || c.change.SentRate() != 250 || c.change.SentBits() != 2e6 || m.total.sentBits != 2e6 || m.total.mostSentBits != 2e6 {
		t.Errorf("500 messages in 2 s are %v messages/s and %v b/s", c.change.SentRate(), c.change.SentBits())
	}
	a = see(m, at(3, 30))
	if c := &a.connections[0]; c.change.SentRate() != 30 {
		t.Errorf("30 messages of a queue pair that replaced another are %v messages/s", c.change.SentRate())
	}
	a = see(m, at(4, 30, 70))
	if a.connections[0].change.SentRate() != 0 || a.connections[1].change.SentRate() != 70 || a.sentMessages != 70 {
		t.Errorf("a new queue pair has %v messages/s, the adapter %v; want 70", a.connections[1].change.SentRate(), a.sentMessages)
	}
	see(m, at(5))
	if n := len(m.tracks["table"].qps); n != 0 {
		t.Errorf("%d queue pairs that are gone are kept", n)
	}
	if a = see(m, at(5, 100)); a.known {
		t.Error("there are rates without time between the reads")
	}
	again := at(6, 200)
	again.PID = 8
	if a = see(m, again); a.known || a.connections[0].known {
		t.Error("another process continues the counters of the one before")
	}
	m.Update(nil, time.Unix(2000, 0))
	if len(m.tracks) != 0 || len(m.adapters) != 0 {
		t.Error("an adapter that is gone is kept")
	}
}

// TestW1_TopEEContexts keeps an EE context and a queue pair of the same number apart.
func TestW1_TopEEContexts(t *testing.T) {
	m := NewModel()
	both := func(seconds float64, eec, qp uint64) *observe.Adapter {
		a := at(seconds, eec, qp)
		a.QPs[0].Num, a.QPs[0].Type = a.QPs[1].Num, ib.EEC
		return a
	}
	see(m, both(0, 10, 1000))
	a := see(m, both(1, 15, 1007))
	if a.connections[0].change.SentMessages != 5 || a.connections[1].change.SentMessages != 7 {
		t.Errorf("%d and %d messages, want 5 and 7", a.connections[0].change.SentMessages, a.connections[1].change.SentMessages)
	}
}

// TestW1_TopHistory compares histories with the rates of which they are made.
func TestW1_TopHistory(t *testing.T) {
	var h history
	if got := h.last(4); slices.Max(got) != 0 {
		t.Errorf("nothing is %v", got)
	}
	start := time.Unix(1000, 0)
	for i := range 300 { // 75 s, four times a second; the last 30 at a rate of 8
		rate := 4.0
		if i >= 180 {
			rate = 8
		}
		from := start.Add(time.Duration(i) * 250 * time.Millisecond)
		h.add(from, from.Add(250*time.Millisecond), rate)
	}
	if got := h.last(4); !slices.Equal(got, []float64{4, 4, 8, 8}) {
		t.Errorf("four quarters of a minute are %v", got)
	}
	from := start.Add(75 * time.Second)
	h.add(from, from.Add(30*time.Second), 1)
	if got := h.last(2); !slices.Equal(got, []float64{8, 1}) {
		t.Errorf("after an interval of 30 s the halves of the minute are %v", got)
	}
	h.add(from.Add(time.Hour), from.Add(time.Hour+time.Second), 3)
	if got := h.last(60); got[59] != 3 || got[0] != 0 {
		t.Errorf("after an hour the minute is %v", got)
	}
	if got := sparkline([]float64{0, 1, 4, 8}); got != " ▁▄█" {
		t.Errorf("the sparkline is %q", got)
	}
}

// TestW1_TopSortIsStable sorts equal rows by every column: they keep their order, in both directions.
func TestW1_TopSortIsStable(t *testing.T) {
	m := NewModel()
	a := at(0, 5, 5, 5, 5, 5)
	m.Update([]*observe.Adapter{a}, a.At)
	v := views()[viewConnections]
	for i, c := range v.columns {
		for _, inverted := range []bool{false, true} {
			var got []ib.QPN
			for _, r := range v.arrange(m, order{i, inverted}, "") {
				got = append(got, r.c.Num)
			}
			want := []ib.QPN{17, 18, 19, 20, 21}
			if c.name == "qpn" && inverted {
				slices.Reverse(want)
			}
			if !slices.Equal(got, want) {
				t.Errorf("by %s, inverted %v: %v, want %v", c.name, inverted, got, want)
			}
		}
	}
	a = at(1, 10, 60, 30, 60, 10)
	m.Update([]*observe.Adapter{a}, a.At)
	var got []ib.QPN
	for _, r := range v.arrange(m, order{v.column("sent-rate"), false}, "") {
		got = append(got, r.c.Num)
	}
	if want := []ib.QPN{18, 20, 19, 17, 21}; !slices.Equal(got, want) {
		t.Errorf("by rate: %v, want %v", got, want)
	}
}

// TestW1_TopFilter filters rows by words of the adapter and of the connection.
func TestW1_TopFilter(t *testing.T) {
	m := NewModel()
	a := at(0, 1, 2, 3)
	a.QPs[1].State = ib.ERR
	m.Update([]*observe.Adapter{a}, a.At)
	v := views()[viewConnections]
	for words, want := range map[string]int{"": 3, "SOFTHCA0": 3, "err": 1, "program 0x000012": 1, "rts 0x000012": 0, "running": 3, "dead": 0, " rc  7 ": 3} {
		if got := v.arrange(m, order{}, words); len(got) != want {
			t.Errorf("%q matches %d rows, want %d", words, len(got), want)
		}
	}
}

// TestW1_TopSelectionFollows keeps an object selected while the rows change their order.
func TestW1_TopSelectionFollows(t *testing.T) {
	u := NewUI(Options{Sort: "sent-rate", Interval: time.Second})
	u.Resize(80, 10) // 3 rows
	selected := func() ib.QPN { return u.table().rows[u.table().selected].c.Num }
	show := func(a *observe.Adapter) { u.Update([]*observe.Adapter{a}, a.At, nil) }
	show(at(0, 0, 0, 0, 0))
	show(at(1, 4, 3, 2, 1))
	u.Key(Key{Code: KeyDown})
	if selected() != 18 {
		t.Fatalf("%v is selected", selected())
	}
	show(at(2, 104, 4, 202, 301))
	if selected() != 18 || u.table().selected != 3 || u.table().top != 1 {
		t.Errorf("%v is selected, row %d from %d on; want 18, row 3 from 1 on", selected(), u.table().selected, u.table().top)
	}
	show(at(3))
	u.Draw()
	if u.table().selected != 0 {
		t.Errorf("without rows, row %d is selected", u.table().selected)
	}
}

// TestW1_TopNumbers has numbers fit their columns.
func TestW1_TopNumbers(t *testing.T) {
	for _, n := range []uint64{0, 1, 999, 9999, 10000, 99999, 100000, 999499, 999500, 1e6, 123456789, 1e12, math.MaxUint64} {
		for _, s := range []string{count(n), size(n), perSecond(float64(n)), perSecond(float64(n) / 1000), gigabits(float64(n)), nanoseconds(n)} {
			if len([]rune(s)) > 6 {
				t.Errorf("%d is %q", n, s)
			}
		}
	}
	for _, c := range [][2]string{
		{count(123456789), "123M"}, {count(99999), "99999"}, {size(1 << 20), "1.00M"}, {size(4096), "4096"}, {perSecond(0.5), "0.50"}, {perSecond(1234567), "1.23M"},
		{gigabits(12.345e9), "12.35"}, {gigabits(1e5), "<0.001"}, {nanoseconds(23456), "23.5µs"}, {nanoseconds(1234), "1.2µs"}, {nanoseconds(0), "-"}, {nanoseconds(math.MaxUint64), "?"},
	} {
		if c[0] != c[1] {
			t.Errorf("%q, want %q", c[0], c[1])
		}
	}
}

// TestW1_TopInput types, deletes and bounds a filter.
func TestW1_TopInput(t *testing.T) {
	u := NewUI(Options{Interval: time.Second})
	u.Resize(80, 24)
	for _, r := range "\\" + strings.Repeat("x", 3*maxInput) + "\x1b\u202e" {
		u.Key(Key{KeyRune, r})
	}
	if u.filter != strings.Repeat("x", maxInput) {
		t.Errorf("the filter is %q", u.filter)
	}
	for range maxInput - 1 {
		u.Key(Key{Code: KeyBackspace})
	}
	if u.filter != "x" {
		t.Errorf("the filter is %q", u.filter)
	}
	u.Key(Key{Code: KeyEscape})
	if u.filter != "" || u.mode != modeTable {
		t.Errorf("after Esc the filter is %q", u.filter)
	}
	for _, k := range "+++++++++++" {
		u.Key(Key{KeyRune, k})
	}
	if u.Interval() != time.Minute {
		t.Errorf("the longest interval is %v", u.Interval())
	}
	for range 20 {
		u.Key(Key{KeyRune, '-'})
	}
	if u.Interval() != 100*time.Millisecond {
		t.Errorf("the shortest interval is %v", u.Interval())
	}
}

// TestW1_TopLocale reads from variables whether the terminal shows UTF-8.
func TestW1_TopLocale(t *testing.T) {
	for vars, want := range map[string]bool{
		"": true, "LANG=en_US.UTF-8": true, "LANG=C": false, "LANG=POSIX": false, "LANG=C.UTF-8": true, "LANG=C.utf8": true, "LANG=de_DE.ISO-8859-1@euro": false,
		"LANG=de_DE": true, "LC_ALL=C LANG=en_US.UTF-8": false, "LC_CTYPE=C.UTF-8 LANG=C": true, "LC_ALL=C.UTF-8 LC_CTYPE=C": true,
	} {
		env := map[string]string{}
		for _, v := range strings.Fields(vars) {
			name, value, _ := strings.Cut(v, "=")
			env[name] = value
		}
		if got := UTF8(func(name string) string { return env[name] }); got != want {
			t.Errorf("%q: UTF-8 is %v", vars, got)
		}
	}
}

// TestW1_TopViews has a rank, a name and a title of its own for each column.
func TestW1_TopViews(t *testing.T) {
	for _, v := range views() {
		seen := map[string]bool{}
		for _, c := range v.columns {
			for _, id := range []string{"name " + c.name, "title " + c.title, fmt.Sprint("rank ", c.rank)} {
				if seen[id] || c.rank == 0 {
					t.Errorf("%s: two columns have the %s", v.name, id)
				}
				seen[id] = true
			}
		}
		if v.column(v.sorted) < 0 {
			t.Errorf("%s is sorted by %s, which is no column", v.name, v.sorted)
		}
	}
	if len(styleLetters) != int(numStyles) {
		t.Error("a style has no letter")
	}
}

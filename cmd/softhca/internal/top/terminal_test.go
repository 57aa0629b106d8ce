package top

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/observe"
)

// screen is a simulated screen that knows whether it was closed.
type screen struct {
	tcell.SimulationScreen
	closed bool
}

func newScreen(t *testing.T) *screen {
	t.Helper()
	s := &screen{SimulationScreen: tcell.NewSimulationScreen("UTF-8")}
	must.Do(t, s.Init())
	s.SetSize(120, 30)
	return s
}

// Fini implements tcell.Screen.
func (s *screen) Fini() {
	s.closed = true
	s.SimulationScreen.Fini()
}

// text returns what the screen shows.
func (s *screen) text() string {
	cells, width, _ := s.GetContents()
	var b strings.Builder
	for i, c := range cells {
		b.WriteString(string(c.Runes))
		if i%width == width-1 {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// two reads an adapter with two queue pairs.
func two() ([]*observe.Adapter, error) { return []*observe.Adapter{at(0, 1, 2)}, nil }

// TestW1_TopKeys presses keys at a screen and looks at what it shows.
func TestW1_TopKeys(t *testing.T) {
	s := newScreen(t)
	defer s.Fini()
	reads := 0
	m := &terminal{screen: s, ui: NewUI(Options{Interval: time.Second, UTF8: true}), styles: styles(true), tick: time.NewTicker(time.Hour), read: func() ([]*observe.Adapter, error) {
		reads++
		return two()
	}}
	m.update()
	for _, c := range []struct {
		key  tcell.Key
		r    rune
		want string
		not  string
	}{
		{tcell.KeyF1, 0, "Columns of connections", "0x000011"},
		{tcell.KeyEscape, 0, "0x000011", "Columns of connections"},
		{tcell.KeyRune, 'h', "this help", ""},
		{tcell.KeyRune, '?', "0x000011", "this help"},
		{tcell.KeyTab, 0, "DROPPED", "0x000011"},
		{tcell.KeyBacktab, 0, "0x000011", "DROPPED"},
		{tcell.KeyRune, '5', "no memory regions", ""},
		{tcell.KeyRune, '1', "0x000012", ""},
		{tcell.KeyEnter, 0, "this end", "LAST ERROR"},
		{tcell.KeyEscape, 0, "LAST ERROR", "this end"},
		{tcell.KeyF6, 0, "Sort by", ""},
		{tcell.KeyHome, 0, "Sort by", ""},
		{tcell.KeyEnter, 0, "0x000011", "Sort by"},
		{tcell.KeyF4, 0, "Filter: _", ""},
		{tcell.KeyRune, '1', "Filter: 1_", ""},
		{tcell.KeyRune, '2', "0x000012", "0x000011"},
		{tcell.KeyEnter, 0, "filter: 12 (1 row)", ""},
		{tcell.KeyEscape, 0, "0x000011", "filter: 12"},
		{tcell.KeyRune, '/', "Search: _", ""},
		{tcell.KeyRune, 'z', "nothing matches z", ""},
		{tcell.KeyBackspace2, 0, "Search: _", "nothing matches"},
		{tcell.KeyEscape, 0, "F1 Help", "Search:"},
		{tcell.KeyRune, ' ', "PAUSED", "every 1s"},
		{tcell.KeyRune, ' ', "every 1s", "PAUSED"},
		{tcell.KeyRune, '+', "every 2s", ""},
		{tcell.KeyRune, '-', "every 1s", ""},
	} {
		quit, err := m.key(tcell.NewEventKey(c.key, c.r, tcell.ModNone))
		m.draw()
		if out := s.text(); quit || err != nil || !strings.Contains(out, c.want) || c.not != "" && strings.Contains(out, c.not) {
			t.Fatalf("after %v %q: quit %v, %v, want %q and not %q:\n%s", c.key, c.r, quit, err, c.want, c.not, out)
		}
	}
	if reads != 2 {
		t.Errorf("%d reads, want one at first and one after the pause", reads)
	}
	for _, k := range []*tcell.EventKey{tcell.NewEventKey(tcell.KeyRune, 'q', 0), tcell.NewEventKey(tcell.KeyF10, 0, 0), tcell.NewEventKey(tcell.KeyCtrlC, 0, 0)} {
		if quit, err := m.key(k); !quit || err != nil {
			t.Errorf("%v does not quit, %v", k.Name(), err)
		}
	}
}

// TestW1_TopSort chooses the column by < and >, inverts and moves.
func TestW1_TopSort(t *testing.T) {
	u := NewUI(Options{Interval: time.Second, Sort: "qpn"})
	u.Resize(80, 24)
	all, _ := two()
	u.Update(all, begin0(), nil)
	first := func() string { return u.table().rows[0].c.Num.String() }
	for _, c := range []struct {
		key  rune
		want string
		by   string
	}{{'I', "0x000012", "qpn"}, {'I', "0x000011", "qpn"}, {'>', "0x000011", "type"}, {'<', "0x000011", "qpn"}} {
		u.Key(Key{KeyRune, c.key})
		if by := u.table().columns[u.table().order.column].name; first() != c.want || by != c.by {
			t.Errorf("after %c the first is %s by %s, want %s by %s", c.key, first(), by, c.want, c.by)
		}
	}
}

func begin0() time.Time { return time.Unix(1000, 0) }

// TestW1_TopEnds has the screen closed after a key, an end of the context and a panic.
func TestW1_TopEnds(t *testing.T) {
	s := newScreen(t)
	s.InjectKey(tcell.KeyDown, 0, tcell.ModNone)
	s.InjectKey(tcell.KeyRune, 'q', tcell.ModNone)
	if err := show(t.Context(), s, two, Options{Interval: time.Hour}); err != nil || !s.closed {
		t.Errorf("after q: %v, closed %v", err, s.closed)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s = newScreen(t)
	cancel()
	if err := show(ctx, s, two, Options{Interval: time.Hour}); !errors.Is(err, context.Canceled) || !s.closed {
		t.Errorf("after the end of the context: %v, closed %v", err, s.closed)
	}
	s = newScreen(t)
	func() {
		defer func() {
			if p := recover(); p != "broken" || !s.closed {
				t.Errorf("panic %v, closed %v", p, s.closed)
			}
		}()
		_ = show(t.Context(), s, func() ([]*observe.Adapter, error) { panic("broken") }, Options{Interval: time.Hour})
	}()
}

// TestW1_TopWarning shows why adapters are missing.
func TestW1_TopWarning(t *testing.T) {
	u := NewUI(Options{Interval: time.Second})
	u.Resize(80, 24)
	u.Update(nil, begin0(), errors.New("table x: damaged\nforged"))
	if out := u.Draw().Text(); !strings.Contains(out, "table x: damaged; forged") || !strings.Contains(out, "No program") {
		t.Errorf("the warning is missing:\n%s", out)
	}
}

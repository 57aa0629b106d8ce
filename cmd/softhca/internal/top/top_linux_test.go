package top

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/softhca/softhca/cmd/softhca/internal/tabletest"
	"github.com/softhca/softhca/internal/golden"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/observe"
	"github.com/softhca/softhca/internal/restrack/file"
)

var showFor = flag.Duration("show", 0, "how long TestShow writes tables that change, into the directory that SOFTHCA_TABLES names")

// TestShow writes tables that change, for people to look at with softhca top.
func TestShow(t *testing.T) {
	if *showFor == 0 {
		// It is no test but the other half of a demonstration.
		t.Skip("only for people: SOFTHCA_TABLES=DIR go test -run TestShow -show 1m")
	}
	w, err := tabletest.NewWorld()
	must.Do(t, err)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(*showFor); ; w.Work() {
		select {
		case <-tick.C:
		case <-end:
			must.Do(t, w.Close())
			return
		}
	}
}

// world makes tables in a directory of their own.
func world(t *testing.T) *tabletest.World {
	t.Helper()
	t.Setenv(file.DirVariable, t.TempDir())
	w, err := tabletest.NewWorld()
	must.Do(t, err)
	t.Cleanup(func() { must.Do(t, w.Close()) })
	return w
}

// begin is when the tests read tables for the first time.
func begin() time.Time { return time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC) }

// reader reads tables at chosen times.
func reader(t testing.TB) func(at time.Time) []*observe.Adapter {
	t.Helper()
	set := observe.NewSet()
	t.Cleanup(func() { must.Do(t, set.Close()) })
	return func(at time.Time) []*observe.Adapter {
		t.Helper()
		all, err := set.Read()
		must.Do(t, err)
		for _, a := range all {
			a.At, a.Path, a.UID = at, "/run/user/1000/softhca/tables/"+a.Name, 1000
		}
		return all
	}
}

// screens returns a UI that has seen a World work for some seconds.
func screens(t *testing.T, o Options) *UI {
	t.Helper()
	w, read := world(t), reader(t)
	o.Interval = time.Second
	u := NewUI(o)
	for second := range 21 {
		at := begin().Add(time.Duration(second) * time.Second)
		u.Update(read(at), at, nil)
		if second < 20 {
			for range 10 - second/3 {
				w.Work()
			}
		}
	}
	return u
}

// press presses keys: characters, or names in angle brackets.
func press(u *UI, keys string) {
	names := map[string]Code{
		"<enter>": KeyEnter, "<esc>": KeyEscape, "<tab>": KeyTab, "<down>": KeyDown, "<up>": KeyUp, "<end>": KeyEnd, "<home>": KeyHome, "<f6>": KeyF6,
		"<pgdn>": KeyPageDown, "<pgup>": KeyPageUp, "<f1>": KeyF1, "<f3>": KeyF3, "<f4>": KeyF4, "<back>": KeyBackspace, "<f10>": KeyF10, "<left>": KeyLeft, "<right>": KeyRight,
	}
	for keys != "" {
		if end := strings.IndexByte(keys, '>'); keys[0] == '<' && end > 1 {
			u.Key(Key{Code: names[keys[:end+1]]})
			keys = keys[end+1:]
			continue
		}
		r, n := utf8.DecodeRuneInString(keys)
		u.Key(Key{KeyRune, r})
		keys = keys[n:]
	}
}

// TestW1_TopScreens compares every screen with a file, at three sizes, with colors, without, and in
// ASCII.
func TestW1_TopScreens(t *testing.T) {
	for _, c := range []struct{ name, keys string }{
		{"connections", ""}, {"adapters", "2"}, {"cqs", "3"}, {"cm", "4"}, {"mrs", "5"}, {"detail", "<enter>"}, {"adapter", "2<enter>"}, {"help", "h"},
		{"sort", "<f6>"}, {"filter", "\\softhca1"}, {"search", "/ud"}, {"nothing", "\\xyzzy<enter>"}, {"paused", " "},
	} {
		for _, utf8 := range []bool{true, false} {
			u := screens(t, Options{Colors: utf8, UTF8: utf8})
			for _, size := range [][2]int{{80, 24}, {120, 40}, {200, 50}} {
				if size[0] != 120 && (c.name == "sort" || c.name == "filter" || c.name == "search" || c.name == "nothing" || c.name == "paused") {
					continue
				}
				u.Resize(size[0], size[1])
				if size[0] == 80 || u.mode == modeTable && u.at == 0 && u.filter == "" && !u.paused {
					press(u, c.keys)
				}
				f := u.Draw()
				name := fmt.Sprintf("testdata/%s-%dx%d", c.name, size[0], size[1])
				if utf8 {
					golden.Check(t, name+".txt", f.Text())
					golden.Check(t, name+".styles", f.Styles())
				} else {
					golden.Check(t, name+"-ascii.txt", f.Text())
					for _, r := range f.Text() {
						if r >= 0x7f {
							t.Errorf("%s in ASCII has %q", name, r)
						}
					}
				}
			}
		}
	}
}

// TestW1_TopText compares tables as text, without and with rates, and the same as JSON.
func TestW1_TopText(t *testing.T) {
	w, read := world(t), reader(t)
	reads := []Read{{read(begin()), begin()}}
	w.Work()
	reads = append(reads, Read{read(begin().Add(time.Second)), begin().Add(time.Second)})
	for _, name := range ViewNames() {
		var b bytes.Buffer
		must.Do(t, Text(&b, Options{View: name, UTF8: true}, reads[:1]))
		b.WriteByte('\n')
		must.Do(t, Text(&b, Options{View: name, UTF8: true}, reads))
		golden.Check(t, "testdata/once-"+name+".txt", b.String())
	}
	var b bytes.Buffer
	must.Do(t, JSON(&b, reads))
	golden.Check(t, "testdata/once.json", b.String())
	b.Reset()
	must.Do(t, JSON(&b, reads[:1]))
	if strings.Contains(b.String(), `"rates"`) {
		t.Error("one read has rates")
	}
	b.Reset()
	must.Do(t, JSON(&b, []Read{{nil, begin()}}))
	if b.String() != "[]\n" {
		t.Errorf("no adapters are %q, want an empty array", b.String())
	}
}

// TestW1_TopOtherEnd shows both ends of a connection in its detail, and one if the other is unknown.
func TestW1_TopOtherEnd(t *testing.T) {
	u := screens(t, Options{UTF8: true})
	u.Resize(120, 100)
	press(u, "<enter>")
	if out := u.Draw().Text(); !strings.Contains(out, "other end") || !strings.Contains(out, "0x00002a") || !strings.Contains(out, "PID 4250") {
		t.Errorf("the detail does not have the other end:\n%s", out)
	}
	press(u, "<esc>/0x000013<enter><enter>")
	if out := u.Draw().Text(); strings.Contains(out, "other end") || !strings.Contains(out, "RETRY_EXC_ERR") {
		t.Errorf("the detail of a connection to a host elsewhere:\n%s", out)
	}
	u.Update(nil, begin().Add(time.Minute), nil)
	if out := u.Draw().Text(); !strings.Contains(out, "It is gone") {
		t.Errorf("the detail of a connection that is gone:\n%s", out)
	}
}

// drawAll draws every screen and prints every form of some adapters.
func drawAll(t testing.TB, all []*observe.Adapter) {
	u := NewUI(Options{UTF8: true, Interval: time.Second})
	u.Update(all, begin(), nil)
	u.Update(all, begin().Add(time.Second), nil)
	for _, size := range [][2]int{{0, 0}, {1, 1}, {7, 3}, {80, 24}, {300, 60}} {
		for _, keys := range []string{"1", "2", "3", "4", "5", "1<end><enter><end>", "<esc>2<enter><pgdn>", "<esc>h", "<esc>1/zz<esc>\\a b<enter>", "<esc>I<f6><end><enter>"} {
			u.Resize(size[0], size[1])
			press(u, keys)
			f := u.Draw()
			for _, c := range f.Cells {
				if c.Rune < ' ' || !narrow(c.Rune) {
					t.Fatalf("the screen has %q", c.Rune)
				}
			}
		}
	}
	for _, name := range ViewNames() {
		for _, column := range ColumnNames(name) {
			var b bytes.Buffer
			must.Do(t, Text(&b, Options{View: name, Sort: column, UTF8: true}, []Read{{all, begin()}, {all, begin().Add(time.Second)}}))
		}
	}
	var b bytes.Buffer
	must.Do(t, JSON(&b, []Read{{all, begin()}, {all, begin().Add(time.Second)}}))
	if !json.Valid(b.Bytes()) {
		t.Error("the JSON is not valid")
	}
}

// FuzzTables draws tables with any contents: their owners are other processes, which nobody trusts.
func FuzzTables(f *testing.F) {
	f.Add([]byte{0xff})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0, 0, 0, 0x80})
	f.Add([]byte{2, 0, 0, 0, 0, 0, 0, 0, 0xe2, 0x80, 0xae, 0x1b})
	f.Fuzz(func(t *testing.T, with []byte) {
		if len(with) > 1<<16 {
			return
		}
		w := world(t)
		path, err := w.Sender.Damage(t.TempDir(), with)
		must.Do(t, err)
		set, err := observe.Open(path)
		if err != nil {
			return
		}
		defer func() { must.Do(t, set.Close()) }()
		if all, err := set.Read(); err == nil {
			drawAll(t, all)
		}
	})
}

// BenchmarkRefresh reads 10,000 queue pairs, computes what they did, sorts and draws them.
func BenchmarkRefresh(b *testing.B) {
	b.Setenv(file.DirVariable, b.TempDir())
	table, err := tabletest.Many(10000)
	must.Do(b, err)
	defer func() { must.Do(b, table.Close()) }()
	set := observe.NewSet()
	defer func() { must.Do(b, set.Close()) }()
	for _, filter := range []string{"", "10.78 rts"} {
		b.Run("filter="+filter, func(b *testing.B) {
			u := NewUI(Options{UTF8: true, Filter: filter, Interval: time.Second})
			u.Resize(200, 50)
			at := begin()
			for b.Loop() {
				all, err := set.Read()
				must.Do(b, err)
				at = at.Add(time.Second)
				for _, a := range all {
					a.At = at
				}
				u.Update(all, at, nil)
				u.Draw()
			}
		})
	}
}

package main

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/observe"
	"github.com/softhca/softhca/internal/restrack/file"
	"github.com/softhca/softhca/verbs"
)

// TestTableMeasurements checks that each measurement of softhca is compared with itself, once as it is and
// once with a reader, and that only the reference is without tables.
func TestTableMeasurements(t *testing.T) {
	all := tableMeasurements()
	p := programs{softhca: "/x/softhca", seconds: 1}
	for _, m := range all {
		own, reference := p.told(&m.own, m.loss.share), p.told(&m.reference, m.loss.share)
		if reference != "SOFTHCA_TABLES=off "+own {
			t.Errorf("%s: %q is compared with %q", m.name, own, reference)
		}
		reader := strings.HasSuffix(m.name, ", "+withReaders)
		if m.own.read != reader || m.reference.read || m.group != "" && (m.group == withReaders) != reader {
			t.Errorf("%s: read %v and %v, in the group %q", m.name, m.own.read, m.reference.read, m.group)
		}
	}
	for _, m := range measurements() {
		n := 0
		for _, x := range all {
			if strings.HasPrefix(x.name, m.name+", with tables") && slices.Equal(x.own.args, m.own.args) && (x.group == "") == (m.unit == "") {
				n++
			}
		}
		if n != 2 {
			t.Errorf("%s is compared %d times, want 2", m.name, n)
		}
	}
	checkMeasurements(t, all)
}

// TestOverall checks the mean over a group: half the time is as good as twice the rate.
func TestOverall(t *testing.T) {
	of := func(group, unit string, ratio float64) result {
		return result{group: group, Unit: unit, Ratio: spread{Median: ratio}}
	}
	broken := of("b", "M/s", 0)
	broken.Failed = "it failed"
	r := report{Results: []result{
		of("b", "M/s", 2), of("a", "M/s", 0.9), of("", "M/s", 100), of("b", microseconds, 0.5), of("b", "Gb/s", 2), broken,
	}}
	r.Overall = r.sum()
	if len(r.Overall) != 2 || r.Overall[0].Group != "b" || r.Overall[1].Group != "a" {
		t.Fatalf("the groups are %+v", r.Overall)
	}
	if b, a := r.Overall[0], r.Overall[1]; math.Abs(b.Ratio-2) > 1e-9 || !b.Met || math.Abs(a.Ratio-0.9) > 1e-9 || a.Met {
		t.Errorf("the means are %+v", r.Overall)
	}
	if missed := r.missed(); !slices.Equal(missed, []string{"all a"}) {
		t.Errorf("missed: %q", missed)
	}
	var text strings.Builder
	must.Do(t, r.print(&text))
	if !strings.Contains(text.String(), "all b: ratio 2.000") {
		t.Errorf("printed:\n%s", text.String())
	}
}

// TestReadTables checks that readTables returns an error without a table, and none with a table.
func TestReadTables(t *testing.T) {
	t.Setenv(file.DirVariable, "")
	must.Do(t, openTables(t.TempDir()))
	if err := readTables(t.Context())(); !errors.Is(err, errNoTable) {
		t.Errorf("a reader without a table: %v", err)
	}
	c, err := verbs.Open(verbs.Config{Addr: "127.0.0.93"})
	must.Do(t, err)
	defer func() { must.Do(t, c.Close()) }()
	if runtime.GOOS != "linux" {
		t.Skip("tables of objects need Linux") // internal/restrack/file
	}
	all, err := observe.NewSet().Read()
	if must.Do(t, err); len(all) != 1 {
		t.Fatalf("%d tables of one adapter", len(all))
	}
	must.Do(t, readTables(t.Context())())
}

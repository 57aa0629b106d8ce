package main

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/softhca/softhca/internal/observe"
	"github.com/softhca/softhca/internal/restrack/file"
)

// The cost of the tables of objects (internal/restrack): each measurement of softhca is compared with
// itself without tables.

// Names of the two groups of measurements.
const (
	withTables  = "with tables"
	withReaders = "with tables that are read 10 times in a second"
)

// readPeriod is the time between two reads.
const readPeriod = time.Second / 10

// tableMeasurements returns the measurements of the cost of tables, in the order of the table.
func tableMeasurements() (list []measurement) {
	all := measurements()
	for _, m := range slices.Clone(all[:slices.IndexFunc(all, func(m measurement) bool { return m.loss.line != "" })]) {
		if slices.Contains(m.own.args, "--rate-limit") || slices.Contains(m.own.args, "--static-rate") || m.own.run != runPerf {
			continue // with a rate they wait most of the time; shared addresses need the wire
		}
		m.name += ", shared memory"
		m.own = m.own.with("--wire", "auto")
		all = append(all, m)
	}
	for _, group := range []string{withTables, withReaders} {
		for _, m := range all {
			own, without, name := m.own, m.own.as("no tables"), m.name+", "+group
			own.read = group == withReaders
			without.env = []string{file.DirVariable + "=" + file.Off}
			x := measurement{name: name, unit: m.unit, own: own, reference: without, few: m.few, loss: loss{share: m.loss.share}}
			if m.unit != "" { // the others, rates and fairness, are no measure of speed
				x.group = group
			}
			list = append(list, x)
		}
	}
	return list
}

// openTables makes a directory in dir for the tables of the programs that this one starts, unless the user
// has named one.
func openTables(dir string) error {
	if os.Getenv(file.DirVariable) != "" {
		return nil
	}
	dir = filepath.Join(dir, "tables")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.Setenv(file.DirVariable, dir)
}

// errNoTable is the error of a reader that found nothing to read.
var errNoTable = errors.New("no table of the measured programs was found")

// readTables reads all tables again and again until stop is called, which returns an error if a read
// failed, or if there was no table.
func readTables(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- readUntil(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

func readUntil(ctx context.Context) error {
	s := observe.NewSet()
	defer func() { _ = s.Close() }() // it only read
	t := time.NewTicker(readPeriod)
	defer t.Stop()
	for seen := false; ; {
		all, err := s.Read()
		if err != nil {
			return err
		}
		seen = seen || len(all) > 0
		select {
		case <-t.C:
		case <-ctx.Done():
			if !seen {
				return errNoTable
			}
			return nil
		}
	}
}

// overall is the result of a group: the geometric mean of the ratios of its measurements, above 1 if
// softhca is better than the reference.
type overall struct {
	Group  string  `json:"group"`
	Ratio  float64 `json:"ratio"`
	Target string  `json:"target"`
	Met    bool    `json:"met"`
}

// leastOverall is the target of a group.
const leastOverall = 0.99

// sum returns the results of the groups, in their order.
func (r *report) sum() (all []overall) {
	logs := make(map[string][]float64)
	var groups []string
	for i := range r.Results {
		x := &r.Results[i]
		if x.group == "" || !x.measured() {
			continue
		}
		if logs[x.group] == nil {
			groups = append(groups, x.group)
		}
		v := math.Log(x.Ratio.Median)
		if x.Unit == microseconds {
			v = -v
		}
		logs[x.group] = append(logs[x.group], v)
	}
	for _, g := range groups {
		mean := 0.0
		for _, v := range logs[g] {
			mean += v / float64(len(logs[g]))
		}
		ratio := math.Exp(mean)
		all = append(all, overall{g, ratio, "ratio >= 0.99", ratio >= leastOverall})
	}
	return all
}

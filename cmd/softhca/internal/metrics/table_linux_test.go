package metrics

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/restrack"
	"github.com/softhca/softhca/internal/restrack/file"
)

// Offsets of fields of restrack.Process in the file of a table: the header begins with two words.
const (
	processAt = 16
	pidAt     = processAt
	ticksAt   = processAt + 32
)

// theDevice returns the name of this test process's adapters. As root, the exporter also sees tables
// of other test processes.
func theDevice() string { return fmt.Sprintf("softhca-%d", os.Getpid()) }

// table is the table of an adapter of a test.
type table struct {
	*file.File
	board *device.Board
}

// newTable creates and publishes a table in the directory of SOFTHCA_TABLES.
func newTable(t *testing.T, p restrack.Process) *table {
	t.Helper()
	f, err := file.Create(unsafe.Sizeof(device.Board{}))
	must.Do(t, err)
	t.Cleanup(func() { // a test may have removed it
		if err := f.Close(); err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
	})
	if p.Device[0] == 0 {
		copy(p.Device[:], theDevice())
	}
	if p.Addr == [16]byte{} {
		p.Addr = netip.MustParseAddr("127.0.0.9").As16()
	}
	must.Do(t, f.Publish(p))
	return &table{f, (*device.Board)(f.Board())}
}

// patch writes a word of the file.
func (f *table) patch(t *testing.T, at int64, v uint64) {
	t.Helper()
	patchFile(t, f.Path(), at, v)
}

func patchFile(t *testing.T, name string, at int64, v uint64) {
	t.Helper()
	w, err := os.OpenFile(name, os.O_RDWR, 0)
	must.Do(t, err)
	_, err = w.WriteAt(binary.NativeEndian.AppendUint64(nil, v), at)
	must.Do(t, err)
	must.Do(t, w.Close())
}

// tables makes an empty directory of tables.
func tables(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv(file.DirVariable, dir)
	return dir
}

// busy is a table with a known value in each column.
func busy(t *testing.T) *table {
	t.Helper()
	f := newTable(t, restrack.Process{MTU: 4200, GUID: 0xabc, Slot: 3})
	b := f.board
	b.Port.SentBytes.Store(1000)
	b.Port.ReceivedBytes.Store(2000)
	b.Port.SentPackets.Store(10)
	b.Port.ReceivedPackets.Store(20)
	b.Port.SendErrors.Store(2)
	b.Port.Truncated.Store(1)
	b.Port.BadChecksums.Store(1)
	b.Port.Overflows.Store(7)
	b.Port.Near[fabric.NearPeers].Store(4)
	b.Port.Near[fabric.NearSent].Store(5)
	b.Engine.RetransPkts = 6
	b.Engine.SendErr = 1
	b.Engine.LinkDowned = 1
	b.Engine.Drops[counters.DropICRC] = 8
	b.Engine.Drops[counters.DropMalformed] = 1
	local, remote := netip.MustParseAddr("127.0.0.9").As16(), netip.MustParseAddr("127.0.0.10").As16()
	for i := range uint64(3) {
		q := restrack.Add[restrack.QPInfo, restrack.QPCounts](f.Table(), restrack.KindQP, &restrack.QPInfo{Num: uint32(0x10 + i), Peer: 0x20, Type: uint8(ib.RC), State: uint8(ib.RTS), Local: local, Remote: remote})
		q.Counts.SentBytes, q.Counts.RcvdBytes = 100*(i+1), 1
		q.Counts.Timeouts, q.Counts.InFlight, q.Counts.RTT = i, 1000, 2000
		q.Counts.Latency[restrack.Bucket(time.Microsecond)] = 3
		q.Counts.Latency[restrack.LatencyBuckets-1] = 1
	}
	restrack.Add[restrack.QPInfo, restrack.QPCounts](f.Table(), restrack.KindQP, &restrack.QPInfo{Num: 0x10, Type: uint8(ib.EEC), State: uint8(ib.ERR)})
	for i := range uint32(2) {
		c := restrack.Add[restrack.CQInfo, restrack.CQCounts](f.Table(), restrack.KindCQ, &restrack.CQInfo{Num: i + 1, Depth: 16})
		c.Counts.Produced, c.Counts.Consumed, c.Counts.HighWater = uint64(10*(i+1)), uint64(8*(i+1)), uint64(12+i)
	}
	restrack.Add[restrack.PDInfo, restrack.PDCounts](f.Table(), restrack.KindPD, &restrack.PDInfo{Num: 1})
	return f
}

// exporter returns an exporter that logs to the test.
func exporter(t *testing.T, cfg Config) *Exporter {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = t.Logf
	}
	if cfg.QPs == 0 {
		cfg.QPs = DefaultQPs
	}
	e := New(cfg)
	t.Cleanup(func() { must.Do(t, e.Close()) })
	return e
}

// scrape returns one scrape.
func scrape(t *testing.T, e *Exporter) samples {
	t.Helper()
	var b strings.Builder
	must.Do(t, Once(e, &b))
	return parse(t, b.String())
}

// samples are the values of a scrape by name and labels, of the adapters of this test process.
type samples map[string]float64

// parse reads the text format.
func parse(t *testing.T, text string) samples {
	t.Helper()
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(strings.NewReader(text))
	must.Do(t, err)
	s := samples{}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			own := true
			for _, l := range m.GetLabel() {
				switch l.GetName() {
				case "device":
					own = l.GetValue() == theDevice()
				case "pid", "command", "pidns", "port", "address": // equal for all
				default:
					labels = append(labels, l.GetValue())
				}
			}
			if !own {
				continue
			}
			key := strings.Join(append([]string{name}, labels...), " ")
			if h := m.GetHistogram(); h != nil {
				s[key+"_count"], s[key+"_sum"] = float64(h.GetSampleCount()), h.GetSampleSum()
				for _, b := range h.GetBucket() {
					s[fmt.Sprintf("%s_bucket %g", key, b.GetUpperBound())] = float64(b.GetCumulativeCount())
				}
				continue
			}
			s[key] += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return s
}

// want compares some samples.
func (s samples) want(t *testing.T, what string, want samples) {
	t.Helper()
	for key, v := range want {
		if got, ok := s[key]; !ok || got != v {
			t.Errorf("%s: %s is %v (there: %v), want %v", what, key, got, ok, v)
		}
	}
}

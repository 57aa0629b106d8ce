package metrics

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/restrack"
)

// TestW1_ScrapeShowsTable compares a scrape with a table that has a value in each column.
func TestW1_ScrapeShowsTable(t *testing.T) {
	tables(t)
	f := busy(t)
	e := exporter(t, Config{NodeNames: true, PerQP: true, Build: Build{Version: "v1", Revision: "abc"}})
	s := scrape(t, e)
	s.want(t, "a busy adapter", samples{
		"softhca_adapter_up": 1, "softhca_adapter_dead": 0, "softhca_adapter_failed": 0, "softhca_adapter_down": 0, "softhca_port_mtu_bytes": 4200,
		"softhca_port_transmitted_bytes_total": 1000, "softhca_port_received_bytes_total": 2000,
		"softhca_port_transmitted_packets_total": 10, "softhca_port_received_packets_total": 20, "softhca_port_transmit_errors_total": 2,
		"softhca_port_truncated_packets_total": 1, "softhca_port_bad_checksums_total": 1, "softhca_port_receive_overflows_total": 7,
		"softhca_near_peers": 4, "softhca_hw_near_sent_packets_total": 5, "softhca_hw_retrans_pkts_total": 6, "softhca_hw_send_err_total": 3,
		"softhca_dropped_packets_total icrc_errors": 8, "softhca_dropped_packets_total malformed": 1, "softhca_dropped_packets_total forged": 0,
		"softhca_objects qp": 4, "softhca_objects cq": 2, "softhca_objects pd": 1, "softhca_objects mr": 0, "softhca_objects_without_row_total qp": 0,
		"softhca_qps RTS": 3, "softhca_qps ERR": 1, "softhca_qps RESET": 0, "softhca_qps unknown": 0,
		"softhca_qps_in_flight_bytes": 3000, "softhca_cqs_waiting_completions": 6, "softhca_cqs_depth_completions": 32,
		"softhca_cq_high_water_completions": 13, "softhca_cq_waiting_ratio": 0.25,
		"softhca_completion_latency_seconds_count": 12, "softhca_completion_latency_seconds_bucket 1.024e-06": 9,
		"softhca_completion_latency_seconds_bucket 5.12e-07": 0,
		"softhca_qp_transmitted_bytes_total 18 RC":           300, "softhca_qp_timeouts_total 17 RC": 1, "softhca_qp_rtt_seconds 16 RC": 2e-6,
		"softhca_qp_state_id 16 EEC": 6, "softhca_qp_state_id 16 RC": 3, "softhca_qp_info 127.0.0.9 16 127.0.0.10 32 RC": 1,
		"node_infiniband_port_data_received_bytes_total": 2000, "node_infiniband_port_data_transmitted_bytes_total": 1000,
		"node_infiniband_port_packets_received_total": 20, "node_infiniband_port_packets_transmitted_total": 10,
		"node_infiniband_port_errors_received_total": 11, "node_infiniband_port_discards_received_total": 7, "node_infiniband_port_discards_transmitted_total": 2,
		"node_infiniband_link_downed_total": 1, "node_infiniband_state_id": 4, "node_infiniband_physical_state_id": 5, "node_infiniband_rate_bytes_per_second": 12.5e9,
	})
	if s["softhca_adapter_start_time_seconds"] < float64(time.Now().Add(-time.Hour).Unix()) {
		t.Errorf("the adapter was opened at %v", s["softhca_adapter_start_time_seconds"])
	}
	f.Table().Fail()
	f.board.Down.Store(1)
	scrape(t, e).want(t, "a failed adapter", samples{"softhca_adapter_up": 0, "softhca_adapter_failed": 1, "softhca_adapter_down": 1,
		"node_infiniband_state_id": 1, "node_infiniband_physical_state_id": 3, "node_infiniband_port_data_received_bytes_total": 2000})
}

// TestProcessDied shows the table of a process that no longer exists.
func TestProcessDied(t *testing.T) {
	dir := tables(t)
	f := busy(t)
	data, err := os.ReadFile(f.Path())
	must.Do(t, err)
	name := filepath.Join(dir, "copy") // which no process locks
	must.Do(t, f.Close())
	must.Do(t, os.WriteFile(name, data, 0o600))
	patchFile(t, name, ticksAt, 1)
	s := scrape(t, exporter(t, Config{NodeNames: true}))
	s.want(t, "a dead process", samples{"softhca_adapter_up": 0, "softhca_adapter_dead": 1, "softhca_port_received_bytes_total": 2000, "node_infiniband_state_id": 1})
}

// TestSumsOutliveProcesses ends one of two processes on an address: the counters of the port do not
// decrease, and the series of the process end.
func TestSumsOutliveProcesses(t *testing.T) {
	tables(t)
	a, b := newTable(t, restrack.Process{}), newTable(t, restrack.Process{})
	b.patch(t, pidAt, 1<<30)
	b.patch(t, pidAt+16, 1) // in another PID namespace, where only its lock shows that it runs
	a.board.Port.SentBytes.Store(100)
	b.board.Port.SentBytes.Store(30)
	e := exporter(t, Config{NodeNames: true})
	const sum = "node_infiniband_port_data_transmitted_bytes_total"
	scrape(t, e).want(t, "two processes", samples{sum: 130})
	must.Do(t, a.Close())
	b.board.Port.SentBytes.Store(35)
	scrape(t, e).want(t, "after one has ended", samples{sum: 135, "softhca_port_transmitted_bytes_total": 35, "node_infiniband_state_id": 4})
	must.Do(t, b.Close())
	s := scrape(t, e)
	s.want(t, "after both have ended", samples{sum: 135, "node_infiniband_state_id": 1})
	if _, ok := s["softhca_port_transmitted_bytes_total"]; ok {
		t.Error("a process that has ended still has series")
	}
	c := newTable(t, restrack.Process{})
	c.board.Port.SentBytes.Store(5)
	scrape(t, e).want(t, "a third process", samples{sum: 140, "node_infiniband_state_id": 4})
}

// TestEqualProcesses opens an adapter twice in one process, which has the same labels: the scrape has
// their sums.
func TestEqualProcesses(t *testing.T) {
	tables(t)
	busy(t)
	busy(t)
	scrape(t, exporter(t, Config{PerQP: true})).want(t, "two equal adapters", samples{
		"softhca_port_transmitted_bytes_total": 2000, "softhca_adapter_up": 1, "softhca_cq_high_water_completions": 13,
		"softhca_completion_latency_seconds_count": 24, "softhca_qp_timeouts_total 17 RC": 1,
	})
}

// TestReadErrors gives the exporter files that are no tables: they are counted, logged once, and do
// not disturb the others.
func TestReadErrors(t *testing.T) {
	dir := tables(t)
	f := busy(t)
	data, err := os.ReadFile(f.Path())
	must.Do(t, err)
	short := filepath.Join(dir, "short")
	must.Do(t, os.WriteFile(short, data, 0o600))
	logged := map[string]int{}
	e := exporter(t, Config{Log: func(format string, args ...any) { logged[args[0].(error).Error()]++ }})
	before := scrape(t, e)["softhca_exporter_read_errors_total"]
	told := len(logged)
	garbage := filepath.Join(dir, "garbage")
	must.Do(t, os.WriteFile(garbage, make([]byte, restrack.ExtentSize), 0o600))
	must.Do(t, os.Truncate(short, 0))
	first := scrape(t, e)
	for range 3 {
		first.want(t, "next to damaged tables", samples{"softhca_port_transmitted_bytes_total": 1000})
		if n := first["softhca_exporter_read_errors_total"]; n < before+2 {
			t.Errorf("%v errors are counted after %v, want two more", n, before)
		}
		first = scrape(t, e)
	}
	if len(logged) < told+2 {
		t.Errorf("it logs %v", logged)
	}
	for text, n := range logged {
		if n != 1 {
			t.Errorf("%q is logged %d times", text, n)
		}
	}
}

// TestErrorsAreBounded counts more different errors than are logged.
func TestErrorsAreBounded(t *testing.T) {
	logged := 0
	e := readErrors{log: func(string, ...any) { logged++ }}
	for i := range 3 * maxLogged {
		e.count(os.NewSyscallError(strings.Repeat("x", i), os.ErrInvalid))
	}
	if e.n != 3*maxLogged || logged != maxLogged+1 {
		t.Errorf("%d errors counted and %d lines logged, want %d and %d", e.n, logged, 3*maxLogged, maxLogged+1)
	}
}

// TestHostileTables fills tables with random bytes, with the magic words of a table, while the exporter
// keeps what it knows of them. A scrape never fails, and names and texts stay valid.
func TestHostileTables(t *testing.T) {
	tables(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	e := exporter(t, Config{NodeNames: true, PerQP: true, QPs: 5, Log: func(string, ...any) {}})
	registry := prometheus.NewPedanticRegistry()
	must.Do(t, registry.Register(e))
	for range 20 {
		f := busy(t)
		random(r, f)
		families, err := registry.Gather()
		if err != nil {
			t.Fatalf("seed %d: a hostile table disturbs a scrape: %v", seed, err)
		}
		qps := 0
		for _, family := range families {
			for _, m := range family.GetMetric() {
				for _, l := range m.GetLabel() {
					if !utf8.ValidString(l.GetValue()) || strings.ContainsAny(l.GetValue(), "\n\x1b\u202e") {
						t.Errorf("seed %d: label %q of %s", seed, l.GetValue(), family.GetName())
					}
				}
			}
			if family.GetName() == "softhca_qp_info" {
				qps = len(family.GetMetric())
			}
		}
		if qps > 5 {
			t.Errorf("%d queue pairs have series, want at most 5", qps)
		}
	}
}

// random overwrites the identity, the counters and the rows of a table, but not what makes it one.
func random(r *rand.Rand, f *table) {
	header := unsafe.Slice((*byte)(unsafe.Add(f.Board(), -restrack.BoardAt)), restrack.ExtentSize)
	board := unsafe.Slice((*byte)(unsafe.Pointer(f.board)), unsafe.Sizeof(device.Board{}))
	for i := range board {
		board[i] = byte(r.Uint32())
	}
	for i := processAt; i < processAt+int(unsafe.Sizeof(restrack.Process{})); i++ {
		if r.IntN(4) == 0 {
			header[i] = byte(r.Uint32())
		}
	}
	for range 50 {
		q := restrack.Add[restrack.QPInfo, restrack.QPCounts](f.Table(), restrack.KindQP, &restrack.QPInfo{Num: r.Uint32N(20), Type: uint8(r.Uint32()), State: uint8(r.Uint32())})
		for i := range q.Counts.Latency {
			q.Counts.Latency[i] = r.Uint64()
		}
		q.Counts.SentBytes, q.Counts.InFlight = r.Uint64(), r.Uint64()
		c := restrack.Add[restrack.CQInfo, restrack.CQCounts](f.Table(), restrack.KindCQ, &restrack.CQInfo{Num: r.Uint32N(20), Depth: r.Uint32() & -(r.Uint32() & 1)})
		c.Counts.Produced, c.Counts.HighWater = r.Uint64(), r.Uint64()
	}
}

// TestPIDNamespace labels processes of other PID namespaces.
func TestPIDNamespace(t *testing.T) {
	tables(t)
	busy(t)
	var b strings.Builder
	must.Do(t, Once(exporter(t, Config{}), &b))
	if !strings.Contains(b.String(), `device="`+theDevice()+`",pid="`) || strings.Contains(b.String(), `device="`+theDevice()+`",pid="1",pidns="4`) {
		t.Errorf("the labels are not device, pid and so on:\n%.2000s", b.String())
	}
	e := exporter(t, Config{})
	e.pidns++ // of another namespace than the table's
	b.Reset()
	must.Do(t, Once(e, &b))
	if !strings.Contains(b.String(), `pidns="40265`) {
		t.Error("a process of another PID namespace has no label pidns")
	}
}

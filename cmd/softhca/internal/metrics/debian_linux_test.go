package metrics

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/must"
)

// find returns the path of a program, or skips the test.
func find(t *testing.T, program, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		// These programs are of no use to anything else here, so not every machine has them.
		t.Skipf("SKIPPED: there is no %s (apt install %s)", program, pkg)
	}
	return path
}

// output runs a program to its end and returns what it printed.
func output(t *testing.T, stdin, path string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// start runs a server until the test ends and returns its URL; args contains %s for its address.
func start(t *testing.T, path string, args ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	at := l.Addr().String()
	must.Do(t, l.Close())
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "%s", at)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, args...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("%s:\n%.5000s", path, log.String())
		}
	})
	return "http://" + at
}

// until calls f again and again until it reports true, for at most a minute.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for !f() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// fetch returns the content of a page, or "" if the server does not answer yet.
func fetch(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		return ""
	}
	defer func() { _ = answer.Body.Close() }()
	var b bytes.Buffer
	_, err = b.ReadFrom(answer.Body)
	must.Do(t, err)
	return b.String()
}

// TestW1_Promtool lets Debian's promtool check a scrape, the rules and their unit tests. It must
// reject a wrong scrape.
func TestW1_Promtool(t *testing.T) {
	promtool := find(t, "promtool", "prometheus")
	tables(t)
	busy(t)
	var scrape strings.Builder
	must.Do(t, Once(exporter(t, Config{PerQP: true}), &scrape))
	if out, err := output(t, scrape.String(), promtool, "check", "metrics"); err != nil || out != "" {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	if out, err := output(t, scrape.String()+"softhca_wrong 1\nsofthca_wrong 1\n", promtool, "check", "metrics"); err == nil {
		t.Errorf("promtool accepts a wrong scrape:\n%s", out)
	}
	for _, args := range [][]string{{"check", "rules", alerts}, {"test", "rules", alertTest}} {
		if out, err := output(t, "", promtool, args...); err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, out)
		}
	}
}

// answer is an answer of Prometheus's API to a query.
type answer struct {
	Status, Error string
	Data          struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
}

// query asks Prometheus for the value of an expression.
func query(t *testing.T, prometheus, expr string) (a answer) {
	t.Helper()
	text := fetch(t, prometheus+"/api/v1/query?query="+url.QueryEscape(expr))
	if text == "" || json.Unmarshal([]byte(text), &a) != nil {
		a.Status = "" // it does not answer yet
	}
	return a
}

// TestW1_Prometheus lets Debian's Prometheus scrape the exporter, and asks it for a counter of the port,
// a quantile of the latency, and each expression of the dashboard.
func TestW1_Prometheus(t *testing.T) {
	path := find(t, "prometheus", "prometheus")
	tables(t)
	f := busy(t)
	h, err := Handler(exporter(t, Config{PerQP: true}))
	must.Do(t, err)
	target, _ := served(t, h)
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	must.Do(t, os.WriteFile(config, fmt.Appendf(nil,
		"global: {scrape_interval: 200ms, evaluation_interval: 1s}\nscrape_configs: [{job_name: softhca, static_configs: [{targets: [%q]}]}]\n",
		strings.TrimPrefix(target, "http://")), 0o600))
	prometheus := start(t, path, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=%s", "--log.level=warn")
	device := fmt.Sprintf("{device=%q}", theDevice())
	until(t, "Prometheus has the bytes that the port received", func() bool {
		a := query(t, prometheus, "softhca_port_received_bytes_total"+device)
		return len(a.Data.Result) == 1 && a.Data.Result[0].Value[1] == "2000" && a.Data.Result[0].Metric["address"] == "127.0.0.9"
	})
	f.board.Port.ReceivedBytes.Store(3000)
	until(t, "Prometheus follows the counter", func() bool {
		a := query(t, prometheus, "increase(softhca_port_received_bytes_total"+device+"[1m]) > 0")
		return len(a.Data.Result) == 1
	})
	a := query(t, prometheus, "histogram_quantile(0.5, softhca_completion_latency_seconds_bucket"+device+")")
	if len(a.Data.Result) != 1 || !strings.Contains(fmt.Sprint(a.Data.Result[0].Value[1]), "e-07") {
		t.Errorf("the median latency is %v, want one between 512 and 1024 ns", a)
	}
	text, err := os.ReadFile(dashboard)
	must.Do(t, err)
	exprs := regexp.MustCompile(`"expr": ("(?:[^"\\]|\\.)*")`).FindAllStringSubmatch(string(text), -1)
	if len(exprs) < 20 {
		t.Errorf("the dashboard has %d expressions", len(exprs))
	}
	for _, m := range exprs {
		var expr string
		must.Do(t, json.Unmarshal([]byte(m[1]), &expr))
		expr = strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*", "$device", theDevice(), "$command", ".*").Replace(expr)
		if a := query(t, prometheus, expr); a.Status != "success" || len(a.Data.Result) == 0 && !strings.Contains(expr, "> 0") {
			t.Errorf("the dashboard's %s: %s %s, %d series", expr, a.Status, a.Error, len(a.Data.Result))
		}
	}
}

// TestW1_NodeExporter lets Debian's node_exporter read the file, next to a hardware adapter that its
// own collector finds: both have the same names, and the scrape has no error.
func TestW1_NodeExporter(t *testing.T) {
	path := find(t, "prometheus-node-exporter", "prometheus-node-exporter")
	tables(t)
	f := busy(t)
	e := exporter(t, Config{NodeNames: true, PerQP: true})
	dir, sys := t.TempDir(), t.TempDir()
	must.Do(t, Textfile(e, dir))
	port := filepath.Join(sys, "class/infiniband/mlx5_0/ports/1")
	for name, text := range map[string]string{
		"../../board_id": "MT_1", "../../fw_ver": "20.1", "../../hca_type": "MT1", "state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "100 Gb/sec (4X EDR)",
		"counters/port_rcv_data": "25", "counters/port_xmit_data": "1", "counters/port_rcv_packets": "1", "counters/port_xmit_packets": "1", "counters/link_downed": "0",
		"counters/port_rcv_errors": "0", "counters/port_xmit_discards": "0", "link_layer": "Ethernet",
	} {
		name = filepath.Join(port, name)
		must.Do(t, os.MkdirAll(filepath.Dir(name), 0o700))
		must.Do(t, os.WriteFile(name, []byte(text+"\n"), 0o600))
	}
	node := start(t, path, "--web.listen-address=%s", "--collector.disable-defaults", "--collector.infiniband", "--collector.textfile", "--collector.textfile.directory="+dir, "--path.sysfs="+sys)
	var text string
	until(t, "node_exporter answers", func() bool { text = fetch(t, node+"/metrics"); return text != "" })
	for _, want := range []string{
		"node_textfile_scrape_error 0\n", `node_scrape_collector_success{collector="infiniband"} 1`,
		`node_infiniband_port_data_received_bytes_total{device="mlx5_0",port="1"} 100`,
		`node_infiniband_info{board_id="MT_1",device="mlx5_0",`,
		`node_infiniband_info{address="127.0.0.9",board_id="softhca",device="` + theDevice() + `",`,
		`node_infiniband_port_data_received_bytes_total{address="127.0.0.9",device="` + theDevice() + `",port="1"} 2000`,
		`node_infiniband_state_id{address="127.0.0.9",device="` + theDevice() + `",port="1"} 4`, "softhca_completion_latency_seconds_bucket{",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("node_exporter does not export %s:\n%.3000s", want, text)
		}
	}
	f.board.Port.ReceivedBytes.Store(2500)
	must.Do(t, Textfile(e, dir))
	if text = fetch(t, node+"/metrics"); !strings.Contains(text, `device="`+theDevice()+`",port="1"} 2500`) {
		t.Error("node_exporter does not export the second file")
	}
}

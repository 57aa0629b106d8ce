package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/restrack"
	"github.com/softhca/softhca/internal/restrack/file"
)

// published publishes the table of an adapter that has sent some bytes.
func published(t *testing.T, sent uint64) {
	t.Helper()
	t.Setenv(file.DirVariable, t.TempDir())
	f, err := file.Create(unsafe.Sizeof(device.Board{}))
	must.Do(t, err)
	t.Cleanup(func() { must.Do(t, f.Close()) })
	(*device.Board)(f.Board()).Port.SentBytes.Store(sent)
	p := restrack.Process{Addr: netip.MustParseAddr(loopback(1)).As16()}
	copy(p.Device[:], "softhca7")
	must.Do(t, f.Publish(p))
}

// TestW1_Metrics prints a scrape, writes a file for node_exporter, and serves.
func TestW1_Metrics(t *testing.T) {
	published(t, 12345)
	own := regexp.MustCompile(`softhca_port_transmitted_bytes_total\{address="` + regexp.QuoteMeta(loopback(1)) + `",command="[^"]+",device="softhca7",pid="\d+",pidns="",port="1"\} 12345\n`)
	node := `node_infiniband_port_data_transmitted_bytes_total{address="` + loopback(1) + `",device="softhca7",port="1"} 12345`
	code, out, errs := command(t, "metrics", "--once")
	if code != exitOK || !own.MatchString(out) || strings.Contains(out, "\nnode_infiniband") || strings.Contains(out, "\nsofthca_qp_") {
		t.Errorf("--once: code %d, %s\n%.3000s", code, errs, out)
	}
	if code, out, errs = command(t, "metrics", "--once", "--node-names"); code != exitOK || !strings.Contains(out, node) {
		t.Errorf("--node-names: code %d, %s\n%.3000s", code, errs, out)
	}
	dir := t.TempDir()
	code, out, errs = command(t, "metrics", "--once", "--textfile", dir)
	text, err := os.ReadFile(filepath.Join(dir, "softhca.prom"))
	if code != exitOK || out+errs != "" || err != nil || !own.Match(text) || !strings.Contains(string(text), node) {
		t.Errorf("--textfile: code %d, %q, %v\n%.3000s", code, out+errs, err, text)
	}
	if code, _, errs = command(t, "metrics", "--once", "--textfile", filepath.Join(dir, "none")); code != exitFailed || !strings.HasPrefix(errs, "softhca: metrics: ") {
		t.Errorf("into no directory: code %d, %q", code, errs)
	}
}

// TestMetricsServe serves until it is interrupted, on a port that nobody else gets.
func TestMetricsServe(t *testing.T) {
	published(t, 54321)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	errs, ended := new(follower), make(chan int, 1)
	errs.line = make(chan string, 10)
	go func() { ended <- run(ctx, []string{"metrics", "--listen", "127.0.0.1:0"}, io.Discard, errs) }()
	url, ok := strings.CutPrefix(strings.TrimSpace(<-errs.line), "metrics: ")
	answer, err := http.Get(url)
	if !ok || err != nil {
		t.Fatalf("it says %q: %v", url, err)
	}
	text, err := io.ReadAll(answer.Body)
	must.Do(t, err)
	must.Do(t, answer.Body.Close())
	if !strings.Contains(string(text), "} 54321\n") {
		t.Errorf("%s has\n%.3000s", url, text)
	}
	at := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/metrics")
	if code, _, said := command(t, "metrics", "--listen", at); code != exitFailed || !strings.Contains(said, "address already in use") || !strings.Contains(said, "--listen "+at) {
		t.Errorf("on a port in use: code %d, %q", code, said)
	}
	cancel()
	if code := <-ended; code != exitOK {
		t.Errorf("after an interruption the exit code is %d", code)
	}
	if c, err := net.Dial("tcp", at); err == nil {
		t.Error("the port is still open", c.Close())
	}
}

// follower passes on what is written, each write as one text.
type follower struct{ line chan string }

func (f *follower) Write(b []byte) (int, error) {
	f.line <- string(bytes.Clone(b))
	return len(b), nil
}

package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/softhca/softhca/internal/must"
)

// ahead writes a copy of a capture of Linux with other times.
func ahead(t *testing.T, name string, by time.Duration) string {
	t.Helper()
	in, err := os.ReadFile(captures + name)
	must.Do(t, err)
	r, err := pcapgo.NewReader(bytes.NewReader(in))
	must.Do(t, err)
	out, err := os.Create(filepath.Join(t.TempDir(), "ahead.pcap"))
	must.Do(t, err)
	defer out.Close()
	w := pcapgo.NewWriterNanos(out)
	must.Do(t, w.WriteFileHeader(r.Snaplen(), r.LinkType()))
	for {
		data, info, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return out.Name()
		}
		must.Do(t, err)
		info.Timestamp = info.Timestamp.Add(by)
		must.Do(t, w.WritePacket(info, data))
	}
}

// TestExplainClocks explains the captures of both ends, one of which has a clock that is 3 s ahead, as text and as
// a page. A file may be compressed.
func TestExplainClocks(t *testing.T) {
	server := ahead(t, "loss_ack.server.pcap", 3*time.Second)
	plain, err := os.ReadFile(captures + "loss_ack.client.pcap")
	must.Do(t, err)
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err = w.Write(plain)
	must.Do(t, errors.Join(err, w.Close()))
	dir := t.TempDir()
	client, out := filepath.Join(dir, "client.pcap.gz"), filepath.Join(dir, "page.html")
	must.Do(t, os.WriteFile(client, z.Bytes(), 0o600))
	code, text, errs := command(t, "explain", "--html", out, client, server)
	html, err := os.ReadFile(out)
	must.Do(t, err)
	for what, text := range map[string]string{"text": text, "page": string(html)} {
		if code != 0 || !strings.Contains(text, "the clock of "+server[:len(filepath.VolumeName(server))+1]) || !strings.Contains(text, "ahead of") {
			t.Errorf("exit code %d, the %s does not say that the clock is ahead: %s%s", code, what, text, errs)
		}
	}
}

// TestExplainPipes explains captures that can be read once only.
func TestExplainPipes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it uses /dev/fd") // other systems name descriptors in other ways
	}
	var names []string
	for _, name := range []string{"loss_ack.client.pcap", "loss_ack.server.pcap"} {
		file, err := os.ReadFile(captures + name)
		must.Do(t, err)
		r, w, err := os.Pipe()
		must.Do(t, err)
		defer r.Close()
		go func() {
			_, _ = w.Write(file) // the command reports what is missing
			_ = w.Close()
		}()
		names = append(names, fmt.Sprintf("/dev/fd/%d", r.Fd()))
	}
	code, text, errs := command(t, append([]string{"explain"}, names...)...)
	if code != 0 || !strings.Contains(text, "45 packets in 45 records") {
		t.Errorf("exit code %d: %s%s", code, text, errs)
	}
}

//go:build !portable

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/softhca/softhca/cmd/softhca/internal/devices"
)

// TestBroker serves an address by the command, looks at it with devices, and
// is refused a second time.
func TestBroker(t *testing.T) {
	const addr = "127.83.19.7"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan int, 1)
	said, says := io.Pipe()
	go func() {
		ended <- run(ctx, []string{"broker", "--addr", addr, "--slots", "3"}, new(bytes.Buffer), says)
		_ = says.Close()
	}()
	begins, err := bufio.NewReader(said).ReadString('\n')
	if err != nil || !strings.Contains(begins, "for 3 processes") {
		t.Fatalf("the broker says %q (%v)", begins, err)
	}
	var out bytes.Buffer
	var found []struct{ Share *devices.Share }
	if code := run(ctx, []string{"devices", "--addr", addr, "--json"}, &out, new(bytes.Buffer)); code != exitOK {
		t.Fatalf("devices: code %d", code)
	}
	if err := json.Unmarshal(out.Bytes(), &found); err != nil || found[0].Share == nil {
		t.Fatalf("no broker is seen: %+v (%v)", found, err)
	}
	if s := found[0].Share; s.Slots != 3 || len(s.Processes) != 0 {
		t.Errorf("shared by %+v", s)
	}
	var second bytes.Buffer
	if code := run(ctx, []string{"broker", "--addr", addr}, new(bytes.Buffer), &second); code != exitFailed || !strings.Contains(second.String(), "processes share") {
		t.Errorf("a second broker: code %d, %s", code, &second)
	}
	cancel()
	if code := <-ended; code != exitOK {
		t.Errorf("code %d", code)
	}
	for _, wrong := range [][]string{{"--slots", "0"}, {"--slots", "-1"}, {"--transport", "raw"}, {"--fault", "drop p=1"}, {"x"}} {
		if code := run(t.Context(), append([]string{"broker", "--addr", addr}, wrong...), new(bytes.Buffer), new(bytes.Buffer)); code != exitUsage {
			t.Errorf("%v: code %d", wrong, code)
		}
	}
}

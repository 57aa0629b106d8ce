//go:build !portable

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/devices"
)

// TestD3_Broker serves an address by the command, looks at it with devices, and
// is refused a second time.
func TestD3_Broker(t *testing.T) {
	const addr = "127.83.19.7"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan int, 1)
	var errs bytes.Buffer
	go func() {
		ended <- run(ctx, []string{"broker", "--addr", addr, "--slots", "3"}, new(bytes.Buffer), &errs)
	}()

	var found []struct{ Share *devices.Share }
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); len(found) == 0 || found[0].Share == nil; <-tick.C {
		var out bytes.Buffer
		if time.Now().After(end) {
			t.Fatalf("no broker is seen: %+v", found)
		}
		if run(ctx, []string{"devices", "--addr", addr, "--json"}, &out, new(bytes.Buffer)) == exitOK {
			found = nil
			if err := json.Unmarshal(out.Bytes(), &found); err != nil {
				t.Fatal(err)
			}
		}
	}
	if s := found[0].Share; s.Slots != 3 || len(s.Processes) != 0 {
		t.Errorf("shared by %+v", s)
	}
	var second bytes.Buffer
	if code := run(ctx, []string{"broker", "--addr", addr}, new(bytes.Buffer), &second); code != exitFailed || !strings.Contains(second.String(), "another broker serves") {
		t.Errorf("a second broker: code %d, %s", code, &second)
	}
	cancel()
	if code := <-ended; code != exitOK || !strings.Contains(errs.String(), "for 3 processes") {
		t.Errorf("code %d, %s", code, &errs)
	}
	for _, wrong := range [][]string{{"--slots", "0"}, {"--slots", "-1"}, {"--transport", "raw"}, {"--fault", "drop p=1"}, {"x"}} {
		if code := run(t.Context(), append([]string{"broker", "--addr", addr}, wrong...), new(bytes.Buffer), new(bytes.Buffer)); code != exitUsage {
			t.Errorf("%v: code %d", wrong, code)
		}
	}
}

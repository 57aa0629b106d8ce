package explain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/must"
)

// bothEnds returns the captures of both ends, that of the server with a clock that is ahead.
func bothEnds(t *testing.T, name string, ahead time.Duration) []Capture {
	t.Helper()
	client, server := load(t, name+".client"), load(t, name+".server")
	server.each(0, func(f *frame) { f.at = f.at.Add(ahead) })
	return []Capture{captureOf("client", client.file()), captureOf("server", server.file())}
}

// textOf returns the text of a report, without line breaks in sentences.
func textOf(t *testing.T, r *Report) string {
	t.Helper()
	var b strings.Builder
	must.Do(t, r.Text(&b, TextOptions{All: true}))
	return strings.Join(strings.Fields(b.String()), " ")
}

// TestBothEnds joins captures of both ends of connections of Linux. One host took both, so nothing is said of
// its clock. With another clock at one end the explanation is the same, and says how the clocks differ.
func TestBothEnds(t *testing.T) {
	paths, err := filepath.Glob(captures + "*.client.pcap")
	must.Do(t, err)
	corrected, oneWay := 0, 0
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".client.pcap")
		same, err := ReadAll(bothEnds(t, name, 0), Config{})
		must.Do(t, err)
		if same.Clocks != nil && same.Clocks[0].Method != "one_direction" || (same.Clocks != nil) != strings.Contains(textOf(t, same), "clock") {
			t.Errorf("%s: of one clock the report says %+v, %s", name, same.Clocks, textOf(t, same))
		}
		for ahead, words := range map[time.Duration]string{3 * time.Second: "s ahead of that of client", -250 * time.Millisecond: "ms behind that of client"} {
			r, err := ReadAll(bothEnds(t, name, ahead), Config{})
			must.Do(t, err)
			if names(r) != names(same) || r.Verdict.Headline != same.Verdict.Headline || (r.Duration-same.Duration).Abs() > time.Millisecond {
				t.Errorf("%s, %v ahead: %s, %s, in %v; want %s, %s, in %v", name, ahead, r.Verdict.Headline, names(r), r.Duration, same.Verdict.Headline, names(same), same.Duration)
			}
			if len(r.Clocks) != 1 {
				t.Errorf("%s, %v ahead: the clocks are %+v", name, ahead, r.Clocks)
				continue
			}
			c, text := &r.Clocks[0], textOf(t, r)
			caveat := strings.Contains(text, "went in one direction only")
			switch {
			case c.Method == "one_direction" && caveat && c.Error == 0 && (c.Offset-ahead).Abs() < time.Millisecond:
				oneWay++
			case c.Method == "both_directions" && !caveat && c.Error < time.Millisecond && (c.Offset-ahead).Abs() <= c.Error+time.Microsecond && strings.Contains(text, words):
				corrected++
			default:
				t.Errorf("%s, %v ahead: the clock is %+v, %s", name, ahead, *c, text)
			}
		}
	}
	if corrected < 50 || oneWay < 4 {
		t.Errorf("%d and %d captures were corrected", corrected, oneWay)
	}
}

// TestNoCommonPacket joins captures of different connections: nothing shows how their clocks differ, and the
// report says so.
func TestNoCommonPacket(t *testing.T) {
	r, err := ReadAll([]Capture{captureOf("a", load(t, "errs_bad_rkey_write").file()), captureOf("b", load(t, "pp_rc_v6").file())}, Config{})
	must.Do(t, err)
	if text := textOf(t, r); len(r.Clocks) != 1 || r.Clocks[0].Method != "none" || r.Clocks[0].Reference != "b" || !strings.Contains(text, "no packet is in both") {
		t.Errorf("the clocks are %+v, %s", r.Clocks, text)
	}
}

// TestClocksInJSON has the fields of a clock.
func TestClocksInJSON(t *testing.T) {
	r, err := ReadAll(bothEnds(t, "loss_ack", 3*time.Second), Config{})
	must.Do(t, err)
	var b bytes.Buffer
	must.Do(t, r.JSON(&b))
	var got struct {
		Clocks []map[string]any `json:"clocks"`
	}
	must.Do(t, json.Unmarshal(b.Bytes(), &got))
	if len(got.Clocks) != 1 {
		t.Fatalf("the clocks are %v", got.Clocks)
	}
	c := got.Clocks[0]
	for field, want := range map[string]string{"file": "server", "reference": "client", "method": "both_directions"} {
		if c[field] != want {
			t.Errorf("%s is %v, want %s", field, c[field], want)
		}
	}
	if off, _ := c["offset_ns"].(float64); off < 2.9e9 || off > 3.1e9 {
		t.Errorf("offset_ns is %v", c["offset_ns"])
	}
}

// TestSentences has the sentences about clocks.
func TestSentences(t *testing.T) {
	for _, c := range []struct {
		clock Clock
		want  string
	}{
		{Clock{"b", "a", "same", 0, 0, 5, 7}, ""},
		{Clock{"b", "a", "none", 0, 0, 0, 0}, ""},
		{Clock{"b", "a", "both_directions", 3000012345, 0, 21 * time.Microsecond, 7}, "the clock of b is 3.00001s ahead of that of a, to within 21µs (7 packets in both); the times here are those of a"},
		{Clock{"b", "a", "both_directions", -250 * time.Millisecond, -50 * time.Microsecond, 21 * time.Microsecond, 1}, "the clock of b is 250ms behind that of a, to within 21µs (1 packet in both), and loses 50µs a second; the times here are those of a"},
		{Clock{"b", "a", "one_direction", 3 * time.Second, 0, 0, 7}, "the clock of b is 3s ahead of that of a, if the fastest of 7 packets in both took no time; the times here are those of a"},
	} {
		if got := c.clock.String(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.clock, got, c.want)
		}
	}
}

// TestCaptureCannotBeReadAgain has captures that cannot be opened, or not twice.
func TestCaptureCannotBeReadAgain(t *testing.T) {
	file, broken := load(t, "errs_send").file(), errors.New("no more")
	for _, times := range []int{0, 1} {
		n := 0
		c := Capture{"b", func() (io.Reader, error) {
			if n++; n > times {
				return nil, broken
			}
			return bytes.NewReader(file), nil
		}}
		r, err := ReadAll([]Capture{captureOf("a", file), c}, Config{})
		must.Fail(t, err, broken, fmt.Sprintf("a capture that opens %d times", times))
		if r != nil {
			t.Error("there is a report")
		}
	}
}

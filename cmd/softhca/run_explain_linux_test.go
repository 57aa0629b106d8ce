package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/explain"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/pcapfile"
)

// TestRunExplain runs programs as children: the command exits with their exit
// codes, and explains their packets.
func TestRunExplain(t *testing.T) {
	i := install(t)
	for _, c := range []struct {
		args []string
		code int
		want string // of what is printed
		errs string // likewise
	}{
		{[]string{"--", "sh", "-c", "echo printed; cat"}, 0, "printed\n", "no packet passed"},
		{[]string{"--", "sh", "-c", "exit 7"}, 7, "", "sh ended with exit code 7"},
		{[]string{"--", "sh", "-c", "kill -TERM $$"}, 143, "", "ended with exit code 143"},
		{[]string{"--", "/no/such/program"}, 127, "", "no such file or directory"},
		{[]string{"--", "/etc/passwd"}, 126, "", "permission denied"},
		{[]string{"--capture", "/no/such/directory/x.pcapng", "--", "true"}, 125, "", "no such file or directory"},
		{[]string{"--require-packets", "--", "true"}, 86, "", "--require-packets: no RoCEv2 packet passed"},
		{[]string{"--require-packets", "--", "false"}, 1, "", "false ended with exit code 1"},
		{[]string{"--expect", "clean", "--", "true"}, 86, "", "--expect clean: empty: "},
		{[]string{"--expect", "REM_ACCESS_ERR", "--", "true"}, 86, "", "--expect REM_ACCESS_ERR: no program got an error; empty: "},
		{[]string{"--expect", "dirty", "--", "true"}, 125, "", "want clean, repaired, or a completion status"},
		{[]string{"--", "sh", "-c", "test -S ${SOFTHCA_CAPTURE#unix:} && echo $SOFTHCA_CAPTURE | cut -c1-5"}, 0, "unix:\n", "no packet passed"},
		// The shell sends the signal to the command, which passes it on to the program; the
		// program prints that it got one.
		{[]string{"--", "sh", "-c", `trap 'echo passed on; exit 5' TERM; kill -TERM $PPID; while :; do sleep 0.05; done`}, 5, "passed on\n", "exit code 5"},
	} {
		state, out, errs := i.run(t, append([]string{"--explain"}, c.args...)...)
		if state.ExitCode() != c.code || out != c.want || !strings.Contains(errs, c.errs) {
			t.Errorf("run --explain %q: exit code %d, want %d\n%q, want %q\n%q, want %q", c.args, state.ExitCode(), c.code, out, c.want, errs, c.errs)
		}
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "softhca-run-*")); len(left) > 0 || err != nil {
		t.Errorf("%v is left behind; %v", left, err)
	}
}

// newTestEars returns ears at a socket, which copy all packets to a writer if it is not nil, and the path.
func newTestEars(t *testing.T, w io.Writer) (*ears, string) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "capture"))
	must.Do(t, err)
	e := newEars(l, &newsroom{w: io.Discard})
	if w != nil {
		e.copy, err = pcapfile.NewWriter(w)
		must.Do(t, err)
	}
	go e.listen()
	go e.follow()
	return e, l.Addr().String()
}

// TestEars listens to several adapters at once: of a process that ended, of one that
// ended within a packet, of one that goes on, and to what is no capture.
func TestEars(t *testing.T) {
	e, path := newTestEars(t, nil)
	var open []net.Conn
	for _, c := range []struct {
		name string
		cut  int
	}{{"errs_send", 0}, {"errs_rnr_exceeded", 0}, {"errs_bad_rkey_write", 5}, {"", 0}} {
		b := bytes.Repeat([]byte("no capture "), 10_000)
		if c.name != "" {
			var err error
			if b, err = os.ReadFile("../../internal/testdata/captures/" + c.name + ".pcap"); err != nil {
				t.Fatal(err)
			}
		}
		conn, err := net.Dial("unix", path)
		must.Do(t, err)
		if _, err := conn.Write(b[:len(b)-c.cut]); err != nil {
			t.Fatal(err)
		}
		if c.name == "errs_rnr_exceeded" {
			open = append(open, conn) // it goes on
			continue
		}
		must.Do(t, conn.Close())
	}
	// Accepted in the order in which they dialed: when this one is heard, all are.
	last, err := net.Dial("unix", path)
	must.Do(t, err)
	if _, err := last.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	must.Do(t, last.(*net.UnixConn).CloseWrite())
	if _, err := io.Copy(io.Discard, last); err != nil {
		t.Fatal(err)
	}
	r, failed := e.close()
	must.Do(t, failed)
	for _, want := range []string{"rnr-unresolved", "one-direction"} {
		if !slices.ContainsFunc(r.Findings, func(f *explain.Finding) bool { return f.Rule == want }) {
			t.Errorf("%s is missing among %d findings", want, len(r.Findings))
		}
	}
	if len(r.Conversations) < 3 {
		t.Errorf("%d conversations, want those of 3 adapters", len(r.Conversations))
	}
	for _, conn := range open {
		_ = conn.Close()
	}
}

// TestManyAdapters follows as many adapters as it can, and discards what others send.
func TestManyAdapters(t *testing.T) {
	var copied bytes.Buffer
	e, path := newTestEars(t, &copied)
	one, err := os.ReadFile("../../internal/testdata/captures/errs_send.pcap")
	must.Do(t, err)
	plain, err := explain.Read(bytes.NewReader(one), explain.Config{})
	must.Do(t, err)
	for n := range maxListened + 3 {
		conn, err := net.Dial("unix", path)
		must.Do(t, err)
		if _, err := conn.Write(one); err != nil {
			t.Fatal(err)
		}
		must.Do(t, conn.Close())
		if n%50 == 0 { // a listener has room for some
			untilHeard(t, e, n+1)
		}
	}
	untilHeard(t, e, maxListened+3)
	r, failed := e.close()
	must.Do(t, failed)
	if want := maxListened * plain.Records; r.Records != want {
		t.Errorf("%d records are followed, want %d", r.Records, want)
	}
	again, err := explain.Read(&copied, explain.Config{})
	must.Do(t, err)
	if again.Records != r.Records || again.Verdict.Headline != r.Verdict.Headline {
		t.Errorf("the copy has %d records: %s; want %d: %s", again.Records, again.Verdict.Headline, r.Records, r.Verdict.Headline)
	}
	if e.held != 0 {
		t.Errorf("%d bytes are held at the end", e.held)
	}
}

// sender is an adapter whose packets are captured at times that the test chooses.
type sender struct {
	t    *testing.T
	conn net.Conn
	w    *pcapfile.Writer
	from *pcapfile.Packet
}

func newSender(t *testing.T, path string) *sender {
	t.Helper()
	file, err := os.Open("../../internal/testdata/captures/errs_send.pcap")
	must.Do(t, err)
	defer file.Close()
	r, err := pcapfile.NewReader(file)
	must.Do(t, err)
	i, err := r.NextItem()
	must.Do(t, err)
	s := &sender{t: t, from: i.Clone().Packet}
	s.conn, err = net.Dial("unix", path)
	must.Do(t, err)
	s.w, err = pcapfile.NewWriter(s.conn)
	must.Do(t, errors.Join(err, s.w.Flush()))
	return s
}

// send sends a packet that was captured at a time.
func (s *sender) send(at time.Time) {
	s.t.Helper()
	p := *s.from
	p.Time = at
	must.Do(s.t, errors.Join(s.w.Write(&pcapfile.Item{Packet: &p}), s.w.Flush()))
}

// times returns the times of the packets of a capture, in nanoseconds since a start.
func times(t *testing.T, file io.Reader, start time.Time) (all []time.Duration) {
	t.Helper()
	r, err := pcapfile.NewReader(file)
	must.Do(t, err)
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		must.Do(t, err)
		all = append(all, p.Time.Sub(start))
	}
}

// TestOrderOfAdapters sends all packets of one adapter before those of another one. The report and the copy
// have them in the order of their times, also if these are far from the time of this host.
func TestOrderOfAdapters(t *testing.T) {
	for _, start := range []time.Time{time.Now().Add(-time.Hour), time.Now().Add(time.Hour)} {
		var copied bytes.Buffer
		e, path := newTestEars(t, &copied)
		a, b := newSender(t, path), newSender(t, path)
		untilHeard(t, e, 2)
		for n := range time.Duration(20) {
			a.send(start.Add(2 * n))
		}
		for n := range time.Duration(20) {
			b.send(start.Add(2*n + 1))
		}
		must.Do(t, errors.Join(a.conn.Close(), b.conn.Close()))
		r, failed := e.close()
		must.Do(t, failed)
		if got := times(t, &copied, start); r.Packets != 40 || len(got) != 40 || !slices.IsSorted(got) {
			t.Errorf("the packets were captured at %v", got)
		}
	}
}

// TestIdleAdapter has one adapter send much while another one is silent: the first does not wait for it.
func TestIdleAdapter(t *testing.T) {
	e, path := newTestEars(t, nil)
	idle, busy := newSender(t, path), newSender(t, path)
	untilHeard(t, e, 2)
	const packets = 20_000
	busy.from.Payload = append(bytes.Clone(busy.from.Payload), make([]byte, 4096)...) // together more than twice maxHeld
	binary.BigEndian.PutUint16(busy.from.UDP[4:], uint16(len(busy.from.Payload)+8))
	binary.BigEndian.PutUint16(busy.from.IP[2:], uint16(len(busy.from.Payload)+28))
	start := time.Now()
	for n := range time.Duration(packets) {
		p := *busy.from
		p.Time = start.Add(n)
		must.Do(t, busy.w.Write(&pcapfile.Item{Packet: &p}))
	}
	must.Do(t, errors.Join(busy.w.Flush(), busy.conn.Close()))
	e.mu.Lock()
	if most := e.held; most > maxHeld+8192 {
		t.Errorf("%d bytes are held", most)
	}
	for end := time.Now().Add(30 * time.Second); e.held > 0 && time.Now().Before(end); {
		e.changed.Wait() // it wakes now and then
	}
	if e.held > 0 {
		t.Errorf("%d bytes still wait for the silent adapter", e.held)
	}
	e.mu.Unlock()
	must.Do(t, idle.conn.Close())
	r, failed := e.close()
	must.Do(t, failed)
	if r.Packets != packets {
		t.Errorf("%d packets are followed, want %d", r.Packets, packets)
	}
}

// untilHeard waits until some adapters have connected.
func untilHeard(t *testing.T, e *ears, n int) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.heard < n {
		e.changed.Wait() // it wakes now and then
	}
}

// TestFullCopy follows packets although their copy cannot be written.
func TestFullCopy(t *testing.T) {
	e, path := newTestEars(t, writerFunc(func([]byte) (int, error) { return 0, io.ErrShortWrite }))
	b, err := os.ReadFile("../../internal/testdata/captures/errs_rnr_exceeded.pcap")
	must.Do(t, err)
	conn, err := net.Dial("unix", path)
	must.Do(t, err)
	if _, err := conn.Write(b); err != nil {
		t.Fatal(err)
	}
	must.Do(t, conn.Close())
	untilHeard(t, e, 1)
	r, failed := e.close()
	if failed == nil || !r.Verdict.Bad() {
		t.Errorf("%v; %s", failed, r.Verdict.Headline)
	}
}

// TestGoneAdapters adds to the end of each adapter's capture that it has gone, if it is one of softhca.
func TestGoneAdapters(t *testing.T) {
	var copied bytes.Buffer
	e, path := newTestEars(t, &copied)
	conn, err := net.Dial("unix", path)
	must.Do(t, err)
	w, err := pcapfile.NewWriter(conn)
	must.Do(t, err)
	said := pcapfile.Entry{Time: time.Now(), Message: "m", Fields: []pcapfile.Field{{Name: "MSG", Value: "m"}, {Name: "ADAPTER", Value: "10.0.0.1"}, {Name: "PID", Value: "77"}}}
	must.Do(t, errors.Join(w.Write(&pcapfile.Item{Entry: &said}), w.Flush(), conn.Close()))
	untilHeard(t, e, 1)
	if _, failed := e.close(); failed != nil {
		t.Error(failed)
	}
	file, err := pcapfile.NewReader(&copied)
	must.Do(t, err)
	var texts []string
	for {
		i, err := file.NextItem()
		if err != nil {
			break
		}
		texts = append(texts, i.Entry.Get("MSG")+" "+i.Entry.Get("ADAPTER")+" "+i.Entry.Get("PID"))
	}
	if got := strings.Join(texts, "; "); got != "m 10.0.0.1 77; adapter gone 10.0.0.1 77" {
		t.Errorf("the copy has %q", got)
	}
}

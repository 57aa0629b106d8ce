package frames_test

import (
	"encoding/binary"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/interop/frames"
)

// The hosts of the captures between two Linux guests.
var (
	server4, client4 = netip.MustParseAddr("10.77.0.2"), netip.MustParseAddr("10.77.0.3")
	server6, client6 = netip.MustParseAddr("fd00:77::2"), netip.MustParseAddr("fd00:77::3")
)

const captures = "../../internal/testdata/captures"

// read returns the Ethernet frames of a capture.
func read(t *testing.T, path string) (raw [][]byte) {
	t.Helper()
	f, err := os.Open(path)
	must.Do(t, err)
	defer func() { _ = f.Close() }()
	r, err := pcapgo.NewReader(f)
	if err == io.EOF {
		return nil // a scenario that sends nothing
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	for {
		b, _, err := r.ReadPacketData()
		if err == io.EOF {
			return raw
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		raw = append(raw, append([]byte(nil), b...))
	}
}

// parse returns the frames of a capture as one of its hosts sees them.
func parse(t *testing.T, name string, own ...netip.Addr) (fs []frames.Frame) {
	t.Helper()
	for _, raw := range read(t, filepath.Join(captures, name+".pcap")) {
		f, ok := frames.Parse(raw)
		if !ok || f.Err != nil {
			t.Fatalf("%s: %v", name, f.Err)
		}
		for _, a := range own {
			f.Out = f.Out || f.Src == a
		}
		fs = append(fs, f)
	}
	if len(fs) == 0 {
		t.Fatalf("%s holds no frames", name)
	}
	return fs
}

// Every packet that Linux sent has the ICRC that the bit-by-bit CRC computes.
func TestLinuxHasTheSameICRC(t *testing.T) {
	files, err := filepath.Glob(captures + "/*.pcap")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d captures: %v", len(files), err)
	}
	n := 0
	for _, file := range files {
		for i, raw := range read(t, file) {
			f, ok := frames.Parse(raw)
			if !ok || f.Err != nil {
				t.Errorf("%s, frame %d: RoCE %v, %v", file, i+1, ok, f.Err)
			}
			n++
		}
	}
	if n < 5000 {
		t.Errorf("only %d frames were checked", n)
	}
}

// A bit that is flipped anywhere that the ICRC covers is noticed, one that may
// change on the way is not.
func TestOneBitIsNoticed(t *testing.T) {
	for _, c := range []struct {
		name   string
		masked []int // bytes of the frame that may change, or that say it is no RoCE packet
	}{
		{"pp_rc_64", []int{15, 22, 24, 25, 40, 41, 46}},
		{"pp_rc_v6", []int{14, 15, 16, 17, 21, 60, 61, 66}},
	} {
		raw := read(t, filepath.Join(captures, c.name+".pcap"))[0]
		masked := map[int]bool{}
		for _, i := range c.masked {
			masked[i] = true
		}
		for i := 14; i < len(raw); i++ {
			raw[i] ^= 1
			f, ok := frames.Parse(raw)
			raw[i] ^= 1
			if noticed := !ok || f.Err != nil; noticed == masked[i] {
				t.Errorf("%s: byte %d changed: noticed %v, should be %v", c.name, i, noticed, !masked[i])
			}
		}
	}
}

func TestParseTakesAnything(t *testing.T) {
	raw := read(t, filepath.Join(captures, "pp_rc_64.pcap"))[0]
	for n := range raw {
		if f, ok := frames.Parse(raw[:n]); ok && f.Err == nil {
			t.Errorf("the first %d of %d bytes pass for a whole packet", n, len(raw))
		}
	}
	if f, ok := frames.Parse(append(raw, 0, 0, 0)); !ok || f.Err != nil {
		t.Errorf("Ethernet's padding is not left out: %v", f.Err)
	}
}

// Two Linux peers do what our answers are held to.
func TestAnswersOfLinuxAreRight(t *testing.T) {
	for _, name := range []string{"pp_rc_64", "pp_rc_4096", "pp_rc_5001_m256", "pp_rc_v6", "pp_rc_mtu4096", "pf_read_lat", "pf_write_lat", "cm_rping", "cm_rping_v6"} {
		for _, own := range [][]netip.Addr{{server4, server6}, {client4, client6}} {
			fs := parse(t, name, own...)
			if lines := frames.Answers(fs); len(lines) > 0 {
				t.Errorf("%s, seen by %v: %s", name, own[0], strings.Join(lines, "\n"))
			}
		}
	}
}

func TestWrongAnswersAreNoticed(t *testing.T) {
	for _, c := range []struct {
		what string
		to   func(aeth uint32) uint32
	}{
		{"MSN", func(a uint32) uint32 { return a&^0xFFFFFF | (a+1)&0xFFFFFF }},
		{"credit", func(a uint32) uint32 { return a&0xFFFFFF | 7<<24 }},
	} {
		fs := parse(t, "pp_rc_64", server4)
		changed := 0
		for i := range fs {
			if fs[i].Out && fs[i].Opcode == 0x11 && changed == 0 {
				fs[i].AETH = c.to(fs[i].AETH)
				changed++
			}
		}
		lines := frames.Answers(fs)
		if len(lines) != 1 || !strings.Contains(lines[0], c.what) {
			t.Errorf("one wrong %s of %d answers: %q", c.what, changed, lines)
		}
	}
}

func TestEachREPWantsAnRTU(t *testing.T) {
	fs := parse(t, "cm_rping", client4)
	if n := frames.CMCount(fs, frames.REQ, true); n != 1 {
		t.Fatalf("%d REQs are found, not 1", n)
	}
	if n := frames.Unconfirmed(fs); n != 0 {
		t.Errorf("%d connections have no RTU, between two Linux peers", n)
	}
	var without, twice []frames.Frame
	for _, f := range fs {
		m, ok := f.CM()
		if !ok || m != frames.RTU {
			without = append(without, f)
		}
		if twice = append(twice, f); ok && m == frames.REP {
			twice = append(twice, f) // it came again, and only then is answered
		}
	}
	if n := frames.Unconfirmed(without); n != 1 {
		t.Errorf("without its RTU, %d connections have none, not 1", n)
	}
	if n := frames.Unconfirmed(twice); n != 1 {
		t.Errorf("a late RTU is not noticed: %d", n)
	}
}

// A reader of captures finds the written frames.
func TestWriteFile(t *testing.T) {
	fs := parse(t, "pp_rc_64", server4)
	path := filepath.Join(t.TempDir(), "x.pcap")
	must.Do(t, frames.WriteFile(path, append(fs, frames.Frame{})))
	raw := read(t, path)
	if len(raw) != len(fs) {
		t.Fatalf("%d frames of %d are in the file; those without bytes are left out", len(raw), len(fs))
	}
	for i := range raw {
		if string(raw[i]) != string(fs[i].Raw) {
			t.Fatalf("frame %d differs", i)
		}
	}
}

func TestSpan(t *testing.T) {
	fs := parse(t, "pp_rc_64", server4)
	for i := range fs {
		fs[i].Time = fs[i].Time.AddDate(2020, 0, 0).Add(1e6 * 1000)
	}
	if d := frames.Span(fs); d != 1000 {
		t.Errorf("frames of one instant span %v", d)
	}
	fs[len(fs)-1].Time = fs[0].Time.Add(5e9)
	if d := frames.Span(fs); d != 5e9 {
		t.Errorf("five seconds are %v", d)
	}
	if binary.BigEndian.Uint32(fs[0].Payload[4:])&0xFFFFFF != fs[0].DestQP {
		t.Error("the destination queue pair is read wrong")
	}
}

func TestSilence(t *testing.T) {
	at := func(ms int, out bool) frames.Frame { return frames.Frame{Time: time.UnixMilli(int64(ms)), Out: out} }
	fs := []frames.Frame{at(0, true), at(1, false), at(900, false), at(1000, true), at(1067, true), at(1500, false), at(1600, true)}
	if d := frames.Silence(fs); d != 500*time.Millisecond {
		t.Errorf("a silence of %v, not of 500 ms: who asks nothing gets no answer", d)
	}
	if d := frames.Silence(nil); d != 0 {
		t.Errorf("nothing is silent for %v", d)
	}
}

func TestAlone(t *testing.T) {
	at := func(ms int, out bool) frames.Frame { return frames.Frame{Time: time.UnixMilli(int64(ms)), Out: out} }
	fs := []frames.Frame{at(0, true), at(1, false), at(900, false), at(1000, true), at(1500, true)}
	if d := frames.Alone(fs, true); d != 600*time.Millisecond {
		t.Errorf("this host alone for %v, not for 600 ms", d)
	}
	if d := frames.Alone(fs, false); d != 0 {
		t.Errorf("the guest, which was silent, alone for %v", d)
	}
	if d := frames.Alone(fs[:1], true); d != 0 {
		t.Errorf("nobody else ever sent, yet this host is alone for %v", d)
	}
}

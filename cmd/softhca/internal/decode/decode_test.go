package decode

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/golden"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/roce"
)

const captures = "../../../../internal/testdata/captures/"

// TestLinuxCaptures decodes everything that was captured between Linux peers:
// every packet is intact.
func TestLinuxCaptures(t *testing.T) {
	names, err := filepath.Glob(captures + "*.pcap")
	if err != nil || len(names) < 200 {
		t.Fatalf("%d captures, %v", len(names), err)
	}
	total := 0
	for _, name := range names {
		data := read(t, name)
		text, err := Text(bytes.NewReader(data), io.Discard, Options{})
		if err != nil || text.Bad() != 0 || text.RoCE != text.ICRCOK {
			t.Errorf("%s: %v, %v", name, text, err)
		}
		var out bytes.Buffer
		obj, err := JSON(bytes.NewReader(data), &out, Options{})
		if err != nil || obj != text {
			t.Errorf("%s: as JSON %v, %v; as text %v", name, obj, err, text)
		}
		total += countObjects(t, &out)
	}
	if total < 5000 {
		t.Errorf("only %d packets in all captures", total)
	}
}

// TestM6_Flush names the types and extents of a FLUSH, and prints other values.
func TestM6_Flush(t *testing.T) {
	for h, want := range map[FETH]string{
		{1, 0}: "flush global range", {2, 1}: "flush persistent region", {3, 0}: "flush global|persistent range",
		{0, 0}: "flush 0x0 range", {4, 2}: "flush 0x4 selectivity 2", {9, 3}: "flush global|0x8 selectivity 3",
	} {
		if got := h.text(); got != want {
			t.Errorf("%+v is %q, want %q", h, got, want)
		}
	}
}

// countObjects parses a stream of JSON objects and returns how many there are.
func countObjects(t *testing.T, r io.Reader) (n int) {
	t.Helper()
	for dec := json.NewDecoder(r); ; n++ {
		var p struct {
			BTH    struct{ Name string }
			ICRCOK *bool `json:"icrc_ok"`
		}
		err := dec.Decode(&p)
		if err == io.EOF {
			return n
		}
		if err != nil || p.BTH.Name == "" || p.ICRCOK == nil {
			t.Fatalf("object %d: %v, %+v", n, err, p)
		}
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	must.Do(t, err)
	return data
}

func TestGolden(t *testing.T) {
	for _, name := range []string{"errs_atomic", "errs_bad_rkey_write", "errs6_read", "errs6_rnr_then_ok", "errs6_ud_send",
		"cm_rdma_client", "cm_udaddy", "cm_cmx_slow", "cm_cmx_reject_v6", "cm_cmx_abort"} {
		data := read(t, captures+name+".pcap")
		var text, obj bytes.Buffer
		sum, err := Text(bytes.NewReader(data), &text, Options{})
		must.Do(t, err)
		text.WriteString(sum.String() + "\n")
		if _, err := JSON(bytes.NewReader(data), &obj, Options{}); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "testdata/"+name+".txt", text.Bytes())
		golden.Check(t, "testdata/"+name+".json", obj.Bytes())
	}
}

// pcap returns a capture file of raw IP with one record, of which the first
// kept bytes were captured.
func pcap(ip []byte, kept int) []byte {
	b := make([]byte, 24, 24+16+kept)
	binary.LittleEndian.PutUint32(b, 0xa1b2c3d4)
	binary.LittleEndian.PutUint16(b[4:], 2)
	binary.LittleEndian.PutUint16(b[6:], 4)
	binary.LittleEndian.PutUint32(b[16:], 65535)
	binary.LittleEndian.PutUint32(b[20:], 101)
	b = binary.LittleEndian.AppendUint32(append(b, make([]byte, 8)...), uint32(kept))
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(ip))), ip[:kept]...)
}

// intact is an IPv4 packet from 10.0.0.1: RC SEND_ONLY with "hello" and an
// ICRC that another program computed.
func intact() []byte {
	return []byte("\x45\x00\x00\x34\x12\x34\x40\x00\x40\x11\x14\x83\x0a\x00\x00\x01\x0a\x00\x00\x02" +
		"\xd8\x72\x12\xb7\x00\x20\x00\x00" +
		"\x04\x30\xff\xff\x00\x00\x00\x11\x80\x00\xab\xcd\x68\x65\x6c\x6c\x6f\x00\x00\x00\xfe\xa0\xd4\x9c")
}

func TestVerdicts(t *testing.T) {
	size := len(intact())
	for _, c := range []struct {
		why    string
		change func(ip []byte)
		kept   int
		want   Summary
		text   string
	}{
		{"intact", func([]byte) {}, size, Summary{1, 1, 1, 0, 0, 0}, "payload 5  icrc ok"},
		{"payload changed", func(ip []byte) { ip[40]++ }, size, Summary{1, 1, 0, 1, 0, 0}, "icrc 9cd4a0fe BAD"},
		{"TTL changed, as routers do", func(ip []byte) { ip[8]-- }, size, Summary{1, 1, 1, 0, 0, 0}, "icrc ok"},
		{"unassigned opcode", func(ip []byte) { ip[28] = 0x1f }, size, Summary{1, 1, 0, 0, 1, 0}, "UNKNOWN_0x1f               qp 0x000011 psn 0x00abcd ack_req pad 3  24 bytes  MALFORMED: opcode"},
		{"version 1", func(ip []byte) { ip[29] |= 1 }, size, Summary{1, 1, 0, 0, 1, 0}, "tver 1  24 bytes  MALFORMED: version"},
		{"cut off in the payload", func([]byte) {}, size - 6, Summary{1, 1, 0, 0, 1, 0}, "RC_SEND_ONLY               qp 0x000011 psn 0x00abcd ack_req pad 3  18 bytes  MALFORMED: truncated"},
		{"cut off in the BTH", func([]byte) {}, 32, Summary{1, 1, 0, 0, 1, 0}, "10.0.0.2  4 bytes  MALFORMED: truncated"},
		{"another port", func(ip []byte) { ip[23]++ }, size, Summary{1, 0, 0, 0, 0, 0}, ""},
	} {
		ip := intact()
		c.change(ip)
		var out strings.Builder
		sum, err := Text(bytes.NewReader(pcap(ip, c.kept)), &out, Options{})
		if err != nil || sum != c.want || !strings.Contains(out.String(), c.text) {
			t.Errorf("%s: %v, %v\n%s, want %v and %q", c.why, sum, err, out.String(), c.want, c.text)
		}
	}
}

// TestRunOfPackets decodes each packet of a run that was captured as one.
func TestRunOfPackets(t *testing.T) {
	data := read(t, "testdata/gso.pcap")
	var out bytes.Buffer
	sum, err := JSON(bytes.NewReader(data), &out, Options{})
	if want := "packets=8 roce=23 icrc_ok=23 icrc_bad=0 malformed=0"; err != nil || sum.String() != want {
		t.Errorf("%v, %v; want %s", sum, err, want)
	}
	if n := countObjects(t, &out); n != 23 {
		t.Errorf("%d objects", n)
	}
}

// TestDamagedFile counts the packets before the damage and reports the damage.
func TestDamagedFile(t *testing.T) {
	data := pcap(intact(), len(intact()))
	sum, err := Text(bytes.NewReader(append(data, 1, 2, 3)), io.Discard, Options{})
	if err == nil || sum.ICRCOK != 1 {
		t.Errorf("file that breaks off: %v, %v", sum, err)
	}
	if _, err := Text(strings.NewReader("not a capture"), io.Discard, Options{}); err == nil {
		t.Error("text decodes as a capture")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(pcap(intact(), len(intact())))
	f.Add(pcap(intact(), 41))
	for _, name := range []string{"cm_cmx_slow", "cm_cmx_abort", "cm_udaddy_v6"} {
		if data, err := os.ReadFile(captures + name + ".pcap"); err != nil {
			f.Error(err)
		} else {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		text, textErr := Text(bytes.NewReader(b), io.Discard, Options{})
		obj, objErr := JSON(bytes.NewReader(b), io.Discard, Options{})
		if text != obj || (textErr == nil) != (objErr == nil) {
			t.Errorf("text %v, %v; JSON %v, %v", text, textErr, obj, objErr)
		}
		if text.RoCE != text.ICRCOK+text.Bad() || text.RoCE > text.Packets+len(b)/roce.MinSize {
			t.Errorf("counts do not add up: %v", text)
		}
	})
}

package decode

import (
	"bytes"
	"encoding/json"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/must"
)

// filter returns a filter of terms such as "op SEND".
func filter(t *testing.T, terms ...string) (f Filter) {
	t.Helper()
	for _, term := range terms {
		must.Do(t, add(&f, term))
	}
	return f
}

func add(f *Filter, term string) error {
	kind, value, _ := strings.Cut(term, " ")
	return map[string]func(string) error{"qp": f.AddQP, "op": f.AddOp, "addr": f.AddAddr, "time": f.AddTime}[kind](value)
}

// packetAt is a packet from 10.0.0.1 to 10.0.0.2 that was captured a second
// after the first one.
func packetAt() *Packet {
	return &Packet{
		Time: time.Date(2026, 1, 31, 12, 0, 0, 5e8, time.UTC), Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"),
		BTH: &BTH{Name: "RC_RDMA_WRITE_ONLY_WITH_IMM", DestQPN: 0x11},
	}
}

func TestFilter(t *testing.T) {
	nak, rnr, ack, read := packetAt(), packetAt(), packetAt(), packetAt()
	nak.BTH.Name, nak.AETH = "RC_ACKNOWLEDGE", &AETH{Syndrome: 0x60, Name: "NAK_SEQUENCE"}
	rnr.BTH.Name, rnr.AETH = "RC_ACKNOWLEDGE", &AETH{Syndrome: 0x2e, Name: "RNR_NAK(14)"}
	ack.BTH.Name, ack.AETH = "RC_ACKNOWLEDGE", &AETH{Syndrome: 0x1f, Name: "ACK(31)"}
	read.BTH.Name, read.AETH = "RC_RDMA_READ_RESPONSE_ONLY", &AETH{Syndrome: 0x1f, Name: "ACK(31)"}
	req, headless := packetAt(), packetAt()
	req.BTH, req.DETH, req.MAD = &BTH{Name: "UD_SEND_ONLY", DestQPN: 1}, &DETH{SrcQPN: 0x22}, &MAD{Message: "REQ"}
	headless.BTH = nil
	for _, c := range []struct {
		p     *Packet
		terms string // those of one filter, parted by semicolons
		want  bool
	}{
		{packetAt(), "qp 17", true},
		{packetAt(), "qp 0x11", true},
		{packetAt(), "qp 18", false},
		{packetAt(), "qp 18;qp 17", true},
		{req, "qp 0x22", true},
		{headless, "qp 0", false},
		{headless, "op SEND", false},
		{headless, "addr 10.0.0.1", true},
		{packetAt(), "op write", true},
		{packetAt(), "op rdma-write", true},
		{packetAt(), "op rc_rdma_write_only_with_imm", true},
		{packetAt(), "op RC", true},
		{packetAt(), "op UD", false},
		{packetAt(), "op SEND", false},
		{packetAt(), "op SEND;op WRITE", true},
		{packetAt(), "op WRITE;qp 18", false},
		{nak, "op NAK", true},
		{nak, "op NAK_SEQUENCE", true},
		{nak, "op ACKNOWLEDGE", true},
		{nak, "op ACK", false},
		{nak, "op RNR_NAK", false},
		{rnr, "op NAK", true},
		{rnr, "op RNR_NAK", true},
		{rnr, "op ACK", false},
		{ack, "op ACK", true},
		{ack, "op NAK", false},
		{read, "op ACK", false},
		{read, "op READ", true},
		{req, "op REQ", true},
		{req, "op REP", false},
		{req, "op SEND", true},
		{packetAt(), "addr 10.0.0.1", true},
		{packetAt(), "addr 10.0.0.2", true},
		{packetAt(), "addr ::ffff:10.0.0.2", true},
		{packetAt(), "addr 10.0.0.3", false},
		{packetAt(), "addr 10.0.0.0/29", true},
		{packetAt(), "addr fd00::/8", false},
		{packetAt(), "time 1..", true},
		{packetAt(), "time ..1", true},
		{packetAt(), "time 1.0..1.0", true},
		{packetAt(), "time 500ms..1500ms", true},
		{packetAt(), "time 1.000002..", false},
		{packetAt(), "time ..0.999998", false},
		{packetAt(), "time ..0.5;time 0.9..1.1", true},
		{packetAt(), "time 2026-01-31T12:00:00Z..2026-01-31T12:00:01Z", true},
		{packetAt(), "time 2026-01-31T13:00:00+01:00..", true},
		{packetAt(), "time 2026-01-31 12:00:00..", true},
		{packetAt(), "time 2026-01-31T12:00:01..", false},
		{packetAt(), "time ..2026-01-31T12:00:00Z", false},
	} {
		f := filter(t, strings.Split(c.terms, ";")...)
		if got := f.chooses(c.p, time.Second); got != c.want {
			t.Errorf("%q of %+v: %v, want %v", c.terms, c.p.BTH, got, c.want)
		}
	}
}

// TestFilterRefuses names what is wrong and what is wanted.
func TestFilterRefuses(t *testing.T) {
	for term, want := range map[string]string{
		"qp":               "want the number",
		"qp x":             "such as 0x11 or 17",
		"qp -1":            "want the number",
		"qp 1000000000":    "up to 0xffffff",
		"op":               "want an opcode",
		"op SNED":          "did you mean SEND",
		"op RC_SEND_ONYL":  "did you mean RC_SEND_ONLY",
		"op frobnicate":    "such as SEND, WRITE or UD",
		"op _":             "want an opcode",
		"addr host":        "want an address",
		"addr 10.0.0.1/33": "want an address",
		"time 1":           "want a range",
		"time ..":          "want a range",
		"time 1..x":        "such as 1.5 or 20ms",
		"time NaN..":       "such as 1.5 or 20ms",
		"time 2..1":        "ends before it begins",
		"time 2026-01-31T12:00:00Z..2026-01-30T12:00:00Z": "ends before it begins",
	} {
		var f Filter
		if err := add(&f, term); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", term, err, want)
		}
	}
}

// TestFilterIsBounded refuses an absurd number of values.
func TestFilterIsBounded(t *testing.T) {
	for _, term := range []string{"qp 1", "op SEND", "addr ::1", "time 1.."} {
		var f Filter
		for range maxTerms {
			must.Do(t, add(&f, term))
		}
		if err := add(&f, term); err == nil {
			t.Errorf("%q is taken more than %d times", term, maxTerms)
		}
	}
}

// TestFilteredCapture counts what is left out, in text and in JSON alike, and a
// bad packet that is left out is not counted as one.
func TestFilteredCapture(t *testing.T) {
	data := read(t, captures+"cm_rdma_client.pcap")
	var text, obj bytes.Buffer
	o := Options{Filter: filter(t, "op REQ", "op REP")}
	sum, err := Text(bytes.NewReader(data), &text, o)
	if err != nil || sum.ICRCOK != 2 || sum.LeftOut != sum.RoCE-2 || strings.Count(text.String(), "\n") != 2 {
		t.Errorf("%v, %v\n%s, want two packets", sum, err, &text)
	}
	if again, err := JSON(bytes.NewReader(data), &obj, o); err != nil || again != sum || countObjects(t, &obj) != 2 {
		t.Errorf("as JSON %v, %v, as text %v", again, err, sum)
	}
	bad := intact()
	bad[40]++
	sum, err = Text(bytes.NewReader(pcap(bad, len(bad))), io.Discard, Options{Filter: filter(t, "qp 0x12")})
	if want := "packets=1 roce=1 icrc_ok=0 icrc_bad=0 malformed=0 left_out=1"; err != nil || sum.Bad() != 0 || sum.String() != want {
		t.Errorf("%v, %v, want %v", sum, err, want)
	}
}

// TestPayload shows bytes as tcpdump -X does, of malformed packets all that follows
// the UDP header.
func TestPayload(t *testing.T) {
	var text, obj bytes.Buffer
	ip := intact()
	if _, err := Text(bytes.NewReader(pcap(ip, len(ip))), &text, Options{Payload: true}); err != nil ||
		!strings.HasSuffix(text.String(), "icrc ok\n\t0x0000:  6865 6c6c 6f                             hello\n") {
		t.Errorf("%v\n%q", err, text.String())
	}
	var p struct{ Data string }
	if _, err := JSON(bytes.NewReader(pcap(ip, len(ip))), &obj, Options{Payload: true}); err != nil || json.Unmarshal(obj.Bytes(), &p) != nil || p.Data != "68656c6c6f" {
		t.Errorf("%v: %s", err, &obj)
	}
	text.Reset()
	if _, err := Text(bytes.NewReader(pcap(ip, 32)), &text, Options{Payload: true}); err != nil || !strings.Contains(text.String(), "\n\t0x0000:  0430 ffff ") {
		t.Errorf("cut off: %v\n%q", err, text.String())
	}
	if got, want := dump([]byte("0123456789abcdef\x00\x7f\xff")), "\t0x0000:  3031 3233 3435 3637 3839 6162 6364 6566  0123456789abcdef\n"+
		"\t0x0010:  007f ff                                  ...\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestColors changes nothing but the colors.
func TestColors(t *testing.T) {
	for _, name := range []string{"errs_bad_rkey_write", "cm_cmx_abort"} {
		data := read(t, captures+name+".pcap")
		var plainText, colors bytes.Buffer
		if _, err := Text(bytes.NewReader(data), &plainText, Options{}); err != nil {
			t.Fatal(err)
		}
		if _, err := Text(bytes.NewReader(data), &colors, Options{Colors: true}); err != nil {
			t.Fatal(err)
		}
		stripped := colors.String()
		for _, color := range []string{bold, faint, red, green, yellow, cyan, plain} {
			stripped = strings.ReplaceAll(stripped, color, "")
		}
		if stripped != plainText.String() || stripped == colors.String() {
			t.Errorf("%s: in colors %q, without %q", name, stripped, plainText.String())
		}
	}
}

// TestDumpIsPrintable prints every byte: none of them reaches a terminal.
func TestDumpIsPrintable(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	printed := 0
	for _, c := range dump(all) {
		if c != '\n' && c != '\t' && (c < ' ' || c > '~') {
			t.Errorf("a dump has %q", c)
		}
		printed++
	}
	if want := 16 * (1 + 6 + 2 + 40 + 2 + 16 + 1); printed != want {
		t.Errorf("the dump has %d characters, want %d", printed, want)
	}
}

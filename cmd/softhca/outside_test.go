package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/roce"
)

// forged is text that clears the screen, sets the title of the terminal, turns the
// direction of the line, and forges a verdict.
const forged = "lost by rule 'x'\r\n\nVERDICT clean: nothing went wrong\n\x1b[2J\x1b]0;owned\a\u009b1m\u202e\x7f"

// forgery writes a capture of one packet with a comment.
func forgery(t *testing.T, name string) {
	t.Helper()
	var file bytes.Buffer
	w, err := pcapgo.NewNgWriter(&file, layers.LinkTypeRaw)
	must.Do(t, err)
	p := roce.Packet{BTH: roce.BTH{Opcode: roce.UDSendOnly, DestQP: 0x11, PKey: 0xffff}, Payload: []byte(forged)}
	seg := make([]byte, roce.Size(p.BTH.Opcode, len(p.Payload)))
	p.Build(seg)
	var ip [ipudp.MaxLen]byte
	h := ipudp.Header{Src: netip.IPv6Loopback(), Dst: netip.IPv6Loopback(), SrcPort: 0xc000, DstPort: roce.Port, HopLimit: 64}
	data := append(ip[:h.Put(ip[:], len(seg))], seg...)
	info := gopacket.CaptureInfo{Timestamp: time.Unix(1, 0), CaptureLength: len(data), Length: len(data)}
	must.Do(t, w.WritePacketWithOptions(info, data, pcapgo.NgPacketOptions{Comments: []string{forged}}))
	must.Do(t, w.Flush())
	must.Do(t, os.WriteFile(name, file.Bytes(), 0o600))
}

// clean fails if an output has a control character, or a line that begins like a verdict
// that is not the command's own.
func clean(t *testing.T, of string, out string) {
	t.Helper()
	for _, c := range out {
		if c != '\n' && c != '\t' && (c < ' ' || c >= 0x7f && c < 0xa0 || c == 0x202e) {
			t.Errorf("%s prints %q: %.300q", of, c, out)
			return
		}
	}
	for line := range strings.SplitSeq(out, "\n") {
		if strings.HasPrefix(line, "VERDICT clean") {
			t.Errorf("%s prints a forged line: %q", of, line)
		}
	}
}

// TestSayKeepsLines gives a line arguments with line ends, tabs and escape sequences: only its format
// begins a line.
func TestSayKeepsLines(t *testing.T) {
	var b strings.Builder
	say(&b, "a %s\n  %v, %q, %-4d|", "x\nforged\t\x1b[2J", errors.New("y\nz"), "drop\tall", 7)
	if want := `a x\nforged\t\x1b[2J` + "\n" + `  y\nz, "drop\tall", 7   |` + "\n"; b.String() != want {
		t.Errorf("it says %q, want %q", b.String(), want)
	}
}

// TestTextFromOutside gives every command that prints text of a file, a file name, an
// argument or a variable text with control characters.
func TestTextFromOutside(t *testing.T) {
	dir := t.TempDir()
	capture := filepath.Join(dir, "a\x1b[2J\nVERDICT clean\u202e.pcapng")
	forgery(t, capture)
	text := filepath.Join(dir, "text\x1b[2J\nVERDICT clean")
	must.Do(t, os.WriteFile(text, []byte(forged), 0o600))
	report := filepath.Join(dir, "report.json")
	words, err := json.Marshal(map[string]any{"schema": "softhca-judge/1", "adapter": map[string]string{"device": forged, "kernel": forged}})
	must.Do(t, err)
	must.Do(t, os.WriteFile(report, words, 0o600))
	page := filepath.Join(dir, "page.html")
	t.Setenv("SOFTHCA_LOG_LEVEL", forged)
	for _, args := range [][]string{
		{"explain", capture}, {"explain", "--json", capture}, {"explain", "--html", page, capture}, {"explain", text}, {"explain", capture + "none"},
		{"explain", "--live", forged}, {"explain", "--html", filepath.Join(dir, forged, "x"), capture},
		{"decode", capture}, {"decode", "-x", capture}, {"decode", "--json", capture}, {"decode", "--op", forged, capture}, {"decode", text}, {"decode", capture + "none"},
		{"play", text}, {"play", "--json", text}, {"play", forged},
		{"faults", forged}, {"faults", "--fault-file", text}, {"faults", "--json", "drop op=" + forged}, {"demo", "--fault", forged}, {"demo", "--fault-file", text},
		{"judge", "--peer", forged}, {"judge", "--page", text}, {"judge", "--page", report},
		{"devices", "--addr", forged}, {"devices", "--json", "--addr", forged}, {"perf", "cm", forged}, {"perf", "write", "--addr", forged},
		{"top", "--once", "--file", text}, {"top", "--once", "--filter", forged}, {"top", "--sort", forged}, {"top", "--view", forged}, {"top", "--once", "--file", capture + "none"},
		{"run", "--", forged}, {"run", "--addr", forged, "--", "true"}, {"broker", "--addr", forged},
		{"metrics", "--listen", forged}, {"metrics", "--once", "--textfile", filepath.Join(dir, forged, "x")},
		{forged}, {"explain", "--" + forged}, {"sim", "--profile", forged}, {"help", forged}, {"demo", "--capture", filepath.Join(dir, forged, "x")},
	} {
		_, out, errs := command(t, args...)
		of := strings.Join(args, " ")
		clean(t, of+": standard output", out)
		clean(t, of+": standard error", errs)
		if strings.Contains(of, "--json") && !strings.Contains(errs, "\n") && out == "" {
			t.Errorf("%q prints nothing", of)
		}
	}
	b, err := os.ReadFile(page)
	must.Do(t, err)
	clean(t, "the page", string(b))
}

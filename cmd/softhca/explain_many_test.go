package main

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/softhca/softhca/cmd/softhca/internal/page"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/roce"
)

// TestExplainHTMLAround writes the page of a capture that has more packets than it
// shows, and something wrong at its end only: the page is about that part.
func TestExplainHTMLAround(t *testing.T) {
	const n = page.MaxPackets + 5000
	var file bytes.Buffer
	w := pcapgo.NewWriterNanos(&file)
	must.Do(t, w.WriteFileHeader(1<<16, layers.LinkTypeRaw))
	now := time.Unix(1, 0)
	h := ipudp.Header{Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"), SrcPort: 0xc000, DstPort: roce.Port, HopLimit: 64}
	for i := range uint32(n) {
		psn := i
		now = now.Add(time.Microsecond)
		if i == n-1 { // silence, and what was sent last comes again
			psn, now = i-1, now.Add(time.Second)
		}
		p := roce.Packet{BTH: roce.BTH{Opcode: roce.RCSendOnly, PKey: ib.PKeyDefault, DestQP: 0x22, PSN: ib.NewPSN(psn)}}
		b := make([]byte, ipudp.IPv4Len+ipudp.UDPLen+roce.Size(p.BTH.Opcode, 0))
		seg := b[ipudp.IPv4Len+ipudp.UDPLen:]
		p.Build(seg)
		roce.Seal(seg, roce.NewPrefix(h.Src, h.Dst, h.SrcPort, h.DstPort, len(seg)))
		h.Put(b, len(seg))
		must.Do(t, w.WritePacket(gopacket.CaptureInfo{Timestamp: now, CaptureLength: len(b), Length: len(b)}, b))
	}
	dir := t.TempDir()
	name, out := filepath.Join(dir, "many.pcap"), filepath.Join(dir, "page.html")
	must.Do(t, os.WriteFile(name, file.Bytes(), 0o600))
	if code, text, errs := command(t, "explain", "--html", out, name); code != exitUntold || !strings.HasPrefix(text, "VERDICT unknown: only one direction") {
		t.Fatalf("exit code %d: %s%s", code, text, errs)
	}
	html, err := os.ReadFile(out)
	must.Do(t, err)
	if want := "to 105000, "; !bytes.Contains(html, []byte(want)) || bytes.Contains(html, []byte("records 1 to")) {
		t.Errorf("the page of %d bytes does not show the packets %q", len(html), want)
	}
}

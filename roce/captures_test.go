package roce

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/pcapfile"
)

const capturesGlob = "../internal/testdata/captures/*.pcap"

// eachCaptured calls f with every packet of the Linux captures.
func eachCaptured(t testing.TB, f func(name string, p *pcapfile.Packet)) {
	t.Helper()
	names, err := filepath.Glob(capturesGlob)
	if err != nil || len(names) == 0 {
		t.Fatalf("no captures at %s: %v", capturesGlob, err)
	}
	for _, name := range names {
		eachInFile(t, name, f)
	}
}

func eachInFile(t testing.TB, name string, f func(name string, p *pcapfile.Packet)) {
	t.Helper()
	file, err := os.Open(name)
	must.Do(t, err)
	defer file.Close()
	r, err := pcapfile.NewReader(file)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		f(filepath.Base(name), p)
	}
}

// TestLinuxCaptures shows that the codec agrees with Linux about every packet
// of the captures: it parses, is rebuilt to the same bytes, and its ICRC is
// right however it is computed.
func TestLinuxCaptures(t *testing.T) {
	packets, opcodes := 0, map[Opcode]int{}
	eachCaptured(t, func(name string, p *pcapfile.Packet) {
		packets++
		opcodes[Opcode(p.Payload[0])]++
		checkWirePacket(t, p.IP, p.UDP, p.Payload)
		if t.Failed() {
			t.Fatalf("%s record %d", name, p.Record)
		}
		var q Packet
		q.Parse(p.Payload)
		mtu := ib.MTU4096.Bytes() // the longest of the files
		if q.Info.Payload == PayloadMTU {
			code, _ := ib.MTUFor(len(q.Payload))
			mtu = code.Bytes()
		}
		if !q.Info.Payload.Allows(len(q.Payload), mtu) {
			t.Errorf("%s record %d: %v with %d bytes breaks its payload rule %v",
				name, p.Record, q.BTH.Opcode, len(q.Payload), q.Info.Payload)
		}
	})
	const wantPackets, wantOpcodes = 5292, 36
	if packets != wantPackets || len(opcodes) != wantOpcodes {
		t.Errorf("the captures have %d packets of %d opcodes, want %d of %d", packets, len(opcodes), wantPackets, wantOpcodes)
	}
}

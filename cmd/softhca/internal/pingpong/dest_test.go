package pingpong

import (
	"bytes"
	"io"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
)

func example() dest {
	return dest{0x12, 0xabcdef, ib.NewPSN(0x123), ib.GIDFromAddr(netip.MustParseAddr("10.77.0.2"))}
}

func TestEncode(t *testing.T) {
	d := example()
	msg := d.encode()
	if want := "0012:abcdef:000123:00000000000000000000ffff0a4d0002\x00"; string(msg[:]) != want {
		t.Errorf("%q, want %q", msg[:], want)
	}
	if back, err := parseDest(&msg); err != nil || back != d {
		t.Errorf("%v comes back as %v, %v", &d, &back, err)
	}
	if got, want := d.String(), "LID 0x0012, QPN 0xabcdef, PSN 0x000123, GID ::ffff:10.77.0.2"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		"",
		"0000:000000:000000",
		"0000:000000:000000:0000000000000000000000000000000000:",
		"0000:1000000:00000:00000000000000000000ffff0a4d0002",
		"10000:00000:000000:00000000000000000000ffff0a4d0002",
		"0000:000000:000000:00000000000000000000ffff0a4d00",
		"0000:00000g:000000:00000000000000000000ffff0a4d0002",
		"0000:000000:000000:00000000000000000000ffff0a4d000x",
	} {
		var msg [destLen]byte
		copy(msg[:], text)
		if d, err := parseDest(&msg); err == nil {
			t.Errorf("%q is %v", text, &d)
		}
	}
	d := example()
	endless := d.encode()
	endless[destLen-1] = '0'
	if d, err := parseDest(&endless); err == nil {
		t.Errorf("without a NUL: %v", &d)
	}
}

func FuzzParseDest(f *testing.F) {
	d := example()
	seed := d.encode()
	f.Add(seed[:])
	f.Add([]byte("::::"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var msg [destLen]byte
		copy(msg[:], b)
		d, err := parseDest(&msg)
		if err != nil {
			return
		}
		again := d.encode()
		if back, err := parseDest(&again); err != nil || back != d {
			t.Errorf("%q is %v, which comes back as %v, %v", msg[:], &d, &back, err)
		}
	})
}

// duplex reads from one buffer and writes to another.
type duplex struct {
	io.Reader
	io.Writer
}

// TestWireBytes has what the Linux programs put on the TCP connection.
func TestWireBytes(t *testing.T) {
	a, b := example(), example()
	b.qpn = 0x11
	wireA, wireB := a.encode(), b.encode()
	var out bytes.Buffer
	theirs, err := clientExchange(duplex{bytes.NewReader(wireB[:]), &out}, []dest{a})
	if err != nil || theirs[0] != b || out.String() != string(wireA[:])+"done\x00" {
		t.Errorf("client: %v, %v, wrote %q", theirs, err, out.Bytes())
	}
	out.Reset()
	connected := false
	connect := func(d []dest) error {
		connected = len(d) == 1 && d[0] == a && out.Len() == 0
		return nil
	}
	_, err = serverExchange(duplex{bytes.NewReader(append(wireA[:], "done\x00"...)), &out}, []dest{b}, connect)
	if err != nil || !connected || out.String() != string(wireB[:]) {
		t.Errorf("server: %v, connected before it answered: %v, wrote %q", err, connected, out.Bytes())
	}
	for cut := range destLen {
		if _, err := readDests(bytes.NewReader(wireA[:cut]), 1); err == nil {
			t.Errorf("an address of %d bytes", cut)
		}
	}
}

func TestResultText(t *testing.T) {
	var out bytes.Buffer
	if err := (Result{Size: 4096, Iters: 1000, Elapsed: 50e6}).Text(&out); err != nil {
		t.Fatal(err)
	}
	want := "8192000 bytes in 0.05 seconds = 1310.72 Mbit/sec\n1000 iters in 0.05 seconds = 50.00 usec/iter\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

package memory

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/nasty"
)

// disordered is a table whose payload is written in another order, a region, and what a program saw
// of it during the pauses.
type disordered struct {
	*Table
	region  *Region
	buf     []byte
	pauses  int
	onPause func()
}

func newDisordered(t *testing.T, c nasty.Config) *disordered {
	t.Helper()
	d := &disordered{Table: NewTable(seeded(), Limits{Regions: 1}), buf: make([]byte, 8192)}
	d.Disorder(c.New(0), func(wait time.Duration) {
		if wait < 0 || wait > mostPause {
			t.Errorf("seed %d: a pause of %v, at most %v is allowed", c.Seed, wait, mostPause)
		}
		d.pauses++
		d.onPause()
	})
	d.onPause = func() {}
	var err error
	d.region, err = d.Register(RegionConfig{PD: 1, Buf: d.buf, IOVA: 0x1000, HasIOVA: true, Access: ib.AccessLocalWrite})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// receive scatters a payload to a byte offset of the region.
func (d *disordered) receive(t *testing.T, payload []byte, off int) {
	t.Helper()
	sges := []ib.SGE{{Addr: 0x1000 + uint64(off), Length: uint32(len(payload)), LKey: d.region.LKey()}}
	if f := d.Scatter(payload, 1, sges, 0); f != FaultNone {
		t.Fatal(f)
	}
}

// TestK2_EndBeforeStart shows that a program can see the end of a payload before its start, that
// it never sees a part of an aligned word, and that all is there afterwards.
func TestK2_EndBeforeStart(t *testing.T) {
	for seed := range uint64(20) {
		d := newDisordered(t, nasty.Config{Seed: seed + 1})
		early := 0
		for i := range 200 {
			off, n := i%13, 1+(i*37)%4000
			clear(d.buf)
			payload := bytes.Repeat([]byte{0xff}, n)
			d.onPause = func() {
				if d.buf[off] == 0 && d.buf[off+n-1] != 0 {
					early++
				}
				for at := 0; at+word <= len(d.buf); at += word {
					whole := at >= off && at+word <= off+n
					if x := binary.NativeEndian.Uint64(d.buf[at:]); whole && x != 0 && x != 1<<64-1 {
						t.Fatalf("seed %d, %d bytes at %d: the word at %d is torn: %#x", seed+1, n, off, at, x)
					}
				}
			}
			d.receive(t, payload, off)
			if got := d.buf[off : off+n]; !bytes.Equal(got, payload) || bytes.IndexByte(d.buf[:off], 0xff) >= 0 || bytes.IndexByte(d.buf[off+n:], 0xff) >= 0 {
				t.Fatalf("seed %d: %d bytes at %d are not where they belong", seed+1, n, off)
			}
		}
		if early < 50 {
			t.Errorf("seed %d: the end came first for %d of 200 payloads, want at least 50", seed+1, early)
		}
	}
}

// TestK2_WithoutPlacement shows that payload is written at once if the behaviour is left out.
func TestK2_WithoutPlacement(t *testing.T) {
	c := nasty.Config{Seed: 1}
	c.Without[nasty.Placement] = true
	d := newDisordered(t, c)
	for range 100 {
		d.receive(t, make([]byte, 1000), 0)
		d.Pause()
	}
	if d.pauses != 0 {
		t.Errorf("%d pauses", d.pauses)
	}
}

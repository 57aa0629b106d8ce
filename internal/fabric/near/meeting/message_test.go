package meeting

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// sample is a message with all fields.
var sample = message{
	kind: offer, number: 0x0102030405060708,
	from: Identity{netip.MustParseAddr("10.0.0.1"), 3, 77},
	to:   Identity{netip.MustParseAddr("fd00::1"), 255, 1<<64 - 1},
}

func TestMessage(t *testing.T) {
	b := sample.encode()
	got, err := decode(b)
	must.Do(t, err)
	if got != sample || len(b) != messageLen {
		t.Errorf("%+v came back as %+v, of %d bytes", sample, got, len(b))
	}
	for _, c := range []struct {
		why  string
		b    []byte
		want error
	}{
		{"empty", nil, ErrMessage},
		{"short", b[:messageLen-1], ErrMessage},
		{"long", append(bytes.Clone(b), 0), ErrMessage},
		{"only a head", b[:7], ErrMessage},
		{"shorter than a head", b[:6], ErrMessage},
		{"another magic", append([]byte("SHNN"), b[4:]...), ErrMessage},
		{"kind 0", change(b, 6, 0), ErrMessage},
		{"kind 7", change(b, 6, 7), ErrMessage},
		{"another version", change(b, 5, version+1), ErrVersion},
		{"another version, shorter", change(b, 5, version+1)[:7], ErrVersion},
	} {
		if _, err := decode(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.why, err, c.want)
		}
	}
}

// change returns a copy with another byte.
func change(b []byte, at int, x byte) []byte {
	b = bytes.Clone(b)
	b[at] = x
	return b
}

func FuzzMessage(f *testing.F) {
	f.Add(sample.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode(b)
		if err != nil {
			return
		}
		again, err := decode(m.encode())
		if err != nil || again != m {
			t.Errorf("%+v came back as %+v, %v", m, again, err)
		}
	})
}

func TestOrderOfPlaces(t *testing.T) {
	ordered := []Key{
		{netip.MustParseAddr("10.0.0.1"), 0}, {netip.MustParseAddr("10.0.0.1"), 1}, {netip.MustParseAddr("10.0.0.2"), 0}, {netip.MustParseAddr("fd00::1"), 0},
	}
	for i, a := range ordered {
		for j, b := range ordered {
			if a.less(b) != (i < j) {
				t.Errorf("%v before %v: %t", a, b, a.less(b))
			}
		}
	}
}

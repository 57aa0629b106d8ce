package mad

import (
	"strings"
	"testing"
)

// FuzzMAD shows that no bytes make a decoder panic, that each kind of data is
// encoded to what is decoded again to the same, and that any datagram is
// described in one line of printable text of bounded length.
func FuzzMAD(f *testing.F) {
	for _, v := range vectors() {
		m := v.bytes(f)
		f.Add(m[:])
	}
	for _, k := range kinds {
		m := MAD{24: 1, 64: 0xff, 164: 0, 0x40, 255: 1}
		m.PutHeader(CMHeader(k.attr, 1))
		f.Add(m[:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m MAD
		copy(m[:], b)
		for i := range kinds {
			checkStable(t, &kinds[i], kinds[i].decoded(&m))
		}
		const longest = 1000
		text := Describe(&m)
		if len(text) == 0 || len(text) > longest || strings.ContainsFunc(text, unprintable) {
			t.Errorf("described as %q", text)
		}
		answer := Unsupported(&m, StatusUnsupportedAttribute)
		if h := answer.Header(); h.TID != m.Header().TID || h.Method != MethodGetResp {
			t.Errorf("the answer to %+v has the header %+v", m.Header(), h)
		}
		if h, err := ParseIPHeader((*[IPHeaderSize]byte)(m[HeaderSize:])); err == nil {
			var again [IPHeaderSize]byte
			h.Put(&again)
			if got, err := ParseIPHeader(&again); err != nil || got != h {
				t.Errorf("the IP header %+v comes back as %+v, %v", h, got, err)
			}
		}
	})
}

func unprintable(r rune) bool { return r < ' ' || r > '~' }

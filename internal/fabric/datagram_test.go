package fabric

import (
	"slices"
	"testing"
)

func TestDatagramSegments(t *testing.T) {
	for _, c := range []struct {
		why    string
		bytes  int
		stride int
		want   []int
	}{
		{"one segment without a stride", 10, 0, []int{10}},
		{"one segment as long as the stride", 10, 10, []int{10}},
		{"one segment shorter than the stride", 10, 16, []int{10}},
		{"equal segments", 12, 4, []int{4, 4, 4}},
		{"a shorter last segment", 10, 4, []int{4, 4, 2}},
		{"nothing", 0, 4, nil},
	} {
		d := Datagram{Bytes: make([]byte, c.bytes), Stride: c.stride}
		for i := range d.Bytes {
			d.Bytes[i] = byte(i)
		}
		var sizes []int
		var all []byte
		for off := 0; off < len(d.Bytes); {
			var seg []byte
			seg, off = d.Segment(off)
			sizes = append(sizes, len(seg))
			all = append(all, seg...)
		}
		if !slices.Equal(sizes, c.want) || !slices.Equal(all, d.Bytes) {
			t.Errorf("%s: segments of %v bytes, want %v", c.why, sizes, c.want)
		}
	}
}

func TestVerificationNames(t *testing.T) {
	if VerifyFull.String() != "full" || VerifyDerivedID.String() != "derived-id" {
		t.Errorf("the names are %q and %q", VerifyFull, VerifyDerivedID)
	}
}

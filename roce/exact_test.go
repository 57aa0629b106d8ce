package roce

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// testSeed makes the random tests repeatable; a failure prints it.
const testSeed = 20260726

// newRand returns the generator of a random test.
func newRand(t testing.TB) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", testSeed)
	return rand.New(rand.NewPCG(testSeed, 0))
}

// fill writes random bytes.
func fill(r *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// layout is the bytes of a header.
type layout interface {
	[4]byte | [8]byte | [12]byte | [16]byte | [28]byte
}

// exact checks that wire is decoded as want, and that any bytes are the same after a header
// was decoded from them and written back.
func exact[B layout, H comparable, P interface {
	*H
	decode(b *B)
	put(b *B)
}](t *testing.T, wire B, want H) {
	t.Helper()
	var got H
	P(&got).decode(&wire)
	if got != want {
		t.Errorf("decode reads %+v from the wire, want %+v", got, want)
	}
	r := newRand(t)
	for range 1000 {
		var in, out B
		fill(r, reflect.ValueOf(&in).Elem().Bytes())
		P(&got).decode(&in)
		if P(&got).put(&out); out != in {
			t.Fatalf("decode and put make % x of % x", out, in)
		}
	}
}

package roce

import (
	"math/rand/v2"
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

// keepsEveryBit checks that again, which decodes a header and writes it back,
// leaves any bytes as they were.
func keepsEveryBit[T [4]byte | [8]byte | [12]byte | [16]byte | [28]byte](t *testing.T, again func(*T)) {
	t.Helper()
	r := newRand(t)
	for range 1000 {
		var b T
		randomise(r, &b)
		got := b
		again(&got)
		if got != b {
			t.Fatalf("decode and put make % x of % x", got, b)
		}
	}
}

// randomise fills an array of one of the header sizes.
func randomise[T [4]byte | [8]byte | [12]byte | [16]byte | [28]byte](r *rand.Rand, b *T) {
	switch b := any(b).(type) {
	case *[4]byte:
		fill(r, b[:])
	case *[8]byte:
		fill(r, b[:])
	case *[12]byte:
		fill(r, b[:])
	case *[16]byte:
		fill(r, b[:])
	case *[28]byte:
		fill(r, b[:])
	}
}

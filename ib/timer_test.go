package ib

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// rnrTable is the table of the architecture in its own unit, milliseconds
// times 100.
var rnrTable = [32]int{
	65536, 1, 2, 3, 4, 6, 8, 12,
	16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072,
	4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

func TestRNRTimer(t *testing.T) {
	for code, want := range rnrTable {
		for _, high := range []uint8{0, 0x20, 0xe0} {
			if got := RNRTimer(uint8(code) | high); got != time.Duration(want)*10*time.Microsecond {
				t.Errorf("RNR code %d (upper bits %#x) waits %v, want %d.%02d ms", code, high, got, want/100, want%100)
			}
		}
	}
	for code, want := range map[uint8]time.Duration{
		0:  655360 * time.Microsecond,
		1:  10 * time.Microsecond,
		12: 640 * time.Microsecond,
		25: 61440 * time.Microsecond,
		31: 491520 * time.Microsecond,
	} {
		if got := RNRTimer(code); got != want {
			t.Errorf("RNR code %d waits %v, want %v", code, got, want)
		}
	}
	// The codes double every two steps from 2 on.
	for code := uint8(4); code < 32; code++ {
		if RNRTimer(code) != 2*RNRTimer(code-2) {
			t.Errorf("RNR code %d is not twice code %d", code, code-2)
		}
	}
}

func TestAckTimeout(t *testing.T) {
	for code, want := range map[uint8]time.Duration{
		0:  0,
		1:  8192 * time.Nanosecond,
		8:  1048576 * time.Nanosecond,
		14: 67108864 * time.Nanosecond,
		31: 8796093022208 * time.Nanosecond,
		32: 0,
	} {
		if got := AckTimeout(code); got != want {
			t.Errorf("ACK timeout code %d is %v, want %v", code, got, want)
		}
	}
}

func TestCreditTable(t *testing.T) {
	for code, want := range map[uint8]uint32{0: 0, 4: 4, 5: 6, 8: 16, 15: 192, 16: 256, 24: 4096, 29: 24576, 30: 32768} {
		if got, ok := Credits(code); got != want || !ok {
			t.Errorf("credit code %d means %d, %v; want %d", code, got, ok, want)
		}
	}
	// From 2 on each code is 1.5 or 1.33 times the one before: powers of two
	// and the middles between them.
	for code := uint8(4); code < CreditsInvalid; code++ {
		now, _ := Credits(code)
		before, _ := Credits(code - 2)
		if now != 2*before {
			t.Errorf("credit code %d means %d, not twice code %d", code, now, code-2)
		}
	}
	for code := CreditsInvalid; code < 256; code++ {
		if n, ok := Credits(uint8(code)); ok || n != 0 {
			t.Errorf("credit code %d carries a count: %d", code, n)
		}
	}
}

func TestCreditCodeRoundsDown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.Uint32Range(0, 40000), rapid.Uint32()).Draw(t, "n")
		code := CreditCode(n)
		promised, ok := Credits(code)
		if !ok || promised > n {
			t.Fatalf("with %d requests code %d promises %d", n, code, promised)
		}
		if more, ok := Credits(code + 1); ok && more <= n {
			t.Fatalf("with %d requests code %d is not the largest: %d means %d", n, code, code+1, more)
		}
	})
}

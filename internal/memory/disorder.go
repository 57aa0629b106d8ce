package memory

import (
	"time"
	"unsafe"

	"github.com/softhca/softhca/internal/nasty"
)

// disorder writes payload in another order than that of its bytes.
type disorder struct {
	dice  *nasty.Dice
	pause func(time.Duration) // nil: it does not wait
}

// mostPause is the longest time between two parts of a payload: long enough for a program that
// waits in a loop for the last byte to read the rest.
const mostPause = 20 * time.Microsecond

// Disorder has payload written in an order that the dice choose; with nil dice, in that of its
// bytes. pause waits between two parts of a payload; nil does not wait.
func (t *Table) Disorder(d *nasty.Dice, pause func(time.Duration)) {
	if d.Has(nasty.Placement) {
		t.disorder = &disorder{d, pause}
	}
}

// Put copies payload to memory of a region.
func (t *Table) Put(dst, src []byte) Fault {
	if t.disorder != nil {
		return t.Touch(func() { t.disorder.copy(dst, src) })
	}
	return t.Touch(func() { copy(dst, src) })
}

// copy writes every third payload, on average, at once, and of the others the end first: as much
// of the source as fits.
func (d *disorder) copy(dst, src []byte) {
	n := min(len(dst), len(src))
	if n < 2 || d.dice.OneIn(nasty.Placement, 3) {
		copy(dst, src)
		return
	}
	at := d.split(dst[:n])
	copy(dst[at:], src[at:])
	d.wait()
	copy(dst[:at], src[:at])
}

// split returns where the part begins that is written first: at an address that is a multiple of
// word, as processors write aligned words at once.
func (d *disorder) split(dst []byte) int {
	at := 1 + d.dice.IntN(nasty.Placement, len(dst)-1)
	return at - min(at, int(uintptr(unsafe.Pointer(&dst[at]))%word))
}

// word is the size of what is never torn, in bytes.
const word = 8

// Pause waits as between two parts of a payload.
func (t *Table) Pause() {
	if t.disorder != nil {
		t.disorder.wait()
	}
}

// wait lets the program see that only a part has been written.
func (d *disorder) wait() {
	if d.pause != nil {
		d.pause(d.dice.Time(nasty.Placement, mostPause))
	}
}

//go:build !portable

package near

import (
	"fmt"
	"testing"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/must"
)

// BenchmarkMessage sends a message from memory of one port into memory of another through shared
// memory, on one processor.
func BenchmarkMessage(b *testing.B) {
	for _, c := range []struct{ packet, count int }{{64, 1}, {64, 32}, {512, 1}, {1024, 1}, {4096, 1}, {4096, 16}, {4096, 60}} {
		b.Run(fmt.Sprintf("%dx%d", c.count, c.packet), func(b *testing.B) { benchMessage(b, c.packet, c.count) })
	}
}

func benchMessage(b *testing.B, packet, count int) {
	x, y := met(b, open(b, Config{}), open(b, Config{}))
	from, to := make([]byte, 1<<20), make([]byte, 1<<20)
	ds := make([]fabric.Datagram, inboxLen)
	x.batch = fabric.NewBatch(256<<10, x.Caps()) // as that of the driver
	x.batch.Aim(slotQPN(0))
	b.SetBytes(int64(packet * count))
	at := 0
	for b.Loop() {
		if at += packet * count; at+packet*count > len(from) {
			at = 0
		}
		for i := range count {
			seg, _ := x.batch.Append(&x.path, packet)
			copy(seg, from[at+i*packet:])
		}
		must.Do(b, x.Send(x.batch))
		n, err := y.Receive(ds)
		must.Do(b, err)
		off := at
		for i := range ds[:n] {
			off += copy(to[off:], ds[i].Bytes)
		}
	}
}

package udp_test

import (
	"fmt"
	"testing"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/must"
)

// BenchmarkSendReceive moves runs of equal segments from one port to another
// over loopback, on one thread, without building or checking them.
func BenchmarkSendReceive(b *testing.B) {
	for _, c := range []struct {
		size, count int
		gso         udp.GSO
	}{
		{4112, 15, udp.GSOAuto},
		{1040, 60, udp.GSOAuto},
		{96, 64, udp.GSOAuto},
		{4112, 1, udp.GSOOff},
	} {
		b.Run(fmt.Sprintf("%dB_runs_of_%d", c.size, c.count), func(b *testing.B) {
			from, to := open(b, udp.Config{GSO: c.gso}), open(b, udp.Config{})
			p := path(from, to)
			batch := fabric.NewBatch(1<<18, from.Caps())
			ds := make([]fabric.Datagram, 16)
			runs := min(8, (1<<18)/(c.size*c.count))
			packets := 0
			for b.Loop() {
				for range runs {
					for range c.count {
						batch.Append(&p, c.size)
					}
				}
				packets += pump(b, from, to, batch, ds)
			}
			b.SetBytes(int64(packets / b.N * c.size))
			b.ReportMetric(float64(packets)/b.Elapsed().Seconds()/1e6, "Mpackets/s")
		})
	}
}

// pump sends a batch and receives all of it.
func pump(b *testing.B, from, to *udp.Port, batch *fabric.Batch, ds []fabric.Datagram) int {
	n := 0
	for _, r := range batch.Pending() {
		n += r.Count
	}
	must.Do(b, from.Send(batch))
	for left := n; left > 0; {
		k, err := to.Receive(ds)
		must.Do(b, err)
		for i := range ds[:k] {
			left -= segments(&ds[i])
		}
	}
	return n
}

// BenchmarkPingPong is the floor of a round trip: two ports on one thread,
// polled.
func BenchmarkPingPong(b *testing.B) {
	x, y := open(b, udp.Config{}), open(b, udp.Config{})
	there, back := path(x, y), path(y, x)
	batch := fabric.NewBatch(1<<12, x.Caps())
	ds := make([]fabric.Datagram, 16)
	for b.Loop() {
		batch.Append(&there, 36)
		pump(b, x, y, batch, ds)
		batch.Append(&back, 36)
		pump(b, y, x, batch, ds)
	}
}

// BenchmarkEmptyReceive is what a poll that finds nothing costs.
func BenchmarkEmptyReceive(b *testing.B) {
	p := open(b, udp.Config{})
	ds := make([]fabric.Datagram, 16)
	for b.Loop() {
		if n, err := p.Receive(ds); n != 0 || err != nil {
			b.Fatal(n, err)
		}
	}
}

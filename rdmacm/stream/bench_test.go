package stream

import (
	"io"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// bench measures a step, of some bytes unless 0, at one end of a connection, whose other end serves.
func bench(b *testing.B, bytes int, serve func(c *Conn), step func(c *Conn) error) {
	for name, network := range networks {
		b.Run(name, func(b *testing.B) {
			h1, h2 := network(b)
			c1, c2, l := newConns(b, h1, h2)
			done := make(chan struct{})
			go func() {
				defer close(done)
				serve(c2) // until the connection ends
			}()
			b.SetBytes(int64(bytes))
			b.ReportAllocs()
			for b.Loop() {
				must.Do(b, step(c1))
			}
			must.Do(b, c1.Close())
			<-done
			must.Do(b, c2.Close())
			must.Do(b, l.Close())
		})
	}
}

// BenchmarkConnLatency sends 64 bytes there and back over sleeping Conns.
func BenchmarkConnLatency(b *testing.B) {
	buf := make([]byte, 64)
	bench(b, 0, func(c *Conn) { _, _ = io.Copy(c, c) }, func(c *Conn) error {
		if _, err := c.Write(buf); err != nil {
			return err
		}
		_, err := io.ReadFull(c, buf)
		return err
	})
}

// BenchmarkConnThroughput streams in one direction.
func BenchmarkConnThroughput(b *testing.B) {
	buf := make([]byte, 1<<20)
	bench(b, len(buf), func(c *Conn) { _, _ = io.Copy(io.Discard, c) }, func(c *Conn) error { return second(c.Write(buf)) })
}

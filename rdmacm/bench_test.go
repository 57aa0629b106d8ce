package rdmacm

import (
	"io"
	"testing"
)

// BenchmarkConnLatency sends 64 bytes there and back over sleeping Conns.
func BenchmarkConnLatency(b *testing.B) {
	for name, network := range networks {
		b.Run(name, func(b *testing.B) {
			h1, h2 := network(b)
			c1, c2, l := newConns(b, h1, h2)
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = io.Copy(c2, c2) // ends with the connection
			}()
			buf := make([]byte, 64)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c1.Write(buf); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(c1, buf); err != nil {
					b.Fatal(err)
				}
			}
			must(b, c1.Close())
			<-done
			must(b, c2.Close())
			must(b, l.Close())
		})
	}
}

// BenchmarkConnThroughput streams in one direction.
func BenchmarkConnThroughput(b *testing.B) {
	for name, network := range networks {
		b.Run(name, func(b *testing.B) {
			h1, h2 := network(b)
			c1, c2, l := newConns(b, h1, h2)
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = io.Copy(io.Discard, c2) // ends with the connection
			}()
			buf := make([]byte, 1<<20)
			b.SetBytes(int64(len(buf)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c1.Write(buf); err != nil {
					b.Fatal(err)
				}
			}
			must(b, c1.Close())
			<-done
			must(b, c2.Close())
			must(b, l.Close())
		})
	}
}

// BenchmarkConnect connects and disconnects, one connection at a time.
func BenchmarkConnect(b *testing.B) {
	for name, network := range networks {
		b.Run(name, func(b *testing.B) {
			h1, h2 := network(b)
			l := h2.listener(TCP, 0)
			b.ReportAllocs()
			for b.Loop() {
				client := withQP(b, h1.resolved(TCP, h2.at(port)))
				must(b, client.Connect(nil))
				server := withQP(b, h2.take(EventConnectRequest).ID)
				must(b, server.Accept(nil))
				h1.take(EventEstablished)
				h2.take(EventEstablished)
				must(b, client.Disconnect())
				h2.take(EventDisconnected)
				must(b, server.Disconnect())
				h1.take(EventDisconnected)
				destroy(b, client, server)
			}
			destroy(b, l)
		})
	}
}

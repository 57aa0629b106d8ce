package rdmacm

import (
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// BenchmarkConnect connects and disconnects, one connection at a time.
func BenchmarkConnect(b *testing.B) {
	for name, network := range networks {
		b.Run(name, func(b *testing.B) {
			h1, h2 := network(b)
			l := h2.listener(TCP, 0)
			b.ReportAllocs()
			for b.Loop() {
				client := withQP(b, h1.resolved(TCP, h2.at(port)))
				must.Do(b, client.Connect(nil))
				server := withQP(b, h2.take(EventConnectRequest).ID)
				must.Do(b, server.Accept(nil))
				h1.take(EventEstablished)
				h2.take(EventEstablished)
				must.Do(b, client.Disconnect())
				h2.take(EventDisconnected)
				must.Do(b, server.Disconnect())
				h1.take(EventDisconnected)
				destroy(b, client, server)
			}
			destroy(b, l)
		})
	}
}

package rdmacm

import "testing"

// BenchmarkConnect connects and disconnects, one connection at a time.
func BenchmarkConnect(b *testing.B) {
	for name, network := range networks {
		b.Run(name, func(b *testing.B) {
			h1, h2 := network(b)
			l := h2.listener(TCP, 0)
			b.ReportAllocs()
			for b.Loop() {
				client := withQP(b, h1.resolved(TCP, h2.at(port)))
				server := established(b, h1, h2, client)
				part(b, h1, client, h2, server)
				destroy(b, client, server)
			}
			destroy(b, l)
		})
	}
}

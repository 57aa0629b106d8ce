package top

import (
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/observe"
)

// eachPort calls f with the name and the value of every counter of a port.
func eachPort(p *observe.Port, f func(name string, v uint64)) {
	f("port_sent_packets", p.SentPackets)
	f("port_sent_bytes", p.SentBytes)
	f("port_received_packets", p.ReceivedPackets)
	f("port_received_bytes", p.ReceivedBytes)
	f("port_send_errors", p.SendErrors)
	f("port_truncated", p.Truncated)
	f("port_overflows", p.Overflows)
	f("port_bad_checksums", p.BadChecksums)
	for n := range fabric.NumNear {
		f(n.String(), p.Near[n])
	}
}

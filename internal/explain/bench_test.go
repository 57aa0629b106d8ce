package explain

import (
	"bytes"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// BenchmarkRead explains a capture of 64 connections: SENDs of 64 bytes and their
// acknowledgements.
func BenchmarkRead(b *testing.B) {
	const connections, rounds = 64, 400
	s := &scene{t: b}
	payload := make([]byte, 64)
	for i := range uint32(rounds) {
		for c := range uint32(connections) {
			psn := c*7919 + i
			send := &roce.Packet{BTH: bth(roce.RCSendOnly, ib.QPN(100+c), psn), Payload: payload}
			send.BTH.AckReq = true
			s.add(client, time.Microsecond, send)
			s.add(server, time.Microsecond, &roce.Packet{
				BTH: bth(roce.RCAcknowledge, ib.QPN(500+c), psn), AETH: roce.AETH{Syndrome: roce.ACKUnlimited, MSN: ib.MSN(i + 1)},
			})
		}
	}
	file := s.file()
	packets := 0
	b.ReportAllocs()
	for b.Loop() {
		r, err := Read(bytes.NewReader(file), Config{})
		if err != nil || r.Verdict.Outcome != "clean" {
			b.Fatal(err, r.Verdict)
		}
		packets += r.Packets
	}
	b.ReportMetric(float64(packets)/b.Elapsed().Seconds(), "packets/s")
	b.ReportMetric(0, "ns/op")
}

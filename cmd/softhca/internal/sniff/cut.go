package sniff

import (
	"encoding/binary"

	"github.com/softhca/softhca/internal/fabric/ipudp"
)

// cut calls emit with each packet of ip. With size 0, ip is one packet; otherwise it is the
// unsegmented packet of an offloading sender, whose segments have size bytes of UDP payload.
// cut skips packets that are not UDP. The bytes are valid during the call.
func cut(ip []byte, size int, emit func(ip []byte)) {
	h, payload, ok := ipudp.Parse(ip)
	if !ok {
		return
	}
	head := ip[:h.Len()]
	if size <= 0 || size >= len(payload) {
		emit(ip[:len(head)+len(payload)])
		return
	}
	one := make([]byte, len(head)+size)
	for n := 0; len(payload) > 0; n++ {
		part := payload[:min(size, len(payload))]
		payload = payload[len(part):]
		b := append(append(one[:0], head...), part...)
		udp := len(head) - ipudp.UDPLen
		binary.BigEndian.PutUint16(b[udp+4:], uint16(ipudp.UDPLen+len(part)))
		if b[0]>>4 == 4 {
			binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
			binary.BigEndian.PutUint16(b[4:], h.ID+uint16(n)) // as the kernel numbers them
		} else {
			binary.BigEndian.PutUint16(b[4:], uint16(ipudp.UDPLen+len(part)))
		}
		emit(b)
	}
}

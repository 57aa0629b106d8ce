package frames

// icrcPolynomial is that of Ethernet's CRC, its bits in the order in which
// they are on the wire.
const icrcPolynomial = 0xEDB88320

// icrc returns the invariant CRC of an IP packet whose header has that length,
// in the form of its last four bytes, the lowest byte first. It follows the
// definition, a bit at a time: eight bytes of ones replace the LRH, which only
// InfiniBand has, and ones replace fields that may change on the way: type of
// service, time to live and checksum of IPv4, traffic class, flow label and hop
// limit of IPv6, the UDP checksum, and the reserved byte before the destination
// queue pair.
func icrc(ip []byte, head int) uint32 {
	masked := make([]byte, 8, 8+ipv6Len+udpLen+bthLen)
	for i := range masked {
		masked[i] = 0xFF
	}
	covered := head + udpLen + bthLen
	masked = append(masked, ip[:covered]...)
	packet := masked[8:]
	if ip[0]>>4 == 4 {
		packet[1], packet[8], packet[10], packet[11] = 0xFF, 0xFF, 0xFF, 0xFF
	} else {
		packet[0] |= 0x0F
		packet[1], packet[2], packet[3], packet[7] = 0xFF, 0xFF, 0xFF, 0xFF
	}
	packet[head+6], packet[head+7] = 0xFF, 0xFF
	packet[head+udpLen+4] = 0xFF
	crc := crcBits(^uint32(0), masked)
	return ^crcBits(crc, ip[covered:len(ip)-icrcLen])
}

// crcBits adds bytes to a CRC, the lowest bit of each first.
func crcBits(crc uint32, b []byte) uint32 {
	for _, v := range b {
		crc ^= uint32(v)
		for range 8 {
			crc = crc>>1 ^ icrcPolynomial&-(crc&1)
		}
	}
	return crc
}

package explain

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/roce"
)

const (
	captures = "../testdata/captures/"
	ethernet = 14
	headers  = ethernet + ipudp.IPv4Len + ipudp.UDPLen // before the BTH
	server   = 2                                       // last bytes of the addresses in the captures
	client   = 3
)

// frame is a record of a capture.
type frame struct {
	at   time.Time
	data []byte
}

// scene is a capture that a test changes as a network, a peer or an adapter with
// a fault would.
type scene struct {
	t      testing.TB
	frames []frame
}

// load reads a capture of Linux.
func load(t testing.TB, name string) *scene {
	t.Helper()
	file, err := os.ReadFile(captures + name + ".pcap")
	must.Do(t, err)
	r, err := pcapgo.NewReader(bytes.NewReader(file))
	must.Do(t, err)
	s := &scene{t: t}
	for {
		data, info, err := r.ReadPacketData()
		if err != nil {
			return s
		}
		s.frames = append(s.frames, frame{info.Timestamp, data})
	}
}

// file returns the capture as a pcap file with nanoseconds.
func (s *scene) file() []byte {
	var b bytes.Buffer
	w := pcapgo.NewWriterNanos(&b)
	must.Do(s.t, w.WriteFileHeader(65536, layers.LinkTypeEthernet))
	for _, f := range s.frames {
		info := gopacket.CaptureInfo{Timestamp: f.at, CaptureLength: len(f.data), Length: len(f.data)}
		must.Do(s.t, w.WritePacket(info, f.data))
	}
	return b.Bytes()
}

// explain reads the capture.
func (s *scene) explain() *Report {
	s.t.Helper()
	r, err := Read(bytes.NewReader(s.file()), Config{})
	must.Do(s.t, err)
	return r
}

// from returns the last byte of the source address.
func (f *frame) from() byte {
	if f.data[ethernet]>>4 == 6 {
		return f.data[ethernet+23]
	}
	return f.data[ethernet+15]
}

// op returns the opcode.
func (f *frame) op() roce.Opcode { return roce.Opcode(f.data[headers]) }

// keep drops all frames but those for which ok is true.
func (s *scene) keep(ok func(i int, f *frame) bool) {
	var kept []frame
	for i := range s.frames {
		if ok(i, &s.frames[i]) {
			kept = append(kept, s.frames[i])
		}
	}
	s.frames = kept
}

// each changes every frame, from the one with an index on.
func (s *scene) each(from int, change func(f *frame)) {
	for i := from; i < len(s.frames); i++ {
		change(&s.frames[i])
	}
}

// seal makes the ICRC of a frame right again.
func (f *frame) seal() {
	ip := f.data[ethernet : ethernet+ipudp.IPv4Len]
	udp := f.data[ethernet+ipudp.IPv4Len : headers]
	sum, _ := roce.HeaderICRC(ip, udp, f.data[headers:])
	binary.LittleEndian.PutUint32(f.data[len(f.data)-roce.ICRCLen:], sum)
}

// cut takes n bytes from the end of the payload and seals the frame.
func (f *frame) cut(n int) {
	f.data = f.data[:len(f.data)-n]
	binary.BigEndian.PutUint16(f.data[ethernet+2:], uint16(len(f.data)-ethernet))
	binary.BigEndian.PutUint16(f.data[ethernet+ipudp.IPv4Len+4:], uint16(len(f.data)-ethernet-ipudp.IPv4Len))
	f.seal()
}

// repeat adds a frame again at the end, so much later.
func (s *scene) repeat(i int, after time.Duration) {
	f := s.frames[i]
	f.data = bytes.Clone(f.data)
	f.at = s.frames[len(s.frames)-1].at.Add(after)
	s.frames = append(s.frames, f)
}

// add adds a packet of our own making, after a while.
func (s *scene) add(from byte, after time.Duration, p *roce.Packet) {
	h := ipudp.Header{
		Src: netip.AddrFrom4([4]byte{10, 77, 0, from}), Dst: netip.AddrFrom4([4]byte{10, 77, 0, server + client - from}),
		SrcPort: 0xc123, DstPort: roce.Port,
	}
	seg := make([]byte, roce.Size(p.BTH.Opcode, len(p.Payload)))
	p.Build(seg)
	var head [ipudp.MaxLen]byte
	n := h.Put(head[:], len(seg))
	data := make([]byte, ethernet, ethernet+n+len(seg))
	binary.BigEndian.PutUint16(data[12:], 0x0800)
	f := frame{time.Unix(1, 0), append(append(data, head[:n]...), seg...)}
	if k := len(s.frames); k > 0 {
		f.at = s.frames[k-1].at.Add(after)
	}
	f.seal()
	s.frames = append(s.frames, f)
}

// bth returns a header.
func bth(op roce.Opcode, to ib.QPN, psn uint32) roce.BTH {
	return roce.BTH{Opcode: op, PKey: ib.PKeyDefault, DestQP: to, PSN: ib.NewPSN(psn)}
}

// follow gives the packets to a follower, and calls check after each.
func (s *scene) follow(f *Follower, check func()) {
	s.t.Helper()
	r, err := pcapfile.NewReader(bytes.NewReader(s.file()))
	must.Do(s.t, err)
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must.Do(s.t, err)
		f.Add(p)
		check()
	}
}

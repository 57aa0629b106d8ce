package pcapfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/softhca/softhca/internal/must"
)

var (
	captureTime = time.Date(2026, 1, 2, 3, 4, 5, 678_000, time.UTC)
	payload     = []byte("sixteen bytes!!!")
)

// datagram returns an IP packet with the payload to a UDP port: IPv4 with
// options bytes of options, or IPv6 when options is negative.
func datagram(options int, port uint16) []byte {
	udp := binary.BigEndian.AppendUint16(nil, 0xc123)
	udp = binary.BigEndian.AppendUint16(udp, port)
	udp = binary.BigEndian.AppendUint16(udp, uint16(udpLen+len(payload)))
	udp = append(append(udp, 0, 0), payload...)
	var ip []byte
	if options < 0 {
		ip = make([]byte, ipv6Len)
		ip[0], ip[6] = 0x60, protocolUDP
		binary.BigEndian.PutUint16(ip[4:], uint16(len(udp)))
		ip[23], ip[39] = 1, 2
		return append(ip, udp...)
	}
	ip = make([]byte, ipv4Len+options)
	ip[0], ip[6], ip[9] = 0x40|byte(len(ip)/4), 0x40, protocolUDP
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)+len(udp)))
	copy(ip[12:], []byte{10, 0, 0, 1, 10, 0, 0, 2})
	return append(ip, udp...)
}

// frame puts a link header of n zero bytes before an IP packet, with the
// Ethernet type at offset at, and trailing bytes behind.
func frame(n, at int, kind uint16, ip []byte) []byte {
	b := make([]byte, n)
	binary.BigEndian.PutUint16(b[at:], kind)
	return append(append(b, ip...), 0xee, 0xee)
}

var v4, v6 = datagram(0, rocePort), datagram(-1, rocePort)

var frames = []struct {
	name string
	link layers.LinkType
	data []byte
	ip   []byte // what is to come out; nil for a frame to be passed over
}{
	{"Ethernet", layers.LinkTypeEthernet, frame(14, 12, etherIPv4, v4), v4},
	{"Ethernet IPv6", layers.LinkTypeEthernet, frame(14, 12, etherIPv6, v6), v6},
	{"VLAN", layers.LinkTypeEthernet, frame(14, 12, 0x8100, append([]byte{0, 7, 8, 0}, v4...)), v4},
	{"two VLAN tags", layers.LinkTypeEthernet, frame(14, 12, 0x88a8, append([]byte{0, 7, 0x81, 0, 0, 8, 0x86, 0xdd}, v6...)), v6},
	{"four VLAN tags", layers.LinkTypeEthernet, frame(14, 12, 0x88a8, append(tags(3), v4...)), v4},
	{"five VLAN tags", layers.LinkTypeEthernet, frame(14, 12, 0x88a8, append(tags(4), v4...)), nil},
	{"cooked", layers.LinkTypeLinuxSLL, frame(16, 14, etherIPv4, v4), v4},
	{"cooked v2", layers.LinkTypeLinuxSLL2, frame(20, 0, etherIPv6, v6), v6},
	{"null", layers.LinkTypeNull, append([]byte{2, 0, 0, 0}, v4...), v4},
	{"loop", layers.LinkTypeLoop, append([]byte{0, 0, 0, 30}, v6...), v6},
	{"raw", layers.LinkTypeRaw, v4, v4},
	{"raw IPv6", layers.LinkTypeRaw, v6, v6},
	{"raw of BSD", linkRawBSD, v4, v4},
	{"IPv4", layers.LinkTypeIPv4, v4, v4},
	{"IPv6", layers.LinkTypeIPv6, v6, v6},
	{"IPv4 options", layers.LinkTypeRaw, datagram(8, rocePort), datagram(8, rocePort)},
	{"another port", layers.LinkTypeRaw, datagram(0, 53), nil},
	{"ARP", layers.LinkTypeEthernet, frame(14, 12, 0x0806, v4), nil},
	{"fragment", layers.LinkTypeRaw, edit(v4, 6, 0x20), nil},
	{"later fragment", layers.LinkTypeRaw, edit(v4, 7, 1), nil},
	{"TCP", layers.LinkTypeRaw, edit(v4, 9, 6), nil},
	{"IPv6 extension", layers.LinkTypeRaw, edit(v6, 6, 0), nil},
	{"IP version 5", layers.LinkTypeRaw, edit(v4, 0, 0x55), nil},
	{"IHL 4", layers.LinkTypeRaw, edit(v4, 0, 0x44), nil},
	{"total length 0", layers.LinkTypeRaw, edit(v4, 3, 0), nil},
	{"UDP length 7", layers.LinkTypeRaw, edit(v4, 25, 7), nil},
	{"empty", layers.LinkTypeRaw, nil, nil},
}

// tags returns n VLAN tags that are followed by another one, and that by IPv4.
func tags(n int) []byte {
	return append(bytes.Repeat([]byte{0, 7, 0x81, 0}, n), 0, 7, 8, 0)
}

// edit returns a copy of b with one byte changed.
func edit(b []byte, at int, to byte) []byte {
	b = bytes.Clone(b)
	b[at] = to
	return b
}

// classic returns a pcap file with the frames.
func classic(t testing.TB, link layers.LinkType, frames ...[]byte) []byte {
	t.Helper()
	var file bytes.Buffer
	w := pcapgo.NewWriter(&file)
	must.Do(t, w.WriteFileHeader(65536, link))
	for _, data := range frames {
		must.Do(t, w.WritePacket(gopacket.CaptureInfo{Timestamp: captureTime, CaptureLength: len(data), Length: len(data)}, data))
	}
	return file.Bytes()
}

// ng returns a pcapng file with all of frames, one interface each.
func ng(t testing.TB) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := pcapgo.NewNgWriterInterface(&file, pcapgo.NgInterface{LinkType: layers.LinkTypeLinuxUSB}, pcapgo.DefaultNgWriterOptions)
	must.Do(t, err)
	write := func(id int, data []byte) {
		info := gopacket.CaptureInfo{Timestamp: captureTime, CaptureLength: len(data), Length: len(data), InterfaceIndex: id}
		must.Do(t, w.WritePacketWithOptions(info, data, pcapgo.NgPacketOptions{Comments: []string{"one", "two"}}))
	}
	write(0, v4)
	for _, f := range frames {
		id, err := w.AddInterface(pcapgo.NgInterface{LinkType: f.link})
		must.Do(t, err)
		write(id, f.data)
	}
	must.Do(t, w.Flush())
	return file.Bytes()
}

func checkPacket(t *testing.T, p *Packet, ip []byte) {
	t.Helper()
	if !bytes.Equal(append(append(bytes.Clone(p.IP), p.UDP...), p.Payload...), ip) {
		t.Errorf("IP % x UDP % x payload % x, want the pieces of % x", p.IP, p.UDP, p.Payload, ip)
	}
	src, dst := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	if ip[0]>>4 == 6 {
		src, dst = netip.MustParseAddr("::1"), netip.MustParseAddr("::2")
	}
	if p.Src != src || p.Dst != dst || p.SrcPort != 0xc123 || p.DstPort != rocePort || p.Truncated {
		t.Errorf("%v:%d to %v:%d truncated %v", p.Src, p.SrcPort, p.Dst, p.DstPort, p.Truncated)
	}
	if !p.Time.Equal(captureTime) {
		t.Errorf("captured at %v, want %v", p.Time, captureTime)
	}
}

func open(t *testing.T, file []byte) *Reader {
	t.Helper()
	r, err := NewReader(bytes.NewReader(file))
	must.Do(t, err)
	return r
}

func TestLinkLayers(t *testing.T) {
	for _, f := range frames {
		t.Run(f.name, func(t *testing.T) {
			r := open(t, classic(t, f.link, f.data))
			p, err := r.Next()
			if f.ip == nil {
				if !errors.Is(err, io.EOF) || r.Records() != 1 {
					t.Fatalf("%v after %d records, want the end of the file after 1", err, r.Records())
				}
				return
			}
			must.Do(t, err)
			checkPacket(t, p, f.ip)
		})
	}
}

// TestDirections reads which way packets passed: as pcapng says, or the header of a
// capture of all interfaces.
func TestDirections(t *testing.T) {
	cooked := func(kind byte) []byte { return edit(frame(16, 14, etherIPv4, v4), 1, kind) }
	cooked2 := func(kind byte) []byte { return edit(frame(20, 0, etherIPv4, v4), 10, kind) }
	in, out := &pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionInbound}, &pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionOutbound}
	for _, c := range []struct {
		link  layers.LinkType
		data  []byte
		flags *pcapgo.NgEpbFlags
		want  Direction
	}{
		{layers.LinkTypeRaw, v4, nil, Unmarked},
		{layers.LinkTypeRaw, v4, new(pcapgo.NgEpbFlags), Unmarked},
		{layers.LinkTypeRaw, v4, in, Inbound},
		{layers.LinkTypeEthernet, frame(14, 12, etherIPv4, v4), out, Outbound},
		{layers.LinkTypeLinuxSLL, cooked(0), nil, Inbound},
		{layers.LinkTypeLinuxSLL, cooked(2), nil, Inbound},
		{layers.LinkTypeLinuxSLL, cooked(3), nil, Unmarked},
		{layers.LinkTypeLinuxSLL, cooked(4), nil, Outbound},
		{layers.LinkTypeLinuxSLL, cooked(4), in, Inbound},
		{layers.LinkTypeLinuxSLL2, cooked2(0), nil, Inbound},
		{layers.LinkTypeLinuxSLL2, cooked2(4), nil, Outbound},
	} {
		var file bytes.Buffer
		w, err := pcapgo.NewNgWriterInterface(&file, pcapgo.NgInterface{LinkType: c.link}, pcapgo.DefaultNgWriterOptions)
		must.Do(t, err)
		info := gopacket.CaptureInfo{Timestamp: captureTime, CaptureLength: len(c.data), Length: len(c.data)}
		must.Do(t, errors.Join(w.WritePacketWithOptions(info, c.data, pcapgo.NgPacketOptions{Flags: c.flags}), w.Flush()))
		p, err := open(t, file.Bytes()).Next()
		must.Do(t, err)
		if p.Direction != c.want {
			t.Errorf("%v, flags %v, head % x: direction %d, not %d", c.link, c.flags, c.data[:min(20, len(c.data))], p.Direction, c.want)
		}
	}
	for _, link := range []layers.LinkType{layers.LinkTypeLinuxSLL, layers.LinkTypeLinuxSLL2} {
		for n := range 20 {
			if got := direction(link, make([]byte, n), nil); got != Unmarked && got != Inbound {
				t.Errorf("%d bytes: %d", n, got)
			}
		}
	}
}

func TestMixedLinkLayers(t *testing.T) {
	r := open(t, ng(t))
	for i, f := range frames {
		if f.ip == nil {
			continue
		}
		p, err := r.Next()
		if err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		if p.Record != i+2 { // from 1, after the record that is not a network's
			t.Errorf("%s is record %d, want %d", f.name, p.Record, i+2)
		}
		checkPacket(t, p, f.ip)
		if p.Comment != "one; two" {
			t.Errorf("the comment is %q", p.Comment)
		}
	}
	if p, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last packet: %v %v", p, err)
	}
}

func TestTruncatedCapture(t *testing.T) {
	for n := range v4 {
		p, err := open(t, classic(t, layers.LinkTypeRaw, v4[:n])).Next()
		if n < ipv4Len+udpLen {
			if !errors.Is(err, io.EOF) {
				t.Errorf("%d bytes of a packet: %v, want it passed over", n, err)
			}
			continue
		}
		if err != nil || !p.Truncated || !bytes.Equal(p.Payload, v4[ipv4Len+udpLen:n]) {
			t.Errorf("%d bytes of a packet: %v %+v, want the start of the payload, marked", n, err, p)
		}
	}
}

func TestDamagedFiles(t *testing.T) {
	good := classic(t, layers.LinkTypeRaw, v4)
	for n := range len(good) {
		r, err := NewReader(bytes.NewReader(good[:n]))
		if err == nil {
			_, err = r.Next()
		}
		if err == nil || n != 24 && err == io.EOF {
			t.Errorf("the first %d bytes of a file give %v", n, err)
		}
	}
	for name, file := range map[string][]byte{
		"text": []byte("this is no capture"), "empty": nil, "gzip": {0x1f, 0x8b, 8, 0, 0, 0, 0, 0},
	} {
		if _, err := NewReader(bytes.NewReader(file)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v, want ErrFormat", name, err)
		}
	}
	if _, err := NewReader(bytes.NewReader(classic(t, layers.LinkTypeLinuxUSB))); !errors.Is(err, ErrLinkType) {
		t.Errorf("USB capture: %v, want ErrLinkType", err)
	}
	huge := bytes.Clone(good)
	binary.LittleEndian.PutUint32(huge[16:], 0xffffffff)   // snap length
	binary.LittleEndian.PutUint32(huge[24+8:], 0xfffffff0) // captured bytes
	binary.LittleEndian.PutUint32(huge[24+12:], 0xfffffff0)
	if _, err := open(t, huge).Next(); err == nil || err == io.EOF {
		t.Errorf("a record of 4 GiB in a short file gives %v", err)
	}
}

// TestMemory reads 40 MB of unneeded blocks: descriptions of interfaces
// are an error, names and statistics are passed over; neither is kept.
func TestMemory(t *testing.T) {
	const size = 40 << 20
	file := ng(t)
	section := file[:binary.LittleEndian.Uint32(file[4:])]
	description := file[len(section):][:binary.LittleEndian.Uint32(file[len(section)+4:])]
	block := func(kind uint32, body []byte) []byte {
		length := uint32(minBlock + len(body))
		b := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, kind), length)
		return binary.LittleEndian.AppendUint32(append(b, body...), length)
	}
	name := block(4, []byte{1, 0, 8, 0, 10, 0, 0, 1, 'a', 'b', 'c', 0, 0, 0, 0, 0})
	statistics := block(5, make([]byte, 12))
	for what, c := range map[string]struct {
		block []byte
		want  error
	}{
		"interfaces": {description, ErrInterfaces}, "names": {name, nil}, "statistics": {statistics, nil},
		"sections, each with as many interfaces as may be": {
			append(bytes.Clone(section), bytes.Repeat(description, maxInterfaces/len(description))...), nil,
		},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := NewReader(io.MultiReader(
			bytes.NewReader(section), bytes.NewReader(description), &repeated{block: c.block, n: size / len(c.block)}, bytes.NewReader(file)))
		must.Do(t, err)
		p, err := r.Next()
		runtime.ReadMemStats(&after)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
		if err == nil {
			checkPacket(t, p, v4) // the file goes on behind them
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > size {
			t.Errorf("%s: %d MB of blocks took %d MB", what, size>>20, took>>20)
		}
	}
}

// repeated is a file of n equal blocks.
type repeated struct {
	block []byte
	n, at int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.n == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.block[r.at:])
	if r.at += n; r.at == len(r.block) {
		r.at = 0
		r.n--
	}
	return n, nil
}

// TestLongComments reads a packet with as many comments as a block may have, and refuses one
// with more before it keeps them: a compressed file can have any number.
func TestLongComments(t *testing.T) {
	for _, c := range []struct {
		comments int
		want     error
	}{{maxPacketBlock/60_004 - 1, nil}, {maxPacketBlock/60_000 + 1, ErrPacket}} {
		var file bytes.Buffer
		w, err := pcapgo.NewNgWriter(&file, layers.LinkTypeRaw)
		must.Do(t, err)
		ip := v4
		info := gopacket.CaptureInfo{Timestamp: time.Unix(1, 0), CaptureLength: len(ip), Length: len(ip)}
		options := pcapgo.NgPacketOptions{Comments: slices.Repeat([]string{strings.Repeat("a", 60_000)}, c.comments)}
		must.Do(t, errors.Join(w.WritePacketWithOptions(info, ip, options), w.Flush()))
		r, err := NewReader(&file)
		must.Do(t, err)
		p, err := r.Next()
		if !errors.Is(err, c.want) || err == nil && len(p.Comment) != c.comments*60_002-2 {
			t.Errorf("%d comments: %v, want %v", c.comments, err, c.want)
		}
	}
}

func TestReadErrors(t *testing.T) {
	broken := errors.New("broken disk")
	if _, err := NewReader(io.MultiReader(errReader{broken})); !errors.Is(err, broken) {
		t.Errorf("error of the first read: %v, want %v", err, broken)
	}
	head := classic(t, layers.LinkTypeRaw)
	r, err := NewReader(io.MultiReader(bytes.NewReader(head), errReader{broken}))
	must.Do(t, err)
	if _, err := r.Next(); !errors.Is(err, broken) {
		t.Errorf("error of a later read: %v, want %v", err, broken)
	}
}

// errReader fails every read.
type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func FuzzReader(f *testing.F) {
	for _, c := range frames {
		f.Add(classic(f, c.link, c.data))
	}
	f.Add(ng(f))
	names, err := filepath.Glob("../testdata/captures/cm_*.pcap")
	if err != nil || len(names) == 0 {
		f.Fatalf("no captures: %v", err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		must.Do(f, err)
		if len(b) < 4096 {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewReader(bytes.NewReader(b))
		for err == nil {
			var p *Packet
			p, err = r.Next()
			if err == nil && (len(p.UDP) != udpLen || len(p.IP) < ipv4Len || len(p.Payload) > len(b)) {
				t.Errorf("pieces of impossible size: %d %d %d", len(p.IP), len(p.UDP), len(p.Payload))
			}
		}
	})
}

package pcapfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// ErrFormat is returned for a file that is neither pcap nor pcapng.
var ErrFormat = errors.New("pcapfile: neither pcap nor pcapng")

// ErrLinkType is returned for a pcap file of a link layer that this package
// does not know. In a pcapng file, which may mix link layers, such records are
// skipped.
var ErrLinkType = errors.New("pcapfile: unsupported link type")

// Direction is the direction of a packet at the place of capture.
type Direction uint8

// The directions.
const (
	Unmarked Direction = iota // the file does not say
	Inbound
	Outbound
)

// Packet is one UDP datagram to port 4791. The slices belong to the Reader
// and are valid until its next call.
type Packet struct {
	Record    int       // number of the record in the file, from 1
	Time      time.Time // of capture, UTC
	Src, Dst  netip.Addr
	SrcPort   uint16
	DstPort   uint16
	IP        []byte // the IP header with its IPv4 options
	UDP       []byte // the UDP header, 8 bytes
	Payload   []byte // the UDP payload, without link-layer padding
	Truncated bool   // the payload is shorter than the UDP header says
	Direction Direction
	Comment   string // of the record, in pcapng; joined by "; "
}

// Reader reads a capture file. It is not safe for concurrent use.
type Reader struct {
	classic *pcapgo.Reader // of pcap
	ng      *pcapgo.NgReader
	link    layers.LinkType // of all records, unless mixed
	mixed   bool            // each record names its link type
	records int
	packet  Packet
	blocks  *blocks // of pcapng
	err     error   // the first one, which all later calls return
}

// NewReader reads the head of a capture file. It buffers input from r. Errors are ErrFormat,
// ErrLinkType, ErrInterfaces, ErrPacket, and those of r. Compressed files are ErrFormat: their
// uncompressed size could not be bounded.
func NewReader(r io.Reader) (*Reader, error) {
	buffered := bufio.NewReader(r)
	magic, err := buffered.Peek(4)
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %d bytes", ErrFormat, len(magic))
	}
	if err != nil {
		return nil, fmt.Errorf("pcapfile: read head: %w", err)
	}
	switch [4]byte(magic) {
	case [4]byte{0x0a, 0x0d, 0x0d, 0x0a}:
		return newNg(buffered)
	case [4]byte{0xd4, 0xc3, 0xb2, 0xa1}, [4]byte{0xa1, 0xb2, 0xc3, 0xd4},
		[4]byte{0x4d, 0x3c, 0xb2, 0xa1}, [4]byte{0xa1, 0xb2, 0x3c, 0x4d}:
		return newClassic(buffered)
	default:
		return nil, fmt.Errorf("%w: begins with % x", ErrFormat, magic)
	}
}

func newClassic(r io.Reader) (*Reader, error) {
	s, err := pcapgo.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("pcapfile: pcap header: %w", err)
	}
	if !supported(s.LinkType()) {
		return nil, fmt.Errorf("%w %d", ErrLinkType, s.LinkType())
	}
	return &Reader{classic: s, link: s.LinkType()}, nil
}

func newNg(r *bufio.Reader) (*Reader, error) {
	b := &blocks{r: r}
	s, err := pcapgo.NewNgReader(b, pcapgo.NgReaderOptions{WantMixedLinkType: true, SkipUnknownVersion: true})
	if err != nil {
		return nil, fmt.Errorf("pcapfile: pcapng header: %w", err)
	}
	b.entries = true
	return &Reader{ng: s, mixed: true, blocks: b}, nil
}

// Next returns the next datagram to the RoCE port, skipping all other records.
// At the end of the file it returns io.EOF; any other error means that the file
// is damaged from here on. It blocks as the underlying reader does.
func (r *Reader) Next() (*Packet, error) {
	for {
		if i, err := r.NextItem(); err != nil || i.Packet != nil {
			return i.Packet, err
		}
	}
}

// NextItem is Next for entries of the adapter's log, too. The packet of the Item belongs to the Reader, and is
// valid until its next call; the entry does not.
func (r *Reader) NextItem() (i Item, err error) {
	for r.err == nil {
		if i, r.err = r.next(); r.err == nil && (i.Packet != nil || i.Entry != nil) {
			return i, nil
		}
	}
	return Item{}, r.err
}

// next returns the next record, an empty item if it is neither a datagram nor an entry.
func (r *Reader) next() (Item, error) {
	data, info, options, err := r.read()
	switch {
	case errors.Is(err, errEntry):
		r.records++
		e, ok := parseEntry(r.blocks.found)
		if !ok {
			return Item{}, nil
		}
		e.Record = r.records
		return Item{Entry: &e}, nil
	case errors.Is(err, io.EOF) && info.CaptureLength == 0:
		return Item{}, io.EOF
	case err != nil:
		return Item{}, fmt.Errorf("pcapfile: record %d: %w", r.records+1, err)
	}
	r.records++
	link := r.link
	if r.mixed {
		link = linkOf(info)
	}
	if !supported(link) {
		return Item{}, nil
	}
	r.packet = Packet{
		Record: r.records, Time: info.Timestamp.UTC(), Direction: direction(link, data, options.Flags), Comment: strings.Join(options.Comments, "; "),
	}
	if !r.packet.split(network(link, data)) {
		return Item{}, nil
	}
	return Item{Packet: &r.packet}, nil
}

// read returns the next record, with its pcapng options.
func (r *Reader) read() (data []byte, info gopacket.CaptureInfo, options pcapgo.NgPacketOptions, err error) {
	if r.ng == nil {
		data, info, err = r.classic.ZeroCopyReadPacketData()
		return data, info, options, err
	}
	return r.ng.ZeroCopyReadPacketDataWithOptions()
}

// linkOf returns the link type of a record of the pcapng reader.
func linkOf(info gopacket.CaptureInfo) layers.LinkType {
	for _, data := range info.AncillaryData {
		if link, ok := data.(layers.LinkType); ok {
			return link
		}
	}
	return linkNone
}

// Records returns how many records have been read, RoCE or not.
func (r *Reader) Records() int { return r.records }

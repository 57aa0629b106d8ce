package pcapfile

import (
	"bufio"
	"fmt"
	"io"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// Writer writes items of a Join as one pcapng file, with an interface for each capture. The frames begin
// with the IP header. It is not safe for concurrent use.
type Writer struct {
	buffer     *bufio.Writer
	file       *pcapgo.NgWriter
	interfaces int
	frame      []byte
}

// writerBuffer is more than pcapgo's own buffer, which it then does not use: what it writes and entries
// stay in order.
const writerBuffer = 64 << 10

// NewWriter writes the head of a file.
func NewWriter(w io.Writer) (*Writer, error) {
	buffer := bufio.NewWriterSize(w, writerBuffer)
	file, err := pcapgo.NewNgWriterInterface(buffer, captured(0), pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Application: program}})
	if err != nil {
		return nil, fmt.Errorf("pcapfile: write head: %w", err)
	}
	return &Writer{buffer: buffer, file: file, interfaces: 1}, nil
}

// captured describes the interface of a capture.
func captured(source int) pcapgo.NgInterface {
	return pcapgo.NgInterface{Name: fmt.Sprintf("adapter %d", source+1), LinkType: layers.LinkTypeRaw, TimestampResolution: 9}
}

// Write writes an item. The packet must not be truncated.
func (w *Writer) Write(i *Item) error {
	if i.Entry != nil {
		w.frame = AppendEntry(w.frame[:0], i.Entry)
		_, err := w.buffer.Write(w.frame)
		return err
	}
	for ; w.interfaces <= i.Source; w.interfaces++ {
		if _, err := w.file.AddInterface(captured(w.interfaces)); err != nil {
			return err
		}
	}
	p := i.Packet
	w.frame = append(append(append(w.frame[:0], p.IP...), p.UDP...), p.Payload...)
	var o pcapgo.NgPacketOptions
	switch p.Direction {
	case Inbound:
		o.Flags = &pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionInbound}
	case Outbound:
		o.Flags = &pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionOutbound}
	}
	if p.Comment != "" {
		o.Comments = []string{p.Comment}
	}
	info := gopacket.CaptureInfo{Timestamp: p.Time, CaptureLength: len(w.frame), Length: len(w.frame), InterfaceIndex: i.Source}
	return w.file.WritePacketWithOptions(info, w.frame, o)
}

// Flush writes what is buffered.
func (w *Writer) Flush() error { return w.file.Flush() }

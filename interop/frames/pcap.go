package frames

import (
	"bufio"
	"errors"
	"fmt"
	"os"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// WriteFile writes frames to a capture file in pcap format, which every tool
// reads.
func WriteFile(path string, fs []Frame) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("frames: %w", err)
	}
	b := bufio.NewWriter(f)
	w := pcapgo.NewWriterNanos(b)
	err = w.WriteFileHeader(1<<18, layers.LinkTypeEthernet)
	for i := range fs {
		if fr := &fs[i]; err == nil && fr.Raw != nil {
			err = w.WritePacket(gopacket.CaptureInfo{Timestamp: fr.Time, CaptureLength: len(fr.Raw), Length: len(fr.Raw)}, fr.Raw)
		}
	}
	if err := errors.Join(err, b.Flush(), f.Close()); err != nil {
		return fmt.Errorf("frames: %w", err)
	}
	return nil
}

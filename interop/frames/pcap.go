package frames

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// WriteFile writes frames to a capture file in pcap format, which every tool
// reads.
func WriteFile(path string, fs []Frame) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("frames: %w", err)
	}
	w := bufio.NewWriter(f)
	const nanoseconds, ethernet, snap = 0xA1B23C4D, 1, 1 << 18
	head := binary.LittleEndian.AppendUint32(nil, nanoseconds)
	head = binary.LittleEndian.AppendUint16(head, 2)
	head = binary.LittleEndian.AppendUint16(head, 4)
	for _, v := range []uint32{0, 0, snap, ethernet} {
		head = binary.LittleEndian.AppendUint32(head, v)
	}
	_, err = w.Write(head)
	for i := range fs {
		fr := &fs[i]
		if err != nil || fr.Raw == nil {
			continue
		}
		var b []byte
		for _, v := range []uint32{uint32(fr.Time.Unix()), uint32(fr.Time.Nanosecond()), uint32(len(fr.Raw)), uint32(len(fr.Raw))} {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		_, err = w.Write(append(b, fr.Raw...))
	}
	if err := errors.Join(err, w.Flush(), f.Close()); err != nil {
		return fmt.Errorf("frames: %w", err)
	}
	return nil
}

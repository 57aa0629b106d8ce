package pcapfile

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The types of pcapng blocks that a packet reader needs.
const (
	blockSection        = 0x0a0d0d0a // the same in either byte order
	blockInterface      = 1
	blockPacket         = 2 // of old files
	blockSimplePacket   = 3
	blockEnhancedPacket = 6
)

// minBlock is the size of the smallest block: its type, and its length at both
// ends. In a section header, the byte-order magic is at the place of the second
// length.
const minBlock = 12

// maxInterfaces bounds the descriptions of interfaces in a section, in bytes. The
// pcapng reader stores them all, and needs many times the space.
const maxInterfaces = 1 << 20

// maxPacketBlock bounds a block with a packet, including its comments. The pcapng reader
// stores all comments of a packet.
const maxPacketBlock = 1 << 20

// ErrPacket is returned for a block with a packet, or comments, longer than in any real
// capture.
var ErrPacket = errors.New("a packet with its comments is too long")

// ErrInterfaces is returned for a section that describes more interfaces than
// any real capture.
var ErrInterfaces = errors.New("the descriptions of interfaces are too long")

// errEntry is the error of blocks.Read at an entry of an adapter's log, which is in blocks.found then. The
// pcapng reader returns it before it has read anything of a block, and goes on behind the entry next time.
var errEntry = errors.New("an entry")

// blocks filters a pcapng file: it removes the blocks that are not about packets
// (names, secrets and statistics), which the pcapng reader would accumulate.
type blocks struct {
	r          *bufio.Reader
	order      binary.ByteOrder // of the section
	left       int              // bytes of the block left to pass on
	interfaces int              // bytes of the section's interface descriptions
	entries    bool             // the reader takes errEntry
	known      bool             // the section has a version that the pcapng reader does not skip
	found      []byte           // the body of an entry; nil if it was too long
}

// Read implements io.Reader.
func (b *blocks) Read(p []byte) (int, error) {
	for b.left == 0 {
		if err := b.next(); err != nil {
			return 0, err
		}
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// next reads the head of a block, and skips a block that is not needed.
func (b *blocks) next() error {
	head, err := b.r.Peek(minBlock)
	if errors.Is(err, io.EOF) && len(head) > 0 {
		b.left = len(head) // a truncated file
		return nil
	}
	if err != nil {
		return err
	}
	if binary.BigEndian.Uint32(head) == blockSection {
		b.order, b.interfaces = binary.BigEndian, 0
		if head[8] == 0x4d {
			b.order = binary.LittleEndian
		}
		version, _ := b.r.Peek(minBlock + 4) // a section without one ends the file
		b.known = len(version) > minBlock+3 && b.order.Uint16(version[minBlock:]) == 1
	}
	length := int(b.order.Uint32(head[4:]))
	if length < minBlock {
		return fmt.Errorf("a block of %d bytes", length)
	}
	switch b.order.Uint32(head) {
	case blockInterface:
		if b.interfaces += length; b.interfaces > maxInterfaces {
			return fmt.Errorf("%w: more than %d bytes in one section", ErrInterfaces, maxInterfaces)
		}
	case blockPacket, blockSimplePacket, blockEnhancedPacket:
		if length > maxPacketBlock {
			return fmt.Errorf("%w: %d bytes", ErrPacket, length)
		}
	case blockSection:
	case blockJournal:
		return b.journal(length)
	default:
		return b.skip(length)
	}
	b.left = length
	return nil
}

// errCut is the error of a file that ends within a block that is not passed on.
var errCut = fmt.Errorf("a block is cut off: %w", io.ErrUnexpectedEOF)

// skip skips bytes of a block.
func (b *blocks) skip(n int) error {
	_, err := b.r.Discard(n)
	if errors.Is(err, io.EOF) {
		err = errCut
	}
	return err
}

// journal reads a journal entry, and returns errEntry. An entry that is too long is found without its body.
func (b *blocks) journal(length int) error {
	b.found = nil
	if !b.entries || !b.known {
		return b.skip(length)
	}
	if length > maxEntry {
		if err := b.skip(length); err != nil {
			return err
		}
		return errEntry
	}
	block := make([]byte, length)
	if _, err := io.ReadFull(b.r, block); err != nil {
		return errCut
	}
	b.found = block[minBlock-4 : length-4]
	return errEntry
}

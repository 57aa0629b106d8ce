package cfi

import "encoding/binary"

// reader reads numbers from bytes. After the first number that is not there, it fails, and all numbers are 0.
type reader struct {
	data   []byte
	at     int
	failed bool
}

// bytes returns the next n bytes.
func (r *reader) bytes(n uint64) []byte {
	if r.failed || n > uint64(len(r.data)-r.at) {
		r.failed = true
		return nil
	}
	b := r.data[r.at : r.at+int(n)]
	r.at += int(n)
	return b
}

// more reports whether there are bytes left.
func (r *reader) more() bool { return !r.failed && r.at < len(r.data) }

func (r *reader) u8() uint8 {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if b := r.bytes(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// uleb reads a number in unsigned LEB128. Bits beyond 64 are lost.
func (r *reader) uleb() (n uint64) {
	for shift := 0; ; shift += 7 {
		b := r.u8()
		if shift < 64 {
			n |= uint64(b&0x7f) << shift
		}
		if b&0x80 == 0 {
			return n
		}
	}
}

// sleb reads a number in signed LEB128.
func (r *reader) sleb() (n int64) {
	for shift := 0; ; shift += 7 {
		b := r.u8()
		if shift < 64 {
			n |= int64(b&0x7f) << shift
		}
		if b&0x80 == 0 {
			if b&0x40 != 0 && shift+7 < 64 {
				n |= -1 << (shift + 7)
			}
			return n
		}
	}
}

// text reads a text that ends with a zero.
func (r *reader) text() string {
	begin := r.at
	for r.u8() != 0 {
	}
	if r.failed {
		return ""
	}
	return string(r.data[begin : r.at-1])
}

// The encodings of pointers, DW_EH_PE.
const (
	encOmit     = 0xff
	encIndirect = 0x80
	encRelative = 0x70
	encForm     = 0x0f
)

// pointer reads a pointer. The address of the next byte is addr. It fails for pointers that are relative to anything but themselves.
func (r *reader) pointer(encoding uint8, addr uint64) (p uint64) {
	if encoding == encOmit {
		return 0
	}
	switch encoding & encForm {
	case 0x0, 0x4, 0xc:
		p = r.u64()
	case 0x1:
		p = r.uleb()
	case 0x2:
		p = uint64(r.u16())
	case 0x3:
		p = uint64(r.u32())
	case 0x9:
		p = uint64(r.sleb())
	case 0xa:
		p = uint64(int64(int16(r.u16())))
	case 0xb:
		p = uint64(int64(int32(r.u32())))
	default:
		r.failed = true
	}
	switch encoding & encRelative {
	case 0:
	case 0x10: // DW_EH_PE_pcrel
		p += addr
	default:
		r.failed = true
	}
	return p
}

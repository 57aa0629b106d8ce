package ends

import (
	"bytes"
	"context"
	"fmt"
	"syscall"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/testagent"
	"github.com/softhca/softhca/verbs"
)

const (
	page      = 4096
	guardByte = 0xa5
)

// memory is a region of ours: a part of a larger buffer, whose other bytes are
// the guard.
type memory struct {
	mr     *verbs.MR
	buf    []byte // the whole buffer
	at     int    // where the region begins in it
	region []byte
}

func newMemory(size uint64) *memory {
	buf := bytes.Repeat([]byte{guardByte}, int(size)+3*page)
	past := int(uintptr(unsafe.Pointer(unsafe.SliceData(buf))) % page)
	at := 2*page - past
	m := &memory{buf: buf, at: at, region: buf[at : at+int(size) : at+int(size)]}
	clear(m.region)
	return m
}

func (m *memory) Addr() uint64  { return m.mr.Addr() }
func (m *memory) RKey() ib.RKey { return m.mr.RKey() }

// part returns n bytes from off, ERANGE if the region has no such.
func (m *memory) part(off, n uint64) ([]byte, error) {
	if size := uint64(len(m.region)); off > size || n > size-off {
		return nil, fmt.Errorf("%d bytes from %d of a region of %d: %w", n, off, size, syscall.ERANGE)
	}
	return m.region[off : off+n], nil
}

func (m *memory) Fill(_ context.Context, s testagent.Span) error {
	b, err := m.part(s.Off, s.Len)
	testagent.FillPattern(b, s.Seed, s.At)
	return err
}

func (m *memory) Set(_ context.Context, off, n uint64, to byte) error {
	b, err := m.part(off, n)
	for i := range b {
		b[i] = to
	}
	return err
}

func (m *memory) Verify(_ context.Context, s testagent.Span) (testagent.Mismatch, error) {
	b, err := m.part(s.Off, s.Len)
	if err != nil || testagent.FirstMismatch(b, s.Seed, s.At) < 0 {
		return testagent.Mismatch{}, err
	}
	want := make([]byte, len(b))
	testagent.FillPattern(want, s.Seed, s.At)
	return compare(b, want), nil
}

func (m *memory) VerifySet(_ context.Context, off, n uint64, want byte) (testagent.Mismatch, error) {
	b, err := m.part(off, n)
	return compare(b, bytes.Repeat([]byte{want}, len(b))), err
}

func compare(got, want []byte) (mm testagent.Mismatch) {
	if bytes.Equal(got, want) {
		return mm
	}
	for i := range got {
		if got[i] == want[i] {
			continue
		}
		if mm.Bytes == 0 {
			mm.First, mm.Want, mm.Got = uint64(i), want[i], got[i]
		}
		mm.Bytes++
	}
	return mm
}

func (m *memory) Read(_ context.Context, off, n uint64) ([]byte, error) {
	b, err := m.part(off, n)
	return bytes.Clone(b), err
}

func (m *memory) Write(_ context.Context, off uint64, b []byte) error {
	to, err := m.part(off, uint64(len(b)))
	copy(to, b)
	return err
}

func (m *memory) Guard(context.Context) (changed uint64, err error) {
	for _, b := range [][]byte{m.buf[:m.at], m.buf[m.at+len(m.region):]} {
		changed += uint64(len(b) - bytes.Count(b, []byte{guardByte}))
	}
	return changed, nil
}

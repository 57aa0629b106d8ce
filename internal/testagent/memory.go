package testagent

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/softhca/softhca/ib"
)

// maxHex is how many bytes one line carries.
const maxHex = 16384

// PD is a protection domain.
type PD struct{ handle }

// AllocPD returns a new protection domain.
func (c *Client) AllocPD(ctx context.Context) (*PD, error) {
	h, _, err := c.create(ctx, "pd")
	return &PD{h}, err
}

// MRConfig describes a region to register.
type MRConfig struct {
	Size   uint64 // bytes
	Align  uint64 // offset of the first byte in its page, 0..4095
	IOVA   uint64 // the address for the peer; 0 means the memory's own
	Access ib.Access
}

// MR is a region of memory that the program has allocated, zeros at first.
type MR struct {
	handle
	Addr uint64 // address for the peer
	Size uint64
	LKey ib.LKey
	RKey ib.RKey
}

// RegMR allocates memory and registers it.
func (p *PD) RegMR(ctx context.Context, cfg MRConfig) (*MR, error) {
	request := fmt.Sprintf("mr pd=%d size=%d align=%d access=%#x", p.id, cfg.Size, cfg.Align, uint32(cfg.Access))
	if cfg.IOVA != 0 {
		request += fmt.Sprintf(" iova=%#x", cfg.IOVA)
	}
	h, r, err := p.client.create(ctx, request)
	if err != nil {
		return nil, err
	}
	f := fields{r: r}
	m := &MR{handle: h, Size: cfg.Size, Addr: f.uint("addr", 64), LKey: ib.LKey(f.uint("lkey", 32)), RKey: ib.RKey(f.uint("rkey", 32))}
	return m, f.err
}

// SGE returns an element of n bytes from an offset of the region. The program
// does not check that they are within it: that is the adapter's task.
func (m *MR) SGE(off uint64, n uint32) SGE { return SGE{MR: m, Off: off, Length: n} }

// Span is a part of a region and the pattern that belongs there.
type Span struct {
	Off  uint64 // in the region
	Len  uint64 // bytes
	Seed uint64 // of the pattern
	At   uint64 // position in the pattern; below 2^32
}

func (s Span) keys() string {
	return fmt.Sprintf("off=%d len=%d seed=%d at=%d", s.Off, s.Len, s.Seed, s.At)
}

// Fill writes a pattern.
func (m *MR) Fill(ctx context.Context, s Span) error {
	_, err := m.client.Do(ctx, fmt.Sprintf("fill mr=%d %s", m.id, s.keys()), 0)
	return err
}

// Set sets n bytes from an offset to the same value.
func (m *MR) Set(ctx context.Context, off, n uint64, to byte) error {
	_, err := m.client.Do(ctx, fmt.Sprintf("fill mr=%d off=%d len=%d byte=%d", m.id, off, n, to), 0)
	return err
}

// Mismatch says how memory differs from what was expected.
type Mismatch struct {
	Bytes     uint64 // number that differ; the other fields are valid if it is not 0
	First     uint64 // the first of them, counted from the beginning of the span
	Want, Got byte
}

// Verify compares memory with a pattern.
func (m *MR) Verify(ctx context.Context, s Span) (Mismatch, error) {
	return m.compare(ctx, fmt.Sprintf("verify mr=%d %s", m.id, s.keys()))
}

// VerifySet compares n bytes from an offset with a byte.
func (m *MR) VerifySet(ctx context.Context, off, n uint64, want byte) (Mismatch, error) {
	return m.compare(ctx, fmt.Sprintf("verify mr=%d off=%d len=%d byte=%d", m.id, off, n, want))
}

func (m *MR) compare(ctx context.Context, request string) (Mismatch, error) {
	r, err := m.client.Do(ctx, request, 0)
	if err != nil {
		return Mismatch{}, err
	}
	f := fields{r: r}
	mm := Mismatch{Bytes: f.uint("bad", 64)}
	if mm.Bytes > 0 {
		mm.First, mm.Want, mm.Got = f.uint("first", 64), byte(f.uint("want", 8)), byte(f.uint("got", 8))
	}
	return mm, f.err
}

// Guard returns how many of the bytes around the region, which nobody may
// write, were changed.
func (m *MR) Guard(ctx context.Context) (uint64, error) {
	r, err := m.client.Do(ctx, fmt.Sprintf("guard mr=%d", m.id), 0)
	if err != nil {
		return 0, err
	}
	return r.Uint("bad", 64)
}

// Sum returns the checksum of a part of the region: FNV-1a of 64 bits, as
// hash/fnv has it.
func (m *MR) Sum(ctx context.Context, off, n uint64) (uint64, error) {
	r, err := m.client.Do(ctx, fmt.Sprintf("sum mr=%d off=%d len=%d", m.id, off, n), 0)
	if err != nil {
		return 0, err
	}
	return r.Uint("sum", 64)
}

// Read returns n bytes from an offset.
func (m *MR) Read(ctx context.Context, off, n uint64) ([]byte, error) {
	var all []byte
	for n > 0 {
		k := min(n, maxHex)
		r, err := m.client.Do(ctx, fmt.Sprintf("read mr=%d off=%d len=%d", m.id, off, k), 0)
		if err != nil {
			return nil, err
		}
		s, _ := r.Get("hex")
		b, err := hex.DecodeString(s)
		if err != nil || uint64(len(b)) != k {
			return nil, fmt.Errorf("test agent: read: %d bytes of hex for %d", len(s), k)
		}
		all, off, n = append(all, b...), off+k, n-k
	}
	return all, nil
}

// Write writes bytes at an offset.
func (m *MR) Write(ctx context.Context, off uint64, b []byte) error {
	for len(b) > 0 {
		k := min(len(b), maxHex)
		if _, err := m.client.Do(ctx, fmt.Sprintf("write mr=%d off=%d hex=%x", m.id, off, b[:k]), 0); err != nil {
			return err
		}
		off, b = off+uint64(k), b[k:]
	}
	return nil
}

// MW is a memory window.
type MW struct {
	handle
	RKey ib.RKey // of type 1: the current key; of type 2: the first key, whose low 8 bits the user replaces at each bind
}

// AllocMW returns a memory window of type 1 or 2.
func (p *PD) AllocMW(ctx context.Context, kind int) (*MW, error) {
	h, r, err := p.client.create(ctx, fmt.Sprintf("mw pd=%d type=%d", p.id, kind))
	if err != nil {
		return nil, err
	}
	key, err := r.Uint("rkey", 32)
	return &MW{h, ib.RKey(key)}, err
}

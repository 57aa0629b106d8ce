package perf

import (
	"encoding/binary"
	"fmt"
)

// pattern is a stream of bytes that a number chooses: what the last message
// of queue pair i holds.
type pattern struct{ state uint64 }

func newPattern(seed uint64, i int) pattern { return pattern{seed ^ uint64(i)<<32} }

// next returns eight bytes: SplitMix64, which tells any two places apart.
func (p *pattern) next() (b [8]byte) {
	p.state += 0x9e3779b97f4a7c15
	z := p.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	binary.LittleEndian.PutUint64(b[:], z^z>>31)
	return b
}

// fill writes the pattern over b.
func (p pattern) fill(b []byte) {
	for len(b) > 0 {
		v := p.next()
		b = b[copy(b, v[:]):]
	}
}

// check returns an error that names the first byte of b that is not the
// pattern's.
func (p pattern) check(b []byte) error {
	for at := 0; at < len(b); at += 8 {
		v := p.next()
		for j := range min(8, len(b)-at) {
			if b[at+j] != v[j] {
				return fmt.Errorf("byte %d of %d is %#02x, sent was %#02x", at+j, len(b), b[at+j], v[j])
			}
		}
	}
	return nil
}

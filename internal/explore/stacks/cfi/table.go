package cfi

import (
	"cmp"
	"slices"
	"strings"
)

const (
	// MaxSection bounds the section that is read, in bytes.
	MaxSection = 64 << 20
	maxEntries = 1 << 20 // functions
)

// Table has the entries of a section, ordered by address.
type Table struct {
	data    []byte
	addr    uint64 // of the section
	entries []entry
	commons map[int]*common // by their offset in the section
}

// entry is what a frame description entry is about: a function.
type entry struct {
	begin, end uint64
	program    []byte
	common     *common
}

// common is a common information entry.
type common struct {
	code        uint64 // factor of advances
	data        int64  // factor of offsets
	ret         uint64 // the register with the return address
	program     []byte
	encoding    uint8 // of the addresses of functions
	augmented   bool  // entries have a length of additional data
	signalFrame bool
}

// Parse reads the section at a virtual address.
func Parse(section []byte, addr uint64) *Table {
	t := &Table{data: section[:min(len(section), MaxSection)], addr: addr, commons: map[int]*common{}}
	r := &reader{data: t.data}
	for r.more() && len(t.entries) < maxEntries {
		begin := r.at
		length := uint64(r.u32())
		if length == 0 {
			continue // crtend.o ends the section with it, and the linker may append more
		}
		if length == 0xffffffff {
			length = r.u64()
		}
		at := r.at
		if r.bytes(length) == nil {
			break
		}
		t.entry(begin, at, r.at)
	}
	slices.SortStableFunc(t.entries, func(a, b entry) int { return cmp.Compare(a.begin, b.begin) })
	return t
}

// entry adds the entry from the offset at to the offset end, whose length is at begin, if it is that of a function.
func (t *Table) entry(begin, at, end int) {
	r := &reader{data: t.data[:end], at: at}
	id := r.u32()
	if r.failed || id == 0 {
		return // a common information entry is read when an entry refers to it
	}
	c := t.common(at - int(id))
	if c == nil || at-int(id) >= begin {
		return
	}
	e := entry{common: c}
	e.begin = r.pointer(c.encoding, t.addr+uint64(r.at))
	e.end = e.begin + r.pointer(c.encoding&encForm, 0)
	if c.augmented {
		r.bytes(r.uleb())
	}
	if r.failed || e.end <= e.begin || e.begin == 0 {
		return
	}
	e.program = t.data[r.at:end]
	t.entries = append(t.entries, e)
}

// common returns the common information entry at an offset; nil if there is none that can be used.
func (t *Table) common(at int) *common {
	if at < 0 || at >= len(t.data) {
		return nil
	}
	c, known := t.commons[at]
	if !known {
		c = t.readCommon(at)
		t.commons[at] = c
	}
	return c
}

func (t *Table) readCommon(at int) *common {
	r := &reader{data: t.data, at: at}
	length := uint64(r.u32())
	if length == 0xffffffff {
		length = r.u64()
	}
	begin := r.at
	if r.bytes(length) == nil {
		return nil
	}
	r = &reader{data: t.data[:r.at], at: begin}
	if r.u32() != 0 {
		return nil
	}
	version := r.u8()
	augmentation := r.text()
	c := &common{code: r.uleb(), data: r.sleb()}
	if version == 1 {
		c.ret = uint64(r.u8())
	} else {
		c.ret = r.uleb()
	}
	if letters, ok := strings.CutPrefix(augmentation, "z"); ok {
		c.augmented = true
		extra := r.uleb()
		data := r.at
		if r.bytes(extra) == nil {
			return nil
		}
		t.augment(c, letters, &reader{data: t.data[:r.at], at: data})
	} else if augmentation != "" {
		return nil // its layout is not known
	}
	if r.failed || version != 1 && version != 3 || c.ret >= NumRegisters {
		return nil
	}
	c.program = r.data[r.at:]
	return c
}

// augment reads the augmentation data of a common information entry.
func (t *Table) augment(c *common, letters string, r *reader) {
	for _, letter := range letters {
		switch letter {
		case 'R':
			c.encoding = r.u8()
		case 'S':
			c.signalFrame = true
		case 'P':
			encoding := r.u8()
			r.pointer(encoding&^encIndirect, t.addr+uint64(r.at))
		case 'L':
			r.u8()
		case 'B', 'G': // of arm64: which key signs return addresses, and that memory is tagged
		default:
			return // the encoding may be one of those that follow; addresses that make no sense are left out
		}
	}
}

// find returns the function at an address; nil if there is none.
func (t *Table) find(pc uint64) *entry {
	i, found := slices.BinarySearchFunc(t.entries, pc, func(e entry, pc uint64) int { return cmp.Compare(e.begin, pc) })
	if !found {
		i--
	}
	if i < 0 || pc >= t.entries[i].end {
		return nil
	}
	return &t.entries[i]
}

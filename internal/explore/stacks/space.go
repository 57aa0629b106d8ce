package stacks

import (
	"cmp"
	"encoding/binary"
	"slices"
)

const (
	pageSize    = 4096
	maxPages    = 4096 // of the stacks of a process that are read
	maxMappings = 4096 // executable parts of the address space
)

// mapping is an executable part of an address space.
type mapping struct {
	begin, end uint64
	offset     uint64 // in the file
	path       string // "" for memory without a file
	file       string // the path under which this process can read the file
	object     *object
}

// space is the address space of a process.
type space struct {
	mappings []mapping // ordered by address
	read     func(p []byte, addr uint64) int
	pages    map[uint64][]byte // that were read; nil where there is no memory
}

// find returns the mapping of an address; nil if there is none.
func (s *space) find(addr uint64) *mapping {
	i, found := slices.BinarySearchFunc(s.mappings, addr, func(m mapping, addr uint64) int { return cmp.Compare(m.begin, addr) })
	if !found {
		i--
	}
	if i < 0 || addr >= s.mappings[i].end {
		return nil
	}
	return &s.mappings[i]
}

// word reads a word of a stack. It reports false if the address is not mapped, or does not belong to a stack.
func (s *space) word(addr uint64) (uint64, bool) {
	if addr%8 != 0 {
		return 0, false
	}
	page, known := s.pages[addr/pageSize]
	if !known {
		if len(s.pages) >= maxPages {
			return 0, false
		}
		page = make([]byte, pageSize)
		page = page[:s.read(page, addr/pageSize*pageSize)]
		s.pages[addr/pageSize] = page
	}
	at := addr % pageSize
	if at+8 > uint64(len(page)) {
		return 0, false
	}
	return binary.LittleEndian.Uint64(page[at:]), true
}

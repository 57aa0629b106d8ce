package symbols

import (
	"cmp"
	"debug/elf"
	"slices"

	"github.com/ianlancetaylor/demangle"
)

const (
	maxName    = 4096 // bytes of a mangled name
	maxSymbols = 2 << 20
	// nameBits limits a demangled name to 1 << nameBits bytes: a short name can stand for a very
	// long one.
	nameBits = 12
)

// add adds the functions of the tables of symbols of a file.
func (o *object) add(f *elfFile) {
	for _, read := range [...]func() ([]elf.Symbol, error){f.Symbols, f.DynamicSymbols} {
		all, err := read()
		if err != nil {
			continue // the file has no such table
		}
		for _, s := range all {
			t := elf.ST_TYPE(s.Info)
			if t != elf.STT_FUNC && t != elf.STT_GNU_IFUNC || int(s.Section) >= len(f.Sections) || s.Section == elf.SHN_UNDEF || len(o.symbols) >= maxSymbols {
				continue
			}
			if in := f.Sections[s.Section]; s.Size == 0 && s.Value-in.Addr < in.Size { // written in assembler
				s.Size = in.Addr + in.Size - s.Value
			}
			o.symbols = append(o.symbols, s)
		}
	}
	// Of several names of a function, a global one comes last.
	slices.SortStableFunc(o.symbols, func(a, b elf.Symbol) int {
		return cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(elf.ST_BIND(a.Info), elf.ST_BIND(b.Info)))
	})
}

// symbol returns the function at an address, from the tables of symbols.
func (o *object) symbol(addr uint64) []Frame {
	after, _ := slices.BinarySearchFunc(o.symbols, addr, func(s elf.Symbol, addr uint64) int {
		if s.Value <= addr {
			return -1
		}
		return 1
	})
	if after == 0 {
		return nil
	}
	s := &o.symbols[after-1]
	if addr-s.Value >= s.Size || s.Name == "" {
		return nil
	}
	return []Frame{{Function: demangled(s.Name), Offset: addr - s.Value}}
}

// Demangle returns the name that a function has in its source, without parameters. A name
// that is not mangled stays as it is.
func Demangle(name string) (source string) {
	defer func() {
		if recover() != nil {
			source = name
		}
	}()
	return demangled(name)
}

func demangled(name string) string {
	if len(name) > maxName {
		return name[:maxName]
	}
	return demangle.Filter(name, demangle.NoParams, demangle.MaxLength(nameBits))
}

package stacks

import (
	"debug/elf"
	"io"
	"os"
	"syscall"

	"github.com/softhca/softhca/internal/explore/stacks/cfi"
)

// object is an ELF file that processes execute.
type object struct {
	segments []elf.ProgHeader // the segments of the file that are loaded
	table    *cfi.Table       // nil if it has none
	entry    uint64           // where the program begins
	isGo     bool             // it has code in Go
	crossing [2]uint64        // first and last address of the function through which programs in C call Go; zeros if it has none
}

// crossing is the function of Go's runtime through which C calls Go.
const crossing = "crosscall2"

// openObject reads an ELF file. Opening a FIFO or a device does not block.
func openObject(path string) *object {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return readObject(file)
}

// readObject reads an ELF file; nil if it cannot be read. The package debug/elf does not promise to survive every hostile file.
func readObject(r io.ReaderAt) (o *object) {
	defer func() {
		if recover() != nil {
			o = nil
		}
	}()
	f, err := elf.NewFile(r)
	if err != nil || f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB {
		return nil
	}
	o = &object{entry: f.Entry, isGo: f.Section(".gopclntab") != nil || f.Section(".data.rel.ro.gopclntab") != nil || f.Section(".go.buildinfo") != nil}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			o.segments = append(o.segments, p.ProgHeader)
		}
	}
	if s := f.Section(".eh_frame"); s != nil && s.Type != elf.SHT_NOBITS && s.Size <= cfi.MaxSection {
		if data, err := s.Data(); err == nil {
			o.table = cfi.Parse(data, s.Addr)
		}
	}
	if o.isGo {
		o.findCrossing(f)
	}
	return o
}

// findCrossing finds the function through which C calls Go.
func (o *object) findCrossing(f *elf.File) {
	for _, read := range [...]func() ([]elf.Symbol, error){f.DynamicSymbols, f.Symbols} {
		all, err := read()
		if err != nil {
			continue
		}
		for i := range all {
			if all[i].Name == crossing && all[i].Size > 0 {
				o.crossing = [2]uint64{all[i].Value, all[i].Value + all[i].Size - 1}
				return
			}
		}
	}
}

// addressOf returns the virtual address of a byte of the file.
func (o *object) addressOf(offset uint64) (uint64, bool) {
	for _, s := range o.segments {
		if offset-s.Off < s.Filesz {
			return offset - s.Off + s.Vaddr, true
		}
	}
	return 0, false
}

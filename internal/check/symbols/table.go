package symbols

import (
	"bytes"
	"debug/dwarf"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	maxFiles = 512 // files of which symbols are read
	// MaxDebug is a limit of New for a program that has the time to read large files.
	MaxDebug = 1 << 30
)

// DebugDir is the directory in which distributions install separate debug files.
const DebugDir = "/usr/lib/debug"

// Frame is a function, and the line that was executed in it.
type Frame struct {
	Function string
	Offset   uint64 // from the begin of the function; only without File
	File     string // source file; "" if it is not known
	Line     int
}

// Table finds symbols. It reads each file once, and remembers each answer. It is not safe for
// concurrent use.
type Table struct {
	debugDir string
	maxDebug uint64
	objects  map[string]*object
	answers  map[place][]Frame
	debug    uint64 // bytes of debug information of all objects
}

// place is an address in a file.
type place struct {
	file string
	addr uint64
}

// object is what is known about a file.
type object struct {
	dwarf   *dwarf.Data // nil if there is none
	symbols []elf.Symbol
}

// New returns an empty table. Separate debug files are below debugDir, usually DebugDir. The table reads the debug
// information of a file only while all that it has read is at most maxDebug bytes; of other files it reads the
// tables of symbols.
func New(debugDir string, maxDebug uint64) *Table {
	return &Table{debugDir: debugDir, maxDebug: maxDebug, objects: map[string]*object{}, answers: map[place][]Frame{}}
}

// Lookup returns the function at a virtual address of an ELF file, after the functions that the
// compiler has inlined there, the innermost first. It returns nil if nothing is known.
func (t *Table) Lookup(file string, addr uint64) []Frame {
	p := place{file, addr}
	frames, ok := t.answers[p]
	if !ok {
		frames = t.find(p)
		t.answers[p] = frames
	}
	return frames
}

// find looks an address up in the file. The packages debug/elf and debug/dwarf do not promise to
// survive every hostile file.
func (t *Table) find(p place) (frames []Frame) {
	defer func() {
		if recover() != nil {
			frames = nil
		}
	}()
	o, ok := t.objects[p.file]
	if !ok && len(t.objects) < maxFiles {
		o = &object{}
		t.objects[p.file] = o // also if reading it fails
		t.read(o, p.file)
	}
	if o == nil {
		return nil
	}
	if frames := o.lines(p.addr); len(frames) > 0 {
		return frames
	}
	return o.symbol(p.addr)
}

// read reads the symbols of a file, and those of its debug file if there is one.
func (t *Table) read(o *object, name string) {
	f, err := open(name)
	if err != nil {
		return
	}
	defer f.Close()
	o.add(f)
	t.load(o, f)
	id := buildID(f)
	if len(id) < 2 || o.dwarf != nil {
		return
	}
	s := hex.EncodeToString(id)
	d, err := open(filepath.Join(t.debugDir, ".build-id", s[:2], s[2:]+".debug"))
	if err != nil {
		return
	}
	defer d.Close()
	if bytes.Equal(buildID(d), id) {
		o.add(d)
		t.load(o, d)
	}
}

// elfFile is an open ELF file.
type elfFile struct {
	*elf.File
	file *os.File
}

// Close closes the file.
func (f *elfFile) Close() { _ = f.file.Close() }

// open opens an ELF file. The name may be that of a FIFO or a device: opening it does not block.
func open(name string) (*elfFile, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file: %w", name, fs.ErrInvalid)
	}
	var e *elf.File
	if err == nil {
		e, err = elf.NewFile(file)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &elfFile{e, file}, nil
}

// load loads the debug information of a file, if it has any and it is not too large.
func (t *Table) load(o *object, f *elfFile) {
	var size uint64
	has := false
	for _, s := range f.Sections {
		if strings.HasPrefix(s.Name, ".debug_") || strings.HasPrefix(s.Name, ".zdebug_") {
			has = has || strings.HasSuffix(s.Name, "debug_info")
			size += min(s.Size, MaxDebug) + min(s.FileSize, MaxDebug)
		}
	}
	if !has || t.debug+size > t.maxDebug {
		return
	}
	t.debug += size
	if d, err := f.DWARF(); err == nil {
		o.dwarf = d
	}
}

// buildID returns the build ID of a file, or nil.
func buildID(f *elfFile) []byte {
	s := f.Section(".note.gnu.build-id")
	if s == nil || s.Size > 4096 || s.Type == elf.SHT_NOBITS {
		return nil
	}
	b, err := s.Data()
	const head = 16 // the sizes of the name and the ID, the type, and the name "GNU"
	if err != nil || len(b) < head || f.ByteOrder.Uint32(b) != 4 || string(b[12:head]) != "GNU\x00" {
		return nil
	}
	n := f.ByteOrder.Uint32(b[4:])
	if uint64(n) > uint64(len(b)-head) {
		return nil
	}
	return b[head : head+n]
}

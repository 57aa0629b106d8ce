package cfi

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

const (
	sectionAt = 0x10000
	codeAt    = 0x4000
	rbx       = 3
	rbp       = 6
	rsp       = 7
	rip       = 16
)

// entryOf returns an entry of the section: its length, an ID, and its bytes.
func entryOf(id uint32, body ...byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(4+len(body)))
	return append(binary.LittleEndian.AppendUint32(b, id), body...)
}

// section returns the section of a function of 0x100 bytes at codeAt, with absolute addresses. letters are those of the augmentation.
func section(letters string, augmented []byte, program ...byte) []byte {
	body := append([]byte{1}, letters...)
	body = append(body, 0, 1, 0x78, rip) // the factors 1 and -8
	if letters != "" {
		body = append(body, byte(len(augmented)))
		body = append(body, augmented...)
	}
	body = append(body, 0x0c, rsp, 8, 0x80|rip, 1) // CFA = rsp+8, the return address is at CFA-8
	b := entryOf(0, body...)
	var at []byte
	at = binary.LittleEndian.AppendUint64(at, codeAt)
	at = binary.LittleEndian.AppendUint64(at, 0x100)
	if letters != "" {
		at = append(at, 0)
	}
	b = append(b, entryOf(uint32(len(b)+4), append(at, program...)...)...)
	return append(b, 0, 0, 0, 0)
}

// words is a stack: the value of each word is 1000 and its address.
func words(addr uint64) (uint64, bool) { return addr + 1000, addr >= 0x100 && addr < 0x10000 }

// TestRules computes the caller's registers with each kind of rule.
func TestRules(t *testing.T) {
	regs := &Registers{PC: codeAt + 4}
	regs.Value[rsp], regs.Value[rbp], regs.Value[rbx], regs.Value[rip] = 0x1000, 0x2000, 0x3000, regs.PC
	for _, c := range []struct {
		name    string
		program []byte
		sp, pc  uint64 // of the caller; 0: there is none
		rbp     uint64
	}{
		{"nothing was pushed", nil, 0x1008, 0x1000 + 1000, 0x2000},
		{"rbp was pushed", []byte{0x41, 0x0e, 16, 0x80 | rbp, 2}, 0x1010, 0x1008 + 1000, 0x1000 + 1000},
		{"rbp is pushed later", []byte{0x45, 0x0e, 16, 0x80 | rbp, 2}, 0x1008, 0x1000 + 1000, 0x2000},
		{"the frame pointer", []byte{0x41, 0x0e, 16, 0x80 | rbp, 2, 0x43, 0x0d, rbp}, 0x2010, 0x2008 + 1000, 0x2000 + 1000},
		{"after an epilogue in the middle", []byte{0x0e, 16, 0x0a, 0x41, 0x0e, 8, 0x41, 0x0b}, 0x1010, 0x1008 + 1000, 0x2000},
		{"restored", []byte{0x80 | rbp, 2, 0xc0 | rbp}, 0x1008, 0x1000 + 1000, 0x2000},
		{"restored, in the long form", []byte{0x05, rbp, 2, 0x06, rbp}, 0x1008, 0x1000 + 1000, 0x2000},
		{"same value", []byte{0x80 | rbp, 2, 0x08, rbp}, 0x1008, 0x1000 + 1000, 0x2000},
		{"in a register", []byte{0x09, rbp, rbx}, 0x1008, 0x1000 + 1000, 0x3000},
		{"signed offset", []byte{0x11, rbp, 0x7e}, 0x1008, 0x1000 + 1000, 0x1018 + 1000},
		{"an offset that is the value", []byte{0x14, rbp, 1}, 0x1008, 0x1000 + 1000, 0x1000},
		{"a signed offset that is the value", []byte{0x15, rbp, 0x7f}, 0x1008, 0x1000 + 1000, 0x1010},
		{"CFA with signed offset", []byte{0x12, rsp, 0x7e}, 0x1010, 0x1008 + 1000, 0x2000},
		{"CFA's signed offset", []byte{0x13, 0x7d}, 0x1018, 0x1010 + 1000, 0x2000},
		{"the outermost function", []byte{0x07, rip}, 0, 0, 0},
		{"an expression, as in a handler of a signal", []byte{0x0f, 3, 0x77, 16, 0x06, 0x10, rip, 2, 0x77, 24, 0x16, rbp, 2, 0x73, 1}, 0x1010 + 1000, 0x1018 + 1000, 0x3001},
		{"the linkage table, before it pushes", []byte{0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22}, 0x1008, 0x1000 + 1000, 0x2000},
		{"advances", []byte{0x02, 1, 0x03, 1, 0, 0x04, 1, 0, 0, 0, 0x2e, 9, 0x2d, 0x0e, 24}, 0x1018, 0x1010 + 1000, 0x2000},
		{"an unknown instruction", []byte{0x3e}, 0, 0, 0},
		{"nothing remembered", []byte{0x0b}, 0, 0, 0},
		{"an expression on an empty stack", []byte{0x0f, 1, 0x22}, 0, 0, 0},
		{"a memory that is not there", []byte{0x0c, 0, 8}, 0, 0, 0},
		{"a register that is not followed", []byte{0x0c, 99, 8}, 0, 0, 0},
		{"cut off", []byte{0x0f, 100, 0x77}, 0, 0, 0},
	} {
		for letters, augmented := range map[string][]byte{"": nil, "zR": {0}, "zPLR": {0, 1, 2, 3, 4, 5, 6, 7, 8, 0xff, 0}} {
			table := Parse(section(letters, augmented, c.program...), sectionAt)
			rules := table.Find(regs.PC)
			if rules == nil {
				if c.sp != 0 {
					t.Errorf("%s, %q: there are no rules", c.name, letters)
				}
				continue
			}
			caller, ok := rules.Caller(regs, rsp, words)
			if ok != (c.sp != 0) {
				t.Errorf("%s, %q: a caller is %v", c.name, letters, ok)
			} else if ok && (caller.PC != c.pc || caller.Value[rsp] != c.sp || caller.Value[rbp] != c.rbp) {
				t.Errorf("%s, %q: pc %#x, sp %#x, rbp %#x; want %#x, %#x, %#x", c.name, letters, caller.PC, caller.Value[rsp], caller.Value[rbp], c.pc, c.sp, c.rbp)
			}
		}
	}
}

// TestEntries finds functions in a section: with relative addresses, with signal frames, and among several entries. Entries that make no sense are left out.
func TestEntries(t *testing.T) {
	table := Parse(section("zRS", []byte{0}), sectionAt)
	if r := table.Find(codeAt); r == nil || !r.Signal {
		t.Errorf("the frame of a signal is %+v", r)
	}
	for _, pc := range []uint64{0, codeAt - 1, codeAt + 0x100, ^uint64(0)} {
		if table.Find(pc) != nil {
			t.Errorf("%#x has rules", pc)
		}
	}
	// The address relative to itself, in four bytes with a sign.
	b := entryOf(0, 1, 'z', 'R', 0, 1, 0x78, rip, 1, 0x1b, 0x0c, rsp, 8, 0x80|rip, 1)
	at := sectionAt + len(b) + 8
	relative := binary.LittleEndian.AppendUint32(nil, uint32(codeAt-at))
	relative = append(binary.LittleEndian.AppendUint32(relative, 0x20), 0)
	b = append(b, entryOf(uint32(len(b)+4), relative...)...)
	table = Parse(b, sectionAt)
	if table.Find(codeAt) == nil || table.Find(codeAt+0x1f) == nil || table.Find(codeAt+0x20) != nil {
		t.Errorf("a relative address is read as %+v", table.entries)
	}
	for name, b := range map[string][]byte{
		"refers to nothing":     entryOf(4, make([]byte, 20)...),
		"refers behind itself":  entryOf(0xfffffff0, make([]byte, 20)...),
		"without addresses":     append(entryOf(0, 1, 0, 1, 0x78, rip), entryOf(17, 1, 2)...),
		"a layout of old times": section("eh", nil),
		"an unknown encoding":   section("zR", []byte{0x33}),
		"another version":       append([]byte{9, 0, 0, 0, 0, 0, 0, 0, 7}, 0, 0, 0, 0),
	} {
		if table := Parse(b, sectionAt); len(table.entries) != 0 {
			t.Errorf("%s: %+v", name, table.entries)
		}
	}
}

// TestRememberedRowsAreBounded remembers more rows than the bound allows, and pushes more values in an expression.
func TestRememberedRowsAreBounded(t *testing.T) {
	for n, want := range map[int]bool{maxRemembered: true, maxRemembered + 1: false} {
		program := make([]byte, n)
		for i := range program {
			program[i] = 0x0a
		}
		if r := Parse(section("", nil, program...), sectionAt).Find(codeAt); (r != nil) != want {
			t.Errorf("%d rows: %v", n, r != nil)
		}
	}
	deep := make([]byte, maxDepth+1)
	for i := range deep {
		deep[i] = 0x30
	}
	if _, ok := evaluate(deep, new(Registers), words); ok {
		t.Error("the stack of an expression has no bound")
	}
	if _, ok := evaluate(deep[:maxDepth], new(Registers), words); !ok {
		t.Error("an expression of the bound is refused")
	}
}

// try looks every address of a section up, and follows its rules.
func try(b []byte) {
	table := Parse(b, sectionAt)
	for i := range table.entries[:min(len(table.entries), 100)] {
		for _, pc := range []uint64{table.entries[i].begin, table.entries[i].begin + 8, table.entries[i].end - 1} {
			if rules := table.Find(pc); rules != nil {
				rules.Caller(&Registers{PC: pc}, rsp, words)
			}
		}
	}
}

// TestDamagedSections reads damaged sections.
func TestDamagedSections(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	whole := section("zPLR", []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 0xff, 0}, 0x0f, 3, 0x77, 16, 0x06, 0x10, rip, 2, 0x77, 24, 0x0a, 0x41, 0x0b, 0x16, rbp, 2, 0x73, 1)
	for i := range whole {
		try(whole[:i])
		for range 50 {
			b := append([]byte{}, whole...)
			b[i] = byte(random.Uint32())
			b[random.IntN(len(b))] ^= 1 << random.IntN(8)
			try(b)
		}
	}
}

// FuzzSection reads any section.
func FuzzSection(f *testing.F) {
	f.Add(section("", nil, 0x41, 0x0e, 16, 0x80|rbp, 2, 0x43, 0x0d, rbp))
	f.Add(section("zR", []byte{0x1b}))
	f.Add(section("zPLR", []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 0xff, 0}, 0x0f, 3, 0x77, 16, 0x06, 0x10, rip, 2, 0x77, 24))
	f.Add(section("", nil, 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22))
	f.Fuzz(func(_ *testing.T, b []byte) { try(b) })
}

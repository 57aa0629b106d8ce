package cfi

// NumRegisters is the number of registers that are followed. The numbers are those of DWARF.
const NumRegisters = 34

// Registers are the registers of a frame.
type Registers struct {
	PC    uint64
	Value [NumRegisters]uint64
}

// Memory reads a word of the stack. It reports false if there is no memory.
type Memory func(addr uint64) (word uint64, ok bool)

// kind is how a register of the caller is found.
type kind uint8

const (
	same       kind = iota // it has the callee's value
	undefined              // it has no value; of the return address: there is no caller
	atOffset               // in memory, at the CFA plus an offset
	isOffset               // the CFA plus an offset
	inRegister             // in another register; for the CFA: plus an offset
	atExpr                 // in memory, at the value of an expression
	isExpr                 // the value of an expression
)

// rule is how a register, or the CFA, is found.
type rule struct {
	kind   kind
	reg    uint64
	offset int64
	expr   []byte
}

// row has the rules at an address. The CFA, the canonical frame address, is the stack pointer of the caller before its call.
type row struct {
	cfa  rule
	regs [NumRegisters]rule
}

// Rules are the rules at an address of the code.
type Rules struct {
	row
	ret    uint64 // the register with the return address
	Signal bool   // the frame is that of a handler of a signal: the caller was interrupted, it made no call
}

// maxRemembered bounds the rows that a program remembers.
const maxRemembered = 64

// machine executes the instructions of an entry.
type machine struct {
	row
	first      row // after the instructions of the common information entry
	remembered []row
	loc        uint64
	common     *common
}

// Find returns the rules at an address; nil if the table has none, or they make no sense.
func (t *Table) Find(pc uint64) *Rules {
	e := t.find(pc)
	if e == nil {
		return nil
	}
	m := &machine{common: e.common, loc: e.begin}
	if !m.run(e.common.program, ^uint64(0)) {
		return nil
	}
	m.first = m.row
	m.loc = e.begin
	if !m.run(e.program, pc) {
		return nil
	}
	return &Rules{row: m.row, ret: e.common.ret, Signal: e.common.signalFrame}
}

// run executes instructions until they are about addresses behind pc. It reports false for instructions that it does not know.
func (m *machine) run(program []byte, pc uint64) bool {
	r := &reader{data: program}
	for r.more() && m.loc <= pc {
		switch b := r.u8(); b >> 6 {
		case 1: // DW_CFA_advance_loc
			m.advance(uint64(b & 0x3f))
		case 2: // DW_CFA_offset
			m.set(uint64(b&0x3f), rule{kind: atOffset, offset: int64(r.uleb()) * m.common.data})
		case 3: // DW_CFA_restore
			m.restore(uint64(b & 0x3f))
		default:
			if !m.step(b, r) {
				return false
			}
		}
	}
	return !r.failed
}

// step executes an instruction without an operand in its first byte.
func (m *machine) step(b uint8, r *reader) bool {
	switch b {
	case 0x00: // DW_CFA_nop
	case 0x01: // DW_CFA_set_loc
		m.loc = r.u64()
		return m.common.encoding == 0 // compilers use it nowhere
	case 0x02: // DW_CFA_advance_loc1
		m.advance(uint64(r.u8()))
	case 0x03: // DW_CFA_advance_loc2
		m.advance(uint64(r.u16()))
	case 0x04: // DW_CFA_advance_loc4
		m.advance(uint64(r.u32()))
	case 0x06: // DW_CFA_restore_extended
		m.restore(r.uleb())
	case 0x0a: // DW_CFA_remember_state
		m.remembered = append(m.remembered, m.row)
		return len(m.remembered) <= maxRemembered
	case 0x0b: // DW_CFA_restore_state
		n := len(m.remembered) - 1
		if n < 0 {
			return false
		}
		m.row, m.remembered = m.remembered[n], m.remembered[:n]
	case 0x2d: // DW_CFA_AARCH64_negate_ra_state: signatures of return addresses are removed from all of them
	case 0x2e: // DW_CFA_GNU_args_size
		r.uleb()
	default:
		return m.defines(b, r) || m.definesCFA(b, r)
	}
	return true
}

// defines executes an instruction that defines the rule of a register.
func (m *machine) defines(b uint8, r *reader) bool {
	if b < 0x05 || b >= 0x0c && b != 0x10 && b != 0x11 && b != 0x14 && b != 0x15 && b != 0x16 && b != 0x2f {
		return false
	}
	reg := r.uleb()
	switch b {
	case 0x05: // DW_CFA_offset_extended
		m.set(reg, rule{kind: atOffset, offset: int64(r.uleb()) * m.common.data})
	case 0x07: // DW_CFA_undefined
		m.set(reg, rule{kind: undefined})
	case 0x08: // DW_CFA_same_value
		m.set(reg, rule{kind: same})
	case 0x09: // DW_CFA_register
		m.set(reg, rule{kind: inRegister, reg: r.uleb()})
	case 0x10: // DW_CFA_expression
		m.set(reg, rule{kind: atExpr, expr: r.bytes(r.uleb())})
	case 0x11: // DW_CFA_offset_extended_sf
		m.set(reg, rule{kind: atOffset, offset: r.sleb() * m.common.data})
	case 0x14: // DW_CFA_val_offset
		m.set(reg, rule{kind: isOffset, offset: int64(r.uleb()) * m.common.data})
	case 0x15: // DW_CFA_val_offset_sf
		m.set(reg, rule{kind: isOffset, offset: r.sleb() * m.common.data})
	case 0x16: // DW_CFA_val_expression
		m.set(reg, rule{kind: isExpr, expr: r.bytes(r.uleb())})
	case 0x2f: // DW_CFA_GNU_negative_offset_extended
		m.set(reg, rule{kind: atOffset, offset: -int64(r.uleb()) * m.common.data})
	}
	return true
}

// definesCFA executes an instruction that defines the rule of the CFA.
func (m *machine) definesCFA(b uint8, r *reader) bool {
	switch b {
	case 0x0c: // DW_CFA_def_cfa
		m.cfa = rule{kind: inRegister, reg: r.uleb()}
		m.cfa.offset = int64(r.uleb())
	case 0x0d: // DW_CFA_def_cfa_register
		m.cfa.kind, m.cfa.reg = inRegister, r.uleb()
	case 0x0e: // DW_CFA_def_cfa_offset
		m.cfa.offset = int64(r.uleb())
	case 0x0f: // DW_CFA_def_cfa_expression
		m.cfa = rule{kind: isExpr, expr: r.bytes(r.uleb())}
	case 0x12: // DW_CFA_def_cfa_sf
		m.cfa = rule{kind: inRegister, reg: r.uleb()}
		m.cfa.offset = r.sleb() * m.common.data
	case 0x13: // DW_CFA_def_cfa_offset_sf
		m.cfa.offset = r.sleb() * m.common.data
	default:
		return false
	}
	return true
}

func (m *machine) advance(n uint64) { m.loc += n * m.common.code }

// set sets the rule of a register. Registers of floating point numbers and vectors have higher numbers, and are not followed.
func (m *machine) set(reg uint64, r rule) {
	if reg < NumRegisters {
		m.regs[reg] = r
	}
}

func (m *machine) restore(reg uint64) {
	if reg < NumRegisters {
		m.regs[reg] = m.first.regs[reg]
	}
}

// Caller computes the registers of the caller. sp is the number of the stack pointer. It reports false if there is no caller, or the
// stack cannot be read.
func (r *Rules) Caller(regs *Registers, sp uint64, memory Memory) (*Registers, bool) {
	var cfa uint64
	switch r.cfa.kind {
	case inRegister:
		if r.cfa.reg >= NumRegisters {
			return nil, false
		}
		cfa = regs.Value[r.cfa.reg] + uint64(r.cfa.offset)
	case isExpr:
		v, ok := evaluate(r.cfa.expr, regs, memory)
		if !ok {
			return nil, false
		}
		cfa = v
	default:
		return nil, false
	}
	caller := *regs
	caller.Value[sp] = cfa
	for i := range r.regs {
		if r.regs[i].kind == same {
			continue
		}
		v, ok := r.regs[i].value(regs, cfa, memory)
		switch {
		case ok:
			caller.Value[i] = v
		case uint64(i) == r.ret || uint64(i) == sp:
			return nil, false
		default:
			caller.Value[i] = 0
		}
	}
	caller.PC = caller.Value[r.ret]
	return &caller, true
}

// value returns the value of a register of the caller.
func (r *rule) value(regs *Registers, cfa uint64, memory Memory) (v uint64, ok bool) {
	switch r.kind {
	case atOffset:
		return memory(cfa + uint64(r.offset))
	case isOffset:
		return cfa + uint64(r.offset), true
	case inRegister:
		if r.reg < NumRegisters {
			return regs.Value[r.reg], true
		}
	case isExpr:
		return evaluate(r.expr, regs, memory, cfa)
	case atExpr:
		if v, ok = evaluate(r.expr, regs, memory, cfa); ok {
			return memory(v)
		}
	}
	return 0, false
}

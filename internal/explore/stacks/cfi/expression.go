package cfi

// maxDepth bounds the stack of an expression.
const maxDepth = 32

// calculator evaluates an expression.
type calculator struct {
	stack  []uint64
	regs   *Registers
	memory Memory
}

// evaluate returns the value of a DWARF expression, which begins with the given stack. It knows the operations that linkers use for
// the procedure linkage table, and C libraries for handlers of signals. None of them jumps, so an expression ends.
func evaluate(expr []byte, regs *Registers, memory Memory, stack ...uint64) (uint64, bool) {
	c := &calculator{stack: stack, regs: regs, memory: memory}
	for r := (&reader{data: expr}); r.more(); {
		if !c.step(r.u8(), r) || r.failed || len(c.stack) > maxDepth {
			return 0, false
		}
	}
	if len(c.stack) == 0 {
		return 0, false
	}
	return c.stack[len(c.stack)-1], true
}

func (c *calculator) push(v uint64) bool {
	c.stack = append(c.stack, v)
	return true
}

// pop removes the last n values; nil if there are fewer.
func (c *calculator) pop(n int) []uint64 {
	if len(c.stack) < n {
		return nil
	}
	all := c.stack[len(c.stack)-n:]
	c.stack = c.stack[:len(c.stack)-n]
	return all
}

// step executes an operation.
func (c *calculator) step(op uint8, r *reader) bool {
	switch {
	case op >= 0x30 && op <= 0x4f: // DW_OP_lit
		return c.push(uint64(op - 0x30))
	case op >= 0x70 && op <= 0x8f: // DW_OP_breg
		return c.register(uint64(op-0x70), r.sleb())
	}
	switch op {
	case 0x03, 0x0e, 0x0f: // DW_OP_addr, const8u, const8s
		return c.push(r.u64())
	case 0x08: // DW_OP_const1u
		return c.push(uint64(r.u8()))
	case 0x09: // DW_OP_const1s
		return c.push(uint64(int64(int8(r.u8()))))
	case 0x0a: // DW_OP_const2u
		return c.push(uint64(r.u16()))
	case 0x0b: // DW_OP_const2s
		return c.push(uint64(int64(int16(r.u16()))))
	case 0x0c: // DW_OP_const4u
		return c.push(uint64(r.u32()))
	case 0x0d: // DW_OP_const4s
		return c.push(uint64(int64(int32(r.u32()))))
	case 0x10: // DW_OP_constu
		return c.push(r.uleb())
	case 0x11: // DW_OP_consts
		return c.push(uint64(r.sleb()))
	case 0x92: // DW_OP_bregx
		return c.register(r.uleb(), r.sleb())
	case 0x96: // DW_OP_nop
		return true
	}
	return c.unary(op, r) || c.binary(op)
}

func (c *calculator) register(reg uint64, offset int64) bool {
	return reg < NumRegisters && c.push(c.regs.Value[reg]+uint64(offset))
}

// unary executes an operation with one operand.
func (c *calculator) unary(op uint8, r *reader) bool {
	if op != 0x06 && op != 0x12 && op != 0x13 && op != 0x1f && op != 0x20 && op != 0x23 {
		return false
	}
	v := c.pop(1)
	if v == nil {
		return false
	}
	switch op {
	case 0x06: // DW_OP_deref
		word, ok := c.memory(v[0])
		return ok && c.push(word)
	case 0x12: // DW_OP_dup
		x := v[0]
		c.push(x)
		return c.push(x)
	case 0x1f: // DW_OP_neg
		return c.push(-v[0])
	case 0x20: // DW_OP_not
		return c.push(^v[0])
	case 0x23: // DW_OP_plus_uconst
		return c.push(v[0] + r.uleb())
	}
	return true // DW_OP_drop
}

// binary executes an operation with two operands.
func (c *calculator) binary(op uint8) bool {
	v := c.pop(2)
	if v == nil {
		return false
	}
	a, b := v[0], v[1]
	truth := func(is bool) bool {
		if is {
			return c.push(1)
		}
		return c.push(0)
	}
	switch op {
	case 0x16: // DW_OP_swap
		return c.push(b) && c.push(a)
	case 0x1a: // DW_OP_and
		return c.push(a & b)
	case 0x1c: // DW_OP_minus
		return c.push(a - b)
	case 0x1e: // DW_OP_mul
		return c.push(a * b)
	case 0x21: // DW_OP_or
		return c.push(a | b)
	case 0x22: // DW_OP_plus
		return c.push(a + b)
	case 0x24: // DW_OP_shl
		return c.push(a << b)
	case 0x25: // DW_OP_shr
		return c.push(a >> b)
	case 0x26: // DW_OP_shra
		return c.push(uint64(int64(a) >> b))
	case 0x27: // DW_OP_xor
		return c.push(a ^ b)
	case 0x29: // DW_OP_eq
		return truth(a == b)
	case 0x2a: // DW_OP_ge
		return truth(int64(a) >= int64(b))
	case 0x2b: // DW_OP_gt
		return truth(int64(a) > int64(b))
	case 0x2c: // DW_OP_le
		return truth(int64(a) <= int64(b))
	case 0x2d: // DW_OP_lt
		return truth(int64(a) < int64(b))
	case 0x2e: // DW_OP_ne
		return truth(a != b)
	}
	return false
}

package stacks

import (
	"github.com/softhca/softhca/internal/explore/stacks/cfi"
)

// place is an address of the code of a process.
type place struct {
	mapping *mapping // nil if the address is in no file
	pc      uint64   // in the process
	addr    uint64   // virtual address in the file
	ret     bool     // the address is that to which a call returns
}

// at returns the place of an address.
func (s *space) at(pc uint64, ret bool) place {
	p := place{pc: pc, ret: ret}
	if ret {
		pc-- // the call may be the last instruction of its function
	}
	if p.mapping = s.find(pc); p.mapping != nil && p.mapping.object != nil {
		addr, ok := p.mapping.object.addressOf(pc - p.mapping.begin + p.mapping.offset)
		if !ok {
			p.mapping = nil
		}
		p.addr = addr
	}
	return p
}

// unwind returns the places of the stack of a thread with these registers, the innermost first; and whether there may be more.
func (s *space) unwind(regs *cfi.Registers) (all []place, more bool) {
	ret := false
	for {
		regs.PC &= pcMask
		p := s.at(regs.PC, ret)
		if regs.PC == 0 || p.mapping == nil && len(all) > 0 {
			return all, false
		}
		if len(all) == maxFrames {
			return all, true
		}
		all = append(all, p)
		caller, signal := s.caller(regs, &p, len(all) == 1)
		if caller == nil || caller.PC == regs.PC && caller.Value[stackPointer] == regs.Value[stackPointer] {
			return all, false
		}
		regs, ret = caller, !signal
	}
}

// caller returns the registers of the caller, and whether it was interrupted by a signal; nil if there is no caller.
func (s *space) caller(regs *cfi.Registers, p *place, innermost bool) (caller *cfi.Registers, signal bool) {
	if p.mapping == nil {
		if innermost { // a call of an address without code: the return address is still where the call has put it
			return s.fromCall(regs), false
		}
		return nil, false
	}
	if o := p.mapping.object; o != nil && o.table != nil {
		if rules := o.table.Find(p.addr); rules != nil {
			caller, ok := rules.Caller(regs, stackPointer, s.word)
			if !ok {
				return nil, false
			}
			return caller, rules.Signal
		}
	}
	if caller := s.fromGo(regs, p); caller != nil {
		return caller, false
	}
	return s.fromFrame(regs), false
}

// fromFrame follows the frame pointer, which code in Go keeps, and code in C of some compilers and options.
func (s *space) fromFrame(regs *cfi.Registers) *cfi.Registers {
	frame := regs.Value[framePointer]
	saved, ok := s.word(frame)
	if ok && saved == frame+8 { // crosscall2 of Go's runtime stores it twice
		frame = saved
		saved, ok = s.word(frame)
	}
	if !ok {
		return nil
	}
	ret, ok := s.word(frame + 8)
	if !ok {
		return nil
	}
	caller := *regs
	caller.Value[framePointer], caller.Value[stackPointer], caller.PC = saved, frame+16, ret
	return &caller
}

// maxScanned bounds the words of the stack in which fromGo looks for a return address.
const maxScanned = 64

// fromGo finds the call of Go by a program in C. A thread that waits for its goroutine in Go has left the stack of the goroutine, and
// has no frame pointer; on its own stack, a few words above the stack pointer, is the return address in the function through which C calls Go.
func (s *space) fromGo(regs *cfi.Registers, p *place) *cfi.Registers {
	if crossingFrame == 0 || p.mapping.object == nil || p.mapping.object.crossing[0] == 0 {
		return nil
	}
	if _, ok := s.word(regs.Value[framePointer]); ok {
		return nil
	}
	for sp := regs.Value[stackPointer]; sp < regs.Value[stackPointer]+8*maxScanned; sp += 8 {
		word, ok := s.word(sp)
		if !ok {
			return nil
		}
		q := s.at(word, true)
		if c := p.mapping.object.crossing; q.mapping != nil && q.mapping.object == p.mapping.object && q.addr >= c[0] && q.addr <= c[1] {
			caller := *regs
			caller.Value[framePointer], caller.Value[stackPointer], caller.PC = sp+8+crossingFrame, sp+8, word
			return &caller
		}
	}
	return nil
}

package stacks

import "github.com/softhca/softhca/internal/explore/stacks/cfi"

// The numbers of registers in DWARF.
const (
	framePointer = 6
	stackPointer = 7
)

// pcMask has the bits of an address of code.
const pcMask = ^uint64(0)

// crossingFrame is where crosscall2 of Go's runtime saves the frame pointer, from the stack pointer at its call of Go on.
const crossingFrame = 0x18 + 5*8

// numSaved is the number of words of the kernel's struct user_regs_struct.
const numSaved = 27

// order has the position in that structure of each register, by its number in DWARF.
var order = [...]int{0: 10, 1: 12, 2: 11, 3: 5, 4: 13, 5: 14, 6: 4, 7: 19, 8: 9, 9: 8, 10: 7, 11: 6, 12: 3, 13: 2, 14: 1, 15: 0}

const savedPC = 16

// registers returns the registers of a thread.
func registers(saved *[numSaved]uint64) *cfi.Registers {
	r := &cfi.Registers{PC: saved[savedPC]}
	for i, at := range order {
		r.Value[i] = saved[at]
	}
	return r
}

// fromCall returns the registers before a call whose function has done nothing yet.
func (s *space) fromCall(regs *cfi.Registers) *cfi.Registers {
	ret, ok := s.word(regs.Value[stackPointer])
	if !ok {
		return nil
	}
	caller := *regs
	caller.Value[stackPointer] += 8
	caller.PC = ret
	return &caller
}

package stacks

import "github.com/softhca/softhca/internal/explore/stacks/cfi"

// The numbers of registers in DWARF.
const (
	framePointer = 29
	linkRegister = 30
	stackPointer = 31
)

// pcMask has the bits of an address of code. The others may be a signature of a return address.
const pcMask = 1<<48 - 1

// crossingFrame is 0: how a thread that waits in Go came there is not found.
const crossingFrame = 0

// numSaved is the number of words of the kernel's struct user_pt_regs.
const numSaved = 34

const savedPC = 32

// registers returns the registers of a thread.
func registers(saved *[numSaved]uint64) *cfi.Registers {
	r := &cfi.Registers{PC: saved[savedPC]}
	copy(r.Value[:], saved[:savedPC])
	return r
}

// fromCall returns the registers before a call whose function has done nothing yet.
func (s *space) fromCall(regs *cfi.Registers) *cfi.Registers {
	caller := *regs
	caller.PC = regs.Value[linkRegister]
	return &caller
}

// Package cfi reads call frame information: the section .eh_frame of an ELF file, which says for each address of the code where the
// caller's registers are. A Table finds the Rules of an address, and Rules compute the caller's registers from the callee's.
//
// Reading order: table.go (the section), program.go (its instructions), expression.go (DWARF expressions), reader.go.
//
// The section may be damaged or hostile: entries that make no sense are left out, and nothing panics or takes long. Read are the forms
// that compilers write for 64-bit little-endian processors.
package cfi

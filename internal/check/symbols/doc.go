// Package symbols finds the functions and source lines of addresses in ELF files: in their
// debug information, in that of separate debug files, or in their tables of symbols. C++ and
// Rust names are demangled.
//
// Reading order: table.go (the files, each read once), dwarf.go (debug information, with
// inlined functions), name.go (tables of symbols).
//
// A damaged or hostile file gives no symbols. The package never runs a program.
package symbols

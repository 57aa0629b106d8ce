//go:build linux && cgo

package main

// #include "engine.h"
import "C"

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/softhca/softhca/internal/check/symbols"
	"github.com/softhca/softhca/internal/lock"
)

// maxDebug is the most debug information, in bytes, that the engine reads. A program waits for it.
const maxDebug = 16 << 20

// namer finds the names of the functions of the program that register memory, for explanations.
type namer struct {
	mu    lock.Mutex[lock.EngineNames]
	table *symbols.Table // nil until it is needed
}

// of returns the function that registers memory, empty if explanations are not wanted. A function without a symbol is a file
// and an address.
func (n *namer) of(m *C.struct_softhca_mr) string {
	if m.file == nil {
		return ""
	}
	file := C.GoString(m.file)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.table == nil {
		n.table = symbols.New(symbols.DebugDir, maxDebug)
	}
	for _, f := range n.table.Lookup(file, uint64(m.call)) {
		if f.Function != "" && !ofHeader(f.File) {
			return shortened(f.Function)
		}
	}
	return fmt.Sprintf("%s+%#x", filepath.Base(file), uint64(m.call))
}

// ofHeader reports whether a source file is one of the headers of the verbs, whose inlined functions call the library
// for the program.
func ofHeader(file string) bool {
	return strings.HasSuffix(file, "/infiniband/verbs.h") || strings.HasSuffix(file, "/rdma/rdma_verbs.h")
}

// maxName is the most bytes of a name in an explanation, which has other facts, too.
const maxName = 80

// shortened returns as much of a name as fits.
func shortened(name string) string {
	name = strings.ToValidUTF8(name, "?")
	if len(name) <= maxName {
		return name
	}
	return strings.ToValidUTF8(name[:maxName], "") + "..."
}

package memory

import "runtime/debug"

// Touch runs f, which may read and write memory of regions, but no other memory
// that could be unmapped. If the memory of a foreign region is no longer
// mapped, f is aborted and Touch returns FaultMissing. It allocates nothing.
func (t *Table) Touch(f func()) Fault {
	if t.foreign {
		return Touch(f)
	}
	f()
	return FaultNone
}

// Touch is Table.Touch for memory of which any part may be unmapped.
func Touch(f func()) (fault Fault) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			if _, missing := r.(interface{ Addr() uintptr }); !missing {
				panic(r)
			}
			fault = FaultMissing
		}
	}()
	f()
	return FaultNone
}

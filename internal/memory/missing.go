package memory

import "runtime/debug"

// Touch runs f, which reads or writes bytes of regions and nothing else that
// could be missing. If the memory of a foreign region is not there any more, f
// ends in the middle and Touch returns FaultMissing. It allocates nothing.
func (t *Table) Touch(f func()) (fault Fault) {
	if !t.foreign {
		f()
		return FaultNone
	}
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

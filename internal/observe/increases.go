package observe

import (
	"unsafe"

	"github.com/softhca/softhca/internal/counters"
)

// setWords is the number of counters in a counters.Set, which contains only words.
const setWords = unsafe.Sizeof(counters.Set{}) / unsafe.Sizeof(uint64(0))

// increases returns by how much each counter grew.
func increases(is, was *counters.Set) (grew counters.Set) {
	words := func(s *counters.Set) *[setWords]uint64 { return (*[setWords]uint64)(unsafe.Pointer(s)) }
	to, i, w := words(&grew), words(is), words(was)
	for n := range to {
		to[n] = Increase(i[n], w[n])
	}
	return grew
}

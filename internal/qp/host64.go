package qp

import "encoding/binary"

// putHost64 stores a number as the host's memory holds it: atomics exchange
// numbers, not bytes.
func putHost64(b []byte, v uint64) { binary.NativeEndian.PutUint64(b, v) }

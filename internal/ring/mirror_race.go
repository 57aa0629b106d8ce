//go:build race

package ring

import "sync/atomic"

// storeMirror is atomic for the race detector, which does not know the readers' lock if that is in
// memory outside Go.
func storeMirror(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

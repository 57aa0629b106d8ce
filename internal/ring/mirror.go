//go:build !race

package ring

// storeMirror stores a word that observers read. The caller holds the readers' lock, so no other
// thread writes it.
func storeMirror(p *uint64, v uint64) { *p = v }

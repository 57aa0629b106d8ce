//go:build ringmodel

package ring

// shared is the model's memory in place of a mapping that another process writes.
type shared struct {
	m    *machine
	area int // 0: of the first thread, 1: of the second
}

func (s shared) load(at uint64) uint64 { return s.m.ask(op{kind: opLoad, at: s.word(at)}) }

// bytes returns memory that is not modelled: the threads of the model store and load the words
// of a payload instead.
func (s shared) bytes(at uint64, n int) []byte { return s.m.scratch[at : at+uint64(n)] }

// word returns the index of a word. The records are mapped twice.
func (s shared) word(at uint64) int {
	if at >= modelData {
		at = modelData + (at-modelData)%modelSize
	}
	return s.area*areaWords + int(at/8)
}

// owned is the model's memory in place of a mapping that the process writes.
type owned struct{ shared }

func (o owned) store(at, x uint64) { o.m.ask(op{kind: opStore, at: o.word(at), value: x}) }

func (o owned) put(at, x uint64) { o.m.ask(op{kind: opPut, at: o.word(at), value: x}) }

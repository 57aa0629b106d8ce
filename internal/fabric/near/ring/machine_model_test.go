//go:build ringmodel

package ring

import (
	"fmt"
	"hash/maphash"
	"iter"
	"math/rand/v2"
)

// A machine runs two threads, each of which accesses memory through it. It executes one access at
// a time, of either thread. Stores that are not sequentially consistent may wait in a buffer, from
// which they reach memory later. Explore tries every order.

// The memory of the model: for each thread an area of words, then its records.
const (
	modelData = 8 * line
	modelSize = 4 * line
	areaWords = (modelData + modelSize) / 8
)

// maxBuffer is the maximum number of stores in a buffer.
const maxBuffer = 6

// opKind is a kind of access.
type opKind uint8

const (
	opLoad  opKind = iota
	opStore        // sequentially consistent
	opPut          // plain
	opSleep        // until there is a wake-up, which it takes
	opWake         // wakes the other thread
	opMark         // no access: from now on the thread's state depends only on value
	opFail         // a violation
)

// op is an access that a thread asks the machine to execute.
type op struct {
	kind  opKind
	at    int // index of the word
	value uint64
	text  string // of opFail
}

func (o op) String() string {
	name := fmt.Sprintf("record word %d", o.at%areaWords-modelData/8)
	switch at := uint64(o.at%areaWords) * 8; at {
	case headAt:
		name = "head"
	case waitingAt:
		name = "waiting"
	case tailAt:
		name = "tail"
	case sleepingAt:
		name = "sleeping"
	}
	switch o.kind {
	case opLoad:
		return "loads " + name
	case opStore, opPut:
		return fmt.Sprintf("stores %s = %#x", name, o.value)
	case opSleep:
		return "is woken"
	case opWake:
		return "wakes the other"
	}
	return o.text
}

// order is how a store that should be sequentially consistent is weakened.
type order uint8

const (
	consistent order = iota
	buffered         // waits in the buffer until all earlier stores have left it, as a plain store on x86
	unordered        // leaves the buffer before or after other stores, as a plain store on ARM
)

// pending is a store in the buffer of a thread.
type pending struct {
	at    int
	value uint64
	order order
}

// thread is a thread of the model.
type thread struct {
	name   string
	next   func() (op, bool)
	stop   func()
	wants  op // its next access
	done   bool
	woken  bool      // a wake-up is pending
	buffer []pending // at most maxBuffer
	local  uint64    // hash of the thread's state
	result uint64    // of the last access
}

// machine is the state of the model.
type machine struct {
	seed    maphash.Seed
	words   [2 * areaWords]uint64
	threads [2]thread
	running int              // the thread whose code runs
	weak    map[uint64]order // of stores that should be sequentially consistent, by the offset of the word
	plain   order            // of plain stores
	scratch [modelData + 2*modelSize]byte
	yields  [2]func(op) bool
	failure string
	trace   []string // what happened before the violation
	hostile *hostile // in place of threads: answers loads from the peer's area
}

// stopped is the panic that ends a thread that is not needed any more.
type stopped struct{}

// begin starts both threads from an empty ring at a position.
func (m *machine) begin(names [2]string, code [2]func(), position uint64) {
	m.words = [2 * areaWords]uint64{}
	m.words[headAt/8], m.words[areaWords+tailAt/8] = position, position
	m.failure = ""
	for i := range m.threads {
		t := &m.threads[i]
		*t = thread{name: names[i], buffer: t.buffer[:0]}
		t.next, t.stop = iter.Pull(func(yield func(op) bool) {
			defer func() {
				if e := recover(); e != nil && e != (stopped{}) {
					yield(op{kind: opFail, text: fmt.Sprint("panic: ", e)})
				}
			}()
			m.yields[i] = yield
			code[i]()
		})
		m.resume(i)
	}
}

func (m *machine) end() {
	for i := range m.threads {
		m.threads[i].stop()
	}
}

// ask is called by the code of a thread: it waits until the machine has executed an access.
func (m *machine) ask(o op) uint64 {
	if h := m.hostile; h != nil {
		if o.kind == opLoad && o.at/areaWords == h.area {
			return h.load()
		}
		return 0
	}
	i := m.running
	if !m.yields[i](o) {
		panic(stopped{})
	}
	return m.threads[i].result
}

// mark tells the machine that the thread's state depends only on value.
func (m *machine) mark(value uint64) { m.ask(op{kind: opMark, value: value}) }

func (m *machine) fail(format string, args ...any) {
	m.ask(op{kind: opFail, text: fmt.Sprintf(format, args...)})
}

// resume runs the code of a thread until its next access.
func (m *machine) resume(i int) {
	t := &m.threads[i]
	for {
		m.running = i
		var more bool
		t.wants, more = t.next()
		switch {
		case !more:
			t.done = true
			return
		case t.wants.kind == opMark:
			t.local = t.wants.value
		case t.wants.kind == opFail:
			m.failure = t.name + ": " + t.wants.text
			return
		default:
			return
		}
	}
}

// action is a step of a thread, or, with a store, the end of the store's stay in the buffer.
type action struct {
	thread int
	store  int // index in the buffer; -1: a step
}

// enabled appends what can happen next.
func (m *machine) enabled(all []action) []action {
	for i := range m.threads {
		t := &m.threads[i]
		if !t.done && (t.wants.kind != opSleep || t.woken) {
			all = append(all, action{i, -1})
		}
		for s := range t.buffer {
			if m.mayLeave(t, s) {
				all = append(all, action{i, s})
			}
		}
	}
	return all
}

// mayLeave reports whether a store may leave the buffer before those ahead of it.
func (m *machine) mayLeave(t *thread, s int) bool {
	for _, ahead := range t.buffer[:s] {
		if t.buffer[s].order == buffered || ahead.at == t.buffer[s].at {
			return false
		}
	}
	return true
}

// do carries out an action.
func (m *machine) do(a action) {
	t := &m.threads[a.thread]
	if a.store >= 0 {
		p := t.buffer[a.store]
		m.words[p.at] = p.value
		t.buffer = append(t.buffer[:a.store], t.buffer[a.store+1:]...)
		return
	}
	m.access(a.thread)
	t.local = maphash.Comparable(m.seed, [3]uint64{t.local, uint64(t.wants.kind), t.result})
	m.resume(a.thread)
}

// describe returns an action in words.
func (m *machine) describe(a action) string {
	t := &m.threads[a.thread]
	if a.store < 0 {
		return t.name + " " + t.wants.String()
	}
	p := t.buffer[a.store]
	return t.name + " " + op{kind: opStore, at: p.at, value: p.value}.String() + ": visible now"
}

// access executes the access that a thread wants.
func (m *machine) access(i int) {
	t := &m.threads[i]
	t.result = 0
	switch o := t.wants; o.kind {
	case opLoad:
		t.result = m.words[o.at]
		for _, p := range t.buffer {
			if p.at == o.at {
				t.result = p.value
			}
		}
	case opPut:
		m.write(t, m.plain)
	case opStore:
		m.write(t, m.weak[uint64(o.at%areaWords)*8])
	case opSleep:
		t.woken = false
	case opWake:
		m.threads[1-i].woken = true
	}
}

// write executes the store that a thread wants.
func (m *machine) write(t *thread, weak order) {
	p := pending{t.wants.at, t.wants.value, weak}
	if weak != consistent && len(t.buffer) < maxBuffer {
		t.buffer = append(t.buffer, p)
		return
	}
	if t.wants.kind == opStore || weak != consistent {
		for _, p := range t.buffer {
			m.words[p.at] = p.value
		}
		t.buffer = t.buffer[:0]
	}
	m.words[p.at] = p.value
}

// fingerprint returns a hash of the state.
func (m *machine) fingerprint() uint64 {
	type local struct {
		state       uint64
		woken, done bool
		stores      int
		buffer      [maxBuffer]pending
	}
	var all struct {
		words   [2 * areaWords]uint64
		threads [2]local
	}
	all.words = m.words
	for i := range m.threads {
		t := &m.threads[i]
		all.threads[i] = local{state: t.local, woken: t.woken, done: t.done, stores: len(t.buffer)}
		copy(all.threads[i].buffer[:], t.buffer)
	}
	return maphash.Comparable(m.seed, all)
}

// wander runs the threads in a random order, and returns the violation.
func (m *machine) wander(start func(), random *rand.Rand) (violation string) {
	m.trace = nil
	start()
	defer m.end()
	var actions []action
	for m.failure == "" {
		if actions = m.enabled(actions[:0]); len(actions) == 0 {
			return m.stuck()
		}
		a := actions[random.IntN(len(actions))]
		m.trace = append(m.trace, m.describe(a))
		m.do(a)
	}
	return m.failure
}

// choice is the index of the action taken, and the number of possible actions.
type choice struct{ taken, of int }

// explore runs the threads in every order, and returns the number of different states and the
// first violation; trace then says what happened before. Start prepares the machine for another
// run.
func (m *machine) explore(start func()) (states int, violation string) {
	m.seed = maphash.MakeSeed()
	visited := make(map[uint64]struct{})
	var path []choice
	for {
		start()
		path = m.follow(path, visited)
		m.end()
		if m.failure != "" {
			violation = m.failure
			m.replay(start, path)
			return len(visited), violation
		}
		for len(path) > 0 && path[len(path)-1].taken == path[len(path)-1].of-1 {
			path = path[:len(path)-1]
		}
		if len(path) == 0 {
			return len(visited), ""
		}
		path[len(path)-1].taken++
	}
}

// follow makes the choices of a path, then always the first, until a state that was visited before,
// a violation, or the end. It returns all choices made.
func (m *machine) follow(path []choice, visited map[uint64]struct{}) []choice {
	var actions []action
	for depth := 0; m.failure == ""; depth++ {
		if actions = m.enabled(actions[:0]); len(actions) == 0 {
			m.failure = m.stuck()
			break
		}
		if depth == len(path) {
			f := m.fingerprint()
			if _, was := visited[f]; was {
				break
			}
			visited[f] = struct{}{}
			path = append(path, choice{0, len(actions)})
		}
		m.do(actions[path[depth].taken])
	}
	return path
}

// replay makes the choices of a path and sets the trace.
func (m *machine) replay(start func(), path []choice) {
	m.trace = nil
	start()
	for _, c := range path {
		a := m.enabled(nil)[c.taken]
		m.trace = append(m.trace, m.describe(a))
		m.do(a)
	}
	m.end()
}

// stuck returns the violation of a state in which nothing can happen, "" if both threads are done.
func (m *machine) stuck() string {
	for i := range m.threads {
		if t := &m.threads[i]; !t.done {
			return t.name + " sleeps forever"
		}
	}
	return ""
}

package live

import (
	"runtime"
	"slices"
	"strings"
)

// Bounds of stacks.
const (
	maxDepth  = 40   // calls that are looked at
	maxFrames = 24   // frames of the program in a finding
	maxStacks = 4096 // different stacks that a sink keeps at a time
)

// program counters of calls, innermost first.
type pcs [maxDepth]uintptr

// stack is a stack of calls. Equal stacks are mostly one.
type stack struct {
	pcs pcs
	n   int
}

// Frame is a call of the program.
type Frame struct {
	Function string
	File     string
	Line     int
}

// here returns the stack of the caller.
func (s *Sink) here() *stack {
	var k stack
	k.n = runtime.Callers(2, k.pcs[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.stacks[k.pcs]; known != nil {
		return known
	}
	if len(s.stacks) >= maxStacks {
		clear(s.stacks)
	}
	kept := k
	s.stacks[k.pcs] = &kept
	return &kept
}

// caller is the package of the library that has called the verbs.
type caller uint8

const (
	byProgram caller = iota
	byRDMACM
	byStream
)

// frames returns the calls from the first one outside of the library, and the package that has called the verbs.
func (k *stack) frames(lib *library) (all []Frame, by caller) {
	within := true
	for next := runtime.CallersFrames(k.pcs[:k.n]); len(all) < maxFrames; {
		f, more := next.Next()
		within = within && lib.has(f.File, "verbs/", "rdmacm/", "internal/")
		switch {
		case within && lib.has(f.File, "rdmacm/stream/"):
			by = byStream
		case within && lib.has(f.File, "rdmacm/"):
			by = max(by, byRDMACM)
		}
		if !within && f.Function != "" && f.Function != "runtime.goexit" && f.Function != "runtime.main" {
			all = append(all, Frame{f.Function, f.File, f.Line})
		}
		if !more {
			break
		}
	}
	return all, by
}

// library knows the files of this module. The names of functions do not say where they are: that of a closure in
// an inlined function begins with the name of the caller.
type library struct{ root string }

// newLibrary returns the library.
func newLibrary() library {
	_, file, _, _ := runtime.Caller(0)
	root, _ := strings.CutSuffix(file, "internal/check/live/stack.go")
	return library{root}
}

// has reports whether a file is in one of the directories, and is neither a test nor for tests.
func (l *library) has(file string, dirs ...string) bool {
	path, ok := strings.CutPrefix(file, l.root)
	return ok && slices.ContainsFunc(dirs, func(d string) bool { return strings.HasPrefix(path, d) }) &&
		!strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(path, "verbs/verbstest/")
}

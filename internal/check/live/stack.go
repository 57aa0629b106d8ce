package live

import (
	"runtime"
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

// frames returns the calls from the first one outside of the library.
func (k *stack) frames() (all []Frame) {
	if k == nil {
		return nil
	}
	within := true
	for next := runtime.CallersFrames(k.pcs[:k.n]); len(all) < maxFrames; {
		f, more := next.Next()
		within = within && library(f.Function, f.File)
		if !within && f.Function != "" && f.Function != "runtime.goexit" && f.Function != "runtime.main" {
			all = append(all, Frame{f.Function, f.File, f.Line})
		}
		if !more {
			break
		}
	}
	return all
}

// module is the path of this module.
const module = "github.com/softhca/softhca/"

// library reports whether a function belongs to this library, and not to its tests.
func library(function, file string) bool {
	path, ok := strings.CutPrefix(function, module)
	if !ok {
		return false
	}
	for _, p := range [...]string{"verbs.", "rdmacm.", "rdmacm/stream.", "internal/"} {
		if strings.HasPrefix(path, p) {
			return !strings.HasSuffix(file, "_test.go")
		}
	}
	return false
}

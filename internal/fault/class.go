package fault

import (
	"slices"
	"strings"

	"github.com/softhca/softhca/roce"
)

// class is a kind of packets that op= can name.
type class struct {
	name string
	ops  OpSet
}

// The classes: the opcodes, the NAKs, and the messages of the connection manager. classesOf has, for each opcode, the indices of the classes that can hold a packet with it.
var (
	classes   = allClasses()
	classesOf = indexClasses()
)

// allClasses returns the classes.
func allClasses() (all []class) {
	var names []string
	for o := range 256 {
		if op := roce.Opcode(o); op.Info().Known {
			names = append(names, op.String())
		}
	}
	names = append(append(names, "NAK", "RNR_NAK"), messageNames()...)
	for _, name := range names {
		ops, _ := opsNamed(name)
		all = append(all, class{name, ops})
	}
	return all
}

// indexClasses returns the indices of the classes that may hold packets with an opcode.
func indexClasses() (of [256][]int) {
	for i := range classes {
		ops := &classes[i].ops
		for o := range of {
			if ops.bits[o>>6]>>(o&63)&1 != 0 || ops.messages != 0 && roce.Opcode(o) == roce.UDSendOnly {
				of[o] = append(of[o], i)
			}
		}
	}
	return of
}

// Classes returns the names of the classes of packets: each is a value of op=.
func Classes() (names []string) {
	for i := range classes {
		names = append(names, classes[i].name)
	}
	return names
}

// IsMessage reports whether a class is a message of the connection manager.
func IsMessage(name string) bool { return slices.Contains(messageNames(), name) }

// Covers reports whether rules with a class act on the packets of another one, too.
func Covers(name, other string) bool {
	return name != other && (strings.HasPrefix(other, name+"_") || name == roce.UDSendOnly.String() && IsMessage(other) ||
		name == "NAK" && other == "RNR_NAK")
}

// EachClass calls f with the index of each class in Classes that has the packet.
func (s *Subject) EachClass(f func(int)) {
	if !s.Readable {
		return
	}
	for _, i := range classesOf[s.Op] {
		if classes[i].ops.has(s) {
			f(i)
		}
	}
}

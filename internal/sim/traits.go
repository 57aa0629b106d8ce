package sim

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// traits are the properties of an end that follow from the type of its queue pair.
type traits struct {
	service  roce.Service
	reliable bool // the responder answers each request
	posts    bool // the queue pair has a send queue
	receives bool // the queue pair has a receive queue, or shares one with others
}

// traitsOf returns the traits of a type.
func traitsOf(t ib.QPType) traits {
	switch t {
	case ib.RC:
		return traits{roce.ServiceRC, true, true, true}
	case ib.XRCIni:
		return traits{roce.ServiceXRC, true, true, false}
	case ib.XRCTgt:
		return traits{roce.ServiceXRC, true, false, false}
	case ib.UC:
		return traits{roce.ServiceUC, false, true, true}
	case ib.UD:
		return traits{roce.ServiceUD, false, true, true}
	default:
		panic("sim: no traits of " + t.String())
	}
}

// isReliable reports whether responders of a service answer requests.
func isReliable(s roce.Service) bool { return s == roce.ServiceRC || s == roce.ServiceXRC }

// inRC returns RC's opcode for the same kind of packet.
func inRC(o roce.Opcode) roce.Opcode { return o &^ (7 << 5) }

// inService returns a service's opcode for the same kind of packet as an opcode of RC.
func inService(o roce.Opcode, s roce.Service) roce.Opcode { return o | roce.Opcode(s)<<5 }

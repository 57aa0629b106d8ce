package sim

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// traits are the properties of an end that follow from the type of its queue pair.
type traits struct {
	service  roce.Service
	reliable bool // the responder answers each request
	posts    bool // it has a send queue
	receives bool // it has a receive queue, or shares one with other queue pairs
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

// isReliable reports whether requests of a service are answered.
func isReliable(s roce.Service) bool { return s == roce.ServiceRC || s == roce.ServiceXRC }

// inRC returns the opcode of RC for the same packet.
func inRC(o roce.Opcode) roce.Opcode { return o &^ (7 << 5) }

// inService returns the opcode of a service for the same packet as one of RC.
func inService(o roce.Opcode, s roce.Service) roce.Opcode { return o | roce.Opcode(s)<<5 }

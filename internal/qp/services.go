package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// typeSet is a set of transport services: bit t is the ib.QPType t. The sets are
// constants, so a type that is too large for the set does not compile.
type typeSet uint32

const (
	setRC  typeSet = 1 << ib.RC
	setUC  typeSet = 1 << ib.UC
	setUD  typeSet = 1 << ib.UD
	setGSI typeSet = 1 << ib.GSI
	setRD  typeSet = 1 << ib.RD
	setEEC typeSet = 1 << ib.EEC

	onDatagrams = setUD | setGSI // each message names its destination in the network
	onReliable  = setRC | setRD  // of a queue pair
	onStreams   = onReliable | setUC
	onAll       = onStreams | onDatagrams

	onConnected    = setRC | setUC | setEEC // endpoints that have one peer
	onAcknowledged = setRC | setEEC         // endpoints whose peer answers
	onAddressed    = onDatagrams | setRD    // queue pairs whose work requests name where they go
	onSQE          = setUC | onAddressed    // queue pairs that have the state SQE
)

func (s typeSet) has(t ib.QPType) bool { return s>>t&1 != 0 }

// serviceOf returns the opcode class of a service.
func serviceOf(t ib.QPType) roce.Service {
	switch t {
	case ib.RC:
		return roce.ServiceRC
	case ib.UC:
		return roce.ServiceUC
	case ib.UD, ib.GSI:
		return roce.ServiceUD
	case ib.RD, ib.EEC:
		return roce.ServiceRD
	default:
		panic("qp: " + t.String() + " has no opcodes")
	}
}

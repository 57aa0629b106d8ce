package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/ring"
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

// traits are the properties of an endpoint that follow from its type.
type traits struct {
	service roce.Service  // opcode class
	doubted claims        // claims of packets that the endpoint challenges
	maxNAK  roce.Syndrome // highest NAK code that the peer may send
	opError ib.WCStatus   // of a work request that the endpoint's attributes do not allow
}

// traitsOf returns the traits of a type.
func traitsOf(t ib.QPType) traits {
	switch t {
	case ib.RC:
		return traits{roce.ServiceRC, claimNAK | claimMoved | claimGone, roce.NAKRemoteOperational, ib.WCLocQPOpErr}
	case ib.UC:
		return traits{service: roce.ServiceUC, opError: ib.WCLocQPOpErr}
	case ib.UD, ib.GSI:
		return traits{service: roce.ServiceUD, opError: ib.WCLocQPOpErr}
	case ib.RD:
		return traits{service: roce.ServiceRD, opError: ib.WCLocQPOpErr}
	case ib.EEC:
		// A NAK ends one message, not the channel, and the peer's EE context still answers
		// after it. So EE contexts act on every NAK at once.
		return traits{roce.ServiceRD, claimMoved, roce.NAKInvalidRD, ib.WCLocEECOpErr}
	default:
		panic("qp: " + t.String() + " has no opcodes")
	}
}

// sendTo returns the destination of a work request on a queue pair of type t, one of
// onAddressed.
func sendTo(t ib.QPType, wr *ib.SendWR) ring.SendTo {
	to := ring.SendTo{AH: uint64(wr.AH), QPN: wr.RemoteQPN, QKey: wr.RemoteQKey}
	if t == ib.RD {
		to.AH = uint64(wr.EEC)
	}
	return to
}

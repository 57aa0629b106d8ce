package fault

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// calls holds the verbs, and the calls of package rdmacm with CM before their names, to which rules can apply, by their Go names, with the
// objects that they affect in addition to the device. A call on a queue pair
// also affects its completion queue and its SRQ, if any.
var calls = [...]struct {
	name    string
	reaches Object // Device: nothing else
}{
	{"AllocPD", Device}, {"DeallocPD", Device}, {"RegMR", Device}, {"ReregMR", Device}, {"DeregMR", Device},
	{"AllocDM", Device}, {"FreeDM", Device}, {"AdviseMR", Device}, {"AllocMW", Device}, {"DeallocMW", Device},
	{"AllocRDD", Device}, {"DeallocRDD", Device}, {"CreateEEC", Device}, {"ModifyEEC", Device}, {"QueryEEC", Device}, {"DestroyEEC", Device},
	{"OpenXRCDomain", Device}, {"CloseXRCDomain", Device}, {"OpenQP", Device},
	{"CreateCQ", Device}, {"ResizeCQ", CompletionQueue}, {"ModifyCQ", CompletionQueue}, {"ReqNotify", CompletionQueue}, {"DestroyCQ", CompletionQueue},
	{"CreateSRQ", Device}, {"SetSRQLimit", SharedReceiveQueue}, {"ResizeSRQ", SharedReceiveQueue}, {"PostSRQRecv", SharedReceiveQueue}, {"DestroySRQ", SharedReceiveQueue},
	{"CreateAH", Device}, {"DestroyAH", Device},
	{"CreateQP", Device}, {"ModifyQP", QueuePair}, {"QueryQP", QueuePair}, {"DestroyQP", QueuePair},
	{"AttachMcast", QueuePair}, {"DetachMcast", QueuePair}, {postSend, QueuePair}, {"PostRecv", QueuePair},
	{"CMCreateID", Device}, {"CMMigrate", Device}, {"CMBindAddr", Device}, {"CMResolveAddr", Device}, {"CMResolveRoute", Device},
	{"CMConnect", Device}, {"CMListen", Device}, {"CMAccept", Device}, {"CMReject", Device}, {"CMEstablish", Device}, {"CMDisconnect", Device},
	{"CMJoinMulticast", Device}, {"CMLeaveMulticast", Device},
}

// postSend is the default call of rules.
const postSend = "PostSend"

// Calls returns the names of the calls to which rules can apply.
func Calls() (names []string) {
	for i := range calls {
		names = append(names, calls[i].name)
	}
	return names
}

// callReaches reports whether a call can affect such an object.
func callReaches(name string, o Object) bool {
	for i := range calls {
		if r := calls[i].reaches; calls[i].name == name && (r == QueuePair || r == o) {
			return true
		}
	}
	return o == Device
}

// requests are the work requests to which rules can apply.
var requests = [...]ib.WROpcode{
	ib.WRSend, ib.WRSendWithImm, ib.WRSendWithInv, ib.WRRDMAWrite, ib.WRRDMAWriteWithImm, ib.WRRDMARead,
	ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAdd, ib.WRAtomicWrite, ib.WRFlush, ib.WRBindMW, ib.WRLocalInv,
}

// requestsNamed returns the set of work requests with a name, or whose names begin with it: 1<<opcode for each.
func requestsNamed(name string) (set int64) {
	for _, o := range requests {
		if covers(o.String(), name) {
			set |= 1 << o
		}
	}
	return set
}

// requestNames returns the names of the work requests.
func requestNames() (names []string) {
	for _, o := range requests {
		names = append(names, o.String())
	}
	return names
}

// Statuses returns the statuses that wc can give requests.
func Statuses() (all []ib.WCStatus) {
	for _, s := range statuses {
		all = append(all, ib.WCStatus(s.num))
	}
	return all
}

// WorkRequests returns the work requests to which rules can apply.
func WorkRequests() []ib.WROpcode { return slices.Clone(requests[:]) }

// failing returns the set of work requests that can fail with a status of wc.
func failing(s ib.WCStatus) int64 {
	const (
		local     = 1<<ib.WRBindMW | 1<<ib.WRLocalInv
		sends     = 1<<ib.WRSend | 1<<ib.WRSendWithImm | 1<<ib.WRSendWithInv
		unaligned = 1<<ib.WRAtomicCmpAndSwp | 1<<ib.WRAtomicFetchAdd | 1<<ib.WRAtomicWrite
		keyed     = 1<<ib.WRRDMAWrite | 1<<ib.WRRDMAWriteWithImm | 1<<ib.WRRDMARead | unaligned | 1<<ib.WRFlush
	)
	switch s {
	case ib.WCMWBindErr:
		return local
	case ib.WCLocLenErr, ib.WCLocProtErr:
		return sends | keyed&^(1<<ib.WRFlush)
	case ib.WCRetryExcErr:
		return sends | keyed
	case ib.WCRNRRetryExcErr:
		return sends | 1<<ib.WRRDMAWriteWithImm
	case ib.WCRemAccessErr:
		return keyed
	case ib.WCRemInvReqErr:
		return unaligned
	default:
		return local | sends | keyed
	}
}

// statuses are the completion statuses that a wc rule can give a request.
var statuses = [...]word{
	{ib.WCLocLenErr.String(), int64(ib.WCLocLenErr)}, {ib.WCLocQPOpErr.String(), int64(ib.WCLocQPOpErr)},
	{ib.WCLocProtErr.String(), int64(ib.WCLocProtErr)}, {ib.WCMWBindErr.String(), int64(ib.WCMWBindErr)},
	{ib.WCRemInvReqErr.String(), int64(ib.WCRemInvReqErr)}, {ib.WCRemAccessErr.String(), int64(ib.WCRemAccessErr)},
	{ib.WCRetryExcErr.String(), int64(ib.WCRetryExcErr)}, {ib.WCRNRRetryExcErr.String(), int64(ib.WCRNRRetryExcErr)},
}

// errnos are the error numbers that a rule can give.
var errnos = [...]word{
	{"EPERM", int64(ib.EPERM)}, {"ENOENT", int64(ib.ENOENT)}, {"EIO", int64(ib.EIO)}, {"EAGAIN", int64(ib.EAGAIN)},
	{"ENOMEM", int64(ib.ENOMEM)}, {"EACCES", int64(ib.EACCES)}, {"EFAULT", int64(ib.EFAULT)}, {"EBUSY", int64(ib.EBUSY)},
	{"ENODEV", int64(ib.ENODEV)}, {"EADDRINUSE", int64(ib.EADDRINUSE)}, {"EADDRNOTAVAIL", int64(ib.EADDRNOTAVAIL)},
	{"EINVAL", int64(ib.EINVAL)}, {"ENOSPC", int64(ib.ENOSPC)}, {"EOPNOTSUPP", int64(ib.EOPNOTSUPP)},
}

// reasons are the reasons with which a rule can reject a request for a connection.
var reasons = [...]word{
	{"NO_QP", int64(mad.RejNoQP)}, {"NO_RESOURCES", int64(mad.RejNoResources)}, {"TIMEOUT", int64(mad.RejTimeout)},
	{"UNSUPPORTED_REQUEST", int64(mad.RejUnsupportedRequest)}, {"INVALID_SERVICE_ID", int64(mad.RejInvalidServiceID)},
	{"STALE_CONNECTION", int64(mad.RejStaleConnection)}, {"INVALID_GID", int64(mad.RejInvalidGID)},
	{"INVALID_MTU", int64(mad.RejInvalidMTU)}, {"INSUFFICIENT_RESPONDER_RESOURCES", int64(mad.RejInsufficientResponderResources)},
	{"CONSUMER", int64(mad.RejConsumer)}, {"INVALID_RNR_RETRY", int64(mad.RejInvalidRNRRetry)},
}

// syndromes are the answers that a rule can make a responder give.
var syndromes = [...]word{
	{"SEQUENCE", int64(roce.NAKSequence)}, {"INVALID_REQUEST", int64(roce.NAKInvalidRequest)},
	{"REMOTE_ACCESS", int64(roce.NAKRemoteAccess)}, {"REMOTE_OPERATIONAL", int64(roce.NAKRemoteOperational)},
	{"RNR", int64(roce.RNRNAK(0))},
}

// Direction is the direction of a packet.
type Direction uint8

// The directions, as a set.
const (
	Out  Direction = 1 << iota // sent by the adapter
	In                         // received by the adapter
	Both = Out | In
)

var directions = [...]word{{"out", int64(Out)}, {"in", int64(In)}, {"both", int64(Both)}}

// Way tells which of the adapter's addresses a packet leaves from or arrives
// at.
type Way uint8

// The ways. A packet to a multicast group has none.
const (
	NoWay Way = iota
	Primary
	Alternate
)

var paths = [...]word{{"primary", int64(Primary)}, {"alternate", int64(Alternate)}}

// wayOf returns the way of a packet by its local address.
func wayOf(local netip.Addr, addrs []netip.Addr) Way {
	switch slices.Index(addrs, local) {
	case -1:
		return NoWay
	case 0:
		return Primary
	default:
		return Alternate
	}
}

// states are those that a rule can move a queue pair to.
var states = [...]word{{ib.ERR.String(), int64(ib.ERR)}, {ib.SQE.String(), int64(ib.SQE)}}

// answers restricts acknowledges to some kinds.
type answers uint8

const (
	anyAnswer answers = iota
	nakAnswer         // any NAK
	rnrAnswer         // receiver not ready
)

// OpSet is a set of packets: by opcode and, for acknowledges, syndrome, or by
// the CM message in them.
type OpSet struct {
	bits     [4]uint64
	answers  answers
	messages uint16 // bit 0 is mad.AttrREQ
}

func (s *OpSet) add(o roce.Opcode) { s.bits[o>>6] |= 1 << (o & 63) }

func (s *OpSet) addMessage(a mad.AttrID) { s.messages |= 1 << (a - mad.AttrREQ) }

// has reports whether a packet is in the set.
func (s *OpSet) has(p *Subject) bool {
	if p.Message != 0 && s.messages>>(p.Message-mad.AttrREQ)&1 != 0 {
		return true
	}
	if s.bits[p.Op>>6]>>(p.Op&63)&1 == 0 {
		return false
	}
	if p.Op.Info().Kind != roce.KindAck {
		return true
	}
	switch s.answers {
	case nakAnswer:
		return !p.Syndrome.IsACK()
	case rnrAnswer:
		return p.Syndrome.IsRNR()
	default:
		return true
	}
}

// opAliases are names of sets of opcodes. No opcode's name begins with one of them.
var opAliases = [...]struct {
	name, op string
	answers  answers
}{
	{"ACK", "ACKNOWLEDGE", anyAnswer}, {"ATOMIC_ACK", "ATOMIC_ACKNOWLEDGE", anyAnswer},
	{"NAK", "ACKNOWLEDGE", nakAnswer}, {"RNR_NAK", "ACKNOWLEDGE", rnrAnswer},
}

// allMessages is the name of all CM messages together.
const allMessages = "CM"

// opsNamed returns the opcodes and CM messages with a name, or whose names
// begin with it.
func opsNamed(name string) (s OpSet, ok bool) {
	for _, a := range opAliases {
		if name == a.name {
			name, s.answers = a.op, a.answers
			break
		}
	}
	for o := range 256 {
		op := roce.Opcode(o)
		if op.Info().Known && (covers(op.String(), name) || covers(bareOp(op), name)) {
			s.add(op)
			ok = true
		}
	}
	for a := mad.AttrREQ; a <= mad.AttrAPR; a++ {
		if name == allMessages || covers(a.String(), name) {
			s.addMessage(a)
			ok = true
		}
	}
	return s, ok
}

// bareOp returns the name of an opcode without its service.
func bareOp(o roce.Opcode) string {
	return strings.TrimPrefix(o.String(), o.Service().String()+"_")
}

// covers reports whether name is full or the words that it begins with.
func covers(full, name string) bool {
	rest, ok := strings.CutPrefix(full, name)
	return ok && name != "" && (rest == "" || rest[0] == '_')
}

// join adds the packets of t. The set can single out only one kind of
// acknowledge.
func (s *OpSet) join(t OpSet) {
	had, adds := s.acks(), t.acks()
	switch {
	case !had:
		s.answers = t.answers
	case adds:
		s.answers = min(s.answers, t.answers) // the smaller value covers both kinds
	}
	for i := range s.bits {
		s.bits[i] |= t.bits[i]
	}
	s.messages |= t.messages
}

// opcodes reports whether the set holds packets by their opcode.
func (s *OpSet) opcodes() bool { return s.bits != [4]uint64{} }

// acks reports whether the set holds an ACKNOWLEDGE.
func (s *OpSet) acks() bool { return s.bits[0]>>roce.RCAcknowledge&1 != 0 }

// opWords returns the names that op= accepts, for hints: of two equally close
// names, the earlier one is suggested.
func opWords() []string {
	var names []string
	for _, a := range opAliases {
		names = append(names, a.name)
	}
	for o := range 256 {
		op := roce.Opcode(o)
		if !op.Info().Known || op.Service() > roce.ServiceUD {
			continue
		}
		name := bareOp(op)
		for i, c := range name {
			if c == '_' {
				names = append(names, name[:i])
			}
		}
		names = append(names, name, op.String())
	}
	return append(append(names, messageNames()...), allMessages)
}

// messageNames returns the names of the CM messages.
func messageNames() (names []string) {
	for a := mad.AttrREQ; a <= mad.AttrAPR; a++ {
		names = append(names, a.String())
	}
	return names
}

package qp

import (
	"errors"
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/memory"
)

// typeSet is a set of transport services.
type typeSet uint8

func setOf(ts ...ib.QPType) typeSet {
	var s typeSet
	for _, t := range ts {
		s |= 1 << t
	}
	return s
}

func (s typeSet) has(t ib.QPType) bool { return s>>t&1 != 0 }

var (
	onAll       = setOf(ib.RC, ib.UC, ib.UD, ib.GSI)
	onConnected = setOf(ib.RC, ib.UC)
	onRC        = setOf(ib.RC)
)

// wrRule says what a send operation is.
type wrRule struct {
	types  typeSet     // services that have it; none: not provided here
	wc     ib.WCOpcode // of its completion
	inline bool        // may carry inline data
	read   bool        // READ or atomic: is answered with data, which is scattered
}

// wrRules is indexed by send operation.
var wrRules = [...]wrRule{
	ib.WRRDMAWrite:        {types: onConnected, wc: ib.WCRDMAWrite, inline: true},
	ib.WRRDMAWriteWithImm: {types: onConnected, wc: ib.WCRDMAWrite, inline: true},
	ib.WRSend:             {types: onAll, wc: ib.WCSend, inline: true},
	ib.WRSendWithImm:      {types: onAll, wc: ib.WCSend, inline: true},
	ib.WRRDMARead:         {types: onRC, wc: ib.WCRDMARead, read: true},
	ib.WRAtomicCmpAndSwp:  {types: onRC, wc: ib.WCCompSwap, read: true},
	ib.WRAtomicFetchAdd:   {types: onRC, wc: ib.WCFetchAdd, read: true},
	ib.WRSendWithInv:      {types: onRC, wc: ib.WCSend, inline: true},
	ib.WRAtomicWrite:      {},
}

// Sentinel errors of the posting calls; each unwraps to its errno.
var (
	errQueueFull = fmt.Errorf("work queue full: poll its completions first: %w", ib.ENOMEM)
	errNoAH      = fmt.Errorf("UD needs an address handle: %w", ib.EINVAL)
	errInlineSGE = fmt.Errorf("an inline request carries its payload in InlineData, not in scatter/gather elements: %w", ib.EINVAL)
)

// PostSend adds send work requests to the send queue in order. It returns how
// many were taken: all of them, or those before the one that err is about,
// which stay posted. The caller then has the shard Kick the QP. Errors unwrap
// to EINVAL, EOPNOTSUPP or ENOMEM (queue full). Does not block on the shard
// and does not allocate unless it fails.
func (q *QP) PostSend(wrs ...ib.SendWR) (n int, err error) {
	q.sendMu.Lock()
	defer q.sendMu.Unlock()
	for i := range wrs {
		if err := q.postSend(&wrs[i]); err != nil {
			return i, err
		}
	}
	return len(wrs), nil
}

func (q *QP) postSend(wr *ib.SendWR) error {
	if st := q.State(); behaviourOf(st).postSend == postRefuse {
		return fmt.Errorf("post send in state %v: it takes RTS: %w", st, ib.EINVAL)
	}
	length, err := q.checkSend(wr)
	if err != nil {
		return err
	}
	if q.sq.Full() {
		return errQueueFull
	}
	i := q.sq.Prod()
	w := q.sq.At(i)
	w.WRID, w.Opcode, w.Flags, w.Status = wr.WRID, wr.Opcode, wr.Flags, ib.WCSuccess
	w.RemoteAddr, w.RKey, w.CompareAdd, w.Swap = wr.RemoteAddr, wr.RKey, wr.CompareAdd, wr.Swap
	w.AH, w.RemoteQPN, w.RemoteQKey = wr.AH, wr.RemoteQPN, wr.RemoteQKey
	w.Imm, w.Length, w.NumSGE = wr.ImmData, length, uint8(len(wr.SGList))
	if wr.Opcode == ib.WRSendWithInv {
		w.Imm = uint32(wr.InvRKey)
	}
	copy(q.sq.sges(i), wr.SGList)
	if wr.Flags&ib.SendInline != 0 {
		copy(q.sq.inlineData(i), wr.InlineData)
	}
	q.sq.Publish()
	return nil
}

// checkSend applies the rules of posting and returns the bytes of payload.
func (q *QP) checkSend(wr *ib.SendWR) (uint32, error) {
	if int(wr.Opcode) >= len(wrRules) || wrRules[wr.Opcode].types == 0 {
		return 0, fmt.Errorf("post send: %v is not provided: %w", wr.Opcode, ib.EOPNOTSUPP)
	}
	rule := &wrRules[wr.Opcode]
	if !rule.types.has(q.typ) {
		return 0, fmt.Errorf("post send: %v QPs have no %v: %w", q.typ, wr.Opcode, ib.EINVAL)
	}
	if len(wr.SGList) > int(q.sq.maxSGE) {
		return 0, fmt.Errorf("post send: %d gather elements, the QP takes %d: %w", len(wr.SGList), q.sq.maxSGE, ib.EINVAL)
	}
	length := memory.TotalLength(wr.SGList)
	if wr.Flags&ib.SendInline != 0 {
		var err error
		if length, err = q.checkInline(wr, rule); err != nil {
			return 0, err
		}
	}
	if length > MaxMessage {
		return 0, fmt.Errorf("post send: %d bytes, a message has at most %d: %w", length, uint64(MaxMessage), ib.EINVAL)
	}
	if rule.read {
		if err := q.checkReadAtomic(wr, length); err != nil {
			return 0, err
		}
	}
	if !q.connected() && wr.AH == 0 {
		return 0, errNoAH
	}
	return uint32(length), nil
}

func (q *QP) checkInline(wr *ib.SendWR, rule *wrRule) (uint64, error) {
	switch {
	case !rule.inline:
		return 0, fmt.Errorf("post send: %v carries no inline data: %w", wr.Opcode, ib.EINVAL)
	case len(wr.SGList) != 0:
		return 0, errInlineSGE
	case len(wr.InlineData) > int(q.sq.maxInline):
		return 0, fmt.Errorf("post send: %d inline bytes, the QP takes %d: %w", len(wr.InlineData), q.sq.maxInline, ib.EINVAL)
	}
	return uint64(len(wr.InlineData)), nil
}

func (q *QP) checkReadAtomic(wr *ib.SendWR, length uint64) error {
	if q.attr.MaxRDAtomic == 0 && behaviourOf(q.State()).postSend != postFlush {
		return fmt.Errorf("post send: %v with max_rd_atomic 0 could never be sent: %w", wr.Opcode, ib.EINVAL)
	}
	if wr.Opcode != ib.WRRDMARead && length != 8 {
		return fmt.Errorf("post send: %v returns 8 bytes, the list holds %d: %w", wr.Opcode, length, ib.EINVAL)
	}
	return nil
}

// PostRecv adds receive work requests in order and returns how many were
// taken, as PostSend does. In ERR the caller has the shard Kick the QP, which
// flushes them.
func (q *QP) PostRecv(wrs ...ib.RecvWR) (n int, err error) {
	if q.srq != nil {
		return 0, fmt.Errorf("post receive: the QP takes its receives from an SRQ: %w", ib.EINVAL)
	}
	q.recvMu.Lock()
	defer q.recvMu.Unlock()
	for i := range wrs {
		if err := q.postRecv(&wrs[i]); err != nil {
			return i, err
		}
	}
	return len(wrs), nil
}

func (q *QP) postRecv(wr *ib.RecvWR) error {
	if st := q.State(); behaviourOf(st).postRecv == postRefuse {
		return fmt.Errorf("post receive in state %v: it takes INIT: %w", st, ib.EINVAL)
	}
	length, err := checkRecv(wr, q.rq.maxSGE)
	if err != nil {
		return err
	}
	if q.rq.Full() {
		return errQueueFull
	}
	q.rq.put(wr, length)
	return nil
}

var errRecvTooLong = errors.New("post receive: scatter elements hold more than 2^31 bytes")

// checkRecv applies the rules of posting a receive and returns the bytes that
// it holds.
func checkRecv(wr *ib.RecvWR, maxSGE uint32) (uint32, error) {
	if len(wr.SGList) > int(maxSGE) {
		return 0, fmt.Errorf("post receive: %d scatter elements, the queue takes %d: %w", len(wr.SGList), maxSGE, ib.EINVAL)
	}
	n := memory.TotalLength(wr.SGList)
	if n > MaxMessage {
		return 0, fmt.Errorf("%w: %w", errRecvTooLong, ib.EINVAL)
	}
	return uint32(n), nil
}

// wcOpcode returns the completion opcode of a send work request.
func wcOpcode(w *sendWQE) ib.WCOpcode { return wrRules[w.Opcode].wc }

// needsResponse reports whether an operation is answered with data: a READ or
// an atomic.
func needsResponse(o ib.WROpcode) bool { return wrRules[o].read }

// isSend reports whether an operation consumes a receive by its SEND.
func isSend(o ib.WROpcode) bool { return wrRules[o].wc == ib.WCSend }

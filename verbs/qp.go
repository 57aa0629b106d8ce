package verbs

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/check/live"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/qp"
)

// errNoAttr is returned for a nil pointer to attributes.
var errNoAttr = fmt.Errorf("no attributes: %w", ib.EINVAL)

// QPInitAttr describes a queue pair to create.
type QPInitAttr struct {
	Type   QPType // RC, UC, UD, RD or XRCIni; for XRCTgt see XRCDomain.CreateQP
	SendCQ *CQ
	RecvCQ *CQ     // may be SendCQ; nil for XRCIni
	SRQ    *SRQ    // nil for a receive queue of its own, and for XRCIni
	RDD    *RDD    // RD only: the domain of its EE contexts
	Cap    QPCap   // CreateQP sets the actual sizes, never less than requested
	SQSig  SigType // SigPerWR: requests choose with SendSignaled; SigAll: each completes

	// Flags are options. CreateBlockSelfMcastLB is for UD only: EINVAL otherwise.
	Flags QPCreateFlags
}

// QP is a queue pair.
type QP struct {
	door
	dev *device.Device
	obj device.QP

	check *live.QP
}

// CreateQP returns a queue pair in RESET. It fails with ErrInvalidHCA,
// ErrInvalidPD, ErrInvalidCQ, ErrInvalidSRQ, ErrInvalidRDD,
// ErrInvalidServiceType, ErrTooManyWRs, ErrTooManySGEs, ErrTooMuchInline or
// ErrInsufficientResources.
func (p *PD) CreateQP(attr *QPInitAttr) (*QP, error) {
	if p == nil {
		return nil, fmt.Errorf("create QP: %w", ErrInvalidPD)
	}
	if attr == nil {
		return nil, fmt.Errorf("create QP: %w", errNoAttr)
	}
	q := &QP{dev: p.dev}
	q.door = device.DoorTo(q.dev, &q.obj.Object) // before an event can name q
	err := p.obj.CreateQP(&q.obj, q, func() (hca.QPConfig, error) { return attr.config(q.dev) })
	uses := attr.uses(p)
	if err != nil {
		used(p.checks(), err, uses.Objects()...)
		return nil, fmt.Errorf("create %v QP: %w", attr.Type, err)
	}
	attr.Cap = q.obj.QP.Cap()
	q.check = q.dev.Check.MadeQP(q.obj.QP, attr.SQSig == ib.SigAll, uses)
	return q, nil
}

// uses returns the objects that the queue pair uses, for the checker.
func (a *QPInitAttr) uses(p *PD) live.QPUses {
	u := live.QPUses{PD: p.check, SendCQ: a.SendCQ.checked(), RecvCQ: a.RecvCQ.checked()}
	if a.SRQ != nil {
		u.SRQ = a.SRQ.check
	}
	if a.RDD != nil {
		u.Domain = a.RDD.check
	}
	return u
}

// config returns the engine's form of the description, in the device's control plane.
func (a *QPInitAttr) config(d *device.Device) (hca.QPConfig, error) {
	c := hca.QPConfig{Type: a.Type, Cap: a.Cap, SigAll: a.SQSig == ib.SigAll, Flags: a.Flags}
	if !a.SendCQ.usableIn(d) || !a.RecvCQ.usableIn(d) && (a.RecvCQ != nil || a.Type != ib.XRCIni) {
		return c, ErrInvalidCQ
	}
	c.SendCQ = a.SendCQ.obj.CQ
	if a.RecvCQ != nil {
		c.RecvCQ = a.RecvCQ.obj.CQ
	}
	if s := a.SRQ; s != nil {
		if s.dev != d || s.obj.Gone() {
			return c, ErrInvalidSRQ
		}
		c.SRQ = s.obj.SRQ
	}
	if r := a.RDD; r != nil {
		if r.dev != d || a.Type != ib.RD {
			return c, ErrInvalidRDD
		}
		c.RDD = r.rdd
	}
	return c, nil
}

// usableIn reports whether q is a live CQ of a device.
func (q *CQ) usableIn(d *device.Device) bool { return q != nil && q.dev == d && !q.obj.Gone() }

// QPN returns the 24-bit queue pair number.
func (q *QP) QPN() QPN {
	if q == nil {
		return 0
	}
	return q.obj.QP.Num()
}

// Type returns the transport service.
func (q *QP) Type() QPType {
	if q == nil {
		return 0
	}
	return q.obj.QP.Type()
}

// State returns the current state; RESET for a QP that is nil or destroyed. Like
// Query it waits for the adapter's current work: a program that has polled the completion
// of an error finds the state that the error led to.
func (q *QP) State() QPState {
	if q == nil {
		return ib.RESET
	}
	q.dev.Settle()
	return q.obj.QP.State()
}

// Modify sets attributes of the QP and, if the mask has AttrState, moves it to a
// new state. "softhca states" prints which attributes each move requires and
// allows. A refused call changes nothing; its error names the attributes that
// were missing or not allowed. Errors unwrap to EINVAL, EOPNOTSUPP or EPERM.
func (q *QP) Modify(attr *QPAttr, mask AttrMask) error {
	if attr == nil {
		return fmt.Errorf("modify QP: %w", errNoAttr)
	}
	err := q.verbs().Modify(attr, mask)
	if q != nil && q.check != nil {
		if err == nil {
			q.check.Modified(attr, chosen(attr, mask))
			q.dev.Check.Tell()
		}
		q.used(err)
	}
	return err
}

// used tells the checker that a call that failed has used the queue pair.
func (q *QP) used(err error) {
	if q != nil && q.check != nil {
		used(q.dev.Check, err, q.check.Base())
	}
}

// RateLimit limits the bytes that a QP sends. All its packets except
// acknowledgements count, as IP packets.
type RateLimit struct {
	Rate     uint32 // kilobits per second; 0 is no limit
	MaxBurst uint32 // bytes that may be sent at once after a pause; 0 is 64 KiB, or 100 µs at the rate
}

// ModifyRateLimit sets the rate limit of the QP. The static rate of its path or of its
// address handles also applies: the lower rate holds. It may be called in any state
// from which the QP can come to send; RESET removes the limit. EINVAL in RESET and
// ERR, and for RD, which sends at the rates of its EE contexts.
func (q *QP) ModifyRateLimit(l RateLimit) error {
	err := q.verbs().SetRateLimit(qp.RateLimit{Rate: l.Rate, Burst: l.MaxBurst})
	q.used(err)
	return err
}

// ModifyToRTS moves the QP from RESET through INIT and RTR to RTS. Each
// move sets those attributes of attr that the modify table requires for
// the service: for RC the port, P_Key index and access flags; then the
// address vector, path MTU, destination QPN, RQPSN, MaxDestRDAtomic and
// MinRNRTimer; then the timeout, the retry counts, SQPSN and MaxRDAtomic. It
// stops at the first refused move and returns Modify's error; the QP stays in
// the state that it has reached.
func (q *QP) ModifyToRTS(attr QPAttr) error {
	if err := q.object().Usable(device.ErrNoQP); err != nil {
		return err
	}
	return walkToRTS(q.Type(), attr, q.Modify)
}

// walkToRTS makes the calls of modify that lead to RTS, each with the attributes that
// it requires.
func walkToRTS(t QPType, attr QPAttr, modify func(*QPAttr, AttrMask) error) error {
	from := ib.RESET
	for _, to := range [...]QPState{ib.INIT, ib.RTR, ib.RTS} {
		required, _, _ := qp.Transition(t, from, to)
		attr.State = to
		if err := modify(&attr, required|ib.AttrState); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// Query returns the state and the attributes. In RESET only the state
// and the sizes are defined. EINVAL for a QP that is destroyed.
func (q *QP) Query() (QPAttr, error) {
	a, err := q.verbs().Query()
	q.used(err)
	return a, err
}

// PostSend posts send work requests in order. It copies the requests, their lists and
// inline data; the memory that the elements name must not change until the request
// completes. An error is a *PostError that names the first request that was refused; those
// before it stay posted. PostSend does not block: if no other thread holds the adapter, it
// sends on the caller's thread, otherwise the holder sends. While a program polls, a few
// requests that follow others may wait for its next poll, to be sent together; if that poll
// is late, the adapter's goroutine sends them.
func (q *QP) PostSend(wrs ...SendWR) error {
	if err := q.object().Usable(device.ErrNoQP); err != nil {
		return err
	}
	if q.check != nil {
		defer q.dev.Check.Tell()
	}
	n, work, err := q.postSend(wrs)
	if n > 0 {
		q.dev.Post(q.obj.QP, work)
	}
	if err != nil {
		return &PostError{Index: n, WRID: wrs[n].WRID, Err: err}
	}
	return nil
}

// PostRecv posts receives in order, as PostSend does sends. The adapter may write to the memory
// that they name until they complete.
func (q *QP) PostRecv(wrs ...RecvWR) error {
	if err := q.object().Usable(device.ErrNoQP); err != nil {
		return err
	}
	if q.check != nil {
		defer q.dev.Check.Tell()
	}
	n, err := q.postRecv(wrs)
	if q.obj.QP.State() == ib.ERR { // flushed by the shard
		q.dev.Post(q.obj.QP, qp.Posted{})
	}
	if err != nil {
		if n == len(wrs) {
			return err
		}
		return &PostError{Index: n, WRID: wrs[n].WRID, Err: err}
	}
	return nil
}

// PostError says which work request of a list was refused.
type PostError struct {
	Index int    // in the list
	WRID  uint64 // of the work request
	Err   error  // why; unwraps to an errno
}

// Error names the work request and the cause.
func (e *PostError) Error() string {
	if e == nil {
		return ""
	}
	return fmt.Sprintf("work request %d (wr_id %#x): %v", e.Index, e.WRID, e.Err)
}

// Unwrap returns the cause.
func (e *PostError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

var _ error = (*PostError)(nil)

// postSend posts to the send queue and returns how many requests it posted.
func (q *QP) postSend(wrs []SendWR) (n int, work qp.Posted, err error) {
	if q.dev.Watched("PostSend") {
		n, err = q.postWatched("PostSend", len(wrs), func(i int) error {
			_, _, err := q.postList(wrs[i : i+1])
			return err
		})
		return n, qp.Posted{}, err // all have been sent
	}
	return q.postList(wrs)
}

// postList posts a list and returns how many requests it posted.
func (q *QP) postList(wrs []SendWR) (n int, work qp.Posted, err error) {
	if q.check != nil {
		q.beginPost()
		defer q.check.End()
	}
	sends := q.obj.QP.Sends()
	defer sends.Done()
	var wr ib.SendWR
	for n < len(wrs) {
		wrs[n].put(q.dev, &wr)
		if wr.Opcode == ib.WRBindMW {
			if wr.Bind, err = wrs[n].Bind.put(q.dev, ib.MWType2); err != nil {
				break
			}
		}
		if q.check != nil {
			err = q.postChecked(&sends, &wr, wrs[n].AH.checked())
		} else {
			err = sends.Post(&wr)
		}
		if err != nil {
			break
		}
		n++
	}
	return n, sends.Posted(), err
}

// beginPost begins the posts of a program that is checked. If it has polled an error, the adapter may not have moved
// the queue pair yet: it adds the completion first. The checker looks at the state that the error led to.
func (q *QP) beginPost() {
	if q.check.Moves() {
		q.dev.Settle()
	}
	q.check.Begin()
}

// postChecked posts a request of a program that is checked. The queue may be full although the adapter has room.
func (q *QP) postChecked(s *qp.Sends, wr *ib.SendWR, ah *live.Object) (err error) {
	p := q.check.Send(wr, s.Next(), ah)
	if p.Full() {
		err = s.Refuse(wr)
	} else {
		err = s.Post(wr)
	}
	p.Done(err)
	return err
}

// postRecv posts to the receive queue and returns how many requests it posted.
func (q *QP) postRecv(wrs []RecvWR) (int, error) {
	if !q.dev.Watched("PostRecv") {
		return q.postReceives(wrs)
	}
	return q.postWatched("PostRecv", len(wrs), func(i int) error {
		_, err := q.postReceives(wrs[i : i+1])
		return err
	})
}

// postReceives posts a list and returns how many receives it posted.
func (q *QP) postReceives(wrs []RecvWR) (int, error) {
	if q.check == nil {
		return q.obj.QP.PostRecv(wrs...)
	}
	q.check.Begin()
	defer q.check.End()
	for i := range wrs {
		p := q.check.Receive(&wrs[i])
		var err error
		if p.Full() {
			err = qp.RefuseRecv(q.obj.QP, &wrs[i])
		} else {
			_, err = q.obj.QP.PostRecv(wrs[i])
		}
		if p.Done(err); err != nil {
			return i, err
		}
	}
	return len(wrs), nil
}

// postWatched posts and sends n work requests one at a time, so that a fault rule
// for one request finds the previous ones in flight. post must not keep a
// request: the caller's scatter lists stay off the heap.
func (q *QP) postWatched(verb string, n int, post func(i int) error) (int, error) {
	for i := range n {
		if err := q.obj.Called(verb, device.ErrNoQP); err != nil {
			return i, err
		}
		if err := post(i); err != nil {
			return i, err
		}
		q.dev.Post(q.obj.QP, qp.Posted{})
	}
	return n, nil
}

// Destroy destroys the QP in any state: its work requests and unpolled completions
// are discarded, it leaves its multicast groups, later packets to it are dropped,
// and its QPN is not reused for a while. Of an XRC target it closes this handle; the last
// one destroys the target. ErrBusy while an event about it is not
// acknowledged.
func (q *QP) Destroy() error {
	if q == nil || q.check == nil {
		return wrap("destroy QP", q.verbs().Destroy(true))
	}
	left := q.check.Ends()
	err := q.obj.Destroy(true)
	q.check.Destroyed(err, q.obj.Taken, left)
	q.dev.Check.Tell()
	return wrap("destroy QP", err)
}

// verbs returns the device's side of the QP, nil for nil.
func (q *QP) verbs() *device.QP {
	if q == nil {
		return nil
	}
	return &q.obj
}

// object returns what events about the QP refer to, nil for nil.
func (q *QP) object() *device.Object {
	if q == nil {
		return nil
	}
	return &q.obj.Object
}

package qp

import (
	"fmt"
	"strings"

	"github.com/softhca/softhca/ib"
)

// ModifyLimits holds the limits of the adapter and its port.
type ModifyLimits struct {
	Ports           uint8  // ports are numbered from 1
	PKeys, GIDs     int    // lengths of the port's tables
	PortMbps        uint32 // rate of the port in Mb/s
	ActiveMTU       ib.MTU
	MaxRDAtomic     uint8 // as requester
	MaxDestRDAtomic uint8 // as responder
	Resize, APM     bool  // optional capabilities (V1)
	Privileged      bool  // may set a controlled Q_Key
}

// ModifyFrom is the state in which a modify call finds the queue pair.
type ModifyFrom struct {
	Type     ib.QPType
	State    ib.QPState
	Draining bool  // in SQD: not drained yet
	Port     uint8 // the queue pair's port, 0 before it has one

	Migration ib.MigState
	AltPath   bool // an alternate path was loaded since the last migration
}

// ModifyError says why a modify call is refused. It unwraps to EINVAL; to
// EOPNOTSUPP for a capability that the device lacks; to EPERM for a Q_Key that
// needs privilege.
type ModifyError struct {
	From, To  ib.QPState
	Type      ib.QPType
	Missing   ib.AttrMask // required, not given
	Forbidden ib.AttrMask // given, not allowed in this move
	Reason    string      // any other cause; may be empty
	errno     ib.Errno
}

// Error names the move, the attributes and the cause, such as "modify INIT to
// RTR: missing DEST_QPN, RQ_PSN".
func (e *ModifyError) Error() string {
	var why []string
	if e.Missing != 0 {
		why = append(why, "missing "+strings.Join(e.Missing.Names(), ", "))
	}
	if e.Forbidden != 0 {
		why = append(why, fmt.Sprintf("not allowed for %v: %s", e.Type, attrList(e.Forbidden)))
	}
	if e.Reason != "" {
		why = append(why, e.Reason)
	}
	return fmt.Sprintf("modify %v to %v: %s", e.From, e.To, strings.Join(why, "; "))
}

// Unwrap returns the error number.
func (e *ModifyError) Unwrap() error { return e.errno }

// attrList names attributes, unknown bits by number.
func attrList(m ib.AttrMask) string {
	names := m.Names()
	if unknown := m &^ ib.AttrAll; unknown != 0 {
		names = append(names, fmt.Sprintf("%#x", uint32(unknown)))
	}
	return strings.Join(names, ", ")
}

// modifyCall is a modify call that is being checked.
type modifyCall struct {
	from ModifyFrom
	next ib.QPState
	attr *ib.QPAttr
	mask ib.AttrMask
	lim  *ModifyLimits
}

// CheckModify decides whether a modify call is legal and returns the state that
// it leads to: attr.State if the mask has STATE, else the present one. It
// changes nothing, so a refused call changes nothing either (V9). Of attr it
// reads only the fields in the mask. Every error is a *ModifyError.
func CheckModify(from ModifyFrom, attr *ib.QPAttr, mask ib.AttrMask, lim *ModifyLimits) (next ib.QPState, err error) {
	c := modifyCall{from: from, next: from.State, attr: attr, mask: mask, lim: lim}
	if mask&ib.AttrState != 0 {
		c.next = attr.State
	}
	// Forbidden attributes are reported before any values are checked.
	for _, check := range [...]func(modifyCall) *ModifyError{
		(modifyCall).checkMask,
		(modifyCall).checkMove,
		(modifyCall).checkAttributes,
		(modifyCall).checkDrained,
		(modifyCall).checkValues,
	} {
		if e := check(c); e != nil {
			return from.State, e
		}
	}
	return c.next, nil
}

// refuse returns the error of a refused call.
func (c modifyCall) refuse(errno ib.Errno, format string, args ...any) *ModifyError {
	return &ModifyError{
		From: c.from.State, To: c.next, Type: c.from.Type,
		Reason: fmt.Sprintf(format, args...), errno: errno,
	}
}

// checkMask refuses attributes that do not exist.
func (c modifyCall) checkMask() *ModifyError {
	unknown := c.mask &^ ib.AttrAll
	if unknown == 0 {
		return nil
	}
	return c.refuse(ib.EOPNOTSUPP, "no such attribute: %s", attrList(unknown))
}

// checkMove refuses a move that is not in the table (Q3), and one from a state
// that the queue pair is not in.
func (c modifyCall) checkMove() *ModifyError {
	if c.next >= ib.NumQPStates {
		return c.refuse(ib.EINVAL, "no such state")
	}
	if _, _, ok := Transition(c.from.Type, c.from.State, c.next); !ok {
		return c.refuse(ib.EINVAL, "not allowed for %v; modify leads from %v to %s",
			c.from.Type, c.from.State, nextStates(c.from.Type, c.from.State))
	}
	if c.mask&ib.AttrCurState != 0 && c.attr.CurState != c.from.State {
		return c.refuse(ib.EINVAL, "the state is not %v", c.attr.CurState)
	}
	return nil
}

// nextStates lists the states that modify can reach.
func nextStates(t ib.QPType, from ib.QPState) string {
	var names []string
	for to := ib.RESET; to <= ib.ERR; to++ {
		if _, _, ok := Transition(t, from, to); ok {
			names = append(names, to.String())
		}
	}
	return strings.Join(names, ", ")
}

// checkAttributes compares the mask with the table (V8).
func (c modifyCall) checkAttributes() *ModifyError {
	required, optional, _ := Transition(c.from.Type, c.from.State, c.next)
	missing := required &^ c.mask
	forbidden := c.mask &^ (required | optional | ib.AttrState)
	if missing|forbidden == 0 {
		return nil
	}
	e := c.refuse(ib.EINVAL, "")
	e.Missing, e.Forbidden = missing, forbidden
	return e
}

// checkDrained refuses attributes in SQD, and the way back to RTS, until the
// send queue has drained (Q12).
func (c modifyCall) checkDrained() *ModifyError {
	if c.from.State != ib.SQD || !c.from.Draining {
		return nil
	}
	if c.next == ib.RTS || c.next == ib.SQD && c.mask&^ib.AttrState != 0 {
		return c.refuse(ib.EINVAL, "the send queue is still draining")
	}
	return nil
}

// checkValues checks the values of the attributes that are given.
func (c modifyCall) checkValues() *ModifyError {
	for i := range valueChecks {
		if v := &valueChecks[i]; c.mask&v.attr != 0 {
			if e := v.check(c); e != nil {
				return e
			}
		}
	}
	return nil
}

//go:build linux

package ucm

import (
	"encoding/binary"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
)

// getEvent takes the oldest event. A connection request comes with an ID that the program does
// not know yet: it gets its number here.
func (f *File) getEvent(c *getEvent, room int) (a answer, err error) {
	e, ok := f.take()
	if !ok {
		return answer{}, ErrAgain
	}
	r := eventResp{Event: uint32(e.Type), Status: uint32(int32(e.Status))}
	n := f.name(&r, e)
	if n == nil {
		return answer{}, ErrAgain
	}
	if n.datagrams {
		err = putParam(&r, udParamOf(&e.UD))
	} else {
		err = putParam(&r, connParamOf(&e.Param))
	}
	if err != nil {
		return answer{}, err
	}
	a.at = c.Response
	a.bytes, err = encode(r, room, shortEvent)
	return a, err
}

// name sets the numbers in an event: that of the ID and the program's own. It returns the ID,
// nil if the program has destroyed it or has not accepted it.
func (f *File) name(r *eventResp, e *rdmacm.Event) *node {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	whose := e.ID
	if e.Type == rdmacm.EventConnectRequest {
		whose = e.Listener
	}
	n := f.m.of[whose]
	if n == nil || n.uid == 0 {
		return nil
	}
	n.taken++
	r.UID, r.ID = n.uid, n.number
	switch e.Type {
	case rdmacm.EventConnectRequest:
		listener := n
		n = f.m.add(n.file, e.ID, 0) // until the program accepts
		n.datagrams = listener.datagrams
		r.ID = n.number
	case rdmacm.EventMulticastJoin, rdmacm.EventMulticastError:
		if g, ok := e.Context.(*group); ok {
			g.taken++
			r.UID, r.ID = g.uid, g.number
			if e.Type == rdmacm.EventMulticastError {
				f.m.keepFailed(g)
			}
		}
	}
	return n
}

// putParam writes the parameters of an event, which has one of two kinds of them.
func putParam(r *eventResp, p any) error {
	_, err := binary.Encode(r.Param[:], binary.NativeEndian, p)
	return err
}

func connParamOf(p *rdmacm.ConnParam) *connParam {
	c := &connParam{
		QPNum: uint32(p.QPN), QKey: uint32(p.QKey), PrivateDataLen: uint8(len(p.PrivateData)), SRQ: flag(p.SRQ),
		ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth, FlowControl: flag(p.FlowControl),
		RetryCount: p.RetryCount, RNRRetryCount: p.RNRRetryCount,
	}
	copy(c.PrivateData[:], p.PrivateData)
	return c
}

func udParamOf(p *rdmacm.UDParam) *udParam {
	u := &udParam{QPNum: uint32(p.QPN), QKey: uint32(p.QKey), PrivateDataLen: uint8(len(p.PrivateData))}
	if p.AH != (ib.AHAttr{}) {
		u.AH = ahOf(&p.AH)
	}
	copy(u.PrivateData[:], p.PrivateData)
	return u
}

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

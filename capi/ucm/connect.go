//go:build linux

package ucm

import (
	"cmp"
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/rdmacm"
)

// rdma converts the parameters of a connection to those of rdmacm.
func (p *connParam) rdma() *rdmacm.ConnParam {
	return &rdmacm.ConnParam{
		PrivateData:        p.PrivateData[:p.PrivateDataLen],
		ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
		FlowControl: p.FlowControl != 0, RetryCount: p.RetryCount, RNRRetryCount: p.RNRRetryCount,
		SRQ: p.SRQ != 0, QPN: ib.QPN(p.QPNum & 0xffffff), QKey: ib.QKey(p.QKey),
	}
}

func (f *File) connect(n *node, c *connect) error {
	if c.Param.Valid == 0 {
		return fmt.Errorf("connect without parameters: %w", ib.EINVAL)
	}
	return n.id.Connect(c.Param.rdma())
}

func (f *File) listen(n *node, c *listen) error {
	err := n.id.Listen(int(int32(c.Backlog)))
	if err == nil && f.m.Listening != nil {
		f.m.Listening(n.id.LocalAddr())
	}
	return err
}

// accept accepts a request or, without parameters, completes a connection after
// CONNECT_RESPONSE, when the program has prepared its queue pair.
func (f *File) accept(n *node, c *accept) error {
	if c.Param.Valid == 0 {
		return n.id.Establish()
	}
	// The uid is set before the accept: the event that follows may come at once and
	// needs it.
	f.m.mu.Lock()
	before := n.uid
	n.uid = c.UID
	f.m.mu.Unlock()
	err := n.id.Accept(c.Param.rdma())
	if err != nil {
		f.m.mu.Lock()
		n.uid = before
		f.m.mu.Unlock()
	}
	return err
}

func (f *File) reject(n *node, c *reject) error {
	reason := cmp.Or(mad.RejReason(c.Reason), mad.RejConsumer)
	if reason != mad.RejConsumer && reason != mad.RejVendorOptionUnsupported {
		return fmt.Errorf("reject with reason %d, which a program may not use: %w", c.Reason, ib.EINVAL)
	}
	return n.id.RejectWith(reason, c.PrivateData[:c.PrivateDataLen])
}

func (f *File) disconnect(n *node, _ *disconnect) error {
	return n.id.Disconnect()
}

func (f *File) notify(n *node, c *notify) error {
	return n.id.Notify(ib.EventType(c.Event))
}

// initQPAttr returns the attributes that bring the program's queue pair to a state.
func (f *File) initQPAttr(n *node, c *initQPAttr, room int) (a answer, err error) {
	if c.QPState > uint32(ib.ERR) {
		return a, fmt.Errorf("attributes for queue pair state %d: %w", c.QPState, ib.EINVAL)
	}
	q, mask, err := n.id.QPAttr(ib.QPState(c.QPState))
	if err != nil {
		return a, err
	}
	const size = 144
	a.at = c.Response
	a.bytes, err = encode(qpAttr{
		Mask: uint32(mask), State: uint32(q.State), PathMTU: uint32(q.PathMTU), QKey: uint32(q.QKey),
		RQPSN: q.RQPSN.Value(), SQPSN: q.SQPSN.Value(), DestQPNum: uint32(q.DestQPN), AccessFlags: uint32(q.AccessFlags),
		AH: ahOf(&q.AV), PKeyIndex: q.PKeyIndex, MaxRDAtomic: q.MaxRDAtomic, MaxDestRDAtomic: q.MaxDestRDAtomic,
		MinRNRTimer: q.MinRNRTimer, Port: q.Port, Timeout: q.Timeout, RetryCnt: q.RetryCnt, RNRRetry: q.RNRRetry,
	}, room, size)
	return a, err
}

// ahOf converts an address vector to the kernel's structure.
func ahOf(v *ib.AHAttr) ahAttr {
	return ahAttr{
		DGID: v.DGID, FlowLabel: v.FlowLabel, SGIDIndex: v.SGIDIndex, HopLimit: v.HopLimit, TrafficClass: v.TrafficClass,
		SL: v.SL, StaticRate: uint8(v.StaticRate), IsGlobal: 1, Port: v.Port,
	}
}

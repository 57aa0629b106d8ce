package connections

import (
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// step is a part of a connection's life.
type step uint8

// The steps, in their order.
const (
	createID step = iota
	resolveAddr
	resolveRoute
	createQP
	connect
	transfer // of cycles only
	disconnect
	destroy
	numSteps
)

var stepNames = [numSteps]string{
	"create id", "resolve addr", "resolve route", "create qp", "connect", "transfer", "disconnect", "destroy",
}

// String returns the name in the table, such as "resolve addr".
func (s step) String() string { return stepNames[s] }

// phase is a step for all connections at once.
type phase struct {
	step  step
	call  func(*client, *conn) error
	waits bool // it waits for an event
	event rdmacm.EventType
}

// phases are the client's phases in order.
var phases = [...]phase{
	{step: createID, call: (*client).createID},
	{step: resolveAddr, call: (*client).resolveAddr, waits: true, event: rdmacm.EventAddrResolved},
	{step: resolveRoute, call: (*client).resolveRoute, waits: true, event: rdmacm.EventRouteResolved},
	{step: createQP, call: (*client).createQP},
	{step: connect, call: (*client).connect, waits: true, event: rdmacm.EventEstablished},
	{step: disconnect, call: (*client).disconnect, waits: true, event: rdmacm.EventDisconnected},
	{step: destroy, call: (*client).destroy},
}

func (c *client) createID(k *conn) (err error) {
	if k.id, err = c.st.NewID(c.ch, rdmacm.TCP); err == nil {
		k.id.Context = k
	}
	return err
}

func (c *client) resolveAddr(k *conn) error {
	return k.id.ResolveAddr(netip.AddrPort{}, c.st.Peer)
}

func (c *client) resolveRoute(k *conn) error { return k.id.ResolveRoute() }

func (c *client) createQP(k *conn) error { return k.id.CreateQP(c.pd, qpAttr(c.queue.CQ)) }

func (c *client) connect(k *conn) error { return k.id.Connect(param()) }

func (c *client) disconnect(k *conn) error {
	if err := k.id.Disconnect(); err != nil {
		return err
	}
	return k.id.DestroyQP()
}

// destroy clears the ID first, so that the ID is destroyed only once.
func (c *client) destroy(k *conn) error {
	id := k.id
	k.id = nil
	return id.Destroy()
}

// param returns the parameters of each connection.
func param() *rdmacm.ConnParam {
	return &rdmacm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: retries}
}

// qpAttr returns the attributes of each queue pair.
func qpAttr(cq *verbs.CQ) *verbs.QPInitAttr {
	return &verbs.QPInitAttr{
		Type: ib.RC, SendCQ: cq, RecvCQ: cq, SQSig: ib.SigAll,
		Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1},
	}
}

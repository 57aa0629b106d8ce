package cmtime

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// step is a part of a connection's life.
type step uint8

// The steps, in their order.
const (
	createID step = iota
	bindAddr
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
	"create id", "bind addr", "resolve addr", "resolve route", "create qp", "connect", "transfer", "disconnect", "destroy",
}

// String returns the name in the table, such as "resolve addr".
func (s step) String() string { return stepNames[s] }

// phase is a step for all connections at once.
type phase struct {
	step  step
	title string // line printed at its start
	call  func(*client, *conn) error
	fails string // line printed when a call fails
	waits bool   // it waits for an event
	event rdmacm.EventType
}

// phases are the client's phases in order. Without an address to bind to, the client
// skips binding.
var phases = [...]phase{
	{step: createID, title: "creating id", call: (*client).createID, fails: "failure creating id"},
	{step: bindAddr, title: "binding source address", call: (*client).bindAddr, fails: "failure bind addr"},
	{
		step: resolveAddr, title: "resolving address", call: (*client).resolveAddr, fails: "failure getting addr",
		waits: true, event: rdmacm.EventAddrResolved,
	},
	{
		step: resolveRoute, title: "resolving route", call: (*client).resolveRoute, fails: "failure resolving route",
		waits: true, event: rdmacm.EventRouteResolved,
	},
	{step: createQP, title: "creating qp", call: (*client).createQP, fails: "failure creating qp"},
	{
		step: connect, title: "connecting", call: (*client).connect, fails: "failure rconnecting",
		waits: true, event: rdmacm.EventEstablished,
	},
	{
		step: disconnect, title: "disconnecting", call: (*client).disconnect, fails: "failure disconnecting",
		waits: true, event: rdmacm.EventDisconnected,
	},
	{step: destroy, title: "destroying id", call: (*client).destroy, fails: "failure destroying id"},
}

func (c *client) createID(k *conn) (err error) {
	if k.id, err = c.st.NewID(c.ch, rdmacm.TCP); err == nil {
		k.id.Context = k
	}
	return err
}

func (c *client) bindAddr(k *conn) error { return k.id.BindAddr(c.st.Local) }

func (c *client) resolveAddr(k *conn) error {
	return k.id.ResolveAddr(c.st.Local, c.st.Peer, c.o.Timeout)
}

func (c *client) resolveRoute(k *conn) error { return k.id.ResolveRoute(c.o.Timeout) }

func (c *client) createQP(k *conn) error { return k.id.CreateQP(c.pd, qpAttr(c.queue.CQ)) }

func (c *client) connect(k *conn) error { return k.id.Connect(c.o.param()) }

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
func (o *Options) param() *rdmacm.ConnParam {
	return &rdmacm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: uint8(o.Retries)}
}

// qpAttr returns the attributes of each queue pair.
func qpAttr(cq *verbs.CQ) *verbs.QPInitAttr {
	return &verbs.QPInitAttr{
		Type: ib.RC, SendCQ: cq, RecvCQ: cq, SQSig: ib.SigAll,
		Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1},
	}
}

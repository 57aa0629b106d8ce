package rping

import (
	"context"
	"errors"
	"fmt"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// state is the state of a connection, with the numbers and names that rping prints.
type state uint8

const (
	idle state = iota + 1
	connectRequest
	addrResolved
	routeResolved
	connected
	readAdv       // server: the client's text may be read; client: it has offered the text
	readComplete  // server: it has read the text
	writeAdv      // server: the client's other buffer may be written; client: the server has read the text
	writeComplete // the server has written the text back
	disconnected
	failed
)

var stateNames = [...]string{
	idle: "IDLE", connectRequest: "CONNECT_REQUEST", addrResolved: "ADDR_RESOLVED", routeResolved: "ROUTE_RESOLVED",
	connected: "CONNECTED", readAdv: "RDMA_READ_ADV", readComplete: "RDMA_READ_COMPLETE", writeAdv: "RDMA_WRITE_ADV",
	writeComplete: "RDMA_WRITE_COMPLETE", disconnected: "DISCONNECTED", failed: "ERROR",
}

// String returns the name, such as "RDMA_READ_ADV".
func (s state) String() string { return stateNames[s] }

var (
	errDisconnected = errors.New("the peer ended the connection")
	errIdle         = errors.New("nothing happened for too long")
)

// await handles events and completions until the connection is in a state.
func (e *endpoint) await(ctx context.Context, want state) error {
	late := fmt.Errorf("wait for %v: %w", want, errIdle)
	if err := e.Await(ctx, late, func() bool { return e.state == want || e.state == disconnected }); err != nil {
		return err
	}
	if e.state != want {
		e.warn("wait for %v state %d", want, e.state)
		return errDisconnected
	}
	return nil
}

// relations are rping's words for the relation of a role's ID to the listener.
var relations = map[string]string{client: "parent", server: "child"}

// requestNames are the names of the wr_ids.
var requestNames = [...]string{recvID: "receive", sendID: "send", readID: "RDMA READ", writeID: "RDMA WRITE"}

// happened handles an event of the connection.
func (e *endpoint) happened(event *rdmacm.Event) error {
	e.step("cma_event type %v cma_id %p (%s)", event.Type, e.ID, relations[e.role])
	switch event.Type {
	case rdmacm.EventEstablished:
		e.step("ESTABLISHED")
		if e.state < connected { // the first message may have arrived before the event
			e.state = connected
		}
	case rdmacm.EventDisconnected:
		e.warn("%s DISCONNECT EVENT...", e.role)
		e.state = disconnected
	case rdmacm.EventTimewaitExit:
	default:
		e.warn("cma event %v, error %d", event.Type, event.Status)
		e.state = failed
		return adapter.NewFailure(event)
	}
	return nil
}

// completed handles a completion.
func (e *endpoint) completed(wc *verbs.WC) error {
	if wc.Status == ib.WCWRFlushErr {
		return nil // the connection ends, and an event follows
	}
	if wc.Status != ib.WCSuccess {
		e.warn("cq completion failed status %d", wc.Status)
		e.state = failed
		return fmt.Errorf("%s: %v", requestNames[wc.WRID], wc.Status)
	}
	switch wc.WRID {
	case sendID:
		e.step("send completion")
	case readID:
		e.step("rdma read completion")
		e.state = readComplete
	case writeID:
		e.step("rdma write completion")
		e.state = writeComplete
	case recvID:
		e.step("recv completion")
		return e.received(wc)
	}
	return nil
}

// received handles a message of the peer, whose meaning depends on the state.
func (e *endpoint) received(wc *verbs.WC) error {
	m, err := parseMessage(e.recv.Bytes()[:min(wc.ByteLen, messageLen)])
	if err != nil {
		e.state = failed
		return err
	}
	next, ok := e.turn()
	if !ok {
		return fmt.Errorf("a message came out of turn, in state %v", e.state)
	}
	if e.role == server {
		e.step("Received rkey %x addr %x len %d from peer", uint32(m.rkey), m.addr, m.size)
	}
	e.remote = m
	if err := e.postRecv(); err != nil {
		return err
	}
	e.state = next
	return nil
}

// turn returns the state after a message.
func (e *endpoint) turn() (state, bool) {
	switch {
	case e.role == server && (e.state <= connected || e.state == writeComplete):
		return readAdv, true
	case e.role == server && e.state == readComplete:
		return writeAdv, true
	case e.role == client && e.state == readAdv:
		return writeAdv, true
	case e.role == client && e.state == writeAdv:
		return writeComplete, true
	}
	return 0, false
}

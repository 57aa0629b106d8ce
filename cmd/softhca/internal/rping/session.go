package rping

import (
	"context"
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// serve answers pings until the client ends the connection, which is the error
// errDisconnected.
func (e *endpoint) serve(ctx context.Context) error {
	for {
		if err := e.await(ctx, readAdv); err != nil {
			return err
		}
		e.step("server received sink adv")
		if err := e.fetch(ctx); err != nil {
			return err
		}
		if err := e.await(ctx, writeAdv); err != nil {
			return err
		}
		e.step("server received sink adv")
		if err := e.giveBack(ctx); err != nil {
			return err
		}
	}
}

// fetch reads the client's text and tells it to go on.
func (e *endpoint) fetch(ctx context.Context) error {
	if int64(e.remote.size) > int64(e.o.Size) {
		return fmt.Errorf("the client's texts have %d bytes, this server takes %d: give it -S %d", e.remote.size, e.o.Size, e.remote.size)
	}
	clear(e.rdma.Bytes())
	err := e.qp.PostSend(verbs.SendWR{
		WRID: readID, Opcode: ib.WRRDMARead, SGList: []verbs.SGE{e.rdma.SGE(0, e.remote.size)},
		RemoteAddr: e.remote.addr, RKey: e.remote.rkey,
	})
	if err != nil {
		return err
	}
	e.step("server posted rdma read req ")
	if err := e.await(ctx, readComplete); err != nil {
		return err
	}
	e.step("server received read complete")
	if e.o.Verbose {
		e.result("server ping data: %s", text(e.rdma.Bytes()))
	}
	return e.goAhead()
}

// giveBack writes the text to the client and tells it so.
func (e *endpoint) giveBack(ctx context.Context) error {
	n := uint32(textLen(e.rdma.Bytes()))
	e.step("rdma write from lkey %x laddr %x len %d", uint32(e.rdma.LKey()), e.rdma.Addr(), n)
	err := e.qp.PostSend(verbs.SendWR{
		WRID: writeID, Opcode: ib.WRRDMAWrite, SGList: []verbs.SGE{e.rdma.SGE(0, n)},
		RemoteAddr: e.remote.addr, RKey: e.remote.rkey,
	})
	if err != nil {
		return err
	}
	if err := e.await(ctx, writeComplete); err != nil {
		return err
	}
	e.step("server rdma write complete ")
	return e.goAhead()
}

// goAhead tells the client that it is its turn.
func (e *endpoint) goAhead() error {
	if err := e.say(message{}); err != nil {
		return err
	}
	e.step("server posted go ahead")
	return nil
}

package rping

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// progress is the interval of progress lines of a client that prints no data.
const progress = 10 * time.Second

// errMismatch means that the returned text differs from the sent one.
var errMismatch = errors.New("data mismatch")

// grace is the time after an interruption to complete the current ping. Linux's server
// may hang if the connection ends in the middle of a ping.
const grace = 2 * time.Second

// pings runs the client's part. It returns the number of completed pings.
func (e *endpoint) pings(ctx context.Context) (n int, err error) {
	late, cancel := after(ctx, grace)
	defer cancel()
	told := time.Now()
	for ; e.o.Count == 0 || n < e.o.Count; n++ {
		if ctx.Err() != nil {
			return n, context.Cause(ctx)
		}
		if err := e.ping(late, n); err != nil {
			return n, err
		}
		if now := time.Now(); !e.o.Verbose && now.Sub(told) >= progress {
			e.warn("%d pings", n+1)
			told = now
		}
	}
	return n, nil
}

// after returns a context that ends, with the cause of ctx, d after ctx has ended. The
// caller calls cancel.
func after(ctx context.Context, d time.Duration) (late context.Context, cancel func()) {
	late, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			end(context.Cause(ctx))
		case <-late.Done():
		}
	})
	return late, func() {
		stop()
		end(nil)
	}
}

// ping makes the server read the text of ping n and write it back.
func (e *endpoint) ping(ctx context.Context, n int) error {
	fill(e.start.Bytes(), n)
	e.state = readAdv
	if err := e.offer(e.start); err != nil {
		return err
	}
	if err := e.await(ctx, writeAdv); err != nil {
		return err
	}
	if err := e.offer(e.rdma); err != nil {
		return err
	}
	if err := e.await(ctx, writeComplete); err != nil {
		return err
	}
	if e.o.Validate && !bytes.Equal(e.start.Bytes(), e.rdma.Bytes()) {
		e.warn("data mismatch!")
		return fmt.Errorf("ping %d: %w: sent %q, came back %q", n, errMismatch, text(e.start.Bytes()), text(e.rdma.Bytes()))
	}
	if e.o.Verbose {
		e.result("ping data: %s", text(e.rdma.Bytes()))
	}
	return nil
}

// offer sends the server a message about a buffer.
func (e *endpoint) offer(mr *verbs.MR) error {
	m := message{mr.Addr(), mr.RKey(), uint32(mr.Len())}
	e.step("RDMA addr %x rkey %x len %d", m.addr, uint32(m.rkey), m.size)
	return e.say(m)
}

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

// fetch reads the client's text and tells the client to continue.
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

// giveBack writes the text to the client and tells the client to continue.
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

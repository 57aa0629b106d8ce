//go:build !portable

package campaign

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// The sizes of a side. A message has at most maxMessage bytes. Receives and the slots of WRITEs are
// used in turn. A WRITE consumes a receive with its last packet, so at most receives+1 WRITEs
// can have begun that were not checked: there are twice as many slots.
const (
	maxMessage = 128 << 10
	depth      = 8  // requests in flight
	receives   = 16 // posted
	slots      = 2 * receives
)

// The parts of the region of a side, in messages: what it sends, where its READs land, what it receives
// by SEND and by WRITE. The peer READs the text after them.
const (
	sendPart  = 0
	readPart  = sendPart + depth
	recvPart  = readPart + depth
	writePart = recvPart + receives
	textPart  = writePart + slots
	textSize  = 1 << 20
)

// address is what a side needs to know about the other.
type address struct {
	GID  ib.GID
	QPN  ib.QPN
	Addr uint64
	RKey ib.RKey
}

// timers are the timeout and the retry count of a connection.
type timers struct{ Timeout, Retries uint8 }

var (
	impatient = timers{15, 7} // gives a silent peer up after a second
	patient   = timers{18, 7} // outlasts each stop of a test
)

// side is an adapter with a queue pair.
type side struct {
	ctx  *verbs.Context
	pd   *verbs.PD
	ch   *verbs.CompChannel
	mr   *verbs.MR
	cq   *verbs.CQ
	qp   *verbs.QP
	text []byte // of which all messages are parts

	received atomic.Uint64 // messages of the current stream
}

// openSide opens an adapter whose packets may take shared memory.
func openSide(addr string) (s *side, err error) {
	s = &side{ch: verbs.NewCompChannel(4), text: text()}
	if s.ctx, err = verbs.Open(verbs.Config{Addr: addr, Wire: verbs.WireAuto}); err != nil {
		return nil, err
	}
	if s.pd, err = s.ctx.AllocPD(); err == nil {
		s.mr, err = s.pd.RegMR(make([]byte, textPart*maxMessage+textSize), ib.AccessLocalWrite|ib.AccessRemote)
	}
	if err != nil {
		return nil, errors.Join(err, s.ctx.Close())
	}
	copy(s.mr.Bytes()[textPart*maxMessage:], s.text)
	return s, nil
}

// warm opens and closes an adapter: the first one of a process leaves what the runtime needs to wait
// for descriptors.
func warm(addr string) error {
	s, err := openSide(addr)
	if err != nil {
		return err
	}
	return s.ctx.Close()
}

// text returns the bytes of which messages are parts. They are the same in all processes.
func text() []byte {
	b := make([]byte, textSize)
	source := rand.NewPCG(1, 2)
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], source.Uint64())
	}
	return b
}

// renew replaces the queue pair.
func (s *side) renew() (a address, err error) {
	if err := s.drop(); err != nil {
		return a, err
	}
	if s.cq, err = s.ctx.CreateCQ(2*(depth+receives), s.ch); err != nil {
		return a, err
	}
	s.qp, err = s.pd.CreateQP(&verbs.QPInitAttr{
		Type: ib.RC, SendCQ: s.cq, RecvCQ: s.cq, SQSig: ib.SigAll,
		Cap: verbs.QPCap{MaxSendWR: depth, MaxRecvWR: receives, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	return address{s.ctx.QueryGID(0), s.qp.QPN(), s.mr.Addr(), s.mr.RKey()}, err
}

// drop destroys the queue pair.
func (s *side) drop() error {
	if s.qp == nil {
		return nil
	}
	err := errors.Join(s.qp.Destroy(), s.cq.Destroy())
	s.qp, s.cq = nil, nil
	return err
}

// connect connects the queue pair, and posts all receives.
func (s *side) connect(to *address, w timers) error {
	port, err := s.ctx.QueryPort()
	if err != nil {
		return err
	}
	err = s.qp.ModifyToRTS(verbs.QPAttr{
		Port: 1, AccessFlags: ib.AccessRemote, PathMTU: port.ActiveMTU, DestQPN: to.QPN,
		RQPSN: ib.NewPSN(0xfffff0), SQPSN: ib.NewPSN(0xfffff0), MaxDestRDAtomic: 8, MaxRDAtomic: 8,
		MinRNRTimer: 1, Timeout: w.Timeout, RetryCnt: w.Retries, RNRRetry: 7,
		AV: verbs.AHAttr{DGID: to.GID, HopLimit: 64, Port: 1},
	})
	for i := uint64(0); i < receives && err == nil; i++ {
		err = s.postRecv(i)
	}
	return err
}

// place returns the offset of element i of a part with n elements.
func place(part int, i, n uint64) uint64 { return (uint64(part) + i%n) * maxMessage }

func (s *side) postRecv(i uint64) error {
	return s.qp.PostRecv(verbs.RecvWR{WRID: i, SGList: []verbs.SGE{s.mr.SGE(place(recvPart, i, receives), maxMessage)}})
}

// message is one of a stream.
type message struct {
	op   ib.WROpcode // SEND, WRITE with immediate data, or READ
	text []byte
	at   uint64 // the offset of text
	nth  uint64 // number among the messages that consume a receive
}

// stream makes the messages of one direction.
type stream struct {
	random *rand.Rand
	text   []byte
	nth    uint64
}

func newStream(seed uint64, text []byte) *stream {
	return &stream{random: rand.New(rand.NewPCG(seed, 3)), text: text}
}

// next returns the next message. Many are short, some have several packets.
func (m *stream) next() message {
	n := 1 + m.random.IntN(256)
	switch m.random.IntN(4) {
	case 0:
		n = 1 + m.random.IntN(maxMessage)
	case 1:
		n = 1 + m.random.IntN(8<<10)
	}
	r := message{op: ib.WRSend, nth: m.nth}
	switch m.random.IntN(4) {
	case 0:
		r.op = ib.WRRDMARead
	case 1:
		r.op = ib.WRRDMAWriteWithImm
	}
	if r.op != ib.WRRDMARead {
		m.nth++
	}
	r.at = m.random.Uint64N(textSize - uint64(n))
	r.text = m.text[r.at:][:n]
	return r
}

// How a side waits for completions.
const (
	polls  = iota
	sleeps // in CompChannel.Get: its thread waits at the port
	awaits // the channel of a CompChannel
	waitKinds
)

// job is what both sides of a connection do: each sends the messages of its stream, and expects those
// of the other.
type job struct {
	Seeds    [2]uint64 // of what this side sends and receives
	Messages uint64    // in each direction, without READs
	Wait     [2]int    // how this side and the other wait
}

// turned returns the job of the other side.
func (j job) turned() job {
	j.Seeds[0], j.Seeds[1] = j.Seeds[1], j.Seeds[0]
	j.Wait[0], j.Wait[1] = j.Wait[1], j.Wait[0]
	return j
}

// The errors of a stream.
var (
	errWrong = errors.New("wrong bytes")
	errHangs = errors.New("nothing happens")
)

// hangTime is how long a stream may have no completion. No stop, and no timer, lasts so long.
const hangTime = 30 * time.Second

// run sends and receives until everything has arrived, or the connection fails.
func (s *side) run(to *address, j job) error {
	out, in := newStream(j.Seeds[0], s.text), newStream(j.Seeds[1], s.text)
	var posted, done uint64
	var flying [depth]message
	wcs := make([]verbs.WC, 16)
	s.received.Store(0)
	arriving := in.consuming()
	for out.nth < j.Messages || done < posted || s.received.Load() < j.Messages {
		for out.nth < j.Messages && posted-done < depth {
			m := out.next()
			flying[posted%depth] = m
			if err := s.post(to, posted, &m); err != nil {
				return err
			}
			posted++
		}
		n, err := s.take(wcs, j.Wait[0])
		if err != nil {
			return err
		}
		for i := range wcs[:n] {
			wc := &wcs[i]
			switch {
			case wc.Status != ib.WCSuccess:
				return fmt.Errorf("request %d: %w", wc.WRID, wc.Err())
			case wc.Opcode == ib.WCRecv || wc.Opcode == ib.WCRecvRDMAWithImm:
				if err := s.arrived(wc, &arriving); err != nil {
					return err
				}
				s.received.Add(1)
				arriving = in.consuming()
			default:
				if err := s.completed(wc, done, &flying[done%depth]); err != nil {
					return err
				}
				done++
			}
		}
	}
	return nil
}

// consuming returns the next message that consumes a receive.
func (m *stream) consuming() message {
	for {
		if r := m.next(); r.op != ib.WRRDMARead {
			return r
		}
	}
}

// post posts message i of the stream to the other side.
func (s *side) post(to *address, i uint64, m *message) error {
	wr := verbs.SendWR{WRID: i, Opcode: m.op, RKey: to.RKey}
	from := place(sendPart, i, depth)
	switch m.op {
	case ib.WRRDMARead:
		from = place(readPart, i, depth)
		wr.RemoteAddr = to.Addr + textPart*maxMessage + m.at
	case ib.WRRDMAWriteWithImm:
		wr.RemoteAddr, wr.ImmData = to.Addr+place(writePart, m.nth, slots), uint32(m.nth)
	}
	if m.op != ib.WRRDMARead {
		copy(s.mr.Bytes()[from:], m.text)
	}
	wr.SGList = []verbs.SGE{s.mr.SGE(from, uint32(len(m.text)))}
	return s.qp.PostSend(wr)
}

// completed takes the completion of message i.
func (s *side) completed(wc *verbs.WC, i uint64, m *message) error {
	if wc.WRID != i {
		return fmt.Errorf("%w: request %d completes, want %d", errWrong, wc.WRID, i)
	}
	if m.op != ib.WRRDMARead {
		return nil
	}
	return same(m, s.mr.Bytes()[place(readPart, i, depth):], len(m.text))
}

// arrived takes a message, and posts its receive again.
func (s *side) arrived(wc *verbs.WC, m *message) error {
	opcode, at := ib.WCRecv, place(recvPart, m.nth, receives)
	if m.op == ib.WRRDMAWriteWithImm {
		opcode, at = ib.WCRecvRDMAWithImm, place(writePart, m.nth, slots)
	}
	if wc.WRID != m.nth || wc.Opcode != opcode {
		return fmt.Errorf("%w: receive %d completes with %v, want %d with %v", errWrong, wc.WRID, wc.Opcode, m.nth, opcode)
	}
	if opcode == ib.WCRecvRDMAWithImm && wc.ImmData != uint32(m.nth) {
		return fmt.Errorf("%w: immediate data %d, want %d", errWrong, wc.ImmData, m.nth)
	}
	if err := same(m, s.mr.Bytes()[at:], int(wc.ByteLen)); err != nil {
		return err
	}
	return s.postRecv(m.nth + receives)
}

// same returns an error unless the message has arrived at the beginning of b.
func same(m *message, b []byte, n int) error {
	if n != len(m.text) || !bytes.Equal(b[:n], m.text) {
		return fmt.Errorf("%w: message %d (%v) of %d bytes arrives with %d bytes", errWrong, m.nth, m.op, len(m.text), n)
	}
	return nil
}

// take returns completions. It waits for them.
func (s *side) take(wcs []verbs.WC, how int) (n int, err error) {
	late, end := context.WithTimeoutCause(context.Background(), hangTime, errHangs)
	defer end()
	for {
		if how != polls {
			if err := s.cq.ReqNotify(false); err != nil {
				return 0, err
			}
		}
		if n, err = s.cq.Poll(wcs); n > 0 || err != nil {
			return n, err
		}
		switch {
		case late.Err() != nil:
			return 0, errHangs
		case how == sleeps:
			_, err = s.ch.Get(late)
		case how == awaits:
			select {
			case <-s.ch.C():
			case <-late.Done():
				err = errHangs
			}
		}
		if err != nil {
			return 0, err
		}
	}
}

package perf

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/accept"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/printable"
)

// version is the version of the protocol, which must be the same on both sides.
const version = 1

// Bounds on the peer.
const (
	maxLine  = 128 << 10 // bytes of a message
	replyDue = 10 * time.Second
)

// errLine is the error for a message that is too long or malformed.
var errLine = errors.New("the peer does not speak the protocol of perf")

// envelope begins every message: one line of JSON. An error ends the exchange.
type envelope struct {
	Version int    `json:"softhca_perf"`
	Error   string `json:"error,omitempty"`
}

func (e *envelope) head() *envelope { return e }

// message is a struct that begins with an envelope.
type message interface{ head() *envelope }

// side is the description of a side for its peer.
type side struct {
	GID  string     `json:"gid"`               // an IP address
	Alt  string     `json:"alt_gid,omitempty"` // another one, of the alternate path
	Addr uint64     `json:"addr"`              // of the first queue pair's message
	RKey uint32     `json:"rkey"`
	QPs  []endpoint `json:"queue_pairs"`
	EEC  *eecEnd    `json:"ee_context,omitempty"` // of RD
	SRQN uint32     `json:"srqn,omitempty"`       // of XRC: the queue of the receives
	Back *endpoint  `json:"back,omitempty"`       // of XRC: the end of the connection for messages back
}

// endpoint is one end of a connection.
type endpoint struct {
	QPN uint32 `json:"qpn"`
	PSN uint32 `json:"psn"`
	// RKey is the key of the memory window on the queue pair, which replaces the key of the side.
	RKey uint32 `json:"rkey,omitempty"`
}

// eecEnd is one end of a channel.
type eecEnd struct {
	EECN uint32 `json:"eecn"`
	PSN  uint32 `json:"psn"`
}

// request is the client's first message. Pattern selects the bytes that a READ
// returns.
type request struct {
	envelope
	Op      string `json:"op"`
	Type    string `json:"type,omitempty"` // of the queue pairs; none: rc
	Size    int    `json:"size"`
	Depth   int    `json:"depth"`
	QPs     int    `json:"qps"`
	MTU     int    `json:"mtu"` // bytes
	Latency bool   `json:"latency"`
	Events  bool   `json:"events,omitempty"`      // as in Plan
	Timeout uint8  `json:"ack_timeout,omitempty"` // as in Plan
	Retry   int    `json:"retry,omitempty"`
	Rate    uint8  `json:"static_rate,omitempty"` // as in Plan
	Limit   uint32 `json:"rate_limit,omitempty"`
	Armed   bool   `json:"alternate_path,omitempty"` // as Alt of Plan
	Window  bool   `json:"window,omitempty"`         // as in Plan
	Pattern uint64 `json:"pattern"`
	side
}

// offer is the server's answer when it is ready.
type offer struct {
	envelope
	MTU int `json:"mtu"` // bytes
	side
}

// done is the client's second message, after all its requests have completed.
type done struct {
	envelope
	Messages []uint64 `json:"messages"`         // of each queue pair
	Pattern  uint64   `json:"pattern"`          // of the last message of each
	Failed   string   `json:"failed,omitempty"` // the status that ended it before its time
}

// verdict is the server's second answer: the data was right, or, to a client
// that failed, what the server saw.
type verdict struct {
	envelope
	Report *Report `json:"report,omitempty"`
}

// Listen returns a listener for clients: it accepts those that have sent their request.
func Listen(l net.Listener) *accept.Listener {
	return accept.New(l, maxLine, func(b []byte) bool { return bytes.IndexByte(b, '\n') >= 0 })
}

// control is a connection between client and server. One goroutine sends and
// one receives.
type control struct {
	conn net.Conn
	in   *bufio.Reader
}

func newControl(c net.Conn) *control { return &control{c, bufio.NewReaderSize(c, maxLine)} }

// send writes m as one line.
func (c *control) send(m message) error {
	m.head().Version = version
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if err := c.conn.SetWriteDeadline(time.Now().Add(replyDue)); err != nil {
		return err
	}
	_, err = c.conn.Write(append(b, '\n'))
	return err
}

// receive reads the next line into m, within a time, or without a limit if that is 0.
// If the message has an error, receive returns it.
func (c *control) receive(m message, within time.Duration) error {
	var until time.Time
	if within > 0 {
		until = time.Now().Add(within)
	}
	if err := c.conn.SetReadDeadline(until); err != nil {
		return err
	}
	line, err := c.in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return errLine
	case errors.Is(err, io.EOF):
		return errors.New("the peer closed the connection")
	case err != nil:
		return err
	}
	if err := json.Unmarshal(line, m); err != nil {
		return fmt.Errorf("%w: %w", errLine, err)
	}
	if v, ok := m.(*verdict); ok {
		v.Report.sanitize()
	}
	switch h := m.head(); {
	case h.Version != version:
		return fmt.Errorf("%w: it has version %d, this side %d", errLine, h.Version, version)
	case h.Error != "":
		return &peerError{h.Error}
	}
	return nil
}

// reply is a message that is received in the background.
type reply struct {
	outcome chan error  // gets the result of the receive
	over    atomic.Bool // the receive has ended
	closed  atomic.Bool // the receive has failed without a message of the peer
}

// expect starts to receive a message, without a time limit.
func (c *control) expect(m message) *reply {
	r := &reply{outcome: make(chan error, 1)}
	go func() {
		err := c.receive(m, 0)
		r.closed.Store(err != nil && !errors.As(err, new(*peerError)))
		r.outcome <- err
		r.over.Store(true)
	}()
	return r
}

// finish waits at most the time within for an expected message.
func (c *control) finish(r *reply, within time.Duration) error {
	// The call fails only if the connection is closed, which ends the wait too.
	_ = c.conn.SetReadDeadline(time.Now().Add(within))
	return <-r.outcome
}

// peerError is an error reported by the peer.
type peerError struct{ text string }

// Error quotes the peer.
func (e *peerError) Error() string {
	return `the peer says: "` + printable.Line(e.text, maxShown) + `"`
}

// refuse sends the reason to the peer, with the report of this side if there is one.
func (c *control) refuse(why error, r *Report) {
	// The caller reports the reason; a failure to send it does not matter.
	_ = c.send(&verdict{envelope: envelope{Error: why.Error()}, Report: r})
}

// plan returns the plan of a request.
func (r *request) plan() (Plan, error) {
	op, err := ParseOp(r.Op)
	if err != nil {
		return Plan{}, err
	}
	mtu, ok := ib.MTUFor(r.MTU)
	if !ok || mtu.Bytes() != r.MTU {
		return Plan{}, fmt.Errorf("%d is no path MTU", r.MTU)
	}
	if r.Size == 0 || r.Depth == 0 || r.QPs == 0 {
		return Plan{}, fmt.Errorf("size %d, depth %d, %d queue pairs: none may be 0", r.Size, r.Depth, r.QPs)
	}
	typ, err := ParseType(cmp.Or(r.Type, services[0].name))
	if err != nil {
		return Plan{}, err
	}
	p := Plan{
		Op: op, Type: typ, Size: r.Size, Depth: r.Depth, QPs: r.QPs, MTU: mtu, Latency: r.Latency, Events: r.Events, Timeout: r.Timeout, Retry: r.Retry,
		Rate: ib.Rate(r.Rate), Limit: r.Limit, Alt: r.Armed, Window: r.Window,
	}
	return p, p.Check()
}

package connections

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// rawLen is the UDP payload of a message of the connection manager: BTH, DETH,
// the MAD and the ICRC.
const rawLen = 12 + 8 + 256 + 4

// rawMost limits the duration of a measurement. Loopback loses a message only if a
// socket's buffer is full, which rawWindow prevents.
const (
	rawMost   = time.Minute
	rawWindow = 64
)

// The messages of an exchange.
const (
	rawRequest = iota + 1
	rawReply
	rawReady
)

// Raw is the cost of three messages without RDMA, over the same kind of sockets: that
// of a program which sets up its connections itself.
type Raw struct {
	Exchanges int     `json:"exchanges"`  // of three messages
	Bytes     int     `json:"bytes"`      // of a message
	Window    int     `json:"window"`     // exchanges at a time
	Seconds   float64 `json:"seconds"`    // for all
	PerSecond float64 `json:"per_second"` // exchanges
}

// exchange is a measurement of n exchanges between two sockets, window of them at a
// time. The asker sends a request, the answerer a reply, and the asker a ready message.
type exchange struct {
	asker, answerer netip.Addr
	n, window       int

	ask, answer *net.UDPConn
	out, in     [rawLen]byte // the asker's
	reply, got  [rawLen]byte // the answerer's
}

// run measures. With apart each side is a goroutine that sleeps; otherwise one goroutine
// runs both sides.
func (x *exchange) run(ctx context.Context, apart bool) (r Raw, err error) {
	if x.ask, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(x.asker, 0))); err != nil {
		return r, err
	}
	defer x.ask.Close()
	if x.answer, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(x.answerer, 0))); err != nil {
		return r, err
	}
	defer x.answer.Close()
	x.window = min(x.window, rawWindow, x.n)
	begin := time.Now()
	x.until(begin.Add(rawMost))
	defer context.AfterFunc(ctx, func() { x.until(begin) })()
	if apart {
		answered := make(chan error, 1)
		go func() { answered <- x.answerAll() }()
		if err = x.askAll(); err != nil {
			x.until(begin)
		}
		err = errors.Join(err, <-answered)
	} else {
		err = x.both()
	}
	if err != nil {
		return r, errors.Join(ctx.Err(), fmt.Errorf("exchange of plain UDP messages: %w", err))
	}
	d := time.Since(begin).Seconds()
	return Raw{Exchanges: x.n, Bytes: rawLen, Window: x.window, Seconds: d, PerSecond: float64(x.n) / d}, nil
}

// until sets the deadline of all reads.
func (x *exchange) until(t time.Time) {
	// Sockets take deadlines until they are closed.
	_, _ = x.ask.SetReadDeadline(t), x.answer.SetReadDeadline(t)
}

// both runs the exchanges in one goroutine, one window after another.
func (x *exchange) both() error {
	for done := 0; done < x.n; done += x.window {
		k := min(x.window, x.n-done)
		for i := range k {
			if err := x.request(done + i); err != nil {
				return err
			}
		}
		for _, side := range [...]func() error{x.answerOne, x.readyOne, x.answerOne} {
			for range k {
				if err := side(); err != nil {
					return fmt.Errorf("after %d: %w", done, err)
				}
			}
		}
	}
	return nil
}

// askAll is the asker's side.
func (x *exchange) askAll() error {
	for i := range x.window {
		if err := x.request(i); err != nil {
			return err
		}
	}
	for done := range x.n {
		if err := x.readyOne(); err != nil {
			return fmt.Errorf("after %d: %w", done, err)
		}
		if next := done + x.window; next < x.n {
			if err := x.request(next); err != nil {
				return err
			}
		}
	}
	return nil
}

// answerAll is the answerer's side: each exchange has two messages for it.
func (x *exchange) answerAll() error {
	for range 2 * x.n {
		if err := x.answerOne(); err != nil {
			return err
		}
	}
	return nil
}

// request begins exchange i.
func (x *exchange) request(i int) error {
	return rawSend(x.ask, x.answer.LocalAddr().(*net.UDPAddr).AddrPort(), &x.out, rawRequest, i)
}

// readyOne receives a reply and sends the ready message.
func (x *exchange) readyOne() error {
	from, kind, i, err := rawReceive(x.ask, &x.in)
	if err == nil && kind != rawReply {
		err = fmt.Errorf("a message of kind %d instead of a reply", kind)
	}
	if err != nil {
		return err
	}
	return rawSend(x.ask, from, &x.out, rawReady, i)
}

// answerOne receives a message and answers it if it is a request.
func (x *exchange) answerOne() error {
	from, kind, i, err := rawReceive(x.answer, &x.got)
	if err != nil || kind == rawReady {
		return err
	}
	return rawSend(x.answer, from, &x.reply, rawReply, i)
}

// rawSend sends a message with the number of its exchange.
func rawSend(c *net.UDPConn, to netip.AddrPort, b *[rawLen]byte, kind byte, i int) error {
	b[0] = kind
	binary.BigEndian.PutUint32(b[4:], uint32(i))
	_, err := c.WriteToUDPAddrPort(b[:], to)
	return err
}

// rawReceive receives a message.
func rawReceive(c *net.UDPConn, b *[rawLen]byte) (from netip.AddrPort, kind byte, i int, err error) {
	n, from, err := c.ReadFromUDPAddrPort(b[:])
	if err == nil && n != rawLen {
		err = fmt.Errorf("a message has %d bytes, not %d", n, rawLen)
	}
	return from, b[0], int(binary.BigEndian.Uint32(b[4:])), err
}

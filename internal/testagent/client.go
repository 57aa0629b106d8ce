package testagent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/softhca/softhca/internal/printable"
)

// DefaultPort is the TCP port on which the program listens by default.
const DefaultPort = 18516

const (
	protocol = 1     // the version of the protocol
	maxLine  = 65536 // bytes of a line, the newline included

	// answerTime is how long a reply may take in addition to the request's own
	// wait. It is long because the peer may be an emulated machine.
	answerTime = 30 * time.Second

	maxWait = time.Minute // the longest wait of a request
)

// Client is a connection to the program. Its calls wait for their replies, one
// at a time; they may come from several goroutines. After an error that is not
// an *Error the connection is of no more use, and every call returns the first
// such error.
type Client struct {
	device Device

	mu     sync.Mutex // guards the fields below, and serializes requests
	conn   net.Conn
	in     *bufio.Reader
	log    io.Writer
	broken error
}

// Dial connects to the program at an address, HOST or HOST:PORT, and asks it
// for its adapter. The program destroys the objects of an earlier controller.
// If log is not nil, every request and reply is written to it, a line each.
func Dial(ctx context.Context, address string, log io.Writer) (*Client, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(strings.Trim(address, "[]"), strconv.Itoa(DefaultPort))
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("test agent: %w; is the test agent running there, and its port reachable?", err)
	}
	c := &Client{conn: conn, in: bufio.NewReaderSize(conn, maxLine), log: log}
	if c.device, err = c.Hello(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the connection; the program destroys every object.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken == nil {
		c.broken = net.ErrClosed
	}
	return c.conn.Close()
}

// Do sends one request and returns its reply. The request may make the program
// wait for as long as wait. A reply that is an error becomes an *Error.
func (c *Client) Do(ctx context.Context, request string, wait time.Duration) (Reply, error) {
	if len(request) >= maxLine || strings.ContainsAny(request, "\n\x00") {
		return Reply{}, fmt.Errorf("test agent: a request of %d bytes, or of several lines, cannot be sent", len(request))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return Reply{}, fmt.Errorf("test agent: the connection ended: %w", c.broken)
	}
	line, err := c.exchange(ctx, request, wait)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		c.broken = err
		_ = c.conn.Close()
		return Reply{}, fmt.Errorf("test agent: %s: %w", command(request), err)
	}
	if c.log != nil {
		_, _ = fmt.Fprintf(c.log, "> %s\n< %s\n", request, line)
	}
	r, err := parseReply(request, line)
	var refused *Error
	if err != nil && !errors.As(err, &refused) {
		c.broken = err
		_ = c.conn.Close()
	}
	return r, err
}

// exchange sends a request and returns the line of the reply, made printable: its names and
// texts come from another host.
func (c *Client) exchange(ctx context.Context, request string, wait time.Duration) (string, error) {
	deadline := time.Now().Add(wait + answerTime)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := c.conn.SetDeadline(deadline); err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(c.conn, request+"\n"); err != nil {
		return "", err
	}
	line, err := c.in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", fmt.Errorf("a reply of more than %d bytes: is this the test agent?", maxLine)
	case err != nil && len(line) > 0:
		return "", fmt.Errorf("the reply ends after %d bytes: %w", len(line), err)
	case err != nil:
		return "", err
	}
	return printable.Line(strings.TrimRight(string(line), "\r\n"), 0), nil
}

// create sends a request that makes an object, and returns its handle.
func (c *Client) create(ctx context.Context, request string) (handle, Reply, error) {
	r, err := c.Do(ctx, request, 0)
	if err != nil {
		return handle{}, r, err
	}
	id, err := r.Uint("id", 32)
	return handle{client: c, id: uint32(id)}, r, err
}

// handle is an object of the program.
type handle struct {
	client *Client
	id     uint32
}

// ID returns the number by which the program knows the object, and Event names
// it.
func (h handle) ID() uint32 { return h.id }

// Destroy ends the object. EBUSY while others need it.
func (h handle) Destroy(ctx context.Context) error {
	_, err := h.client.Do(ctx, fmt.Sprintf("destroy id=%d", h.id), 0)
	return err
}

// waitMS returns a time to wait in milliseconds, as the protocol has it, and as
// a duration, bounded by maxWait.
func waitMS(d time.Duration) (int64, time.Duration) {
	d = min(max(d, 0), maxWait)
	return d.Milliseconds(), d
}

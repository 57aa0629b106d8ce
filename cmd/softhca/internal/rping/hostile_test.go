package rping

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// dial connects an endpoint that a test uses in its own way.
func dial(t *testing.T, from *host) *endpoint {
	t.Helper()
	s := from.side()
	st, err := s.Opener.Client(t.Context(), "", "10.0.0.1", s.Port)
	if err != nil {
		t.Fatal(err)
	}
	e, err := newEndpoint(&printer{out: io.Discard, err: io.Discard}, &s.Options, st, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(e.close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	if err := e.connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestRpingHostileClient has clients that do not keep to the protocol: the
// server ends the connection, and says why.
func TestRpingHostileClient(t *testing.T) {
	for _, c := range []struct {
		what string
		do   func(*endpoint) error
		want string // of the server's error; "" for none
	}{
		{"goes at once", func(*endpoint) error { return nil }, ""},
		{"offers more than there is room for", func(e *endpoint) error {
			return e.say(message{e.start.Addr(), e.start.RKey(), 1 << 31})
		}, "texts have 2147483648 bytes"},
		{"offers what nobody may read", func(e *endpoint) error {
			return e.say(message{e.start.Addr(), e.start.RKey() + 1, 64})
		}, "RDMA READ: REM_ACCESS_ERR"},
		{"offers nothing", func(e *endpoint) error {
			return e.say(message{0, 0, 0})
		}, "nothing happened for too long"},
		{"sends too little", func(e *endpoint) error {
			return e.qp.PostSend(verbs.SendWR{WRID: sendID, Opcode: ib.WRSend, Flags: ib.SendInline, InlineData: make([]byte, messageLen-1)})
		}, "bogus data, size 15"},
		{"sends too much", func(e *endpoint) error {
			return e.qp.PostSend(verbs.SendWR{WRID: sendID, Opcode: ib.WRSend, SGList: []verbs.SGE{e.start.SGE(0, messageLen+1)}})
		}, "receive: LOC_LEN_ERR"},
		{"says nothing", func(*endpoint) error { return nil }, "nothing happened for too long"},
	} {
		at, from := hosts()
		server := at.side()
		if strings.HasPrefix(c.want, "nothing") {
			server.Idle = 50 * time.Millisecond
		}
		done := start(t.Context(), server)
		e := dial(t, from)
		if err := c.do(e); err != nil {
			t.Fatal(err)
		}
		for c.want != "" && e.state != disconnected { // whatever comes before that
			_ = e.Advance(t.Context())
		}
		if err := e.hangUp(t.Context()); err != nil {
			t.Error(err)
		}
		s := <-done
		if (s.err == nil) != (c.want == "") || s.err != nil && !strings.Contains(s.err.Error(), c.want) {
			t.Errorf("a client %s: the server ends with %v, want %q", c.what, s.err, c.want)
		}
	}
}

// TestRpingServerEnds has the server end the connection in the middle of a
// client's pings.
func TestRpingServerEnds(t *testing.T) {
	for _, count := range []int{0, 1 << 30} {
		at, from := hosts()
		ctx, interrupt := context.WithCancel(t.Context())
		done := start(ctx, at.side())
		client := from.side()
		client.Count, client.Verbose = count, true
		client.Host, client.Out, client.Err = "10.0.0.1", writer(func([]byte) { interrupt() }), io.Discard
		err := client.Client(t.Context())
		if count == 0 && err != nil || count > 0 && !errors.Is(err, errDisconnected) {
			t.Errorf("a client of %d pings ends with %v", count, err)
		}
		if s := <-done; !errors.Is(s.err, context.Canceled) {
			t.Errorf("the server ends with %v", s.err)
		}
	}
}

// TestRpingServerTakesLess has the server end the connection, as its texts are
// shorter: the client says that it may be so.
func TestRpingServerTakesLess(t *testing.T) {
	at, from := hosts()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	done := start(ctx, at.side())
	client := from.side()
	client.Host, client.Count, client.Size = "10.0.0.1", 1, 3000
	client.Out, client.Err = io.Discard, io.Discard
	err := client.Client(t.Context())
	if !errors.Is(err, errDisconnected) || !strings.Contains(err.Error(), "after 0 of 1 ping: ") || !strings.Contains(err.Error(), "if its own -S is below 3000") {
		t.Errorf("the client ends with %v", err)
	}
	<-done
}

// writer calls itself with what is written.
type writer func([]byte)

func (w writer) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}

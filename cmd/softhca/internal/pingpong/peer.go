package pingpong

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/softhca/softhca/internal/printable"
)

// The messages of the sides in addition to those of the Linux programs, which close the
// connection after the exchange of addresses. Linux's server takes all bytes that arrive
// together with the client's last message for a part of it, so the client says hello
// only to a server that has said it.
const (
	hello    = "softhca" // this side will report its outcome
	finished = "finished"
	failed   = "error" // followed by a colon, a blank and the reason
)

// maxWords is the maximum length of a peer's messages.
const maxWords = 4096

// say writes a line. It ignores write errors.
func say(conn net.Conn, line string) { _, _ = io.WriteString(conn, line+"\n") }

// tell sends the outcome of this side to the peer.
func tell(conn net.Conn, err error) {
	line := finished
	if err != nil {
		line = failed + ": " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	say(conn, line)
}

// watch returns a context that ends when the peer ends early, with the reason as its
// cause. The caller calls cancel.
func watch(ctx context.Context, conn net.Conn, client bool) (_ context.Context, cancel context.CancelFunc) {
	if !client {
		say(conn, hello)
	}
	ctx, end := context.WithCancelCause(ctx)
	go listen(conn, client, end)
	return ctx, func() { end(nil) }
}

// listen reads the peer's messages to their end. A peer that closes the connection
// without hello is a Linux program.
func listen(conn net.Conn, client bool, end context.CancelCauseFunc) {
	r := bufio.NewReaderSize(conn, maxWords)
	line, err := r.ReadSlice('\n')
	if err != nil {
		return
	}
	if string(line) == hello+"\n" {
		if client {
			say(conn, hello)
		}
		line, err = r.ReadSlice('\n')
	}
	switch word, why, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), ": "); {
	case word == failed:
		end(peerFailed(why))
	case err != nil:
		end(fmt.Errorf("the peer is gone: %w", err))
	}
}

// errPeer means that the peer reports a failure.
var errPeer = errors.New("the peer has failed")

// peerFailed returns an error with the reason of a peer.
func peerFailed(why string) error {
	return fmt.Errorf(`%w: "%s"`, errPeer, printable.Line(why, printable.Limit))
}

// read fills b with data of the peer during the exchange. It returns an error if the
// peer reports a failure.
func read(r io.Reader, b []byte) error {
	if _, err := io.ReadFull(r, b[:len(failed)]); err != nil {
		return closed(err)
	}
	if string(b[:len(failed)]) == failed {
		why, err := io.ReadAll(io.LimitReader(r, maxWords)) // it closes the connection then
		return errors.Join(peerFailed(strings.Trim(string(why), ": \n")), err)
	}
	_, err := io.ReadFull(r, b[len(failed):])
	return closed(err)
}

// closed returns the error of a read in the user's words.
func closed(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the peer closed the connection")
	}
	return err
}

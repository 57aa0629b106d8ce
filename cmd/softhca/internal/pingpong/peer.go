package pingpong

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

// What the sides say beyond what the Linux programs do: those close the
// connection once the addresses are exchanged. Linux's server takes all that comes
// in one piece with the client's last word for a part of it, so the client says
// hello only to a server that has.
const (
	hello    = "softhca" // this side will say how it ends
	finished = "finished"
	failed   = "error" // and after it a colon, a blank and why
)

// maxWords bounds what a peer says.
const maxWords = 4096

// say writes a line. A peer that does not listen any more is not told.
func say(conn net.Conn, line string) { _, _ = io.WriteString(conn, line+"\n") }

// tell tells the peer how this side ended.
func tell(conn net.Conn, err error) {
	line := finished
	if err != nil {
		line = failed + ": " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	say(conn, line)
}

// watch returns a context that ends when the peer ends before its time. The cause
// is why. The caller calls cancel.
func watch(ctx context.Context, conn net.Conn, client bool) (_ context.Context, cancel context.CancelFunc) {
	if !client {
		say(conn, hello)
	}
	ctx, end := context.WithCancelCause(ctx)
	go listen(conn, client, end)
	return ctx, func() { end(nil) }
}

// listen returns when nothing more can be learnt. A peer that goes without hello
// is a program of Linux.
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

// peerFailed returns what a peer says went wrong there as an error.
func peerFailed(why string) error { return fmt.Errorf("the peer has failed: %q", why) }

// read fills b with what the peer sends during the exchange, unless that says
// that it has failed.
func read(r io.Reader, b []byte) error {
	if _, err := io.ReadFull(r, b[:len(failed)]); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("the peer closed the connection")
		}
		return err
	}
	if string(b[:len(failed)]) == failed {
		why, err := io.ReadAll(io.LimitReader(r, maxWords)) // it closes the connection then
		return errors.Join(peerFailed(strings.Trim(string(why), ": \n")), err)
	}
	_, err := io.ReadFull(r, b[len(failed):])
	return err
}

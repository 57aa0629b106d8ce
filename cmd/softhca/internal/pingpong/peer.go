package pingpong

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

// What the sides say beyond what the Linux programs do: those close the
// connection once the addresses are exchanged, and read no more.
const (
	hello    = "softhca" // this side will say how it ends
	finished = "finished"
	failed   = "error" // and after it a colon, a blank and why
)

// maxWords bounds what a peer says.
const maxWords = 4096

// peer is the other side, as far as it speaks over the TCP connection.
type peer struct {
	conn  net.Conn
	ended chan struct{} // is closed when it ends before its time
	err   error         // why it did, once that is so
}

// watch says hello and begins to listen to how the peer ends.
func watch(conn net.Conn) *peer {
	p := &peer{conn: conn, ended: make(chan struct{})}
	p.say(hello)
	go p.listen()
	return p
}

// listen returns when nothing more can be learnt. A peer that does not say hello
// is a program of Linux.
func (p *peer) listen() {
	r := bufio.NewReaderSize(p.conn, maxWords)
	line, err := r.ReadSlice('\n')
	if err == nil && string(line) == hello+"\n" {
		line, err = r.ReadSlice('\n')
		switch word, why, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), ": "); {
		case word == failed:
			p.err = peerFailed(why)
		case err != nil:
			p.err = fmt.Errorf("the peer is gone: %w", err)
		default: // it has finished
			return
		}
		close(p.ended)
	}
}

// say writes a line. A peer that does not listen any more is not told.
func (p *peer) say(line string) { _, _ = io.WriteString(p.conn, line+"\n") }

// tell tells the peer how this side ended.
func (p *peer) tell(err error) {
	if err == nil {
		p.say(finished)
		return
	}
	p.say(failed + ": " + strings.ReplaceAll(err.Error(), "\n", "; "))
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

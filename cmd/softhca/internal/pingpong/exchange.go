package pingpong

import (
	"fmt"
	"io"
)

// done is what the client says when it has read the server's addresses.
const done = "done\x00"

// srqDests is how many ends the SRQ programs tell each other, however many
// queue pairs they have: the rest are zero.
const srqDests = 256

// dests returns how many ends each side tells the other.
func (o *Options) dests() int {
	if o.Kind == SRQ {
		return srqDests
	}
	return 1
}

// clientExchange sends the client's ends and reads as many of the server's,
// whose queue pairs are then in RTS.
func clientExchange(conn io.ReadWriter, mine []dest) ([]dest, error) {
	if err := sendDests(conn, mine); err != nil {
		return nil, err
	}
	theirs, err := readDests(conn, len(mine))
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, done); err != nil {
		return nil, fmt.Errorf("tell the server that its address arrived: %w", err)
	}
	return theirs, nil
}

// serverExchange reads the client's ends, lets connect bring the queue pairs
// to RTS, and answers with the server's ends.
func serverExchange(conn io.ReadWriter, mine []dest, connect func([]dest) error) ([]dest, error) {
	theirs, err := readDests(conn, len(mine))
	if err != nil {
		return nil, err
	}
	if err := connect(theirs); err != nil {
		return nil, err
	}
	if err := sendDests(conn, mine); err != nil {
		return nil, err
	}
	var last [len(done)]byte
	if err := read(conn, last[:]); err != nil {
		return nil, fmt.Errorf("wait for the client: %w", err)
	}
	return theirs, nil
}

// sendDests writes each end with one call: the Linux programs read each with
// one.
func sendDests(w io.Writer, ends []dest) error {
	for i := range ends {
		msg := ends[i].encode()
		if _, err := w.Write(msg[:]); err != nil {
			return fmt.Errorf("send local address: %w", err)
		}
	}
	return nil
}

func readDests(r io.Reader, n int) ([]dest, error) {
	ends := make([]dest, n)
	for i := range ends {
		var msg [destLen]byte
		err := read(r, msg[:])
		if err == nil {
			ends[i], err = parseDest(&msg)
		}
		if err != nil {
			return nil, fmt.Errorf("read remote address %d of %d: %w", i+1, n, err)
		}
	}
	return ends, nil
}

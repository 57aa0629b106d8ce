package pingpong

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"

	"github.com/softhca/softhca/ib"
)

// dest is one end of a connection in the exchange of the programs.
type dest struct {
	lid uint16 // 0 on RoCE
	qpn ib.QPN // or the number of an EE context
	psn ib.PSN
	gid ib.GID
}

// destLen is the size of a dest on the TCP connection: hexadecimal LID, QPN,
// PSN and GID between colons, and a NUL.
const destLen = 4 + 1 + 6 + 1 + 6 + 1 + 32 + 1

// encode returns the bytes that the peer reads.
func (d *dest) encode() [destLen]byte {
	var b [destLen]byte
	copy(b[:], fmt.Sprintf("%04x:%06x:%06x:%s", d.lid, uint32(d.qpn), d.psn.Value(), hex.EncodeToString(d.gid[:])))
	return b
}

// parseDest parses the bytes of a peer.
func parseDest(b *[destLen]byte) (dest, error) {
	var d dest
	text, _, ended := bytes.Cut(b[:], []byte{0})
	part := strings.Split(string(text), ":")
	if !ended || len(part) != 4 {
		return d, fmt.Errorf("the peer's address %q is not LID:QPN:PSN:GID", b[:])
	}
	lid, lidErr := strconv.ParseUint(part[0], 16, 16)
	qpn, qpnErr := strconv.ParseUint(part[1], 16, 24)
	psn, psnErr := strconv.ParseUint(part[2], 16, 24)
	gid, gidErr := hex.DecodeString(part[3])
	if lidErr != nil || qpnErr != nil || psnErr != nil || gidErr != nil || len(gid) != len(d.gid) {
		return d, fmt.Errorf("the peer's address %q has a wrong number", text)
	}
	return dest{uint16(lid), ib.QPN(qpn), ib.NewPSN(uint32(psn)), ib.GID(gid)}, nil
}

// String returns the line that the programs print.
func (d *dest) String() string { return d.text("QPN") }

// text is like String, with another name for the number.
func (d *dest) text(number string) string {
	return fmt.Sprintf("LID 0x%04x, %s 0x%06x, PSN %v, GID %v", d.lid, number, uint32(d.qpn), d.psn, netip.AddrFrom16(d.gid))
}

// done is the client's message after it has read the server's addresses.
const done = "done\x00"

// srqDests is the number of ends that the SRQ programs exchange, for any number of queue
// pairs: the rest are zero.
const srqDests = 256

// dests returns the number of ends that each side sends.
func (o *Options) dests() int {
	switch o.Kind {
	case SRQ:
		return srqDests
	case RD:
		return 2 // the EE context after the queue pair
	default:
		return 1
	}
}

// clientExchange sends the client's ends and reads the server's. Then the server's queue
// pairs are in RTS.
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

// serverExchange reads the client's ends, calls connect, which moves the queue pairs to
// RTS, and answers with the server's ends.
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
	if string(last[:]) != done {
		return nil, fmt.Errorf("the client says %q after its address, not %q: do both sides have the same --type?", last[:], done)
	}
	return theirs, nil
}

// sendDests writes each end with a separate call, because the Linux programs read each
// end with a separate call.
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

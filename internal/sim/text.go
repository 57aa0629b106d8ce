package sim

import (
	"bytes"
	"encoding/binary"

	"github.com/softhca/softhca/ib"
)

// text holds the bytes from which all messages are taken, and the UC and UD messages sent so
// far, by their position in it.
type text struct {
	bytes []byte
	loose map[uint32]message
}

// patternWords is the size of the text in words of 8 bytes. Each word encodes its position, so
// the first bytes identify a UC or UD message.
const patternWords = 1 << 17

// spread maps positions to distinct bytes; unspread is its inverse modulo 2^64.
const (
	spread   = 0x9e3779b97f4a7c15
	unspread = 0xf1de83e19937733d
)

// newText returns the text, followed by its beginning again.
func newText(slot int) text {
	b := make([]byte, 8*patternWords+slot+8)
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], (uint64(i/8)%patternWords+1)*spread)
	}
	return text{b, make(map[uint32]message)}
}

// pattern returns n bytes of the text. The same at gives the same bytes.
func (t *text) pattern(at uint64, n int) []byte {
	off := int(at % patternWords * 8)
	return t.bytes[off : off+n : off+n]
}

// message describes a UC or UD message, which may arrive any number of times.
// It outlives the queue pairs and does not refer to them.
type message struct {
	code ib.WROpcode
	data []byte
	imm  uint32
	at   *node  // to which it was sent,
	to   ib.QPN // and there
	from ib.QPN

	solicited bool
}

// sent remembers a message to an end.
func (t *text) sent(o *op, to *end) {
	t.loose[uint32(o.id%patternWords)] = message{o.code, o.data, o.imm, to.node, to.num, o.end.num, o.solicits()}
}

// lookup returns the message of UC or UD that b is, if it is one.
func (t *text) lookup(b []byte, n int) (m message, ok bool) {
	if at := binary.LittleEndian.Uint64(b)*unspread - 1; at < patternWords {
		m, ok = t.loose[uint32(at)]
	}
	return m, ok && n == len(m.data) && bytes.Equal(b[:n], m.data)
}

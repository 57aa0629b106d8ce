package capture

import (
	"bytes"

	"github.com/softhca/softhca/internal/fabric"
)

// maxNotes is how many packets with a comment are waited for. A packet that is
// never recorded makes room for another.
const maxNotes = 64

// note is a comment for a packet that is about to be recorded.
type note struct {
	packet []byte
	text   string
}

// Note has the record of a packet say something: of the next with these bytes,
// from the BTH on, that the port sends or receives. It copies b. It is for ports that
// are wrapped, which call it from within their own Send or Receive.
func (p *Port) Note(b []byte, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.notes) >= maxNotes {
		p.notes = p.notes[:copy(p.notes, p.notes[1:])]
	}
	p.notes = append(p.notes, note{bytes.Clone(b), text})
}

// Arrived records a packet that Receive will not return as it is, with a comment: in
// its place, behind so many that Receive has still to return. It is for ports that are
// wrapped, which call it from within Receive; d is the caller's again when it returns.
func (p *Port) Arrived(d *fabric.Datagram, text string, before int) {
	p.gone.datagram(d)
	p.places = append(p.places, before)
	p.Note(d.Bytes, text)
}

// comments takes the comments for a frame out of those that wait. The mutex is
// held.
func (p *Port) comments(frame []byte) (texts []string) {
	kept := p.notes[:0]
	for _, n := range p.notes {
		if bytes.HasSuffix(frame, n.packet) {
			texts = append(texts, n.text)
			continue
		}
		kept = append(kept, n)
	}
	clear(p.notes[len(kept):])
	p.notes = kept
	return texts
}

package capture

import (
	"bytes"

	"github.com/softhca/softhca/internal/fabric"
)

// maxNotes bounds the pending comments. A new one replaces the comment of a
// packet that was never recorded.
const maxNotes = 64

// note is a comment for a packet that is about to be recorded.
type note struct {
	packet []byte
	text   string
}

// Note adds a comment to the record of the next sent or received packet with bytes b,
// from the BTH on. It copies b. Wrapped ports call it from their own Send or Receive.
func (p *Port) Note(b []byte, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.notes) >= maxNotes {
		p.notes = p.notes[:copy(p.notes, p.notes[1:])]
	}
	p.notes = append(p.notes, note{bytes.Clone(b), text})
}

// Arrived records, with a comment, a packet that Receive will not return unchanged.
// before is the number of packets that Receive still returns before it, which
// determines its place in the file. Wrapped ports call it from Receive. It does not
// retain d.
func (p *Port) Arrived(d *fabric.Datagram, text string, before int) {
	p.gone.datagram(d)
	p.places = append(p.places, before)
	p.Note(d.Bytes, text)
}

// comments removes and returns the pending comments for a frame. The mutex is
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

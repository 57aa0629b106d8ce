package pcapfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// Item is a packet or an entry, whichever is not nil.
type Item struct {
	Packet *Packet
	Entry  *Entry
	Source int // which of joined captures it comes from, from 0
}

// at returns when it was captured or written.
func (i *Item) at() time.Time {
	if i.Packet != nil {
		return i.Packet.Time
	}
	return i.Entry.Time
}

// correct corrects when it was captured or written.
func (i *Item) correct(clock func(time.Time) time.Time) {
	if i.Packet != nil {
		i.Packet.Time = clock(i.Packet.Time)
		return
	}
	i.Entry.Time = clock(i.Entry.Time)
}

// setRecord sets the number of its record.
func (i *Item) setRecord(n int) {
	if i.Packet != nil {
		i.Packet.Record = n
		return
	}
	i.Entry.Record = n
}

// Size returns about how many bytes of memory the item takes.
func (i *Item) Size() int {
	const fixed = 256 // the structures themselves
	if i.Packet != nil {
		return fixed + len(i.Packet.IP) + len(i.Packet.UDP) + len(i.Packet.Payload) + len(i.Packet.Comment)
	}
	n := fixed + len(i.Entry.Message)
	for _, f := range i.Entry.Fields {
		n += fixed/4 + len(f.Name) + len(f.Value)
	}
	return n
}

// Clone returns a copy that owns its memory.
func (i Item) Clone() Item {
	if i.Packet != nil {
		i.Packet = i.Packet.clone()
	}
	return i
}

// clone returns a copy that owns its memory.
func (p *Packet) clone() *Packet {
	c := *p
	all := bytes.Join([][]byte{p.IP, p.UDP, p.Payload}, nil)
	c.IP, all = cut(all, len(p.IP))
	c.UDP, c.Payload = cut(all, len(p.UDP))
	return &c
}

func cut(b []byte, n int) (first, rest []byte) { return b[:n:n], b[n:] }

// Source is a capture that may still be growing.
type Source interface {
	// Head returns the next item, which owns its memory, without removing it. wait: there is none yet. It
	// returns io.EOF at the end, and other errors if the capture is damaged.
	Head() (i Item, wait bool, err error)
	// Pop removes the item that Head has returned.
	Pop()
}

// Join merges captures of several places in the order of time: those of both ends of a connection, or of
// several adapters. The order within each is kept. It is not safe for concurrent use.
type Join struct {
	sources []Source
	left    []int // indexes of the sources that have not ended
	records int
}

// NewJoin returns a Join of some captures. Add adds more.
func NewJoin(sources ...Source) *Join {
	j := new(Join)
	for _, s := range sources {
		j.Add(s)
	}
	return j
}

// Add adds a capture.
func (j *Join) Add(s Source) {
	j.left = append(j.left, len(j.sources))
	j.sources = append(j.sources, s)
}

// ErrWait is the error of Join.Next if a source has no item yet.
var ErrWait = errors.New("pcapfile: wait for another capture")

// Next returns the earliest item of all captures, and numbers its record. If a capture has none yet, it
// returns ErrWait, unless at once is true: then the item may turn out not to be the earliest. At the end of
// all it returns io.EOF. If a capture is damaged, it returns the error once, and goes on with the others.
func (j *Join) Next(atOnce bool) (Item, error) {
	best, first, waits := -1, Item{}, false
	for k := 0; k < len(j.left); {
		n := j.left[k]
		i, wait, err := j.sources[n].Head()
		if err != nil {
			j.left = slices.Delete(j.left, k, k+1)
			if !errors.Is(err, io.EOF) {
				return Item{}, err
			}
			continue
		}
		waits = waits || wait
		if !wait && (best < 0 || i.at().Before(first.at())) {
			best, first = n, i
		}
		k++
	}
	switch {
	case waits && (best < 0 || !atOnce):
		return Item{}, ErrWait
	case best < 0:
		return Item{}, io.EOF
	}
	j.sources[best].Pop()
	j.records++
	first.Source = best
	first.setRecord(j.records)
	return first, nil
}

// Over reports whether all captures have ended, and Next has returned all of their items.
func (j *Join) Over() bool {
	return !slices.ContainsFunc(j.left, func(n int) bool {
		_, _, err := j.sources[n].Head()
		return err == nil
	})
}

// Records returns how many items Next has returned.
func (j *Join) Records() int { return j.records }

// Whole is the Source of a capture that no longer grows.
type Whole struct {
	name  string
	r     *Reader
	head  Item
	have  bool
	clock func(time.Time) time.Time // nil if times need no correction
}

var _ Source = (*Whole)(nil)

// NewWhole returns a Source of a capture. Its errors begin with the name, if that is not empty.
func NewWhole(name string, r *Reader) *Whole { return &Whole{name: name, r: r} }

// Correct makes clock correct the time of each item.
func (w *Whole) Correct(clock func(time.Time) time.Time) { w.clock = clock }

// Head implements Source.
func (w *Whole) Head() (Item, bool, error) {
	if !w.have {
		i, err := w.r.NextItem()
		if err != nil && !errors.Is(err, io.EOF) && w.name != "" {
			err = fmt.Errorf("%s: %w", w.name, err)
		}
		if err != nil {
			return i, false, err
		}
		w.head, w.have = i.Clone(), true
		if w.clock != nil {
			w.head.correct(w.clock)
		}
	}
	return w.head, false, nil
}

// Pop implements Source.
func (w *Whole) Pop() { w.have = false }

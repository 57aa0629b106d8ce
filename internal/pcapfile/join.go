package pcapfile

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"time"
)

// Item is a packet or an entry, whichever is not nil. It owns its memory.
type Item struct {
	Packet *Packet
	Entry  *Entry
	Source int // which of the joined captures it comes from, from 0
}

// time returns when it was captured or written.
func (i *Item) time() time.Time {
	if i.Packet != nil {
		return i.Packet.Time
	}
	return i.Entry.Time
}

// number sets the number of its record.
func (i *Item) number(record int) {
	if i.Packet != nil {
		i.Packet.Record = record
		return
	}
	i.Entry.Record = record
}

// Items reads a capture item by item.
type Items struct {
	r     *Reader
	queue []Item // entries before the packet at the end
}

// NewItems reads the head of a capture, with the errors of NewReader.
func NewItems(r io.Reader) (*Items, error) {
	file, err := NewReader(r)
	if err != nil {
		return nil, err
	}
	s := &Items{r: file}
	file.Hear = func(e *Entry) {
		if len(s.queue) < maxQueue {
			s.queue = append(s.queue, Item{Entry: e})
		}
	}
	return s, nil
}

// maxQueue bounds the entries between two packets. Further ones are left out.
const maxQueue = 4096

// Next returns the next item, or an error as Reader.Next does.
func (s *Items) Next() (Item, error) {
	if len(s.queue) == 0 {
		p, err := s.r.Next()
		if err == nil {
			s.queue = append(s.queue, Item{Packet: p.clone()})
		}
		if len(s.queue) == 0 {
			return Item{}, err
		}
	}
	i := s.queue[0]
	s.queue = s.queue[1:]
	return i, nil
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
	// Head returns the next item without removing it. wait: there is none yet. It returns io.EOF at
	// the end, and other errors if the capture is damaged.
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

// Next returns the earliest item of all captures, and numbers its record. Until all have one, it returns
// ErrWait, unless the earliest is from before since, so that a capture without packets does not hold up the
// others. At the end of all it returns io.EOF. If a capture is damaged, it returns the error once, and goes
// on with the others.
func (j *Join) Next(since time.Time) (Item, error) {
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
		if !wait && (best < 0 || i.time().Before(first.time())) {
			best, first = n, i
		}
		k++
	}
	switch {
	case best >= 0 && (!waits || first.time().Before(since)):
	case waits:
		return Item{}, ErrWait
	default:
		return Item{}, io.EOF
	}
	j.sources[best].Pop()
	j.records++
	first.Source = best
	first.number(j.records)
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
	items *Items
	head  Item
	have  bool
}

var _ Source = (*Whole)(nil)

// NewWhole returns a Source of a capture.
func NewWhole(s *Items) *Whole { return &Whole{items: s} }

// Head implements Source.
func (w *Whole) Head() (Item, bool, error) {
	if !w.have {
		i, err := w.items.Next()
		if err != nil {
			return i, false, err
		}
		w.head, w.have = i, true
	}
	return w.head, false, nil
}

// Pop implements Source.
func (w *Whole) Pop() { w.have = false }

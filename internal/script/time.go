package script

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/qp"
)

// maxPass bounds how far one command lets time go, and how often a timer may
// fire in it.
const (
	maxPass  = 1000 * time.Hour
	maxFires = 100_000
)

// pass lets time go by: +DURATION, or +next to the next deadline. Timers fire
// meanwhile, each at its time.
func (w *world) pass(s string, a *args) error {
	w.flush()
	began, next := w.now, w.HCA.Single().Deadline()
	end := next
	if s != "next" {
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 || d > maxPass {
			return fmt.Errorf("want + and a duration such as 5ms, or +next")
		}
		end = w.now.Add(d)
	} else if next == clock.Never {
		return fmt.Errorf("no timer runs")
	}
	for fired := 0; next <= end; fired++ {
		if fired == maxFires {
			return fmt.Errorf("timers fired %d times", fired)
		}
		w.now = max(w.now, next)
		w.HCA.Single().Advance(w.now)
		w.settle()
		w.flush()
		if next = w.HCA.Single().Deadline(); next <= w.now && w.blocked {
			break
		}
	}
	w.rec.did("+", Pass{end.Sub(began)})
	w.now = end
	return a.done()
}

// deadline shows when the next timer of a queue pair fires: deadline QP.
func (w *world) deadline(q *pair, a *args) error {
	w.flush()
	if d := q.end().Deadline(); d != clock.Never {
		w.say("deadline of %s in %v", q.name, d.Sub(w.now))
	} else {
		w.say("no timer of %s runs", q.name)
	}
	return nil
}

// net blocks the network, so that nothing is transmitted, or opens it again:
// net blocked|open.
func (w *world) net(a *args) error {
	switch s := a.word("blocked or open"); s {
	case "blocked":
		w.flush()
		w.blocked = true
	case "open":
		w.blocked = false
	default:
		return cmp.Or(a.err, fmt.Errorf("want blocked or open, not %q", s))
	}
	return nil
}

// address removes a local address from the port, or restores it: address IP
// lost|back.
func (w *world) address(a *args) error {
	s := a.word("an address")
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return cmp.Or(a.err, err)
	}
	what := a.word("lost or back")
	if what != "lost" && what != "back" {
		return cmp.Or(a.err, fmt.Errorf("want lost or back, not %q", what))
	}
	w.HCA.Single().AddressLost(w.now, addr, what == "lost")
	return nil
}

// rate limits what a queue pair sends: rate QP KBPS [burst=N].
func (w *world) rate(q *pair, a *args) error {
	kbps, err := parseNumber(a.word("kilobits per second"))
	if err != nil || kbps>>32 != 0 {
		return cmp.Or(a.err, fmt.Errorf("want kilobits per second: %w", err))
	}
	return w.outcome(q.SetRateLimit(qp.RateLimit{Rate: uint32(kbps), Burst: uint32(a.small("burst", 0, 32))}))
}

// showTotals shows counters since the adapter was made: counters NAME...
func (w *world) showTotals(a *args) error {
	w.flush()
	c := w.HCA.Counters()
	c.Each(func(name string, v uint64) {
		if a.flag(name) {
			w.say("%s %d", name, v)
		}
	})
	return nil
}

// setBatch changes the size of the transmit batch: batch BYTES.
func (w *world) setBatch(a *args) error {
	n, err := parseWord(a, "a number of bytes")
	if err != nil {
		return err
	}
	if n < minBatch || n > maxBytes {
		return fmt.Errorf("a batch has %d to %d bytes", minBatch, maxBytes)
	}
	w.Batch = fabric.NewBatch(int(n), w.caps)
	return nil
}

// transmit sends one batch although the network is blocked.
func transmit(w *world, _ *args) error {
	w.transmitOnce()
	return nil
}

// fill writes into a region as its program would: fill ADDR DATA.
func (w *world) fill(a *args) error {
	m, off, err := w.place(a)
	if err != nil {
		return err
	}
	b, err := parseData(a.word("data"))
	if err = cmp.Or(a.err, err); err != nil {
		return err
	}
	if off+len(b) > len(m.buf) {
		return fmt.Errorf("%d bytes at %d do not fit the %d of %s", len(b), off, len(m.buf), m.name)
	}
	w.rec.did("fill", Fill{m.name, off, b})
	w.showMemory()
	copy(m.buf[off:], b)
	if m.last != nil {
		copy(m.last[off:], b)
	}
	return nil
}

// dump shows bytes of a region: dump ADDR [LEN].
func (w *world) dump(a *args) error {
	m, off, err := w.place(a)
	if err != nil {
		return err
	}
	b := m.buf[off:]
	if len(a.words) > 0 {
		n, err := parseWord(a, "a length")
		if err != nil {
			return err
		}
		b = b[:min(n, uint64(len(b)))]
	}
	w.say("%s+%d: %s", m.name, off, ShowData(b))
	return nil
}

// place takes NAME or NAME+OFFSET.
func (r *registry) place(a *args) (*region, int, error) {
	e, err := r.element(a.word("a region") + ":0")
	if err = cmp.Or(a.err, err); err != nil {
		return nil, 0, err
	}
	for _, m := range r.mrs {
		if m.mr.LKey() == e.LKey && e.Addr-m.mr.Addr() <= uint64(len(m.buf)) {
			return m, int(e.Addr - m.mr.Addr()), nil
		}
	}
	return nil, 0, fmt.Errorf("the address is in no region")
}

// writeBack shows that memory is to be written back to storage.
func (w *world) writeBack(job qp.WriteBack) {
	w.writing = append(w.writing, job)
	where := "memory"
	for _, m := range w.mrs {
		for off := range m.buf {
			if &m.buf[off] == &job.Mem[0] {
				where = fmt.Sprintf("%s+%d", m.name, off)
			}
		}
	}
	w.say("write back %s %d", where, len(job.Mem))
}

// written ends the oldest write back: written [failed].
func (w *world) written(a *args) error {
	failed := a.flag("failed")
	if len(w.writing) == 0 {
		return errors.New("nothing is being written back")
	}
	job := w.writing[0]
	w.writing = w.writing[1:]
	w.HCA.WrittenBack(w.now, job, !failed)
	return nil
}

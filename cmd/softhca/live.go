package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/softhca/softhca/internal/explain"
)

// liveBlocks is how many blocks of packets may wait to be explained; an adapter
// that is faster waits.
const liveBlocks = 64

const (
	// maxNews is how often connections are told of while packets pass; of the others
	// the report in the end tells.
	maxNews = 100
	// idle is how often the time is looked at while no packet passes.
	idle = 500 * time.Millisecond
)

// newsroom tells of connections when they fail, and when a message of theirs has to be
// repeated. It is safe for concurrent use.
type newsroom struct {
	w io.Writer

	mu sync.Mutex // guards what follows
	n  int        // that were told of
}

// tell tells of one.
func (d *newsroom) tell(n explain.News) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.n++; d.n > maxNews {
		if d.n == maxNews+1 {
			say(d.w, "softhca: there is more; the report in the end tells of it")
		}
		return
	}
	more := []string{n.Headline}
	for _, part := range [...]struct{ name, text string }{{"the requester sees ", n.Requester}, {"the responder sees ", n.Responder}, {"", n.Fault}, {"see ", n.Page}} {
		if part.text != "" {
			more = append(more, part.name+part.text)
		}
	}
	say(d.w, "softhca: %v: %s\n  %s", n.Turn, n.Where, strings.Join(more, "; "))
}

// live explains the packets of an adapter while they pass: it is what the adapter
// writes its capture to.
type live struct {
	blocks   chan []byte
	rest     []byte // of the block that is being read
	report   chan *explain.Report
	follower *explain.Follower
}

// explainLive returns a live that follows what is written to it, and has told tell of
// connections that fail.
func explainLive(told *newsroom) *live {
	l := &live{blocks: make(chan []byte, liveBlocks), report: make(chan *explain.Report, 1), follower: explain.New(explain.Config{Tell: told.tell})}
	go func() {
		r, _ := l.follower.Read(blockReader{l})    // what is damaged is the adapter's last, half of a packet
		_, _ = io.Copy(io.Discard, blockReader{l}) // so that the adapter never waits for nobody
		l.report <- r
	}()
	return l
}

// Write implements io.Writer.
func (l *live) Write(b []byte) (int, error) {
	l.blocks <- append([]byte(nil), b...)
	return len(b), nil
}

// end ends the capture and returns what was found, nil if it was none. It is called
// once.
func (l *live) end() *explain.Report {
	close(l.blocks)
	return <-l.report
}

// tellLive writes a report for people.
func tellLive(w io.Writer, r *explain.Report) error {
	if r == nil {
		return errors.New("explain: the packets could not be followed")
	}
	if err := r.Text(w, explain.TextOptions{Colors: colored(w)}); err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	return nil
}

// blockReader reads what was written to a live.
type blockReader struct{ *live }

// Read implements io.Reader.
func (r blockReader) Read(b []byte) (int, error) {
	for len(r.rest) == 0 {
		block, ok := r.next()
		if !ok {
			return 0, io.EOF
		}
		r.rest = block
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// next waits for a block, and tells the follower the time meanwhile.
func (r blockReader) next() (block []byte, ok bool) {
	tick := time.NewTicker(idle)
	defer tick.Stop()
	for {
		select {
		case block, ok = <-r.blocks:
			return block, ok
		case now := <-tick.C:
			r.follower.Idle(now)
		}
	}
}

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/internal/explain"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/verbs"
)

// liveBlocks is the maximum number of blocks of packets that wait to be explained.
// When the queue is full, the adapter waits.
const liveBlocks = 64

const (
	// maxNews is the maximum number of reports about connections while packets pass.
	// The final report has the others.
	maxNews = 100
	// idle is the interval of clock checks while no packet passes.
	idle = 500 * time.Millisecond
)

// newsroom reports connections when they fail, and when one of their messages has to be
// repeated. It is safe for concurrent use.
type newsroom struct {
	w io.Writer

	mu sync.Mutex // guards n
	n  int        // reports so far
}

// tell prints one report.
func (d *newsroom) tell(n explain.News) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.n++; d.n > maxNews {
		if d.n == maxNews+1 {
			say(d.w, "softhca: no more reports while packets pass; the report at the end has all")
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

// countPairs counts the pairs of processes that share memory, now and then, until the function that it
// returns is called, which returns the maximum.
func countPairs(now func() int) (stop func() int) {
	most, done, ended := now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for each := time.NewTicker(idle); ; {
			select {
			case <-each.C:
				most = max(most, now())
			case <-done:
				each.Stop()
				return
			}
		}
	}()
	return func() int {
		close(done)
		<-ended
		return max(most, now())
	}
}

// live explains the packets of an adapter while they pass. It is the writer of the
// adapter's capture.
type live struct {
	blocks   chan []byte
	rest     []byte // unread rest of the current block
	report   chan *explain.Report
	follower *explain.Follower
}

// explainLive returns a live that follows the packets written to it, and reports
// failing connections to told.
func explainLive(told *newsroom) *live {
	l := &live{blocks: make(chan []byte, liveBlocks), report: make(chan *explain.Report, 1), follower: explain.New(explain.Config{Tell: told.tell})}
	go func() {
		r, _ := l.follower.Read(blockReader{l})    // an error means that the adapter's last packet is cut off
		_, _ = io.Copy(io.Discard, blockReader{l}) // otherwise the adapter would wait forever
		l.report <- r
	}()
	return l
}

// Write implements io.Writer.
func (l *live) Write(b []byte) (int, error) {
	l.blocks <- append([]byte(nil), b...)
	return len(b), nil
}

// end ends the capture and returns the report, or nil if the data was no capture. The
// caller calls it once.
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

// blockReader reads the data written to a live.
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

// next waits for a block, and passes the time to the follower meanwhile.
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

// tellNear reports how many packets of an adapter took shared memory.
func tellNear(w io.Writer, hca *verbs.Context) {
	all, err := hca.Counters()
	if err != nil {
		return // it has failed, and the report says why
	}
	n := uint64(0)
	for _, c := range all {
		if c.Name == fabric.NearSent.String() || c.Name == fabric.NearReceived.String() {
			n += c.Value
		}
	}
	if n > 0 {
		say(w, "%s of adapter %v took shared memory: tcpdump does not see them, unless both programs run with --wire udp or SOFTHCA_WIRE=udp", text.Count(n, "packet", "packets"), hca.QueryGID(0).Addr())
	}
}

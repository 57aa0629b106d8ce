package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/softhca/softhca/internal/explain"
)

// liveBlocks is how many blocks of packets may wait to be explained; an adapter
// that is faster waits.
const liveBlocks = 64

// live explains the packets of an adapter while they pass: it is what the adapter
// writes its capture to.
type live struct {
	blocks chan []byte
	rest   []byte // of the block that is being read
	report chan *explain.Report
}

// explainLive returns a live that follows what is written to it.
func explainLive() *live {
	l := &live{blocks: make(chan []byte, liveBlocks), report: make(chan *explain.Report, 1)}
	go func() {
		r, _ := explain.Read(blockReader{l}, explain.Config{}) // what is damaged is the adapter's last, half of a packet
		_, _ = io.Copy(io.Discard, blockReader{l})             // so that the adapter never waits for nobody
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
	if err := r.Text(w, colored(w)); err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	return nil
}

// blockReader reads what was written to a live.
type blockReader struct{ *live }

// Read implements io.Reader.
func (r blockReader) Read(b []byte) (int, error) {
	for len(r.rest) == 0 {
		block, ok := <-r.blocks
		if !ok {
			return 0, io.EOF
		}
		r.rest = block
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

package demo

import (
	"sync"

	"github.com/softhca/softhca/verbs"
)

// maxRecords bounds what a recorder keeps between two calls of take.
const maxRecords = 1024

// recorder keeps what an adapter does, to be shown.
type recorder struct {
	mu      sync.Mutex // guards what follows
	records []verbs.TraceRecord
	off     bool
}

// add is the adapter's Trace: it copies r and does not block.
func (r *recorder) add(rec *verbs.TraceRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.off && len(r.records) < maxRecords {
		r.records = append(r.records, *rec)
	}
}

// take returns what was recorded since the last call.
func (r *recorder) take() []verbs.TraceRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.records
	r.records = nil
	return taken
}

// stop ends recording, resume begins it again.
func (r *recorder) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.off, r.records = true, nil
}

func (r *recorder) resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.off, r.records = false, nil
}

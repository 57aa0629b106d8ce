package captures_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/internal/pcapfile/captures"
)

const rping = "../../testdata/captures/cm_rping.pcap"

// recorder is a test that ends.
type recorder struct{ ended bool }

func (r *recorder) Helper() {}

func (r *recorder) Errorf(string, ...any) {}

func (r *recorder) Fatal(...any) {
	r.ended = true
	runtime.Goexit()
}

// TestEach counts the packets of a whole file and of one that was cut, and looks for one that is
// not there.
func TestEach(t *testing.T) {
	whole, err := os.ReadFile(rping)
	must.Do(t, err)
	cut := filepath.Join(t.TempDir(), "cut.pcap")
	must.Do(t, os.WriteFile(cut, whole[:len(whole)-1], 0o644))
	count := func(pattern string) (n int, ended bool) {
		r, done := &recorder{}, make(chan bool)
		go func() {
			defer close(done)
			captures.Each(r, pattern, func(string, *pcapfile.Packet) { n++ })
		}()
		<-done
		return n, r.ended
	}
	all, ended := count(rping)
	if all == 0 || ended {
		t.Errorf("%d packets, ended %v", all, ended)
	}
	if n, ended := count(cut); n != all-1 || !ended {
		t.Errorf("of a file without its last byte %d packets of %d, ended %v", n, all, ended)
	}
	if n, ended := count(rping + ".gone"); n != 0 || !ended {
		t.Errorf("of no file %d packets, ended %v", n, ended)
	}
}

package page

import (
	"bytes"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/softhca/softhca/internal/explain"
	"github.com/softhca/softhca/internal/must"
)

var seed = flag.Uint64("damage-seed", 1, "of the damaged captures")

// TestDamagedCaptures writes pages of captures with bytes changed and cut out, and
// of few packets around a record: whatever there is makes a page.
func TestDamagedCaptures(t *testing.T) {
	t.Logf("seed %d (-damage-seed)", *seed)
	rnd := rand.New(rand.NewPCG(*seed, 0))
	files, err := filepath.Glob(captures + "*.pcap")
	if err != nil || len(files) < 200 {
		t.Fatalf("%d captures, %v", len(files), err)
	}
	pages := 0
	for range 600 {
		b, err := os.ReadFile(files[rnd.IntN(len(files))])
		must.Do(t, err)
		b = b[:min(len(b), 4000)]
		for range rnd.IntN(30) {
			at := rnd.IntN(len(b))
			if rnd.IntN(4) > 0 {
				b[at] ^= 1 << rnd.IntN(8)
			} else {
				b = append(b[:at:at], b[min(len(b), at+rnd.IntN(20)):]...)
			}
			if len(b) == 0 {
				b = []byte{0}
			}
		}
		r, _ := explain.Read(bytes.NewReader(b), explain.Config{Packets: 1 + rnd.IntN(20), Around: rnd.IntN(30), Messages: 1 + rnd.IntN(3)})
		if r == nil {
			continue
		}
		pages++
		must.Do(t, Write(io.Discard, r, "damaged"))
	}
	if pages < 300 {
		t.Errorf("only %d captures could be read at all", pages)
	}
}

// TestEmptyPage writes the page of a capture without packets, and shows it.
func TestEmptyPage(t *testing.T) {
	r := reported(t, "pp_xsrq_unsupported")
	if len(r.Kept) != 0 {
		t.Fatalf("%d packets are kept", len(r.Kept))
	}
	file := written(t, r, "empty.pcap")
	b := launch(t)
	b.screen(1366, 768, "light")
	b.open(file)
	b.want("#verdict", "EMPTY", "no RoCEv2 packet")
	b.want("#findings", "none")
	b.quiet()
}

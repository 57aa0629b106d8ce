package captures

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/pcapfile"
)

// Each calls f with every packet, valid during the call, of the files that match a pattern, and
// with the base name of the file. The test ends if there is no file, or a damaged one.
func Each(t must.T, pattern string, f func(name string, p *pcapfile.Packet)) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	must.Do(t, err)
	if len(names) == 0 {
		t.Fatal("no captures at " + pattern)
	}
	for _, name := range names {
		if err := each(name, f); err != nil {
			t.Fatal(fmt.Errorf("%s: %w", name, err))
		}
	}
}

func each(name string, f func(name string, p *pcapfile.Packet)) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	r, err := pcapfile.NewReader(file)
	if err != nil {
		return err
	}
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("after record %d: %w", r.Records(), err)
		}
		f(filepath.Base(name), p)
	}
}

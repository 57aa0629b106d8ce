package metrics

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// TextfileName is the name of the file for node_exporter's collector textfile.
const TextfileName = "softhca.prom"

// Once writes one scrape in the text format.
func Once(e *Exporter, w io.Writer) error {
	r := prometheus.NewRegistry()
	if err := r.Register(e); err != nil {
		return err
	}
	families, err := r.Gather()
	to := expfmt.NewEncoder(w, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range families {
		if e := to.Encode(f); e != nil {
			return errors.Join(err, e)
		}
	}
	return err
}

// Textfile writes a scrape to softhca.prom in a directory. It replaces the file in one step, so that
// no reader sees a part of it.
func Textfile(e *Exporter, dir string) error {
	r := prometheus.NewRegistry()
	if err := r.Register(e); err != nil {
		return err
	}
	return prometheus.WriteToTextfile(filepath.Join(dir, TextfileName), r)
}

// Textfiles writes the file at once and then at each interval until ctx ends, and removes it then:
// node_exporter would export it forever. Only the error of the first write ends it; later ones are
// reported once in a row.
func Textfiles(ctx context.Context, e *Exporter, dir string, interval time.Duration) error {
	if err := Textfile(e, dir); err != nil {
		return err
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			err := os.Remove(filepath.Join(dir, TextfileName))
			if errors.Is(err, os.ErrNotExist) {
				err = nil
			}
			return err
		case <-tick.C:
		}
		err := Textfile(e, dir)
		if err != nil && !failing {
			e.cfg.Log("%v", err)
		}
		failing = err != nil
	}
}

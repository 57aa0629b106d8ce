package capture_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/fabric/capture"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/pcapfile"
)

// adapter is the address of the adapter that logs.
const adapter = "10.0.0.1"

// lines returns the entries of a capture, each as its fields.
func lines(t *testing.T, file []byte) (all []string) {
	t.Helper()
	r, err := pcapfile.NewReader(bytes.NewReader(file))
	must.Do(t, err)
	for {
		i, err := r.NextItem()
		if errors.Is(err, io.EOF) {
			return all
		}
		must.Do(t, err)
		var fields []string
		for _, f := range i.Entry.Fields {
			fields = append(fields, f.Name+"="+f.Value)
		}
		all = append(all, i.Entry.Message+": "+strings.Join(fields, " "))
	}
}

// TestJournal logs before, during and after a capture, with attributes of each kind.
func TestJournal(t *testing.T) {
	var j capture.Journal
	log := slog.New(j.Handler())
	log.Error("too early")
	n, _ := network(t, adapter, "10.0.0.2")
	var file bytes.Buffer
	p, err := capture.Wrap(n, &file, capture.Options{Prompt: true, Journal: &j})
	must.Do(t, err)
	log.Debug("not at this level")
	log.With("device", "softhca0").WithGroup("group").Info("call failed", "call", "modify QP", "n", 7, "left-out", slog.StringValue("x=y"))
	log.Warn("request refused")
	prompt := len(lines(t, file.Bytes()))
	must.Do(t, p.Close())
	size := file.Len()
	log.Error("too late")
	if file.Len() != size || prompt != 2 {
		t.Errorf("%d entries at once, and %d bytes after Close", prompt, file.Len()-size)
	}
	pid := fmt.Sprint("PID=", os.Getpid())
	want := []string{
		`call failed call="modify QP" n=7 left-out="x=y": MSG=call failed LEVEL=INFO ADAPTER=` + adapter + " " + pid + " DEVICE=softhca0 CALL=modify QP N=7 LEFT_OUT=x=y",
		"request refused: MSG=request refused LEVEL=WARN ADAPTER=" + adapter + " " + pid,
	}
	if got := lines(t, file.Bytes()); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the entries are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestJournalOfAFailedFile logs after the file has failed.
func TestJournalOfAFailedFile(t *testing.T) {
	var j capture.Journal
	n, _ := network(t, adapter, "10.0.0.2")
	w := &full{room: 1000}
	p, err := capture.Wrap(n, w, capture.Options{Prompt: true, Journal: &j})
	must.Do(t, err)
	log := slog.New(j.Handler())
	for range 20 {
		log.Info(strings.Repeat("long ", 50))
	}
	if p.Err() == nil {
		t.Error("the file takes 20 entries")
	}
	_ = p.Close()
}

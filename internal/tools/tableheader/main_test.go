package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// TestHeaderIsUpToDate shows that the header in the tree has the layout of restrack. The compiler
// checks its offsets, which are Go's.
func TestHeaderIsUpToDate(t *testing.T) {
	want, err := header()
	must.Do(t, err)
	have, err := os.ReadFile(filepath.Join("..", "..", "..", output))
	must.Do(t, err)
	if !bytes.Equal(have, want) {
		t.Errorf("%s is out of date: make generate writes it:\n%s", output, want)
	}
}

// TestSnake spells Go's names as C does.
func TestSnake(t *testing.T) {
	for name, want := range map[string]string{
		"Num": "num", "SendCQ": "send_cq", "MaxSGE": "max_sge", "RNRSent": "rnr_sent", "QPN": "qpn", "RemoteQPN": "remote_qpn", "seq": "seq",
	} {
		if got := snake(name); got != want {
			t.Errorf("%s becomes %s, want %s", name, got, want)
		}
	}
}

// TestUnknownTypes shows that a field without a type in C is an error, not a wrong offset.
func TestUnknownTypes(t *testing.T) {
	for _, v := range []any{struct{ A string }{}, struct{ A int }{}, struct{ A [2]bool }{}} {
		if err := writeStruct(new(bytes.Buffer), "x", reflect.TypeOf(v)); err == nil {
			t.Errorf("%T becomes a struct in C", v)
		}
	}
}

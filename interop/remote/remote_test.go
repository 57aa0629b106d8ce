package remote_test

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/interop/remote"
)

func TestFramesComeAsTheyWent(t *testing.T) {
	var b bytes.Buffer
	for _, s := range []string{"", "true", strings.Repeat("x", remote.MaxFrame)} {
		must.Do(t, remote.Write(&b, remote.Run, []byte(s)))
		if k, got, err := remote.Read(&b); k != remote.Run || string(got) != s || err != nil {
			t.Fatalf("a frame of %d bytes came as kind %c, %d bytes: %v", len(s), k, len(got), err)
		}
	}
	if _, _, err := remote.Read(&b); err != io.EOF {
		t.Errorf("the end is %v, not io.EOF", err)
	}
}

func TestFramesAreBounded(t *testing.T) {
	if err := remote.Write(io.Discard, remote.Run, make([]byte, remote.MaxFrame+1)); err == nil {
		t.Error("a frame of any length is written")
	}
	for _, b := range []string{"r\xff\xff\xff\xff", "r\x00\x00", "r\x00\x00\x00\x02x"} {
		if _, _, err := remote.Read(strings.NewReader(b)); err == nil || err == io.EOF {
			t.Errorf("% x is read without an error: %v", b, err)
		}
	}
}

func TestTranscriptTellsWhoWaits(t *testing.T) {
	var tr remote.Transcript
	said := make(chan error)
	go func() { said <- tr.Await(t.Context(), regexp.MustCompile(`listening on`)) }()
	for _, s := range []string{"lis", "tening", " on 7\n"} {
		tr.Add(remote.Stderr, []byte(s))
	}
	must.Do(t, <-said)
	tr.Add(remote.Stdout, []byte("done\n"))
	tr.End()
	if err := tr.Await(t.Context(), regexp.MustCompile(`never`)); err == nil {
		t.Error("who waits for what an ended program never printed is not told")
	}
	if r := tr.Result(1); r.OK() || r.Stdout != "done\n" || r.Stderr != "listening on 7\n" || tr.String() != "listening on 7\ndone\n" {
		t.Errorf("kept %+v", r)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := new(remote.Transcript).Await(gone, regexp.MustCompile(`x`)); err == nil {
		t.Error("waiting does not end with its context")
	}
}

// A program that prints without end fills no memory.
func TestTranscriptIsBounded(t *testing.T) {
	var tr remote.Transcript
	w := tr.Writer(remote.Stdout)
	for range 20 {
		if n, err := w.Write(make([]byte, 1<<20)); n != 1<<20 || err != nil {
			t.Fatal(n, err)
		}
	}
	if n := len(tr.Result(0).Stdout) + len(tr.String()); n > 16<<20 {
		t.Errorf("%d bytes are kept", n)
	}
}

package must_test

import (
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// recorder is a test whose outcome can be looked at.
type recorder struct{ failed, ended bool }

func (r *recorder) Helper() {}

func (r *recorder) Errorf(string, ...any) { r.failed = true }

func (r *recorder) Fatal(...any) {
	r.failed, r.ended = true, true
	runtime.Goexit()
}

func TestOutcomes(t *testing.T) {
	wrapped := fmt.Errorf("read: %w", io.EOF)
	for _, c := range []struct {
		name          string
		run           func(must.T)
		failed, ended bool
	}{
		{"no error", func(t must.T) { must.Do(t, nil) }, false, false},
		{"an error", func(t must.T) { must.Do(t, io.EOF) }, true, true},
		{"the error wanted, wrapped", func(t must.T) { must.Fail(t, wrapped, io.EOF, "read") }, false, false},
		{"another error", func(t must.T) { must.Fail(t, wrapped, io.ErrNoProgress, "read") }, true, false},
		{"no error where one is wanted", func(t must.T) { must.Fail(t, nil, io.EOF, "read") }, true, false},
	} {
		r := &recorder{}
		done := make(chan bool)
		go func() {
			defer close(done)
			c.run(r)
		}()
		<-done
		if r.failed != c.failed || r.ended != c.ended {
			t.Errorf("%s: failed %v, ended %v; want %v, %v", c.name, r.failed, r.ended, c.failed, c.ended)
		}
	}
}

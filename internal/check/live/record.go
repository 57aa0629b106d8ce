package live

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/softhca/softhca/internal/check/writes"
)

// fatalExit is the exit code of a program that ends at its first error.
const fatalExit = 86

// recorder writes findings to the file of this process, which "softhca run --check" reads. The library in C writes
// such files, too.
type recorder struct {
	path          string
	advice, fatal bool
}

// Lines of the file; see package check.
type (
	processLine struct {
		Process process `json:"process"`
	}
	process struct {
		PID     int    `json:"pid"`
		Program string `json:"program"`
	}
	findingLine struct {
		Finding string      `json:"finding"`
		Advice  bool        `json:"advice,omitempty"`
		Time    int64       `json:"time"` // in nanoseconds since 1970
		Text    string      `json:"text"`
		Stacks  []stackLine `json:"stacks"`
		ID      uint64      `json:"id"`
	}
	stackLine struct {
		Title  string      `json:"title"`
		Frames []frameLine `json:"frames"`
	}
	frameLine struct {
		Function string `json:"function"`
		File     string `json:"file"`
		Line     int    `json:"line"`
	}
)

// shared is the sink of the process for words and a directory.
type shared struct {
	words, dir string
	sink       *Sink
}

// sharedSink returns the sink of the process. Its adapters then report each finding once.
func sharedSink(words, dir string) *Sink {
	at := writes.Sink()
	for {
		old := at.Load()
		if is, ok := old.(shared); ok && is.words == words && is.dir == dir {
			return is.sink
		}
		is := shared{words, dir, NewSink(func(*Finding) {})}
		if at.CompareAndSwap(old, is) {
			return is.sink
		}
	}
}

// Recorded returns a sink that also writes its findings to a directory: s, or that of the process if s is nil. words
// say what to check, as in SOFTHCA_CHECK; without words or a directory Recorded returns s.
func (s *Sink) Recorded(words, dir string) *Sink {
	if words == "" || dir == "" {
		return s
	}
	if s == nil {
		s = sharedSink(words, dir)
	}
	list := strings.Split(words, ",")
	r := &recorder{
		path:   filepath.Join(dir, fmt.Sprintf("%d-go.jsonl", os.Getpid())),
		advice: slices.Contains(list, "advice"), fatal: slices.Contains(list, "fatal"),
	}
	s.mu.Lock()
	first := s.recorder == nil
	if first {
		s.recorder = r
	}
	s.mu.Unlock()
	if first {
		program, _ := os.Executable() // empty if it is not known
		if err := r.write(processLine{process{os.Getpid(), program}}); err != nil {
			fmt.Fprintf(os.Stderr, "softhca: check: process %d cannot write what it finds: %v\n", os.Getpid(), err)
		}
	}
	return s
}

// record writes a finding, and reports whether the process ends with it.
func (r *recorder) record(f *Finding) (fatal bool) {
	if r == nil || f.Advice && !r.advice {
		return false
	}
	l := findingLine{Finding: f.Name, Advice: f.Advice, Time: time.Now().UnixNano(), Text: f.Text, ID: rand.Uint64()}
	for _, c := range f.Calls {
		s := stackLine{Title: c.Title, Frames: []frameLine{}}
		for _, frame := range c.Stack {
			s.Frames = append(s.Frames, frameLine(frame))
		}
		l.Stacks = append(l.Stacks, s)
	}
	if err := r.write(l); err != nil {
		fmt.Fprintf(os.Stderr, "softhca: check: a finding of process %d is lost: %v\n", os.Getpid(), err)
	}
	return r.fatal && !f.Advice
}

// write appends a line to the file. It opens the file for each line, as the library in C does. The line is written
// at once, because other goroutines and adapters append to the file, too.
func (r *recorder) write(line any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	return appendTo(r.path, append(text, '\n'))
}

// appendTo appends to a file.
func appendTo(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

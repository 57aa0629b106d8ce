package check

import (
	"encoding/json"
	"io"
	"time"
)

// Version is the version of the format of a Report in JSON.
const Version = 1

// Report says what was found in the processes of a program.
type Report struct {
	Version    int        `json:"version"`    // version of this format; it grows when a field changes its meaning or is removed
	Errors     int        `json:"errors"`     // number of findings of level error
	Advice     int        `json:"advice"`     // number of findings of level advice
	Suppressed int        `json:"suppressed"` // findings that --suppress hides
	Findings   []*Finding `json:"findings"`   // the errors first, each level in the order of time
	Processes  []Process  `json:"processes"`  // the checked processes, at most 1024
	Problems   []string   `json:"problems"`   // what could not be read, and what this version does not know
}

// Process is a checked process.
type Process struct {
	PID     int    `json:"pid"`     // process ID
	Program string `json:"program"` // path of its program
}

// Finding is a bug that was found, once or more often.
type Finding struct {
	Name      string    `json:"name"`   // name of the finding, as in docs/checks.md
	Level     string    `json:"level"`  // error or advice
	Title     string    `json:"title"`  // the bug in a sentence
	Text      string    `json:"text"`   // the facts in a sentence, those of the first time
	Rule      string    `json:"rule"`   // what a program must do
	Source    string    `json:"source"` // where the rule stands
	Fix       string    `json:"fix"`    // how to repair the program
	Page      string    `json:"page"`   // where the documentation describes the finding
	Count     uint64    `json:"count"`  // how often it was found, in all processes
	PIDs      []int     `json:"pids"`   // processes in which it was found
	Thread    int       `json:"thread"` // thread in which it was found first
	FirstTime time.Time `json:"time"`   // when it was found first
	Stacks    []Stack   `json:"stacks"` // of the calls that matter

	key string // the name and the stacks, which equal findings share
}

// Stack is the stack of a call.
type Stack struct {
	Title  string  `json:"title"`  // the call, such as "posted here"
	Frames []Frame `json:"frames"` // the innermost first
}

// Frame is a frame of a stack.
type Frame struct {
	Function string `json:"function,omitempty"` // its function
	File     string `json:"file,omitempty"`     // source file
	Line     int    `json:"line,omitempty"`     // line in the source file
	Library  string `json:"library,omitempty"`  // path of the program or library
	Address  string `json:"address"`            // virtual address in that file, in hexadecimal digits; less by one for return addresses; empty for programs in Go
	Inlined  bool   `json:"inlined,omitempty"`  // whether the compiler has inlined the function into that of the next frame
}

// JSON writes the report as one object. It blocks as w does.
func (r *Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

// source returns the first frame of the finding whose source line is known, and otherwise its
// first frame. It returns nil if the finding has no frames.
func (f *Finding) source() *Frame {
	var first *Frame
	for i := range f.Stacks {
		for j := range f.Stacks[i].Frames {
			frame := &f.Stacks[i].Frames[j]
			if frame.File != "" && frame.Line > 0 {
				return frame
			}
			if first == nil {
				first = frame
			}
		}
	}
	return first
}

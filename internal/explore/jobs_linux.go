package explore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/namespace"
)

// JobCommand is the argument that makes the command softhca run a program for another one; see Serve.
const JobCommand = "explore-job"

// jobEnv is the variable with the number of a job, from 1 on, in the environment of a program. Runs at the same time have different numbers.
const jobEnv = "SOFTHCA_JOB"

// order is what a job is asked for: a run of a program.
type order struct {
	Program Program
	Fault   *Fault
	Steady  bool // of the fault
	Stops   bool
	Limit   time.Duration
}

// outcome is the answer.
type outcome struct {
	Run  *Run
	Keys []string // of its breaches
}

// jobEnd is how long a job that is told to end may take for it.
const jobEnd = 2 * killTimeout

// runApart runs the program as Run does, in a process of its own whose network has only a loopback interface. Runs at the same time have
// different numbers (job).
func (p *Program) runApart(ctx context.Context, job int, f *Fault, limit time.Duration) (*Run, error) {
	o := order{Program: *p, Fault: f, Steady: f != nil && f.steady, Stops: f != nil && f.stops, Limit: limit}
	o.Program.Env = append(append([]string{}, p.Env...), jobEnv+"="+strconv.Itoa(job))
	asked, err := json.Marshal(&o)
	if err != nil {
		return nil, err
	}
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	defer out.Close()
	cmd := exec.CommandContext(ctx, p.Softhca, JobCommand)
	var answer, errs bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Env, in, &answer, &errs
	cmd.SysProcAttr = namespace.Alone()
	cmd.SysProcAttr.Setpgid = true                   // Ctrl-C is for this command
	cmd.Cancel = func() error { return out.Close() } // the job kills what it runs
	cmd.WaitDelay = jobEnd
	if err := namespace.Start(cmd); err != nil {
		return nil, err
	}
	_ = in.Close()
	_, err = out.Write(asked) // it stays open: its end is the end of the job
	if err = errors.Join(err, cmd.Wait()); err != nil {
		return nil, errors.Join(ctx.Err(), fmt.Errorf("run in a network of its own: %w: %s", err, bytes.TrimSpace(errs.Bytes())))
	}
	var got outcome
	if err := json.Unmarshal(answer.Bytes(), &got); err != nil || got.Run == nil || len(got.Keys) != len(got.Run.Breaches) {
		return nil, fmt.Errorf("run in a network of its own: answer %.100q: %w", answer.Bytes(), errors.Join(err, unix.EPROTO))
	}
	for i := range got.Run.Breaches {
		got.Run.Breaches[i].key = got.Keys[i]
	}
	return got.Run, ctx.Err()
}

// Serve reads an order from in, runs the program, and writes the outcome to out. At the end of in it kills the run.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	runtime.LockOSThread() // Settle gives up a capability of this thread, which starts the program
	defer runtime.UnlockOSThread()
	if err := namespace.Settle(); err != nil {
		return err
	}
	var o order
	d := json.NewDecoder(in)
	if err := d.Decode(&o); err != nil {
		return fmt.Errorf("this command is for softhca explore: %w", err)
	}
	if o.Fault != nil {
		o.Fault.steady, o.Fault.stops = o.Steady, o.Stops
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, in)
	}()
	r, err := o.Program.Run(ctx, o.Fault, o.Limit, nil)
	if err != nil {
		return err
	}
	answer := outcome{Run: r, Keys: make([]string, 0, len(r.Breaches))}
	for i := range r.Breaches {
		answer.Keys = append(answer.Keys, r.Breaches[i].key)
	}
	return json.NewEncoder(out).Encode(&answer)
}

package verbstest_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/softhca/softhca/internal/check"
	"github.com/softhca/softhca/internal/must"
)

// command returns a command that runs one of the programs as "softhca run --check" does, and the directory of its
// records.
func command(t *testing.T, program, words string) (cmd *exec.Cmd, dir string) {
	t.Helper()
	dir = t.TempDir()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+program, "SOFTHCA_CHECK="+words, "SOFTHCA_CHECK_DIR="+dir)
	return cmd, dir
}

// TestRunCheck runs programs in Go as "softhca run --check" does, and reads what they have recorded. A finding is in
// the records however the program ends.
func TestRunCheck(t *testing.T) {
	for _, c := range []struct {
		program, words       string
		errors, advice, exit int
	}{
		{"returns", "error", 1, 0, 0},
		{"returns", "error,advice", 1, 1, 0},
		{"returns", "fatal", 1, 0, 86},
		{"only advised", "fatal,advice", 0, 1, 0},
		{"does not close", "error,advice", 1, 0, 0},
		{"exits", "error,advice", 1, 0, 7},
		{"exits when it is told", "error,advice", 1, 0, 7},
		{"exits when it is told", "fatal", 1, 0, 7},
		{"panics", "error,advice", 1, 0, 2},
	} {
		t.Run(c.program+"/"+c.words, func(t *testing.T) {
			cmd, dir := command(t, c.program, c.words)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) || cmd.ProcessState.ExitCode() != c.exit {
				t.Fatalf("the program ends with %v: want exit code %d\n%s", err, c.exit, out)
			}
			wantRecords(t, dir, c.errors, c.advice)
		})
	}
}

// TestRecordsCannotBeWritten runs programs that cannot write their records. Only one with a bug says that a finding is
// lost.
func TestRecordsCannotBeWritten(t *testing.T) {
	for program, lost := range map[string]bool{"returns": true, "only advised": false} {
		cmd, dir := command(t, program, "error")
		must.Do(t, os.Remove(dir))
		out, err := cmd.CombinedOutput()
		must.Do(t, err)
		if says := string(out); !strings.Contains(says, "cannot write what it finds: ") || strings.Contains(says, "a finding of process") != lost {
			t.Errorf("the program %q prints %q: want that it cannot write, and that a finding is lost: %t", program, says, lost)
		}
	}
}

// TestKilledUnderRunCheck kills a program that has recorded a finding.
func TestKilledUnderRunCheck(t *testing.T) {
	for _, by := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(by.String(), func(t *testing.T) {
			cmd, dir := command(t, "waits", "error,advice")
			out, err := cmd.StdoutPipe()
			must.Do(t, err)
			must.Do(t, cmd.Start())
			line, _ := bufio.NewReader(out).ReadString('\n')
			must.Do(t, cmd.Process.Signal(by))
			err = cmd.Wait()
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != by || line != "waits\n" {
				t.Errorf("the program prints %q and ends with %v: want it to wait, and to end with %v", line, err, by)
			}
			wantRecords(t, dir, 1, 0)
		})
	}
}

// wantRecords requires that a process has recorded findings. An error is the bug of useInOne.
func wantRecords(t *testing.T, dir string, errs, advice int) {
	t.Helper()
	r, err := check.Read(dir, check.Options{Advice: true})
	must.Do(t, err)
	if r.Errors != errs || r.Advice != advice || len(r.Processes) != 1 || len(r.Problems) != 0 {
		t.Fatalf("%d errors, %d advice, processes %v, problems %q: want %d errors and %d advice of one process", r.Errors, r.Advice, r.Processes, r.Problems, errs, advice)
	}
	for _, f := range r.Findings[:errs] {
		frame := f.Stacks[0].Frames[0]
		if f.Name != "used-after-destroy" || f.Count != 1 || !strings.HasSuffix(frame.Function, "verbstest_test.useInOne") ||
			!strings.HasSuffix(frame.File, "main_test.go") || frame.Line == 0 {
			t.Errorf("found %s, %d times, in %+v: want used-after-destroy, once, in useInOne", f.Name, f.Count, frame)
		}
	}
}

//go:build unix

package device

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fault"
	"github.com/softhca/softhca/internal/must"
)

// endEnv makes this test program carry out the rule that it contains.
const endEnv = "DEVICE_TEST_RULE"

func TestMain(m *testing.M) {
	if text := os.Getenv(endEnv); text != "" {
		rules, err := fault.Parse(text)
		if err != nil {
			os.Exit(3)
		}
		new(injector).actedOnPacket(fault.NewLive(rules[0], 1, 0))
		os.Exit(0) // after SIGCONT
	}
	os.Exit(m.Run())
}

// TestKillAndStop has rules kill and stop a process. Other rules do neither.
func TestKillAndStop(t *testing.T) {
	for rule, want := range map[string]string{"kill": "signal: killed", "stop": "", "drop": ""} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), endEnv+"="+rule)
		must.Do(t, cmd.Start())
		if rule == "stop" {
			var status unix.WaitStatus
			for {
				_, err := unix.Wait4(cmd.Process.Pid, &status, unix.WUNTRACED, nil)
				if !errors.Is(err, unix.EINTR) {
					must.Do(t, err)
					break
				}
			}
			if !status.Stopped() {
				t.Fatalf("the process is not stopped: %#x", status)
			}
			must.Do(t, cmd.Process.Signal(syscall.SIGCONT))
		}
		got := ""
		if err := cmd.Wait(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: the process ends with %q, want %q", rule, got, want)
		}
	}
}

// TestRetrySpeedupIsANumber refuses values of SOFTHCA_RETRY_SPEEDUP that are no numbers in its range.
func TestRetrySpeedupIsANumber(t *testing.T) {
	for value, want := range map[string]int{"": 0, "1": 1, "50": 50, "1000": 1000} {
		e := Environment{RetrySpeedup: value}
		if n, err := e.retrySpeedup(); n != want || err != nil {
			t.Errorf("%q is %d, %v", value, n, err)
		}
	}
	for _, value := range []string{"0", "-1", "1001", "fast", "1.5", strings.Repeat("9", 1000)} {
		e := Environment{RetrySpeedup: value}
		_, err := e.retrySpeedup()
		if !errors.Is(err, ib.EINVAL) || !strings.Contains(err.Error(), RetrySpeedupEnv) || len(err.Error()) > 200 {
			t.Errorf("%q: %v", value, err)
		}
	}
	if _, err := Open(Config{Addr: "10.0.0.1", Env: Environment{RetrySpeedup: "x"}}); !errors.Is(err, ib.EINVAL) {
		t.Errorf("an adapter opens: %v", err)
	}
}

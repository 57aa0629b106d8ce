package netns_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/interop/netns"
)

// runner is the environment variable that makes this program a runner, which
// Run then starts once more.
const runner = "SOFTHCA_TEST_RUNNER"

func TestMain(m *testing.M) {
	switch {
	case netns.Inside():
		child()
	case os.Getenv(runner) != "":
		if err := netns.Run(context.Background(), nil, nil); err != nil {
			fmt.Println("run:", err)
		}
	default:
		os.Exit(m.Run())
	}
}

// child makes the network, starts a program, tells, and waits for its input to
// end.
func child() {
	if err := netns.Setup(); err != nil {
		fmt.Println("setup:", err)
		return
	}
	if err := netns.SetMTU(1500); err != nil {
		fmt.Println("MTU:", err)
		return
	}
	nif, err := net.InterfaceByName(netns.Tap)
	if err != nil {
		fmt.Println("tap:", err)
		return
	}
	addrs, err := nif.Addrs()
	if err != nil {
		fmt.Println("addresses:", err)
		return
	}
	// It keeps our standard output open until it exits.
	sleep := exec.Command("sleep", "1000")
	sleep.Stdout = os.Stdout
	if err := sleep.Start(); err != nil {
		fmt.Println("sleep:", err)
		return
	}
	fmt.Println("ready", nif.MTU, addrs)
	_, _ = os.Stdin.Read(make([]byte, 1)) // its end is what we wait for
}

// Nothing of a run is left when it ends, even when it is killed.
func TestNothingIsLeft(t *testing.T) {
	if err := netns.Check(); err != nil {
		// A container without the device cannot have the network.
		t.Skip(err)
	}
	for _, how := range []string{"it ends", "it is killed"} {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), runner+"=1")
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		must.Do(t, err)
		out, err := cmd.StdoutPipe()
		must.Do(t, err)
		must.Do(t, cmd.Start())
		r := bufio.NewReader(out)
		line, err := r.ReadString('\n')
		if strings.HasPrefix(line, "run: namespace: ") {
			_ = cmd.Wait() // it has printed the cause
			// Containers and hardened kernels forbid namespaces.
			t.Skip(line)
		}
		if err != nil || !strings.HasPrefix(line, "ready 1500 ") || !strings.Contains(line, "10.77.0.1/24") || !strings.Contains(line, "fd00:77::1/64") {
			t.Errorf("the child says %q, %v", line, err)
		}
		if how == "it ends" {
			err = in.Close()
		} else {
			err = cmd.Process.Kill()
		}
		// The end of the output is the end of the last process that has it.
		if rest, read := r.ReadString(0); err != nil || rest != "" {
			t.Errorf("when %s: %v, %v, then %q", how, err, read, rest)
		}
		if err := cmd.Wait(); err != nil && how == "it ends" {
			t.Errorf("when %s: %v", how, err)
		}
		if _, err := net.InterfaceByName(netns.Tap); err == nil {
			t.Error("the tap interface is in the network outside")
		}
	}
}

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/namespace"
)

// TestRunOnHostWithDevices runs a program on a host that shows RDMA devices of its
// own in /sys: the program finds ours in their place.
func TestRunOnHostWithDevices(t *testing.T) {
	i := install(t)
	host := t.TempDir()
	for name, text := range map[string]string{
		"class/infiniband/mlx5_0/node_guid":         "0123:4567:89ab:cdef\n",
		"class/infiniband/rxe0/node_guid":           "0123:4567:89ab:cdee\n",
		"class/infiniband_verbs/uverbs0/ibdev":      "mlx5_0\n",
		"class/infiniband_verbs/uverbs1/ibdev":      "rxe0\n",
		"class/infiniband_verbs/abi_version":        "6\n",
		"class/net/eth0/device/infiniband/mlx5_0/x": "\n",
	} {
		name = filepath.Join(host, name)
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)))
	}
	// In a mount namespace of its own the host's /sys is what the test says.
	onHost := func(script string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", `mount --bind "$1" /sys && `+script, "sh", host, i.command)
		cmd.SysProcAttr = namespace.Attr(syscall.CLONE_NEWNS)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	const list = "ls /sys/class/infiniband /sys/class/infiniband_verbs"
	if out, err := onHost(list); err != nil {
		// Containers and hardened kernels forbid it.
		t.Skipf("no mount namespace to test in: %v: %s", err, out)
	} else if want := "/sys/class/infiniband:\nmlx5_0\nrxe0\n\n/sys/class/infiniband_verbs:\nabi_version\nuverbs0\nuverbs1\n"; out != want {
		t.Fatalf("the host shows %q, want %q", out, want)
	}
	out, err := onHost(`exec "$2" run -- sh -c '` + list + `; cat /sys/class/infiniband_verbs/uverbs0/ibdev; test -e /sys/class/infiniband/mlx5_0 || echo none'`)
	if want := "/sys/class/infiniband:\nsofthca0\n\n/sys/class/infiniband_verbs:\nabi_version\nuverbs0\nsofthca0\nnone\n"; err != nil || out != want {
		t.Errorf("a program on a host with devices: %v, it finds\n%s, want\n%s", err, out, want)
	}
}

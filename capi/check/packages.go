//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// packages are Debian's, each with something that it brings: a program, or a file.
var packages = []struct{ name, brings string }{
	{"gcc", "gcc"},
	{"iproute2", "ip"},
	{"libibverbs-dev", "/usr/include/infiniband/verbs.h"},
	{"librdmacm-dev", "/usr/include/rdma/rdma_cma.h"},
	{"ibverbs-utils", "ibv_rc_pingpong"},
	{"perftest", "ib_send_lat"},
	{"ucx-utils", "ucx_perftest"},
	{"libucx-dev", "/usr/include/ucp/api/ucp.h"},
	{"librpma-dev", "/usr/include/librpma.h"},
	{"python3-pyverbs", pyTests},
	{"rdmacm-utils", "rping"},
	{"iperf", "iperf"},
	{"iperf3", "iperf3"},
	{"busybox", "busybox"},
	{"curl", "curl"},
	{"wget", "wget"},
	{"libfabric-bin", "fi_pingpong"},
	{"qperf", "qperf"},
	{"fio", "fio"},
	{"openmpi-bin", "mpirun.openmpi"},
	{"libopenmpi-dev", "mpicc.openmpi"},
	{"mpich", "mpirun.mpich"},
	{"libmpich-dev", "mpicc.mpich"},
	{"qemu-system-x86", "qemu-system-x86_64"},
	{"dapl2-utils", "dapltest"},
	{"libiscsi-bin", "iscsi-test-cu"},
}

// missing returns the packages that are not installed.
func missing() []string {
	var names []string
	for _, p := range packages {
		_, err := exec.LookPath(p.brings)
		if strings.HasPrefix(p.brings, "/") {
			_, err = os.Stat(p.brings)
		}
		if err != nil {
			names = append(names, p.name)
		}
	}
	return names
}

// install installs the packages that are missing, if this is root on Debian or Ubuntu.
func install(ctx context.Context) error {
	names := missing()
	if len(names) == 0 {
		return nil
	}
	list := strings.Join(names, " ")
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("packages are missing, which only root can install: `apt-get install %s` does it on Debian and Ubuntu: %w", list, errors.ErrUnsupported)
	}
	fmt.Fprintln(os.Stderr, "check: installing", list)
	for _, args := range [][]string{{"update"}, append([]string{"install", "-y", "--no-install-recommends"}, names...)} {
		cmd := exec.CommandContext(ctx, apt, args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("apt-get %s: %w", args[0], err)
		}
	}
	return nil
}

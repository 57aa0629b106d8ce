//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/softhca/softhca/internal/debian"
)

// pkg is a Debian package, with a program or a file that it contains.
type pkg struct{ name, file string }

// builders are needed to build our libraries and to run the programs.
var builders = []pkg{
	{"gcc", "gcc"},
	{"iproute2", "ip"},
	{"libibverbs-dev", "/usr/include/infiniband/verbs.h"},
}

// unpackers are needed to create the root of another suite.
var unpackers = []pkg{
	{"apt", "apt-get"},
	{"dpkg", "dpkg-deb"},
	{"debian-archive-keyring", debian.Keyring},
}

// programs are this machine's own programs, and headers with which some of them are compiled.
var programs = []pkg{
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

// needed returns the packages that the suites need on this machine.
func needed(suites []string) []pkg {
	all := builders
	if slices.Contains(suites, host) {
		all = slices.Concat(all, programs)
	}
	if slices.ContainsFunc(suites, func(s string) bool { return s != host }) {
		all = slices.Concat(all, unpackers)
	}
	return all
}

// missing returns the names of the packages that are not installed.
func missing(packages []pkg) []string {
	var names []string
	for _, p := range packages {
		_, err := exec.LookPath(p.file)
		if strings.HasPrefix(p.file, "/") {
			_, err = os.Stat(p.file)
		}
		if err != nil {
			names = append(names, p.name)
		}
	}
	return names
}

// install installs the missing packages, if the user is root on Debian or Ubuntu.
func install(ctx context.Context, packages []pkg) error {
	names := missing(packages)
	if len(names) == 0 {
		return nil
	}
	list := strings.Join(names, " ")
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("packages are missing: on Debian or Ubuntu install them with `sudo apt-get install --no-install-recommends %s`: %w", list, errors.ErrUnsupported)
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

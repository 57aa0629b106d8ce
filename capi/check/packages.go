//go:build linux

package main

import (
	"maps"
	"slices"

	"github.com/softhca/softhca/internal/debian"
)

// builders are needed to build our libraries and to run the programs.
var builders = debian.Needed{
	"gcc":            "gcc",
	"iproute2":       "ip",
	"libibverbs-dev": "/usr/include/infiniband/verbs.h",
}

// unpackers are needed to create the root of another suite.
var unpackers = debian.Needed{
	"apt":                    "apt-get",
	"dpkg":                   "dpkg-deb",
	"debian-archive-keyring": debian.Keyring,
}

// programs are this machine's own programs, and headers with which some of them are compiled.
var programs = debian.Needed{
	"librdmacm-dev":   "/usr/include/rdma/rdma_cma.h",
	"ibverbs-utils":   "ibv_rc_pingpong",
	"perftest":        "ib_send_lat",
	"ucx-utils":       "ucx_perftest",
	"libucx-dev":      "/usr/include/ucp/api/ucp.h",
	"librpma-dev":     "/usr/include/librpma.h",
	"python3-pyverbs": pyTests,
	"rdmacm-utils":    "rping",
	"iperf":           "iperf",
	"iperf3":          "iperf3",
	"busybox":         "busybox",
	"curl":            "curl",
	"wget":            "wget",
	"libfabric-bin":   "fi_pingpong",
	"qperf":           "qperf",
	"fio":             "fio",
	"openmpi-bin":     "mpirun.openmpi",
	"libopenmpi-dev":  "mpicc.openmpi",
	"mpich":           "mpirun.mpich",
	"libmpich-dev":    "mpicc.mpich",
	"qemu-system-x86": "qemu-system-x86_64",
	"dapl2-utils":     "dapltest",
	"libiscsi-bin":    "iscsi-test-cu",
}

// needed returns the packages that the suites need on this machine; for the gate's cases, only
// those that contain their programs.
func needed(suites []string, gate bool) debian.Needed {
	all := maps.Clone(builders)
	if slices.Contains(suites, host) {
		maps.Copy(all, programs)
	}
	if gate {
		maps.DeleteFunc(all, func(name, _ string) bool { return builders[name] == "" && gatePrograms[name] == nil })
	}
	if slices.ContainsFunc(suites, func(s string) bool { return s != host }) {
		maps.Copy(all, unpackers)
	}
	return all
}

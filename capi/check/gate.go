//go:build linux

package main

import (
	"regexp"
	"slices"
	"strings"
)

// gatePrograms are the cases that the gate runs on each commit, by the packages of their programs:
// some of each way to wait (polling, sleeping until an event, spinning on memory), on one address
// and on two, with each connection manager's and each transport's kind of program.
var gatePrograms = map[string][]string{
	"ibverbs-utils": {
		"ibv_devinfo -v", "ibv_asyncwatch",
		"ibv_rc_pingpong", "ibv_rc_pingpong -e" + onOne, "ibv_ud_pingpong -e over IPv6", "ibv_srq_pingpong" + onOne,
		"softhca run --fault 'fail op=AllocPD errno=ENOMEM' -- ibv_rc_pingpong -g 0",
	},
	"perftest": {
		"ib_send_lat -n 500 -e -F", "ib_write_lat -n 500 -F", "ib_write_lat -n 500 -F" + onOne, "ib_read_bw -n 500 -F" + onOne, "ib_atomic_lat -n 500 -F",
	},
	"rdmacm-utils": {
		"rping -c -C 100 -v -a SERVER", "ucmatose -c 16 -C 20 -s SERVER" + onOne, "udaddy -c 4 -s SERVER", "mckey -m 239.1.2.3 -b CLIENT -s",
		"cmtime -c 100 -s SERVER", "rstream -s SERVER" + onOne,
	},
	"qperf":     {"qperf -cm 1 -t 1 SERVER rc_lat", "qperf -cm 1 -t 1 SERVER rc_rdma_write_poll_lat" + onOne},
	"ucx-utils": {"ucx_perftest -t am_lat -d softhca0:1 -x rc_verbs -D short" + onOne, "ucx_perftest -t am_bw -d softhca0:1 -x ud_verbs -D zcopy"},
}

// gateCases returns a regular expression that matches the names of the gate's cases.
func gateCases() string {
	var names []string
	for _, cases := range gatePrograms {
		for _, name := range cases {
			names = append(names, regexp.QuoteMeta(name))
		}
	}
	slices.Sort(names)
	return "^(?:" + strings.Join(names, "|") + ")$"
}

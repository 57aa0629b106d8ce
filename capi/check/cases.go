//go:build linux

package main

import (
	"fmt"
	"strings"
)

// test is a program that runs as server and as client. The client gets the server's address as
// its last argument.
type test struct {
	Section  string
	Name     string // the program and its arguments, as a user would write them
	Args     []string
	GID      string // the option that names the entry of the GID table; may be empty
	V6       bool
	Addrs    [2]string // of server and client
	Env      []string
	Run      bool   // under softhca run, because it reads /sys
	Terminal bool   // its standard input is a terminal
	Skip     string // the reason for skipping it; empty: it runs
	Apart    string // the reason for skipping it on one address; empty: it runs there
}

// variants returns a test between two addresses, and the same test on one address.
func (t *test) variants() []test {
	two := *t
	if two.Addrs = addrs4; t.V6 {
		two.Addrs = addrs6
	}
	if t.Skip != "" {
		return []test{two}
	}
	one := two
	one.Addrs[1] = one.Addrs[0]
	one.Name += onOne
	one.Skip = t.Apart
	return []test{two, one}
}

// tests returns all programs that run as server and as client.
func tests() []test {
	var all []test
	add := func(section, gid string, v6 bool, args ...string) {
		t := test{Section: section, Name: strings.Join(args, " "), Args: args, GID: gid, V6: v6}
		if v6 {
			t.Name += " over IPv6"
		}
		all = append(all, t)
	}
	for _, service := range []string{"rc", "uc", "ud", "srq"} {
		for _, v6 := range []bool{false, true} {
			program := fmt.Sprintf("ibv_%s_pingpong", service)
			add("ibverbs-utils", "-g", v6, program)
			add("ibverbs-utils", "-g", v6, program, "-e")
		}
	}
	add("ibverbs-utils", "-g", false, "ibv_xsrq_pingpong")
	all[len(all)-1].Apart = "both processes open the XRC domain of one file, and an address gives it to the first one only"
	all = append(all, test{
		Section: "ibverbs-utils", Name: "ibv_xsrq_pingpong -c 2",
		Skip: "the server sends to a receive queue of one client through its connection with the other, so the clients need one XRC domain, which processes do not share",
	})
	add("ibverbs-utils", "-g", false, "ibv_rc_pingpong", "-N")
	add("ibverbs-utils", "-g", false, "ibv_rc_pingpong", "-t")
	perf := func(args ...string) {
		add("perftest", "-x", false, append(args, "-F")...)
	}
	for _, op := range []string{"send", "write", "read"} {
		for _, what := range []string{"bw", "lat"} {
			program := fmt.Sprintf("ib_%s_%s", op, what)
			perf(program, "-n", "500")
			perf(program, "-n", "500", "--use_old_post_send")
			perf(program, "-n", "100", "-a")
			if op != "write" { // ib_write_* has no option for events
				perf(program, "-n", "500", "-e")
			}
		}
	}
	for _, program := range []string{"ib_atomic_bw", "ib_atomic_lat"} {
		perf(program, "-n", "500")
		perf(program, "-n", "500", "-A", "CMP_AND_SWAP")
		perf(program, "-n", "500", "--use_old_post_send")
	}
	for _, program := range []string{"ib_send_bw", "ib_write_bw", "ib_read_bw"} {
		perf(program, "-n", "500", "-b")
		perf(program, "-n", "500", "-q", "16")
		perf(program, "-n", "500", "--post_list", "10")
	}
	perf("ib_atomic_bw", "-n", "500", "-q", "16")
	perf("ib_send_bw", "-n", "500", "--use-srq", "-q", "4")
	perf("ib_send_bw", "-n", "500", "-s", "64", "-I", "64")
	for _, program := range []string{"ib_send_bw", "ib_send_lat"} {
		perf(program, "-n", "500", "-c", "UD")
		perf(program, "-n", "500", "-c", "UC", "-s", "2048")
	}
	for _, program := range []string{"ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat", "ib_atomic_bw", "ib_atomic_lat"} {
		perf(program, "-n", "500", "-c", "XRC")
	}
	perf("ib_send_bw", "-n", "500", "-c", "XRC", "--use_old_post_send", "-q", "4")
	perf("ib_send_lat", "-n", "500", "-c", "UD", "-e")
	perf("ib_write_lat", "-n", "500", "-c", "UC", "-s", "2048")
	// perftest waits for every message, so these hang if the sender overruns the receiver's socket.
	perf("ib_send_bw", "-n", "5000", "-c", "UC")
	perf("ib_write_bw", "-n", "5000", "-c", "UC")
	perf("ib_send_bw", "-n", "500", "-c", "UC", "--rate_limit=4", "--rate_units=g", "--rate_limit_type=SW", "--burst_size=8")
	return append(all, ucx()...)
}

// ucx returns the cases of UCX's own test program: over one transport without UCX's protocols
// (rc_verbs, ud_verbs), and with these protocols (UCX_TLS).
func ucx() []test {
	var all []test
	add := func(skip, tls, what string, args ...string) {
		// With MPI, as in Debian 13, ucx_perftest is a rank of it unless a terminal is its input.
		t := test{Section: "ucx-utils", Run: true, Terminal: true, Skip: skip}
		t.Args = append([]string{"ucx_perftest", "-t", what}, args...)
		if t.Name = strings.Join(t.Args, " "); tls != "" {
			t.Env = []string{"UCX_TLS=" + tls}
			t.Name = t.Env[0] + " " + t.Name
		}
		t.Args = append(t.Args, "-n", "1000", "-w", "100", "-f")
		all = append(all, t)
	}
	for _, what := range []string{"am_lat", "am_bw", "put_lat", "put_bw", "get", "add_lat", "add_mr", "fadd", "swap", "cswap"} {
		layouts := []string{"short", "bcopy", "zcopy"}
		switch what {
		case "am_lat", "am_bw":
			layouts = append(layouts, "shortiov")
		case "get":
			layouts = layouts[1:]
		case "add_lat", "add_mr", "fadd", "swap", "cswap":
			layouts = layouts[:1]
		}
		for _, layout := range layouts {
			for _, transport := range []string{"rc_verbs", "ud_verbs"} {
				args, skip := []string{"-d", "softhca0:1", "-x", transport, "-D", layout}, ""
				switch {
				case transport == "ud_verbs" && !strings.HasPrefix(what, "am_"):
					skip = "UCX has messages only over datagrams"
				case what == "swap":
					skip = "verbs have no swap, and this does without UCX's protocols"
				case what == "get" && layout == "zcopy":
					args = append(args, "-s", "1000") // UCX copies shorter messages
				}
				add(skip, "", what, args...)
			}
		}
	}
	for _, tls := range []string{"rc_v", "ud_v"} {
		for _, what := range []string{
			"tag_lat", "tag_bw", "tag_sync_lat", "tag_sync_bw", "ucp_put_lat", "ucp_put_bw", "ucp_get", "ucp_add", "ucp_fadd",
			"ucp_swap", "ucp_cswap", "stream_bw", "stream_lat", "ucp_am_lat", "ucp_am_bw",
		} {
			add("", tls, what)
		}
		add("", tls, "tag_lat", "-s", "100000")
		add("", tls, "tag_lat", "-E", "sleep", "-I")
	}
	return all
}

// lone is a program that needs no peer.
type lone struct {
	section, name string
	args          []string
	want          string // text that its output must contain
	env           []string
	addrs         []string // of its adapters; empty: the first of addrs4
	stays         bool     // it runs until it is killed
}

// alone lists all programs without a peer.
var alone = []lone{
	{section: "ibverbs-utils", name: "ibv_devices", args: []string{"ibv_devices"}, want: "softhca0"},
	{section: "ibverbs-utils", name: "ibv_devices with two adapters", args: []string{"ibv_devices"}, want: "softhca1", addrs: addrs4[:]},
	{section: "ibverbs-utils", name: "ibv_devinfo -v", args: []string{"ibv_devinfo", "-v"}, want: "RoCE v2"},
	{section: "ibverbs-utils", name: "ibv_devinfo -l", args: []string{"ibv_devinfo", "-l"}, want: "1 HCA found"},
	{
		section: "ibverbs-utils", name: "ibv_devinfo -d softhca1 with two adapters", args: []string{"ibv_devinfo", "-v", "-d", "softhca1"},
		want: "::ffff:127.0.0.2, RoCE v2", addrs: addrs4[:],
	},
	{
		section: "ibverbs-utils", name: "ibv_asyncwatch", args: []string{"stdbuf", "-oL", "ibv_asyncwatch", "-d", "softhca0"},
		want: "IBV_EVENT_PORT_ERR", env: []string{"SOFTHCA_FAULTS=event type=PORT_ERR after=200ms"}, stays: true,
	},
	{
		section: "libfabric-bin", name: "fi_info -p verbs", args: []string{"fi_info", "-p", "verbs"},
		want: "type: FI_EP_MSG", addrs: outside[:1],
	},
	{
		section: "libfabric-bin", name: "fi_info -p 'verbs;ofi_rxm'", args: []string{"fi_info", "-p", "verbs;ofi_rxm"},
		want: "type: FI_EP_RDM", addrs: outside[:1],
	},
	{section: "ucx-utils", name: "ucx_info -d: rc_verbs", args: []string{"ucx_info", "-d"}, want: "#      Transport: rc_verbs\n#         Device: softhca0:1"},
	{section: "ucx-utils", name: "ucx_info -d: ud_verbs", args: []string{"ucx_info", "-d"}, want: "#      Transport: ud_verbs\n#         Device: softhca0:1"},
}

//go:build linux

package main

import "fmt"

// test is a program that is run: its server, and its client, which is given the
// server's address as the last argument.
type test struct {
	Section string
	Name    string // the program and its arguments, as a user would write them
	Args    []string
	GID     string // the option that names the entry of the GID table
	V6      bool
}

// tests returns all programs that are a server and a client.
func tests() []test {
	var all []test
	add := func(section, gid string, v6 bool, args ...string) {
		t := test{Section: section, Args: args, GID: gid, V6: v6}
		for i, a := range args {
			if i > 0 {
				t.Name += " "
			}
			t.Name += a
		}
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
			if op != "write" { // which has no events
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
	perf("ib_send_lat", "-n", "500", "-c", "UD", "-e")
	perf("ib_write_lat", "-n", "500", "-c", "UC", "-s", "2048")
	return all
}

// alone are programs that need no partner, and what their output holds if they
// ran.
var alone = []struct {
	name string
	args []string
	want string
}{
	{"ibv_devices", []string{"ibv_devices"}, "softhca0"},
	{"ibv_devinfo -v", []string{"ibv_devinfo", "-v"}, "RoCE v2"},
	{"ibv_devinfo -l", []string{"ibv_devinfo", "-l"}, "1 HCA found"},
}

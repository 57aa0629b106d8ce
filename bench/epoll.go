package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/softhca/softhca/internal/libraries"
)

// Servers and clients that sleep in epoll_wait: the program of bench/epoll, over our libraries and
// over TCP.

// epollHeader is the header that compiling the program needs in addition to those of the libraries.
const epollHeader = "rdma/rdma_cma.h"

// buildEpoll compiles the program of a source tree.
func buildEpoll(ctx context.Context, tree, to string) error {
	cc, err := libraries.Compiler()
	if err != nil {
		return err
	}
	sources, err := filepath.Glob(filepath.Join(tree, "bench", "epoll", "*.c"))
	if err != nil {
		return err
	}
	args := append([]string{libraries.Dialect, "-O2", "-g", "-Wall", "-Wextra", "-pthread", "-o", to}, sources...)
	if out, err := exec.CommandContext(ctx, cc, append(args, "-lrdmacm", "-libverbs")...).CombinedOutput(); err != nil {
		return fmt.Errorf("build bench/epoll: %w\n%s", err, out)
	}
	return nil
}

// epollMissing returns why the program cannot be built here, empty if it can.
func epollMissing() string {
	if runtime.GOOS != "linux" {
		return "needs Linux"
	}
	cc, err := libraries.Compiler()
	if err != nil {
		return "needs a C compiler: apt install gcc"
	}
	cmd := exec.Command(cc, "-E", "-x", "c", "-")
	cmd.Stdin = strings.NewReader("#include <" + epollHeader + ">\n")
	if cmd.Run() != nil {
		return "needs the header " + epollHeader + ": apt install librdmacm-dev"
	}
	return ""
}

// asleep returns the program over a transport. wire is empty for TCP.
func asleep(wire string, size, connections, threads int) subject {
	s := subject{
		name: "TCP", run: runEpollTCP, reads: requestRate,
		args: []string{"tcp", "-b", strconv.Itoa(size), "-c", strconv.Itoa(connections), "-t", strconv.Itoa(threads)},
	}
	if wire != "" {
		s.name, s.run, s.wire, s.args[0] = wire, runEpoll, wire, "rdma"
	}
	return s
}

// epollMeasurements returns the measurements of programs that sleep in epoll_wait, in the order of
// the table.
func epollMeasurements() (list []measurement) {
	for _, w := range []struct {
		wire, name string
		ratio      float64
	}{{"udp", "UDP", 0.8}, {"auto", "shared memory", 1.2}} {
		for _, threads := range []int{1, 4} {
			for _, connections := range []int{1, 20, 200} {
				for _, size := range []int{64, 4 << 10, 64 << 10} {
					list = append(list, measurement{
						name: fmt.Sprintf("epoll, %s, %s, %s, %s", w.name, sizeName(size), plural(connections, "connection"), plural(threads, "thread")),
						unit: "k/s", target: atLeast(w.ratio),
						own: asleep(w.wire, size, connections, threads), reference: asleep("", size, connections, threads),
					})
				}
			}
		}
	}
	return list
}

// plural returns a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// requestRate finds the rate that the program prints, in thousand requests per second.
func requestRate(out string) (float64, error) {
	words := strings.Fields(out)
	if i := slices.Index(words, "requests/s,"); i > 0 {
		v, err := strconv.ParseFloat(words[i-1], 64)
		return v / 1e3, err
	}
	return 0, fmt.Errorf("bench/epoll prints no rate: %q", lastLines(out))
}

// epollCommand returns the command line of the program, without its address and port.
func (p *programs) epollCommand(s *subject) []string {
	args := slices.Concat([]string{p.epoll}, s.args, []string{"-d", strconv.FormatInt(time.Duration(p.seconds*float64(time.Second)).Milliseconds(), 10)})
	if s.run == runEpoll {
		args = slices.Concat([]string{p.softhca, "run", "--wire", s.wire, "--"}, args)
	}
	return args
}

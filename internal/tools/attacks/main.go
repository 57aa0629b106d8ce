package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"time"
)

// attack is a group of tests of one package.
type attack struct {
	what  string
	pkg   string
	run   string   // which tests
	flags []string // of the package's tests
}

// attacks are the groups, by the sections of docs/security.md.
var attacks = [...]attack{
	{"another user squats, floods or outlives the names of an address", "./internal/broker", "Squat|Name|Flood|Stranger|Deputy|Away|Overflow|Hostile|Forked|ClosesNames", nil},
	{"a process that shares memory writes garbage, or meets ten thousand times", "./internal/fabric/near", "Garbage|Meets|Arrivals|Bounded|Visitor|Stranger", []string{"-near-meetings", "10000", "-near-garbage", "1000"}},
	{"a process that shares memory sends hostile packets, or never reads", "./internal/fabric/near/campaign", "Hostile|NeverReads|AnotherUser", []string{"-near-rounds", "10"}},
	{"a process lies when it meets another", "./internal/fabric/near/meeting", "Another|False|Strangers|Attempts|NotAllowed|WakesNever", nil},
	{"another user has the secret, or replaces it", "./internal/identity", "Secret", nil},
	{"another user squats the directory for what adapters share", "./internal/userdir", "Home", nil},
	{"another user reserves all names", "./cmd/softhca/internal/launch", "Reserved", nil},
	{"the user of a privileged program, in C", "./capi/test", "Privileged", nil},
	{"the user of a privileged program, in Go", "./verbs", "Privileged", nil},
	{"the user of the privileged command", "./cmd/softhca", "Privileged", nil},
	{"a stranger guesses PSNs for two minutes of virtual time", "./internal/qp", "Strangers?(NAKs|Without|During|Answer)", []string{"-stranger-time", "2m"}},
	{"strangers on the peer's host, over sockets", "./internal/driver", "Strangers|Forgers", []string{"-strangers", "20s"}},
	{"hostile packets against a queue pair and a connection manager", "./internal/hca", "Attacks|Sweep|CMFloods", []string{"-attack-packets", "1000000"}},
	{"a stranger reflects, or fills, the connection manager", "./internal/cm", "Reflected|DrawsThree|Silent|Examin|Outcomes|Stranger|Flood", nil},
	{"REQs over UDP fill a listener", "./rdmacm", "Flood", []string{"-flood", "100000"}},
	{"a peer opens gaps and never closes them", "./internal/qp", "L2_Kept", nil},
	{"text from outside", "./cmd/softhca", "Outside", nil},
	{"hostile captures", "./internal/explain", "Comments|Bound|Many|Full|Repeats|Restarts|Early|Flipped|Unpaired|Pending|Guess", nil},
	{"silent and hostile TCP clients", "./cmd/softhca/internal/...", "Silent|Hostile", nil},
}

func main() {
	run := flag.String("run", "", "run only the groups whose description contains this `text`")
	list := flag.Bool("list", false, "print the groups")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./internal/tools/attacks [-run TEXT] [-list]\n\nRuns the attack tests for longer than make check does: about ten minutes.")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var chosen []attack
	for _, a := range attacks {
		if strings.Contains(a.what, *run) {
			chosen = append(chosen, a)
		}
	}
	if len(chosen) == 0 {
		fmt.Fprintf(os.Stderr, "attacks: no group contains %q; -list prints them\n", *run)
		os.Exit(2)
	}
	if *list {
		for _, a := range chosen {
			fmt.Printf("%s  (%s)\n", a.what, a.pkg)
		}
		return
	}
	if failed := runAll(ctx, os.Stdout, chosen); failed > 0 {
		fmt.Fprintf(os.Stderr, "attacks: %d of %d groups failed\n", failed, len(chosen))
		os.Exit(1)
	}
}

// runAll runs the groups one after the other and returns how many failed.
func runAll(ctx context.Context, w io.Writer, groups []attack) (failed int) {
	begun := time.Now()
	for i, a := range groups {
		fmt.Fprintf(w, "[%2d/%d] %s\n", i+1, len(groups), a.what)
		out, err := a.test(ctx)
		verdict := outcome(out)
		if err != nil {
			failed++
			verdict = fmt.Sprintf("FAILED (%v)\n%s", err, out)
		}
		fmt.Fprintf(w, "        %s, %v in all\n", verdict, time.Since(begun).Round(time.Second))
		if ctx.Err() != nil {
			return failed + len(groups) - i - 1
		}
	}
	return failed
}

// waitLimit is how long go and its tests have after an interruption to end and to close their
// output.
const waitLimit = 10 * time.Second

// test runs the tests of a group. A group without a test fails: its pattern is out of date.
func (a *attack) test(ctx context.Context) (string, error) {
	args := []string{"test", "-count=1", "-timeout", "20m", "-v", "-run", a.run, a.pkg}
	cmd := exec.CommandContext(ctx, "go", append(args, a.flags...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = waitLimit
	out, err := cmd.CombinedOutput()
	if passed, skipped := count(string(out)); err == nil && passed+skipped == 0 {
		err = fmt.Errorf("no test of %s matches %q", a.pkg, a.run)
	}
	return string(out), err
}

// outcome summarizes the output of tests without a failure.
func outcome(out string) string {
	switch passed, skipped := count(out); {
	case skipped == 0:
		return "ok"
	case passed == 0:
		return "skipped (run as root)"
	default:
		return fmt.Sprintf("ok, %d skipped (run as root)", skipped)
	}
}

// count returns how many tests passed and how many were skipped.
func count(out string) (passed, skipped int) {
	return strings.Count(out, "--- PASS: "), strings.Count(out, "--- SKIP: ")
}

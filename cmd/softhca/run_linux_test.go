package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/internal/must"
)

// installation is the command, installed with its libraries.
type installation struct{ command, libs string }

// install installs the command with the preload library. No program of these tests uses
// RDMA, so libibverbs is a copy of the preload library, and the engine an empty file.
func install(t *testing.T) installation {
	t.Helper()
	if _, err := libraries.Compiler(); err != nil {
		t.Skip(err) // the preload library is in C
	}
	prefix := t.TempDir()
	i := installation{filepath.Join(prefix, "bin", "softhca"), filepath.Join(prefix, "lib", "softhca")}
	self, err := os.Executable()
	must.Do(t, err)
	must.Do(t, errors.Join(
		os.MkdirAll(filepath.Dir(i.command), 0o755), os.MkdirAll(i.libs, 0o755), copyFile(i.command, self),
		os.WriteFile(filepath.Join(i.libs, libraries.Engine), nil, 0o644),
		libraries.BuildOne(t.Context(), "../..", i.libs, libraries.Preload),
		copyFile(filepath.Join(i.libs, libraries.Verbs), filepath.Join(i.libs, libraries.Preload)),
	))
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, name := range []string{"LD_PRELOAD", "LD_LIBRARY_PATH", "SOFTHCA_ADDR", "SOFTHCA_FAULTS", "SOFTHCA_GUID", "SOFTHCA_CHOSEN"} {
		t.Setenv(name, "") // restores it in the end
		must.Do(t, os.Unsetenv(name))
	}
	return i
}

func copyFile(to, from string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o755)
}

// run runs a program and returns how it ended and what it printed.
func (i *installation) run(t *testing.T, args ...string) (state *os.ProcessState, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), i.command, append([]string{"run"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return cmd.ProcessState, out.String(), errs.String()
}

// gidLine returns what the file of the GID of an IPv4 address says.
func gidLine(addr string) string {
	gid := netip.MustParseAddr(addr).As4()
	return fmt.Sprintf("0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x\n", gid[0], gid[1], gid[2], gid[3])
}

const sysClass = "/sys/class/infiniband"

// TestRun runs programs that look at the adapter.
func TestRun(t *testing.T) {
	i := install(t)
	addr := loopback(60)
	for _, c := range []struct {
		args []string
		code int
		want string // of what is printed
		errs string // likewise
	}{
		{[]string{"--", "ls", sysClass + "/softhca0/device/net/"}, 0, "lo\n", ""},
		{[]string{"ls", sysClass}, 0, "softhca0\n", ""},
		{[]string{"--device", "mlx5_0", "--", "ls", sysClass}, 0, "mlx5_0\n", ""},
		{[]string{"--addr", addr, "--", "cat", sysClass + "/softhca0/ports/1/gids/0"}, 0,
			gidLine(addr), ""},
		{[]string{"--addr", addr + "," + loopback(61), "--", "sh", "-c", "ls " + sysClass + "/*/ports/1/gids; echo $SOFTHCA_ADDR"}, 0,
			"0\n1\n" + addr + "," + loopback(61) + "\n", ""},
		{[]string{"--addr", addr, "--addr", loopback(61), "--", "sh", "-c", "cd " + sysClass + "; ls; cat softhca1/ports/1/gids/0; ls /dev/infiniband; " +
			"stat -Lc %T /dev/infiniband/*; echo $SOFTHCA_ADDR"}, 0,
			"softhca0\nsofthca1\n" + gidLine(loopback(61)) + "rdma_cm\nuverbs0\nuverbs1\n79\nc0\nc1\n" + addr + ";" + loopback(61) + "\n", ""},
		{[]string{"--addr", addr, "--addr", loopback(61) + "," + addr, "--", "true"}, 125, "", "an address belongs to one adapter"},
		{[]string{"--", "sh", "-c", "cat " + sysClass + "/softhca0/ports/1/hw_counters/sent_pkts"}, 0, "0\n", ""},
		{[]string{"sh", "-c", "exit 7"}, 7, "", ""},
		{[]string{"--", "no such program"}, 127, "", "softhca: run: \"no such program\": executable file not found in $PATH: is it installed?\n"},
		{[]string{"--", "/no/such/program"}, 127, "", "softhca: run: \"/no/such/program\": no such file or directory\n"},
		{[]string{"--", "/etc/passwd"}, 126, "", "permission denied: is it a program, and executable?\n"},
	} {
		state, out, errs := i.run(t, c.args...)
		if state.ExitCode() != c.code || out != c.want || !strings.Contains(errs, c.errs) || (errs == "") != (c.errs == "") {
			t.Errorf("run %q: exit code %d, want %d\n%q, want %q\n%q, want %q", c.args, state.ExitCode(), c.code, out, c.want, errs, c.errs)
		}
	}
	state, _, _ := i.run(t, "--", "sh", "-c", "kill -TERM $$")
	if status, ok := state.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
		t.Errorf("a program that a signal ends: %v", state)
	}
}

// failure is a case in which run itself fails.
type failure struct {
	env  string // NAME=VALUE
	args []string
	errs []string // parts of the message
}

// failsBefore returns cases in which run fails before it starts the program. dir is the
// working directory.
func failsBefore(dir string) []failure {
	return []failure{
		{"", []string{"--capture", "/no/such/x.pcapng"}, []string{"--capture /no/such/x.pcapng: ", "no such file or directory", "directory that exists"}},
		{"", []string{"--capture", dir}, []string{"--capture " + dir + ": ", "is a directory"}},
		{"", []string{"--capture", ""}, []string{"--capture is empty"}},
		{"", []string{"--expect", "clean"}, []string{"--expect and --require-packets", "add --explain"}},
		{"", []string{"--fault", "dorp"}, []string{"--fault: ", `"dorp"`, "did you mean drop?"}},
		{"", []string{"--fault-file", "nothing"}, []string{"--fault-file nothing: ", "no such file", "name a file"}},
		{"", []string{"--fault-file", dir}, []string{"--fault-file " + dir + ": ", "is a directory", "name a file"}},
		{"", []string{"--fault-file", "rules"}, []string{"rules: ", "did you mean drop?"}},
		{"", []string{"--fault-file", "binary"}, []string{"--fault-file binary: want text"}},
		{"", []string{"--fault-seed", "x"}, []string{`--fault-seed "x": want a number`}},
		{"", []string{"--log-format", "xml"}, []string{`--log-format "xml": want text or json`}},
		{"", []string{"--log-level", "loud"}, []string{`--log-level "loud": want debug`}},
		{"", []string{"--transport", "raw"}, []string{"--transport raw", "leave --transport out"}},
		{"", []string{"--device"}, []string{`--device "--": want a name`}},
		{"", []string{"--device", "a/b"}, []string{"--device: ", `"a/b": want 1 to 63 letters`}},
		{"", []string{"--addr", "192.0.2.99"}, []string{"--addr 192.0.2.99: ", "`ip address` lists"}},
		{"", []string{"--addr", "nosuch0"}, []string{"--addr nosuch0: ", "neither an IP address nor a network interface", "`ip address` lists"}},
		{"", []string{"--addr", "224.0.0.1"}, []string{"--addr 224.0.0.1: ", "`ip address` lists"}},
		{"", []string{"--no-such-option"}, []string{"has no option --no-such-option"}},
		{"SOFTHCA_CAPTURE=/no/such/x.pcapng", nil, []string{"SOFTHCA_CAPTURE /no/such/x.pcapng: "}},
		{"SOFTHCA_FAULTS_SEED=x", nil, []string{`SOFTHCA_FAULTS_SEED "x": want a number`}},
		{"SOFTHCA_FAULTS_SEED=0", []string{"--fault", "drop nth=1"}, []string{`SOFTHCA_FAULTS_SEED "0": want a number`}},
		{"SOFTHCA_FAULTS=dorp", nil, []string{"SOFTHCA_FAULTS: ", "did you mean drop?"}},
		{"SOFTHCA_FAULTS=@nothing", nil, []string{"SOFTHCA_FAULTS nothing: ", "no such file"}},
		{"SOFTHCA_FAULTS=drop nth=1\n@rules", nil, []string{"rules: ", "did you mean drop?"}},
		{"SOFTHCA_LOG_FORMAT=xml", nil, []string{`SOFTHCA_LOG_FORMAT "xml": want text or json`}},
		{"SOFTHCA_LOG_LEVEL=loud", nil, []string{`SOFTHCA_LOG_LEVEL "loud": want debug`}},
		{"SOFTHCA_DEVICE=a/b", nil, []string{"SOFTHCA_DEVICE: ", `"a/b": want 1 to 63 letters`}},
		{"SOFTHCA_ADDR=192.0.2.99", nil, []string{"SOFTHCA_ADDR 192.0.2.99: ", "`ip address` lists"}},
		{"SOFTHCA_GUID=x", nil, []string{`SOFTHCA_GUID="x": want a GUID`}},
		{"TMPDIR=/no/such", nil, []string{"/no/such", "set TMPDIR to use another one"}},
		{"TMPDIR=/no/such", []string{"--explain"}, []string{"/no/such", "set TMPDIR to use another one"}},
	}
}

// TestRunFailsBefore checks each failure of run itself: the exit code is 125, and the message
// names the option or variable and its value.
func TestRunFailsBefore(t *testing.T) {
	i := install(t)
	dir := t.TempDir()
	t.Chdir(dir)
	must.Do(t, errors.Join(os.WriteFile("rules", []byte("dorp\n"), 0o600), os.WriteFile("binary", []byte{0}, 0o600)))
	for _, c := range failsBefore(dir) {
		t.Run(c.env+strings.Join(c.args, " "), func(t *testing.T) {
			if name, value, ok := strings.Cut(c.env, "="); ok {
				t.Setenv(name, value)
			}
			state, out, errs := i.run(t, append(slices.Clone(c.args), "--", "echo", "ran")...)
			if state.ExitCode() != 125 || out != "" {
				t.Errorf("exit code %d, want 125, and %q is printed", state.ExitCode(), out)
			}
			for _, want := range c.errs {
				if !strings.Contains(errs, want) {
					t.Errorf("%q is not in %s", want, errs)
				}
			}
		})
	}
	if state, _, errs := i.run(t); state.ExitCode() != 125 || !strings.Contains(errs, "needs a program") {
		t.Errorf("without a program: %v, %s", state, errs)
	}
	// The check of a capture file neither creates nor changes it.
	must.Do(t, os.WriteFile("old.pcapng", []byte("old"), 0o600))
	for _, name := range []string{"new.pcapng", "old.pcapng", "of-%p.pcapng", "/dev/null"} {
		if state, out, errs := i.run(t, "--capture", name, "--", "echo", "ran"); state.ExitCode() != 0 || out != "ran\n" {
			t.Errorf("--capture %s: %v, %q, %s", name, state, out, errs)
		}
	}
	if left, err := filepath.Glob("*.pcapng"); err != nil || !slices.Equal(left, []string{"old.pcapng"}) {
		t.Errorf("programs without an adapter leave %q, %v", left, err)
	}
	if b, err := os.ReadFile("old.pcapng"); err != nil || string(b) != "old" {
		t.Errorf("a capture that was there has %q, %v", b, err)
	}
}

// TestRunEnvironment hands the flags to the program, and to those that it runs.
func TestRunEnvironment(t *testing.T) {
	i := install(t)
	t.Setenv("LD_LIBRARY_PATH", "/somewhere")
	dir := t.TempDir()
	t.Chdir(dir)
	must.Do(t, os.WriteFile("rules", []byte("drop nth=3\n"), 0o600))
	flags := []string{"--addr", loopback(62), "--fault", "drop p=0.5", "--fault", "dup nth=2", "--fault-file", "rules", "--fault-seed", "9",
		"--capture", "x.pcapng", "--log-level", "error", "--log-format", "json", "--device", "rdma7"}
	_, out, errs := i.run(t, append(flags, "--", "sh", "-c", "env -0 | tr '\\n\\0' ';\\n'")...)
	env := strings.Split(out, "\n")
	for _, want := range []string{
		"SOFTHCA_ADDR=" + loopback(62), "SOFTHCA_FAULTS=drop p=0.5;dup nth=2;@" + filepath.Join(dir, "rules"),
		"SOFTHCA_FAULTS_SEED=9", "SOFTHCA_CAPTURE=" + filepath.Join(dir, "x.pcapng"), "SOFTHCA_LOG_LEVEL=error", "SOFTHCA_LOG_FORMAT=json", "SOFTHCA_DEVICE=rdma7",
		"LD_LIBRARY_PATH=" + i.libs + ":/somewhere", "LD_PRELOAD=" + filepath.Join(i.libs, libraries.Preload),
	} {
		if !slices.Contains(env, want) {
			t.Errorf("no %q in\n%s%s", want, out, errs)
		}
	}
	if strings.Contains(out, "SOFTHCA_GUID=") {
		t.Errorf("a GUID that stays is in the environment: %s", out)
	}
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "rules")) // a file
	if _, out, errs = i.run(t, "--", "sh", "-c", "echo $SOFTHCA_GUID; cat "+sysClass+"/*/node_guid"); len(strings.Fields(out)) != 2 ||
		strings.Fields(out)[0] != strings.Fields(out)[1] {
		t.Errorf("without a home the GUID of the adapter and that of the sysfs image are %q; %s", out, errs)
	}
	// The inner command takes the outer one's settings.
	t.Setenv("SOFTHCA_DEVICE", "outer")
	_, out, errs = i.run(t, "--addr", loopback(63), "--", i.command, "run", "--", "sh", "-c", "ls "+sysClass+"; echo $SOFTHCA_ADDR $LD_PRELOAD")
	if want := "outer\n" + loopback(63) + " " + filepath.Join(i.libs, libraries.Preload) + "\n"; out != want {
		t.Errorf("run in run: %q, want %q; %s", out, want, errs)
	}
	// But not an address or a GUID that the outer one chose itself.
	const tell = "echo $SOFTHCA_ADDR $SOFTHCA_GUID $SOFTHCA_CHOSEN"
	_, out, errs = i.run(t, "--", "sh", "-c", tell+"; "+i.command+" run -- sh -c '"+tell+"'")
	if w := strings.Fields(out); len(w) != 8 || w[0] == w[4] || w[1] == w[5] || w[0] != w[2] || w[1] != w[3] {
		t.Errorf("two free addresses, and GUIDs that were drawn, inside of each other: %q; %s", out, errs)
	}
	t.Setenv("SOFTHCA_FAULTS", "dorp")
	if state, _, errs := i.run(t, "--", "true"); state.ExitCode() != 125 || !strings.Contains(errs, "SOFTHCA_FAULTS: unknown fault") {
		t.Errorf("a mistake in the environment: %v, %s", state, errs)
	}
}

// TestRunTogether runs several programs at once without --addr. Each has an address of its
// own until it and all processes that it started have ended.
func TestRunTogether(t *testing.T) {
	i := install(t)
	const many = 6
	stdin, gate, err := os.Pipe() // closing gate ends the processes in the background
	must.Do(t, err)
	defer func() { _ = errors.Join(stdin.Close(), gate.Close()) }()
	var wg sync.WaitGroup
	addrs := make([]string, many)
	for k := range many {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), i.command, "run", "--", "sh", "-c", "exec 3<&0; cat <&3 >/dev/null 2>&1 & echo $SOFTHCA_ADDR")
			cmd.Stdin = stdin
			out, err := cmd.Output()
			if addrs[k] = string(out); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	slices.Sort(addrs)
	if len(slices.Compact(slices.Clone(addrs))) != many || addrs[0] == "" {
		t.Errorf("addresses of programs that run at once: %q", addrs)
	}
}

// TestRunBusy runs a program on an address whose port another process holds: a warning names
// that process, and a program that opens no adapter runs.
func TestRunBusy(t *testing.T) {
	i := install(t)
	addr := loopback(64)
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(addr), 4791)))
	must.Do(t, err)
	defer func() { _ = c.Close() }() // it only holds the port
	state, out, errs := i.run(t, "--addr", addr, "--", "ls", sysClass)
	if state.ExitCode() != 0 || out != "softhca0\n" || !strings.Contains(errs, fmt.Sprintf("(process %d)", os.Getpid())) {
		t.Errorf("%v, %q, %q", state, out, errs)
	}
}

// TestRunElsewhere installs the libraries below a directory with a blank in its name, which
// LD_PRELOAD cannot express: the error says what to do.
func TestRunElsewhere(t *testing.T) {
	i := install(t)
	blank := filepath.Join(t.TempDir(), "a b")
	must.Do(t, errors.Join(os.MkdirAll(filepath.Join(blank, "lib"), 0o755), os.MkdirAll(filepath.Join(blank, "bin"), 0o755),
		os.Rename(i.libs, filepath.Join(blank, "lib", "softhca")), os.Rename(i.command, filepath.Join(blank, "bin", "softhca"))))
	i.command = filepath.Join(blank, "bin", "softhca")
	if state, _, errs := i.run(t, "--", "true"); state.ExitCode() != 125 || !strings.Contains(errs, "install them elsewhere") {
		t.Errorf("libraries below a directory with a blank: %v, %s", state, errs)
	}
}

// TestRunSanitized runs a program that was compiled to check its memory accesses.
func TestRunSanitized(t *testing.T) {
	i := install(t)
	cc, err := libraries.Compiler()
	must.Do(t, err)
	program := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command(cc, "-fsanitize=address", "-x", "c", "-o", program, "-")
	cmd.Stdin = strings.NewReader("#include <stdio.h>\n#include <unistd.h>\n" +
		"int main(void) { printf(\"%d\\n\", access(\"/sys/class/infiniband/softhca0\", F_OK)); return 0; }\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		// Small compilers have none.
		t.Skipf("no address sanitizer: %s", out)
	}
	t.Setenv("ASAN_OPTIONS", "detect_leaks=0")
	if state, out, errs := i.run(t, "--", program); state.ExitCode() != 0 || out != "0\n" || errs != "" {
		t.Errorf("%v, %q, %s", state, out, errs)
	}
}

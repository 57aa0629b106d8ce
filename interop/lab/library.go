//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// mark is the prefix of observe's lines.
const mark = "interop: "

// observe runs a program and then prints the time of its end and the files of the
// adapter's counters, which the program updated. A SIGINT to the process group is for
// the program alone; the shell ignores it.
const observe = `trap : INT
"$@"
status=$?
echo "` + mark + `ended $(date +%s.%N)" >&2
cd /sys/class/infiniband/softhca0/ports/1 || exit 125
for f in hw_counters/* counters/excessive_buffer_overrun_errors counters/port_rcv_errors; do
	read value <$f && echo "` + mark + `${f##*/} $value" >&2
done
exit $status
`

// OnLibrary starts a program that is written for libibverbs on ours, by softhca run with
// more options: with an adapter on the address, and with a capture of its own. The case
// has what the adapter counted. When ctx ends the program is killed.
func (l *Lab) OnLibrary(ctx context.Context, addr netip.Addr, options []string, program ...string) (Process, error) {
	capture, own := l.opening()
	pictures := filepath.Join(l.files, "run") // of /sys: other guests' adapters have the same address
	if err := os.MkdirAll(pictures, 0o700); err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	// The library appends, and an earlier try of the case may have left a capture.
	if err := os.Remove(capture); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("lab: %w", err)
	}
	args := append([]string{"run", "--addr", addr.String(), "--capture", capture, "--log-level", "info"}, options...)
	args = append(args, "--", "sh", "-c", observe, "sh")
	cmd := l.command(ctx, append(args, program...)...)
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+pictures)
	// The shell and the program end together.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	p := &local{cmd: cmd, group: true}
	begun := time.Now()
	p.ended = func() {
		t, ok := toldBy(p.Result(0).Stderr, options)
		t.Opened = begun
		l.ended(ctx, own, t, ok)
	}
	return p, l.start(ctx, p)
}

// toldBy returns what a program told that softhca run ran with options. ok is false also if
// it did not tell what became of rules of faults, as when a signal ended it.
func toldBy(stderr string, options []string) (t Told, ok bool) {
	t, ok = parseObserved(stderr)
	return t, ok && (!slices.Contains(options, "--fault") || strings.Contains(stderr, ruled))
}

// parseObserved returns what observe told. ok is false if it told no counters:
// it was killed.
func parseObserved(stderr string) (t Told, ok bool) {
	t.Counters = Counters{}
	for line := range strings.Lines(stderr) {
		text, ours := strings.CutPrefix(strings.TrimSpace(line), mark)
		name, value, _ := strings.Cut(text, " ")
		if !ours {
			continue
		}
		if name == "ended" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return t, false
			}
			t.At = time.UnixMicro(int64(seconds * 1e6))
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return t, false
		}
		t.Counters[name] = n
	}
	c := t.Counters
	// The port's counters in the files, under the adapter's names. Errors that no
	// other file counts are the port's.
	c["port_overflows"] = c["excessive_buffer_overrun_errors"]
	c["port_truncated"] = c["port_rcv_errors"] - c["drop_malformed"] - c["drop_icrc_errors"]
	delete(c, "excessive_buffer_overrun_errors")
	delete(c, "port_rcv_errors")
	_, t.Faulty = Acted(stderr)
	_, ok = c["rcvd_pkts"]
	return t, ok && !t.At.IsZero()
}

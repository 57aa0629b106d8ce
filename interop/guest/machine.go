//go:build linux

package guest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/softhca/softhca/interop/image"
)

// QEMU is the program that runs a guest.
const QEMU = "qemu-system-x86_64"

// bootLimit bounds the time that a guest may take to boot: ten times what it
// takes on an idle machine.
const bootLimit = 90 * time.Second

// Machine is a guest that runs.
type Machine struct {
	cmd     *exec.Cmd
	console io.WriteCloser
	ended   chan struct{} // closed when QEMU has ended

	mu   sync.Mutex // guards the fields below
	log  []string   // the last lines at the console
	echo io.Writer  // gets the console's output; may be nil
}

// maxLog bounds the lines that are kept of the console.
const maxLog = 1000

// Boot starts a guest at a tap interface and returns when its agent serves.
func Boot(ctx context.Context, img *image.Image, tap string) (*Machine, error) {
	m := &Machine{ended: make(chan struct{})}
	m.cmd = exec.Command(QEMU, arguments(img, tap)...)
	var err error
	if m.console, err = m.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("guest: %w", err)
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("guest: %w", err)
	}
	m.cmd.Stderr = m.cmd.Stdout
	if err := m.cmd.Start(); err != nil {
		return nil, fmt.Errorf("guest: %w", err)
	}
	ready := make(chan struct{})
	go m.read(out, ready)
	limit := time.NewTimer(bootLimit)
	defer limit.Stop()
	select {
	case <-ready:
		return m, nil
	case <-m.ended:
		err = errors.New("it ended")
	case <-limit.C:
		err = fmt.Errorf("it was not ready after %v", bootLimit)
	case <-ctx.Done():
		err = ctx.Err()
	}
	m.Stop()
	return nil, fmt.Errorf("guest: boot: %w\n%s", err, m.Log())
}

// arguments returns QEMU's. Offloads are off: frames look on the tap as they
// would on a wire. It asks for emulation even where the host could virtualise,
// so that all hosts behave alike.
func arguments(img *image.Image, tap string) []string {
	const kernel = "console=ttyS0 panic=-1 quiet nokaslr mitigations=off random.trust_cpu=on tsc=reliable audit=0 edd=off apparmor=0"
	const off = "csum=off,guest_csum=off,gso=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,host_tso4=off,host_tso6=off,host_ufo=off"
	return []string{
		"-name", "softhca-interop", "-machine", "pc,usb=off,hpet=off,vmport=off", "-accel", "tcg,thread=multi", "-cpu", "max,la57=off",
		"-smp", "1", "-m", "512", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", img.Kernel, "-initrd", img.Initrd, "-append", kernel,
		"-netdev", "tap,id=d,ifname=" + tap + ",script=no,downscript=no,vhost=off",
		"-device", "virtio-net-pci,netdev=d,mac=52:54:00:77:00:01,host_mtu=9000,romfile=," + off,
		"-chardev", "stdio,id=c,signal=off", "-serial", "chardev:c",
	}
}

// read reads the console until EOF, and closes ready when the agent says so.
func (m *Machine) read(out io.Reader, ready chan struct{}) {
	r := bufio.NewReader(out)
	line := make([]byte, 0, 256)
	for {
		c, err := r.ReadByte()
		if err != nil {
			break
		}
		m.mu.Lock()
		if m.echo != nil {
			_, _ = m.echo.Write([]byte{c}) // the reader may be gone
		}
		if c == '\n' || len(line) == cap(line) {
			m.log = append(m.log, string(line))
			m.log = slices.Delete(m.log, 0, max(0, len(m.log)-maxLog))
			if ready != nil && strings.Contains(string(line), "interop: ready") {
				close(ready)
				ready = nil
			}
			line = line[:0]
		} else if c != '\r' {
			line = append(line, c)
		}
		m.mu.Unlock()
	}
	_ = m.cmd.Wait() // the exit code adds nothing to the console's output
	close(m.ended)
}

// Log returns the last lines at the console.
func (m *Machine) Log() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.log, "\n")
}

// Alive reports whether the machine runs.
func (m *Machine) Alive() bool {
	select {
	case <-m.ended:
		return false
	default:
		return true
	}
}

// Stop ends the machine at once, as if its power were cut, and waits for it.
func (m *Machine) Stop() {
	_ = m.cmd.Process.Kill() // it may have ended
	<-m.ended
}

// Console connects a terminal to the shell at the machine's console, until in
// ends or the byte leave comes from it, or the machine ends.
func (m *Machine) Console(in io.Reader, out io.Writer, leave byte) error {
	m.mu.Lock()
	m.echo = out
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.echo = nil
		m.mu.Unlock()
	}()
	left := make(chan error, 1)
	go func() {
		_, err := m.console.Write([]byte("\n")) // for a prompt
		for b := make([]byte, 1); err == nil; {
			var n int
			if n, err = in.Read(b); n == 1 && b[0] == leave {
				break
			} else if n == 1 {
				_, err = m.console.Write(b)
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
			err = nil
		}
		left <- err
	}()
	select {
	case err := <-left:
		return err
	case <-m.ended:
		return nil
	}
}

//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/softhca/softhca/interop/frames"
	"github.com/softhca/softhca/interop/guest"
	"github.com/softhca/softhca/interop/image"
	"github.com/softhca/softhca/interop/matrix"
	"github.com/softhca/softhca/interop/netns"
)

// Lab is a guest, its network and our command. Cases use it one at a time; the
// methods that a case calls are safe for concurrent use.
type Lab struct {
	Guest *guest.Guest
	// Dir is a directory for the files of the current case: captures, logs and
	// others. It is kept if the case fails.
	Dir string

	img     *image.Image
	files   string // the directory of our command and its libraries
	tap     *frames.Tap
	machine *guest.Machine
	mtu     int // of both ends

	mu      sync.Mutex // guards the fields below
	log     strings.Builder
	opened  int      // adapters of our command in this case
	before  Counters // the guest's counters at the beginning of the case
	restart bool     // the guest was restarted, which reset its counters
	own     *Own     // what our adapters counted in this case
}

// Command is the name of our command's file.
const Command = "softhca"

// Setup boots a guest and returns the lab around it. It must be called in the
// network that netns.Setup made. Our command and its libraries are in the directory
// files, which is this user's alone.
func Setup(ctx context.Context, img *image.Image, files string) (*Lab, error) {
	tap, err := frames.Watch(netns.Tap)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	l := &Lab{Guest: &guest.Guest{Addr: netns.Peer4}, img: img, files: files, tap: tap, mtu: netns.MaxMTU}
	if l.machine, err = guest.Boot(ctx, img, netns.Tap); err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	return l, nil
}

// Machine returns the guest's machine.
func (l *Lab) Machine() *guest.Machine { return l.machine }

// Close ends the guest.
func (l *Lab) Close() { l.machine.Stop() }

// PowerOff ends the guest at once, as if its power were cut.
func (l *Lab) PowerOff() { l.machine.Stop() }

// PowerOn boots the guest anew after PowerOff.
func (l *Lab) PowerOn(ctx context.Context) error {
	m, err := guest.Boot(ctx, l.img, netns.Tap)
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	l.machine = m
	l.mu.Lock()
	l.restart = true
	l.mu.Unlock()
	if l.mtu != netns.MaxMTU {
		return l.guestMTU(ctx)
	}
	return nil
}

// Begin begins a case whose files go to dir.
func (l *Lab) Begin(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	l.Dir = dir
	before, err := l.settled(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.before, l.restart, l.opened = before, false, 0
	l.own = newOwn()
	l.log.Reset()
	l.mu.Unlock()
	return nil
}

// settled waits until no packet of earlier cases is on its way, and clears the
// record.
func (l *Lab) settled(ctx context.Context) (Counters, error) {
	for {
		l.tap.Reset()
		c, err := l.counters(ctx)
		if err == nil {
			err = l.tap.Sync(ctx)
		}
		if err != nil {
			return c, err
		}
		if n := l.tap.Counts(); n.Out+n.In+n.BadIn+n.BadOut == 0 {
			return c, nil
		}
	}
}

// Own returns the address of our side in a cell, by its IP version; IPv4 if
// the matrix has none.
func (l *Lab) Own(c matrix.Cell) netip.Addr {
	if c.Is("ip", "ipv6") {
		return netns.Host6
	}
	return netns.Host4
}

// Peer returns the address of the guest in a cell.
func (l *Lab) Peer(c matrix.Cell) netip.Addr {
	if c.Is("ip", "ipv6") {
		return netns.Peer6
	}
	return netns.Peer4
}

// GIDIndex returns the entry of the guest's GID table that is the address that
// Peer returns.
func (l *Lab) GIDIndex(c matrix.Cell) int {
	if c.Is("ip", "ipv6") {
		return 2
	}
	return 1
}

// SetMTU gives both ends the MTU for the cell's path MTU, the largest one if
// the matrix has none.
func (l *Lab) SetMTU(ctx context.Context, c matrix.Cell) error {
	mtu := netns.MaxMTU
	if c.Is("mtu", "1024") {
		mtu = 1500
	}
	if mtu == l.mtu {
		return nil
	}
	l.mtu = mtu
	if err := netns.SetMTU(mtu); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	return l.guestMTU(ctx)
}

func (l *Lab) guestMTU(ctx context.Context) error {
	r, err := l.Guest.Run(ctx, fmt.Sprintf("ip link set eth0 mtu %d", l.mtu))
	if err == nil && !r.OK() {
		err = errors.New(r.String())
	}
	if err != nil {
		return fmt.Errorf("lab: the guest's MTU: %w", err)
	}
	return nil
}

// Log keeps a line with the captures of the case.
func (l *Lab) Log(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(&l.log, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05.000")}, args...)...)
}

// Frames returns what was seen on the wire since the case began, in its order.
func (l *Lab) Frames(ctx context.Context) ([]frames.Frame, error) {
	if err := l.tap.Sync(ctx); err != nil {
		return nil, err
	}
	return l.tap.Frames(), nil
}

// Save writes the wire's capture and the log into the directory of the case.
func (l *Lab) Save() error {
	l.mu.Lock()
	text := l.log.String()
	l.mu.Unlock()
	text += "console of the guest:\n" + l.machine.Log() + "\n"
	return errors.Join(
		frames.WriteFile(filepath.Join(l.Dir, "wire.pcap"), l.tap.Frames()),
		os.WriteFile(filepath.Join(l.Dir, "log.txt"), []byte(text), 0o644),
	)
}

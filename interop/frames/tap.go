//go:build linux

package frames

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of the frames kept since the last Reset. Frames beyond them are
// checked and counted, but not kept.
const (
	maxKept      = 1 << 20
	maxKeptBytes = 512 << 20
)

// buffer is how many bytes of frames the kernel may hold until they are read.
const buffer = 256 << 20

// markType is an EtherType for experiments: frames of it are our own marks.
const markType = 0x88B5

// Tap watches an interface. It is safe for concurrent use.
type Tap struct {
	fd, marker int
	ifindex    int
	ended      chan struct{}

	mu      sync.Mutex // guards the fields below
	kept    []Frame
	bytes   int
	counts  Counts
	marks   uint64        // marks sent
	seen    uint64        // the last mark that came
	changed chan struct{} // closed when a mark comes
	err     error
}

// Counts are the frames since the last Reset.
type Counts struct {
	Out, In       int   // with a right ICRC, from this host and to it
	BadOut, BadIn int   // with a wrong ICRC, or malformed
	OutBytes      int64 // UDP payload of the frames with a right ICRC
	InBytes       int64
	InGroup       int     // of those to this host, to multicast groups
	First         []Frame // the first bad ones
	Missed        int     // frames that the kernel dropped because they were read too slowly
}

// maxBad bounds the bad frames that Counts shows.
const maxBad = 5

// Watch begins to watch an interface.
func Watch(ifname string) (*Tap, error) {
	nif, err := net.InterfaceByName(ifname)
	if err != nil {
		return nil, fmt.Errorf("frames: %w", err)
	}
	t := &Tap{ifindex: nif.Index, ended: make(chan struct{}), changed: make(chan struct{})}
	if t.fd, err = packetSocket(nif.Index, unix.ETH_P_ALL); err != nil {
		return nil, err
	}
	if t.marker, err = packetSocket(nif.Index, 0); err != nil {
		return nil, errors.Join(err, unix.Close(t.fd))
	}
	// Beyond the system's limit with the privilege, else up to it.
	if unix.SetsockoptInt(t.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer) != nil {
		_ = unix.SetsockoptInt(t.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer)
	}
	raw := make(chan Frame, 1<<12)
	go t.read(raw)
	go t.check(raw)
	return t, nil
}

func packetSocket(ifindex int, protocol uint16) (int, error) {
	be := protocol<<8 | protocol>>8
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(be))
	if err != nil {
		return -1, fmt.Errorf("frames: packet socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: be, Ifindex: ifindex}); err != nil {
		return -1, errors.Join(fmt.Errorf("frames: bind: %w", err), unix.Close(fd))
	}
	return fd, nil
}

// read takes frames off the socket.
func (t *Tap) read(to chan<- Frame) {
	defer close(to)
	buf := make([]byte, 1<<17)
	for {
		n, from, err := unix.Recvfrom(t.fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			t.mu.Lock()
			t.err = fmt.Errorf("frames: receive: %w", err)
			t.mu.Unlock()
			return
		}
		if n < ethernetLen {
			continue
		}
		out := false
		if sa, ok := from.(*unix.SockaddrLinklayer); ok {
			out = sa.Pkttype == unix.PACKET_OUTGOING
		}
		to <- Frame{Time: time.Now(), Out: out, Raw: append([]byte(nil), buf[:n]...)}
	}
}

// check parses frames and keeps them.
func (t *Tap) check(from <-chan Frame) {
	defer close(t.ended)
	for f := range from {
		if binary.BigEndian.Uint16(f.Raw[12:]) == markType && len(f.Raw) >= ethernetLen+8 {
			t.mark(binary.BigEndian.Uint64(f.Raw[ethernetLen:]))
			continue
		}
		if p, ok := Parse(f.Raw); ok {
			p.Time, p.Out = f.Time, f.Out
			t.keep(p)
		}
	}
}

func (t *Tap) keep(f Frame) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &t.counts
	switch {
	case f.Err == nil && f.Out:
		c.Out++
		c.OutBytes += int64(f.Length)
	case f.Err == nil:
		c.In++
		c.InBytes += int64(f.Length)
		if f.Dst.IsMulticast() {
			c.InGroup++
		}
	case f.Out:
		c.BadOut++
	default:
		c.BadIn++
	}
	if f.Err != nil && len(c.First) < maxBad {
		c.First = append(c.First, f)
	}
	t.bytes += len(f.Raw)
	if t.bytes > maxKeptBytes {
		f.Raw, f.Payload = nil, nil
	}
	if len(t.kept) < maxKept {
		t.kept = append(t.kept, f)
	}
}

func (t *Tap) mark(n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen = max(t.seen, n)
	close(t.changed)
	t.changed = make(chan struct{})
}

// Sync returns once all frames so far have been checked.
func (t *Tap) Sync(ctx context.Context) error {
	t.mu.Lock()
	t.marks++
	want := t.marks
	t.mu.Unlock()
	frame := make([]byte, 60)
	copy(frame, []byte{0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2, markType >> 8, markType & 0xFF})
	binary.BigEndian.PutUint64(frame[ethernetLen:], want)
	if err := unix.Sendto(t.marker, frame, 0, &unix.SockaddrLinklayer{Ifindex: t.ifindex, Halen: 6, Addr: [8]byte{2, 0, 0, 0, 0, 1}}); err != nil {
		return fmt.Errorf("frames: send a mark: %w", err)
	}
	for {
		t.mu.Lock()
		seen, changed, err := t.seen, t.changed, t.err
		t.mu.Unlock()
		switch {
		case seen >= want:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-changed:
		case <-t.ended:
		case <-ctx.Done():
			return fmt.Errorf("frames: wait for a mark: %w", ctx.Err())
		}
	}
}

// Reset clears frames and counts.
func (t *Tap) Reset() {
	t.Counts() // reading clears the kernel's counters
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept, t.bytes, t.counts = nil, 0, Counts{}
}

// Counts returns the counts since the last Reset.
func (t *Tap) Counts() Counts {
	stats, err := unix.GetsockoptTpacketStats(t.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.counts.Missed += int(stats.Drops)
	}
	return t.counts
}

// Frames returns the frames since the last Reset, in their order; those beyond
// the bounds without their bytes. They are not to be changed.
func (t *Tap) Frames() []Frame {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kept[:len(t.kept):len(t.kept)]
}

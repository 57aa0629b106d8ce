//go:build !portable && !ringmodel

package ring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/must"
)

// role is the environment variable that makes the test binary a peer. Its value is what to do, the
// size of the ring, a seed and a number of records.
const role = "SOFTHCA_TEST_RING"

// The descriptors that a peer inherits: its end of the socket of wake-ups, and the parent's
// memory. It sends its own memory through the socket.
const (
	inheritedSocket = 3
	inheritedMemory = 4
)

func TestMain(m *testing.M) {
	if os.Getenv(role) != "" {
		if err := peerProcess(os.Getenv(role)); err != nil {
			fmt.Fprintln(os.Stderr, "peer:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// bell is the socket through which one process wakes the other.
type bell struct{ f *os.File }

// wake wakes the other process, if needed. It waits while the socket is full.
func (b bell) wake(needed bool) error {
	if !needed {
		return nil
	}
	_, err := b.f.Write([]byte{1})
	return err
}

// sleep waits for a wake-up.
func (b bell) sleep() error {
	n, err := b.f.Read(make([]byte, 1))
	if n == 0 && err == nil {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// startPeer starts a process with a role and returns this process's end, the socket, and a function
// that waits for the process.
func startPeer(t testing.TB, size int, what string) (e *end, b bell, wait func()) {
	t.Helper()
	own, err := Create(size)
	must.Do(t, err)
	t.Cleanup(func() { must.Do(t, own.Close()) })
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	ours, theirs := os.NewFile(uintptr(fds[0]), "wake-ups"), os.NewFile(uintptr(fds[1]), "wake-ups")
	t.Cleanup(func() { must.Do(t, ours.Close()) })
	memory := os.NewFile(uintptr(copyOf(t, own.FD())), "memory")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), role+"="+what)
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{theirs, memory}
	must.Do(t, cmd.Start())
	must.Do(t, errors.Join(theirs.Close(), memory.Close()))
	fd, err := receiveFD(ours)
	must.Do(t, err)
	view, err := Attach(fd)
	must.Do(t, err)
	t.Cleanup(func() { must.Do(t, view.Close()) })
	e = &end{own: own, view: view, p: NewProducer(own, view), c: NewConsumer(own, view)}
	return e, bell{ours}, func() {
		t.Helper()
		must.Do(t, cmd.Wait())
	}
}

// receiveFD receives a descriptor.
func receiveFD(f *os.File) (fd int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	oob := make([]byte, unix.CmsgSpace(4))
	read := raw.Read(func(s uintptr) bool {
		_, _, _, _, err = unix.Recvmsg(int(s), make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
		return err != unix.EAGAIN
	})
	if err = errors.Join(err, read); err != nil {
		return -1, err
	}
	all, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(all) != 1 {
		return -1, fmt.Errorf("%d control messages: %w", len(all), err)
	}
	fds, err := unix.ParseUnixRights(&all[0])
	if err != nil {
		return -1, err
	}
	return fds[0], nil
}

// peerProcess is the main function of a peer.
func peerProcess(what string) error {
	var seed uint64
	var size, records int
	var name string
	if _, err := fmt.Sscan(what, &name, &size, &seed, &records); err != nil {
		return err
	}
	own, err := Create(size)
	if err != nil {
		return err
	}
	view, err := Attach(inheritedMemory)
	if err != nil {
		return err
	}
	if err := unix.Sendmsg(inheritedSocket, []byte{0}, unix.UnixRights(own.FD()), nil, 0); err != nil {
		return err
	}
	if err := unix.SetNonblock(inheritedSocket, true); err != nil {
		return err
	}
	e := &end{own: own, view: view, p: NewProducer(own, view), c: NewConsumer(own, view)}
	b := bell{os.NewFile(inheritedSocket, "wake-ups")}
	switch name {
	case "send":
		return e.sendAll(b, seed, records)
	case "echo", "sink":
		defer pin(1)()
		return e.serve(name)
	case "receive":
		return e.receiveAll(b, seed, records)
	}
	return fmt.Errorf("unknown role %s", name)
}

// contents makes the records of a stream: lengths and bytes follow from the seed.
type contents struct {
	random *rand.Rand
	text   []byte
}

func newContents(seed uint64) *contents {
	c := &contents{random: rand.New(rand.NewPCG(seed, 7)), text: make([]byte, 1<<17)}
	for i := 0; i < len(c.text); i += 8 {
		binary.LittleEndian.PutUint64(c.text[i:], c.random.Uint64())
	}
	return c
}

// longest is the size of the longest record of a stream, in a ring that has room for it.
const longest = 1 << 16

// next returns the next record, which is most often short, and its stride.
func (c *contents) next(longest int) (b []byte, stride int) {
	n := 1 + c.random.IntN(200)
	if c.random.IntN(50) == 0 {
		n = 1 + c.random.IntN(longest)
	}
	at := c.random.IntN(len(c.text) - n)
	return c.text[at : at+n], max((n+maxCount-1)/maxCount, 1+c.random.IntN(n))
}

// sendAll sends records. It sleeps while the ring is full, and publishes at random.
func (e *end) sendAll(b bell, seed uint64, records int) error {
	c, random := newContents(seed), rand.New(rand.NewPCG(seed, 8))
	for i := range records {
		record, stride := c.next(min(e.p.MaxRecord(), longest))
		room := e.p.Reserve(len(record), len(record))
		for room == nil {
			if err := errors.Join(e.p.Err(), b.wake(e.p.Publish())); err != nil {
				return err
			}
			if e.p.Arm(len(record)) {
				if err := b.sleep(); err != nil {
					return err
				}
				e.p.Disarm()
			}
			room = e.p.Reserve(len(record), len(record))
		}
		copy(room, record)
		e.p.Commit(len(record), stride, (len(record)+stride-1)/stride, uint64(crc32.ChecksumIEEE(record))<<32|uint64(i))
		if random.IntN(4) == 0 {
			if err := b.wake(e.p.Publish()); err != nil {
				return err
			}
		}
	}
	return b.wake(e.p.End())
}

// receiveAll expects these records. It sleeps while the ring is empty.
func (e *end) receiveAll(b bell, seed uint64, records int) error {
	c, random := newContents(seed), rand.New(rand.NewPCG(seed, 9))
	var r Record
	for i := 0; ; {
		got := 0
		for want := 1 + random.IntN(16); got < want && e.c.Next(&r); got++ {
			record, stride := c.next(min(int(e.c.size)-headerLen, longest))
			sum := crc32.ChecksumIEEE(r.Bytes)
			if len(r.Bytes) != len(record) || r.Stride != stride || uint32(r.Tag) != uint32(i) || uint32(r.Tag>>32) != sum || sum != crc32.ChecksumIEEE(record) {
				return fmt.Errorf("record %d: %d bytes, packets of %d, tag %#x, checksum %#x; want %d bytes, packets of %d", i, len(r.Bytes), r.Stride, r.Tag, sum, len(record), stride)
			}
			i++
		}
		if err := b.wake(e.c.Release()); err != nil {
			return err
		}
		switch {
		case e.c.Err() == io.EOF && i == records:
			return nil
		case e.c.Err() != nil:
			return fmt.Errorf("after %d records: %w", i, e.c.Err())
		case got == 0 && e.c.Arm():
			if err := b.sleep(); err != nil {
				return err
			}
			e.c.Disarm()
		}
	}
}

// TestTwoProcesses sends a million records of random sizes from one process to another, over a
// small and a large ring: none is lost, damaged or out of order, and no process sleeps forever.
func TestTwoProcesses(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, size := range []int{minSize, 1 << 20} {
		const records = 500000
		what := func(role string) string { return fmt.Sprint(role, " ", size, " ", seed, " ", records) }
		e, b, wait := startPeer(t, size, what("send"))
		must.Do(t, e.receiveAll(b, seed, records))
		wait()
		if got := e.c.Counts(); got.Records != records {
			t.Errorf("%d records counted, want %d", got.Records, records)
		}
		e, b, wait = startPeer(t, size, fmt.Sprint("receive ", size, " ", seed, " ", records/5))
		must.Do(t, e.sendAll(b, seed, records/5))
		wait()
		t.Logf("a ring of %d bytes: %+v", size, e.p.Counts())
	}
}

//go:build !portable

package broker

import (
	"errors"
	"fmt"
	"io"

	"github.com/softhca/softhca/internal/fabric/fdmark"
	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/clock"
)

// connTable is memory in the store, so that it outlives a broker. It contains the connections
// of members, and a lock on one byte for each slot that is held. The kernel releases the
// lock when the process, and all that it forked, have closed the descriptor or ended.
type connTable struct{ fd int }

var _ io.WriterAt = (*connTable)(nil)

// connTableSeals prevent members from changing the size of the connection table.
const connTableSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

func newConnTable() (*connTable, error) {
	fd, err := unix.MemfdCreate("softhca-broker", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("broker: memory that members share: %w", err)
	}
	fd = fdmark.Take(fd)
	err = unix.Ftruncate(fd, connTableSize)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, connTableSeals)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("broker: memory that members share: %w", err), unix.Close(fd))
	}
	return &connTable{fd}, nil
}

// openConnTable checks a descriptor that a member brought, and returns its connection table.
func openConnTable(fd int) (*connTable, error) {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	var is unix.Stat_t
	if err = errors.Join(err, unix.Fstat(fd, &is)); err != nil || seals&connTableSeals != connTableSeals || is.Size != connTableSize {
		return nil, fmt.Errorf("broker: descriptor %d of a member is no connection table: %w", fd, errors.Join(unix.EINVAL, err))
	}
	return &connTable{fd}, nil
}

// brokerLock is the lock of the broker, after those of the slots. A process that holds it
// serves the address.
const brokerLock = 256

// hold returns a descriptor that keeps a slot, or brokerLock, until it is closed everywhere.
func (l *connTable) hold(slot int) (int, error) {
	// A lock belongs to an open file, not to a process, so each slot needs its own open.
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", l.fd), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("broker: a descriptor for slot %d (is /proc mounted?): %w", slot, err)
	}
	fd = fdmark.Take(fd)
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: int64(slot), Len: 1}
	if err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &lock); err != nil {
		return -1, errors.Join(fmt.Errorf("broker: slot %d: %w", slot, err), unix.Close(fd))
	}
	return fd, nil
}

// held reports whether a process holds a slot, or brokerLock, by another descriptor.
func (l *connTable) held(slot int) bool {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: int64(slot), Len: 1}
	err := unix.FcntlFlock(uintptr(l.fd), unix.F_OFD_GETLK, &lock)
	return err != nil || lock.Type != unix.F_UNLCK
}

// WriteAt implements io.WriterAt.
func (l *connTable) WriteAt(b []byte, off int64) (int, error) { return unix.Pwrite(l.fd, b, off) }

// connections returns the recorded connections of a slot, in the order of their places.
func (l *connTable) connections(now clock.Instant, slot uint8) ([]*connection, error) {
	b := make([]byte, maxKnown*recordSize)
	if _, err := unix.Pread(l.fd, b, recordAt(slot, 0)); err != nil {
		return nil, fmt.Errorf("broker: read the connection table of the last broker: %w", err)
	}
	var all []*connection
	for place := range uint16(maxKnown) {
		if c := recorded(now, (*[recordSize]byte)(b[int(place)*recordSize:])); c != nil {
			c.place = place
			all = append(all, c)
		}
	}
	return all, nil
}

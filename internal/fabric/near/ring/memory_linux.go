//go:build !portable && !ringmodel

package ring

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/fdmark"
)

// seals fix the size of a Memory, and prevent new writable mappings and the freeing of pages. The
// mapping that its owner made before stays writable.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_FUTURE_WRITE | unix.F_SEAL_SEAL

// Create returns a Memory for a ring of size bytes, a power of two, at least a page and at most
// 16 MiB. It fails on kernels before Linux 5.1, which lack F_SEAL_FUTURE_WRITE.
func Create(size int) (*Memory, error) {
	data := os.Getpagesize()
	if !validSize(int64(size)) {
		return nil, fmt.Errorf("ring: a ring of %d bytes: %w", size, unix.EINVAL)
	}
	if err := withinLimit(data + size); err != nil {
		return nil, err
	}
	fd, err := newMemfd()
	if err != nil {
		return nil, fmt.Errorf("ring: create memory: %w", err)
	}
	m := &Memory{region: region{uint64(data), uint64(size)}, fd: fdmark.Take(fd)}
	// Fallocate allocates all pages, or fails: a later page fault needs no memory.
	if err = unix.Fallocate(m.fd, 0, 0, int64(data+size)); err == nil {
		m.base, err = m.mapTwice(m.fd, unix.PROT_READ|unix.PROT_WRITE)
	}
	if err == nil {
		if _, err = unix.FcntlInt(uintptr(m.fd), unix.F_ADD_SEALS, seals); err != nil {
			err = errors.Join(err, m.unmap(m.base))
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ring: create memory of %d bytes: %w", size, err), m.CloseFD())
	}
	return m, nil
}

// validSize reports whether a ring may have this size.
func validSize(size int64) bool {
	return size >= max(minSize, int64(os.Getpagesize())) && size <= maxSize && size&(size-1) == 0
}

// withinLimit returns an error if the process must not have files of n bytes: allocating one would
// raise SIGXFSZ.
func withinLimit(n int) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err == nil && limit.Cur < uint64(n) {
		return fmt.Errorf("ring: create memory: the limit of the size of files (ulimit -f) is %d bytes: %w", limit.Cur, unix.EFBIG)
	}
	return nil
}

func newMemfd() (int, error) {
	const name, flags = "softhca-ring", unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		return unix.MemfdCreate(name, flags)
	}
	return fd, err
}

// FD returns the descriptor to pass to the peer, -1 after CloseFD.
func (m *Memory) FD() int { return m.fd }

// CloseFD closes the descriptor. The memory stays mapped.
func (m *Memory) CloseFD() error {
	fd := m.fd
	if m.fd = -1; fd < 0 {
		return nil
	}
	return unix.Close(fd)
}

// Close unmaps the memory, once. Nothing may use it afterwards, nor slices from Reserve.
func (m *Memory) Close() error {
	base := m.base
	m.base = nil
	return errors.Join(m.CloseFD(), m.unmap(base))
}

// Attach maps the Memory of the peer, and closes its descriptor, even if it fails. It fails if the
// peer can change the size or free pages, or if some pages are not allocated.
func Attach(fd int) (*View, error) {
	v := new(View)
	err := v.check(fd)
	if err == nil {
		v.base, err = v.mapTwice(fd, unix.PROT_READ)
	}
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		return nil, fmt.Errorf("ring: memory of the peer: %w", err)
	}
	return v, nil
}

// check checks a descriptor of the peer and sets the region. The seals come first: after them,
// size and pages cannot change.
func (v *View) check(fd int) error {
	have, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return fmt.Errorf("read seals: %w", err)
	}
	if have&seals != seals {
		return fmt.Errorf("seals %#x, want %#x: %w", have, seals, unix.EPERM)
	}
	var fs unix.Statfs_t
	var is unix.Stat_t
	if err := errors.Join(unix.Fstatfs(fd, &fs), unix.Fstat(fd, &is)); err != nil {
		return err
	}
	if fs.Type != unix.TMPFS_MAGIC { // huge pages can be missing although blocks are allocated
		return fmt.Errorf("file system %#x: %w", fs.Type, unix.EINVAL)
	}
	page := int64(os.Getpagesize())
	if !validSize(is.Size - page) {
		return fmt.Errorf("%d bytes: %w", is.Size, unix.EINVAL)
	}
	const block = 512 // the unit of st_blocks
	if is.Blocks*block < is.Size {
		return fmt.Errorf("%d of %d bytes are allocated: %w", is.Blocks*block, is.Size, unix.EINVAL)
	}
	v.region = region{uint64(page), uint64(is.Size - page)}
	return nil
}

// Close unmaps the peer's memory, once. Nothing may use it afterwards, nor the bytes of records.
func (v *View) Close() error {
	base := v.base
	v.base = nil
	return v.unmap(base)
}

// mapped returns the size of the mapping.
func (r *region) mapped() uintptr { return uintptr(r.data + 2*r.size) }

// mapTwice maps a descriptor, and its records once more after their end. A child of a fork does
// not inherit the mapping: two processes must not write one ring.
func (r *region) mapTwice(fd, prot int) (unsafe.Pointer, error) {
	base, err := unix.MmapPtr(-1, 0, nil, r.mapped(), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve addresses: %w", err)
	}
	const flags = unix.MAP_SHARED | unix.MAP_FIXED | unix.MAP_POPULATE
	_, err = unix.MmapPtr(fd, 0, base, uintptr(r.data+r.size), prot, flags)
	if err == nil {
		_, err = unix.MmapPtr(fd, int64(r.data), unsafe.Add(base, r.data+r.size), uintptr(r.size), prot, flags)
	}
	if err == nil {
		err = unix.Madvise(unsafe.Slice((*byte)(base), r.mapped()), unix.MADV_DONTFORK)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("map: %w", err), r.unmap(base))
	}
	return base, nil
}

// unmap unmaps a mapping; nil: nothing. Another mapping may have the addresses of one that was unmapped
// before.
func (r *region) unmap(base unsafe.Pointer) error {
	if base == nil {
		return nil
	}
	return unix.MunmapPtr(base, r.mapped())
}

package device

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
)

// populate makes the pages of b present, for reading or also for writing. EFAULT if a page
// is not mapped, or not writable. Kernels before 5.14 cannot tell, and make none present.
func populate(b []byte, write bool) error {
	if len(b) == 0 {
		return nil
	}
	advice := unix.MADV_POPULATE_READ
	if write {
		advice = unix.MADV_POPULATE_WRITE
	}
	switch madvise(b, advice) {
	case 0:
		return nil
	case unix.EINVAL: // the pages do not permit it, or the kernel does not know the advice
		if madvise(make([]byte, 1), unix.MADV_POPULATE_READ) != 0 {
			return nil
		}
	}
	return ib.EFAULT
}

// madvise gives an advice on the pages of b.
func madvise(b []byte, advice int) unix.Errno {
	page, at := uintptr(unix.Getpagesize()), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	from := at &^ (page - 1)
	end := (at + uintptr(len(b)) + page - 1) &^ (page - 1)
	_, _, code := unix.Syscall(unix.SYS_MADVISE, from, end-from, uintptr(advice))
	return code
}

//go:build linux

package ucm

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
)

// The kernel copies from and to a program's memory and returns EFAULT for invalid pointers;
// this package must do the same.

// fetch reads n bytes of the process at an address.
func fetch(addr uint64, n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	b := make([]byte, n)
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(n)
	return b, faulted(unix.ProcessVMReadv(os.Getpid(), local, []unix.RemoteIovec{{Base: uintptr(addr), Len: n}}, 0))
}

// deliver writes b to the process at an address.
func deliver(addr uint64, b []byte) error {
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	return faulted(unix.ProcessVMWritev(os.Getpid(), local, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}}, 0))
}

func faulted(_ int, err error) error {
	if err != nil {
		return fmt.Errorf("the memory of the program: %w: %w", err, ib.EFAULT)
	}
	return nil
}

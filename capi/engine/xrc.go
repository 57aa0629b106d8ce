//go:build linux && cgo

package main

// #include "engine.h"
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/fabric/fdmark"
)

// errElsewhere is returned for a domain that another process has opened.
var errElsewhere = fmt.Errorf("another process on this address has the domain of this file, and its receives are in the memory of that process: use a file or an address of its own for each process: %w", ib.EOPNOTSUPP)

// xrcDomain is an XRC domain.
type xrcDomain struct {
	*adapter
	device.XRCD
	file string // device and inode of its file; "" without a file
	pin  int    // descriptor that keeps the inode
}

//export softhca_open_xrcd
func softhca_open_xrcd(dev C.handle_t, fd C.int, file *C.char, xrcd *C.handle_t) C.int {
	x := &xrcDomain{adapter: of[*adapter](dev), file: C.GoString(file), pin: -1}
	err := x.claim(int(fd))
	if err == nil {
		if err = x.dev.OpenXRCD(&x.XRCD); err != nil {
			err = errors.Join(err, x.unclaim())
		}
	}
	if err == nil {
		*xrcd = newHandle(x)
	}
	return x.code("open XRC domain", err)
}

// claim gives this process the domain of the file that is open as fd.
func (x *xrcDomain) claim(fd int) (err error) {
	if x.file == "" {
		return nil
	}
	if x.pin, err = pin(fd); err != nil {
		return err
	}
	if err = x.dev.ClaimDomain(x.file); err == nil {
		return nil
	}
	if errors.Is(err, unix.EADDRINUSE) {
		err = errElsewhere
	}
	return errors.Join(err, unix.Close(x.pin))
}

// unclaim releases the domain of the file.
func (x *xrcDomain) unclaim() error {
	if x.file == "" {
		return nil
	}
	x.dev.ReleaseDomain(x.file)
	return unix.Close(x.pin)
}

// pin keeps the inode of an open file until the returned descriptor is closed, as the kernel does
// for a domain: otherwise a new file could get the inode number of a deleted one, and with it the
// domain. The returned descriptor is a socket with the file in its queue, because fdmark cannot mark
// an O_PATH descriptor.
func pin(fd int) (int, error) {
	// This opens the file anew: a copy of the program's descriptor would keep the program's locks.
	file, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(file)
	} else { // without /proc
		file = fd
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(ends[0])
	if err := unix.Sendmsg(ends[0], []byte{0}, unix.UnixRights(file), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL); err != nil {
		return -1, errors.Join(err, unix.Close(ends[1]))
	}
	return fdmark.Take(ends[1]), nil
}

//export softhca_close_xrcd
func softhca_close_xrcd(xrcd C.handle_t) C.int {
	x := of[*xrcDomain](xrcd)
	err := x.Close()
	if err == nil {
		err = x.unclaim()
	}
	return end(xrcd, x.code("close XRC domain", err))
}

//export softhca_target_qp
func softhca_target_qp(xrcd C.handle_t, c *C.struct_softhca_qp) C.int {
	x := of[*xrcDomain](xrcd)
	q := &pair{adapter: x.adapter, subject: subject{unsafe.Pointer(c.object)}}
	var err error
	if c.qpn == 0 {
		err = x.CreateTarget(&q.QP, &q.subject)
	} else {
		err = x.OpenTarget(&q.QP, &q.subject, ib.QPN(c.qpn))
	}
	if err == nil {
		c.handle, c.qpn = newHandle(q), C.uint32_t(q.QP.QP.Num())
		c.watched = flag(q.dev.Watched("PostSend") || q.dev.Watched("PostRecv"))
	}
	return q.code("XRC target", err)
}

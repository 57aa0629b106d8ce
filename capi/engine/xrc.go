//go:build linux && cgo

package main

// #include "engine.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/fabric/fdmark"
)

// errElsewhere is returned for a domain that another process has opened.
var errElsewhere = fmt.Errorf("another process has the domain of this file, and its receives would be in the memory of that process: %w", ib.EOPNOTSUPP)

// xrcDomain is an XRC domain.
type xrcDomain struct {
	*adapter
	device.XRCD
	name int // socket whose name says that this process has the domain of a file; -1: none
}

//export softhca_open_xrcd
func softhca_open_xrcd(dev C.handle_t, file *C.char, xrcd *C.handle_t) C.int {
	x := &xrcDomain{adapter: of[*adapter](dev), name: -1}
	err := x.claim(C.GoString(file))
	if err == nil {
		err = x.dev.OpenXRCD(&x.XRCD)
	}
	if err == nil {
		*xrcd = newHandle(x)
	} else {
		err = errors.Join(err, x.unclaim())
	}
	return x.code("open XRC domain", err)
}

// claim takes the name of a file for this process: that of a socket, which nothing is sent to, in
// the abstract namespace. It disappears with the process.
func (x *xrcDomain) claim(file string) error {
	if file == "" {
		return nil
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	x.name = fdmark.Take(fd)
	err = unix.Bind(x.name, &unix.SockaddrUnix{Name: fmt.Sprintf("@softhca-xrcd/%d/%v/%s", os.Geteuid(), x.dev.Port.Caps().Addrs[0], file)})
	if errors.Is(err, unix.EADDRINUSE) {
		return errElsewhere
	}
	return err
}

// unclaim gives the name back.
func (x *xrcDomain) unclaim() error {
	if x.name < 0 {
		return nil
	}
	return unix.Close(x.name)
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

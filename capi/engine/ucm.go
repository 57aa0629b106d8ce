//go:build linux && cgo

package main

// #include "engine.h"
// static void gone(void (*f)(void *), void *file) { f(file); }
import "C"

import (
	"errors"
	"fmt"
	"net/netip"
	"unsafe"

	"github.com/softhca/softhca/capi/ucm"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// connections is the connection manager of a program, over its adapters.
type connections struct {
	*adapter // for its log
	cm       *ucm.Manager
}

// userFile is an open file of /dev/infiniband/rdma_cm.
type userFile struct {
	*connections
	file *ucm.File
}

//export softhca_open_cm
func softhca_open_cm(devs *C.handle_t, n C.int, cm *C.handle_t) C.int {
	handles := unsafe.Slice(devs, n)
	c := &connections{adapter: of[*adapter](handles[0])}
	numbers := make(map[*verbs.Context]uint32)
	all := make([]*verbs.Context, len(handles))
	for i, h := range handles {
		a := of[*adapter](h)
		all[i] = new(verbs.Context)
		device.Share(all[i], a.dev)
		numbers[all[i]] = uint32(a.host.c.adapter) + 1 // like ibv_get_device_index
	}
	m, err := rdmacm.New(all...)
	if err == nil {
		c.cm = ucm.New(m, numbers)
		c.cm.Listening = func(addr netip.AddrPort) { c.log.Info(fmt.Sprintf("listening on %v", addr)) }
		*cm = newHandle(c)
	}
	return c.code("open connection manager", err)
}

//export softhca_open_cm_file
func softhca_open_cm_file(cm C.handle_t, f *C.struct_softhca_cm_file) C.int {
	c := of[*connections](cm)
	u := &userFile{connections: c}
	h := newHandle(u)
	tell, object := f.gone, f.object
	var err error
	u.file, err = c.cm.Open(int(f.pipe), func() {
		C.gone(tell, object) // the library releases its last use of the handle
		end(h, 0)
	})
	if err != nil {
		end(h, 0)
		return c.code("open connection manager", err)
	}
	f.handle = h
	return 0
}

//export softhca_disconnect_cm
func softhca_disconnect_cm(cm C.handle_t) C.int {
	of[*connections](cm).cm.Shutdown()
	return 0
}

//export softhca_shut_cm
func softhca_shut_cm(file C.handle_t) C.int {
	of[*userFile](file).file.Shut()
	return 0
}

//export softhca_write_cm
func softhca_write_cm(file C.handle_t, b unsafe.Pointer, n C.size_t) C.int {
	u := of[*userFile](file)
	err := u.file.Write(unsafe.Slice((*byte)(b), n))
	switch {
	case errors.Is(err, ucm.ErrAgain):
		return C.SOFTHCA_CM_AGAIN
	case errors.Is(err, ucm.ErrNoAFIB):
		return errno(err) // not logged: librdmacm tries it once at its start
	}
	return u.code("connection manager", err)
}

//go:build linux && cgo

package main

// #include "engine.h"
import "C"

import (
	"errors"
	"net/netip"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
)

//export softhca_attach
func softhca_attach(h C.handle_t, gid *C.uint8_t) C.int {
	q := of[*pair](h)
	return q.code("attach to multicast group", q.attach(*(*ib.GID)(unsafe.Pointer(gid))))
}

// attach joins the group and then attaches the queue pair. The port counts joins, one for each
// attachment.
func (q *pair) attach(gid ib.GID) error {
	if err := q.obj.Called("AttachMcast", errGone); err != nil {
		return err
	}
	group, err := hca.McastGroup(q.qp, gid)
	if err != nil {
		return err
	}
	if err := q.dev.Port.Join(group); err != nil {
		if errors.Is(err, fabric.ErrClosed) {
			return ib.ErrInvalidHCA
		}
		return err
	}
	added := false
	err = q.obj.Do(errGone, func(instant) (err error) {
		if added, err = q.dev.HCA.AttachMcast(q.qp, gid); added {
			q.groups++
		}
		return err
	})
	if !added {
		q.leave(group)
	}
	return err
}

//export softhca_detach
func softhca_detach(h C.handle_t, gid *C.uint8_t) C.int {
	q, g := of[*pair](h), *(*ib.GID)(unsafe.Pointer(gid))
	err := q.obj.Call("DetachMcast", errGone, func(instant) (err error) {
		if err = q.dev.HCA.DetachMcast(q.qp, g); err == nil {
			q.groups--
		}
		return err
	})
	if err == nil {
		q.leave(g.Addr())
	}
	return q.code("detach from multicast group", err)
}

// leave undoes one join of each group.
func (q *pair) leave(groups ...netip.Addr) {
	for _, g := range groups {
		// The group was joined, so this fails only if the port is closed, and a closed
		// port is in no group.
		_ = q.dev.Port.Leave(g)
	}
}

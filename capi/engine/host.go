//go:build linux && cgo

package main

// #include "engine.h"
// static void completed(struct softhca_config *c, void *cq) { c->completed(cq); }
// static void event(struct softhca_config *c, void *object, uint32_t type) { c->event(c->device, object, type); }
// static void refused(struct softhca_config *c, struct softhca_refusal *r) { c->refused(c->device, r); }
// static void changed(struct softhca_config *c, uint32_t qpn, uint32_t index) { c->changed(c->device, qpn, index); }
import "C"

import (
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/trace"
)

// host is the part of the program in C that the adapter calls.
type host struct{ c C.struct_softhca_config }

// completed reports that an armed completion queue has a completion, or will never have one
// because the device is gone.
func (h *host) completed(cq unsafe.Pointer) { C.completed(&h.c, cq) }

// event passes on an asynchronous event.
func (h *host) event(object unsafe.Pointer, t ib.EventType) { C.event(&h.c, object, C.uint32_t(t)) }

// refused passes on that the adapter has refused an access of a peer.
func (h *host) refused(t *trace.Record) {
	if !t.Access {
		return
	}
	r := C.struct_softhca_refusal{qpn: C.uint32_t(t.QPN), peer: C.uint32_t(t.Peer), key: C.uint32_t(t.Key)}
	putText(r.remote[:], t.Remote.String())
	putText(r.why[:], t.Cause)
	C.refused(&h.c, &r)
}

// changed passes on that the payload of a request has changed.
func (h *host) changed(n ib.QPN, index uint32) { C.changed(&h.c, C.uint32_t(n), C.uint32_t(index)) }

// putText copies as much of a text as fits, with a zero byte behind it.
func putText(to []C.char, text string) {
	for i := range min(len(text), len(to)-1) {
		to[i] = C.char(text[i])
	}
}

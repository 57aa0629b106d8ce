//go:build linux && cgo

package main

// #include "engine.h"
// static void completed(struct softhca_config *c, void *cq) { c->completed(cq); }
// static void event(struct softhca_config *c, void *object, uint32_t type) { c->event(c->device, object, type); }
import "C"

import (
	"unsafe"

	"github.com/softhca/softhca/ib"
)

// host is the program in C that opened an adapter: what of it the adapter
// calls.
type host struct{ c C.struct_softhca_config }

// completed says that an armed completion queue has a completion, or never
// will have one: the device is gone.
func (h *host) completed(cq unsafe.Pointer) { C.completed(&h.c, cq) }

// event hands over an asynchronous event.
func (h *host) event(object unsafe.Pointer, t ib.EventType) { C.event(&h.c, object, C.uint32_t(t)) }

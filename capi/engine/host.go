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

// host is the part of the program in C that the adapter calls.
type host struct{ c C.struct_softhca_config }

// completed reports that an armed completion queue has a completion, or will never have one
// because the device is gone.
func (h *host) completed(cq unsafe.Pointer) { C.completed(&h.c, cq) }

// event passes on an asynchronous event.
func (h *host) event(object unsafe.Pointer, t ib.EventType) { C.event(&h.c, object, C.uint32_t(t)) }

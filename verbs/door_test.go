package verbs

import (
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
)

// TestDoor shows what package rdmacm finds behind a context and a queue pair.
func TestDoor(t *testing.T) {
	a, b := newPair(t, ib.RC)
	if device.Of(a.ctx) == nil || device.QPOf(a.qp) != a.qp.qp || device.Of(b.ctx) == device.Of(a.ctx) {
		t.Error("the door leads to another object")
	}
	must(t, a.qp.Destroy())
	if device.QPOf(a.qp) != nil {
		t.Error("a QP that is destroyed has an engine")
	}
}

package verbs

import (
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/must"
)

// TestDoor checks the internal objects that package rdmacm gets from a context and a
// queue pair.
func TestDoor(t *testing.T) {
	a, b := newPair(t, ib.RC)
	if device.Of(a.ctx) == nil || device.QPOf(a.qp) != a.qp.obj.QP || device.Of(b.ctx) == device.Of(a.ctx) {
		t.Error("the door leads to another object")
	}
	must.Do(t, a.qp.Destroy())
	if device.QPOf(a.qp) != nil {
		t.Error("a QP that is destroyed has an engine")
	}
}

// TestDoorShares checks that a context can be created from an open device, and is then
// the same adapter.
func TestDoorShares(t *testing.T) {
	a, _ := newPair(t, ib.RC)
	var again Context
	device.Share(&again, device.Of(a.ctx))
	want, err := a.ctx.QueryDevice()
	must.Do(t, err)
	if got, err := again.QueryDevice(); err != nil || got != want || device.Of(&again) != device.Of(a.ctx) {
		t.Errorf("a context of the same device has %+v, %v, not %+v", got, err, want)
	}
}

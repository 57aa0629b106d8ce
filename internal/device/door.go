package device

import "github.com/softhca/softhca/internal/qp"

// Door gives package rdmacm access to the engine object behind an object of verbs,
// without an exported method with an internal type. A struct that embeds a Door has
// its unexported methods, which other packages can neither see nor call; Of, EECOf
// and QPOf accept any value with these methods. Embedded under an unexported alias,
// the Door is not part of the public interface either.
type Door struct {
	dev *Device
	obj *Object
}

// DoorTo returns the Door of an object, or of the device itself if o is nil.
func DoorTo(d *Device, o *Object) Door { return Door{d, o} }

func (d *Door) device() *Device   { return d.dev }
func (d *Door) object() *Object   { return d.obj }
func (d *Door) enter(dev *Device) { d.dev = dev }

// Share attaches an open device to a new context of verbs, so that package rdmacm
// can connect over an adapter that the program opened by other means. The caller
// still owns the device and closes it.
func Share(context interface{ enter(*Device) }, d *Device) { context.enter(d) }

// Of returns the device of a context of verbs, which must not be nil.
func Of(context interface{ device() *Device }) *Device { return context.device() }

// EECOf returns the engine's part of an EE context of verbs, which must not be
// nil; nil if it is destroyed.
func EECOf(e interface{ object() *Object }) *qp.EEC {
	if o := e.object(); !o.Gone() {
		return o.EEC
	}
	return nil
}

// QPOf returns the engine's part of a queue pair of verbs, which must not be
// nil; nil if it is destroyed.
func QPOf(q interface{ object() *Object }) *qp.QP {
	if o := q.object(); !o.Gone() {
		return o.QP
	}
	return nil
}

// OnDestroy makes Destroy of a queue pair of verbs call f at its end, on its thread. It is
// called before the program can destroy the queue pair.
func OnDestroy(q interface{ object() *Object }, f func()) { q.object().destroyed = f }

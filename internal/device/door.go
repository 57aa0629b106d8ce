package device

import "github.com/softhca/softhca/internal/qp"

// Door is how package rdmacm gets behind an object of verbs without an
// exported method that has a type of the engine in it. A struct that embeds a
// Door has its methods, which no other package can call or see; what has them
// is what Of, EECOf and QPOf take. Embedded under an alias in small letters, the Door
// is no part of the public interface either.
type Door struct {
	dev *Device
	obj *Object
}

// DoorTo returns the Door of an object, or for nil of the device itself.
func DoorTo(d *Device, o *Object) Door { return Door{d, o} }

func (d *Door) device() *Device   { return d.dev }
func (d *Door) object() *Object   { return d.obj }
func (d *Door) enter(dev *Device) { d.dev = dev }

// Share puts a device that is open behind a new context of verbs, so that package
// rdmacm connects over an adapter that programs use otherwise. The device stays the
// caller's, who closes it.
func Share(context interface{ enter(*Device) }, d *Device) { context.enter(d) }

// Of returns the device of a context of verbs, which is not nil.
func Of(context interface{ device() *Device }) *Device { return context.device() }

// EECOf returns the engine's part of an EE context of verbs, which is not nil;
// nil once it is destroyed.
func EECOf(e interface{ object() *Object }) *qp.EEC {
	if o := e.object(); !o.Gone() {
		return o.EEC
	}
	return nil
}

// QPOf returns the engine's part of a queue pair of verbs, which is not nil;
// nil once it is destroyed.
func QPOf(q interface{ object() *Object }) *qp.QP {
	if o := q.object(); !o.Gone() {
		return o.QP
	}
	return nil
}

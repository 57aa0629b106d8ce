package mad

// Class is a management class: which service a datagram is for (IBA 13.4.4).
type Class uint8

// The classes that meet at a port of RoCE or that packet tools see.
const (
	ClassSM         Class = 0x01 // subnet management, routed by LID
	ClassSA         Class = 0x03 // subnet administration
	ClassPerf       Class = 0x04 // performance management
	ClassDeviceMgmt Class = 0x06 // device management
	ClassCM         Class = 0x07 // communication management
	ClassCongestion Class = 0x21 // congestion control
	ClassSMDirected Class = 0x81 // subnet management, directed route
)

// String returns the short name of the class, such as "CM".
func (c Class) String() string {
	switch c {
	case ClassSM:
		return "SM"
	case ClassSA:
		return "SA"
	case ClassPerf:
		return "PERF"
	case ClassDeviceMgmt:
		return "DEV_MGMT"
	case ClassCM:
		return "CM"
	case ClassCongestion:
		return "CONGESTION"
	case ClassSMDirected:
		return "SM_DIRECTED"
	default:
		return unnamed("Class", uint64(c))
	}
}

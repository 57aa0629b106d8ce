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

var classNames = map[Class]string{
	ClassSM:         "SM",
	ClassSA:         "SA",
	ClassPerf:       "PERF",
	ClassDeviceMgmt: "DEV_MGMT",
	ClassCM:         "CM",
	ClassCongestion: "CONGESTION",
	ClassSMDirected: "SM_DIRECTED",
}

// String returns the short name of the class, such as "CM".
func (c Class) String() string { return hexName(classNames, c, "Class") }

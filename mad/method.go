package mad

// Method is what a datagram does with its attribute; bit 7 marks a response
// (IBA 13.4.5).
type Method uint8

// The methods that all classes share.
const (
	MethodGet         Method = 0x01
	MethodSet         Method = 0x02
	MethodSend        Method = 0x03
	MethodTrap        Method = 0x05
	MethodReport      Method = 0x06
	MethodTrapRepress Method = 0x07
	MethodGetResp     Method = 0x81
	MethodReportResp  Method = 0x86

	methodResponse Method = 0x80
)

// IsResponse reports whether m answers another datagram: bit 7 is set, or it
// is TrapRepress, which has the bit clear. A Send is never a response, also
// when it answers one.
func (m Method) IsResponse() bool { return m&methodResponse != 0 || m == MethodTrapRepress }

// Response returns the method that answers m, 0 if m has no answer or is not
// one of the methods above.
func (m Method) Response() Method {
	switch m {
	case MethodGet, MethodSet:
		return MethodGetResp
	case MethodTrap:
		return MethodTrapRepress
	case MethodReport:
		return MethodReportResp
	default:
		return 0
	}
}

var methodNames = map[Method]string{
	MethodGet:         "Get",
	MethodSet:         "Set",
	MethodSend:        "Send",
	MethodTrap:        "Trap",
	MethodReport:      "Report",
	MethodTrapRepress: "TrapRepress",
	MethodGetResp:     "GetResp",
	MethodReportResp:  "ReportResp",
}

// String returns the name of the method, such as "GetResp".
func (m Method) String() string { return hexName(methodNames, m, "Method") }

package mad

// TransportService is the service that a REQ asks for, 2 bits.
type TransportService uint8

// The services.
const (
	TransportRC TransportService = iota
	TransportUC
	TransportRD
	TransportExtended // REQ.ExtendedTransport says which
)

// ExtendedXRC is the extended transport that has a number.
const ExtendedXRC = 1

var transportNames = [...]string{"RC", "UC", "RD", "extended"}

// String returns the name of the service, such as "RC".
func (t TransportService) String() string { return name(transportNames[:], int(t), "TransportService") }

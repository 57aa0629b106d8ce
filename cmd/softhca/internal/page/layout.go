package page

import "github.com/softhca/softhca/roce"

// field is the position of a field in a header, and its style.
type field struct {
	Name  string `json:"name"`
	At    int    `json:"at"`   // first bit
	Bits  int    `json:"bits"` // at most 64
	Style string `json:"style"`
}

// The styles of fields.
const (
	inDecimal  = "decimal"
	inHex      = "hex" // with all digits of the field
	asFlag     = "flag"
	asOpcode   = "opcode"
	asSyndrome = "syndrome"
	asBytes    = "bytes"
)

// header is one of the headers of a packet.
type header struct {
	Name   string  `json:"name"`
	Bytes  int     `json:"bytes"`
	Fields []field `json:"fields"`
	bit    roce.Headers
}

// headers are all headers, in their order in a packet. The first is in every packet.
var headers = [...]header{
	{Name: "BTH", Bytes: roce.BTHLen, Fields: []field{
		{"Opcode", 0, 8, asOpcode}, {"Solicited event", 8, 1, asFlag}, {"Migration state", 9, 1, asFlag}, {"Pad count", 10, 2, inDecimal},
		{"Transport version", 12, 4, inDecimal}, {"P_Key", 16, 16, inHex}, {"FECN", 32, 1, asFlag}, {"BECN", 33, 1, asFlag},
		{"Destination QP", 40, 24, inHex}, {"Acknowledge request", 64, 1, asFlag}, {"PSN", 72, 24, inHex},
	}},
	{Name: "RDETH", Bytes: 4, bit: roce.HasRDETH, Fields: []field{{"EE context", 8, 24, inHex}}},
	{Name: "DETH", Bytes: 8, bit: roce.HasDETH, Fields: []field{{"Q_Key", 0, 32, inHex}, {"Source QP", 40, 24, inHex}}},
	{Name: "XRCETH", Bytes: 4, bit: roce.HasXRCETH, Fields: []field{{"SRQ", 8, 24, inHex}}},
	{Name: "FETH", Bytes: 4, bit: roce.HasFETH, Fields: []field{{"Selectivity", 26, 2, inDecimal}, {"Placement", 28, 4, inDecimal}}},
	{Name: "RETH", Bytes: 16, bit: roce.HasRETH, Fields: []field{
		{"Virtual address", 0, 64, inHex}, {"R_Key", 64, 32, inHex}, {"DMA length", 96, 32, asBytes},
	}},
	{Name: "AtomicETH", Bytes: 28, bit: roce.HasAtomicETH, Fields: []field{
		{"Virtual address", 0, 64, inHex}, {"R_Key", 64, 32, inHex}, {"Swap or add data", 96, 64, inHex}, {"Compare data", 160, 64, inHex},
	}},
	{Name: "AETH", Bytes: 4, bit: roce.HasAETH, Fields: []field{{"Syndrome", 0, 8, asSyndrome}, {"MSN", 8, 24, inDecimal}}},
	{Name: "AtomicAckETH", Bytes: 8, bit: roce.HasAtomicAckETH, Fields: []field{{"Original data", 0, 64, inHex}}},
	{Name: "ImmDt", Bytes: 4, bit: roce.HasImmDt, Fields: []field{{"Immediate data", 0, 32, inHex}}},
	{Name: "IETH", Bytes: 4, bit: roce.HasIETH, Fields: []field{{"R_Key to invalidate", 0, 32, inHex}}},
}

// operation describes an opcode.
type operation struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"`
	Response bool   `json:"response"`
	Headers  []int  `json:"headers"` // after the BTH: indexes
}

// operations returns the assigned opcodes.
func operations() map[int]operation {
	all := map[int]operation{}
	for op := range 256 {
		info := roce.Opcode(op).Info()
		if !info.Known {
			continue
		}
		o := operation{Name: info.Name, Kind: info.Kind.String(), Response: info.Flags&roce.FlagResponse != 0, Headers: []int{}}
		for i := range headers {
			if info.Headers&headers[i].bit != 0 {
				o.Headers = append(o.Headers, i)
			}
		}
		all[op] = o
	}
	return all
}

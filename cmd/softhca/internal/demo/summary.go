package demo

// Summary is what was shown and verified, for machines.
type Summary struct {
	Verified   bool        `json:"verified"`             // everything was shown, and was as it should be
	Scenes     []Scene     `json:"scenes"`               // in their order
	Throughput *Throughput `json:"throughput,omitempty"` // what was measured
	Error      string      `json:"error,omitempty"`      // why not everything was verified
}

// Scene is a part of the demonstration.
type Scene struct {
	Title  string  `json:"title"`  // what it shows
	Checks []Check `json:"checks"` // in their order
}

// Check is something that was verified.
type Check struct {
	Holds bool   `json:"holds"` // it is as it should be
	Text  string `json:"text"`  // what should be so
}

// Throughput is what one queue pair moved by WRITEs of 1 MiB.
type Throughput struct {
	Bytes       int64   `json:"bytes"`       // of payload
	Seconds     float64 `json:"seconds"`     // from the first post to the last completion
	Gbps        float64 `json:"gbps"`        // of payload
	Retransmits uint64  `json:"retransmits"` // packets sent again
}

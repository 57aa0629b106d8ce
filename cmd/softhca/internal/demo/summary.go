package demo

// Summary is the result of the demonstration as JSON.
type Summary struct {
	Verified   bool        `json:"verified"`             // whether all scenes ran and all checks hold
	Scenes     []Scene     `json:"scenes"`               // in the order of the demonstration
	Throughput *Throughput `json:"throughput,omitempty"` // the measured throughput
	Error      string      `json:"error,omitempty"`      // the error that stopped the demonstration, or the failed checks
}

// Scene is a part of the demonstration, with a list of checks.
type Scene struct {
	Title  string  `json:"title"`  // subject of the scene
	Checks []Check `json:"checks"` // in the order of the demonstration
}

// Check is a statement that the demonstration verifies.
type Check struct {
	Holds bool   `json:"holds"` // whether the statement is true
	Text  string `json:"text"`  // the statement
}

// Throughput is that of one queue pair with WRITEs of 1 MiB.
type Throughput struct {
	Bytes       int64   `json:"bytes"`       // payload
	Seconds     float64 `json:"seconds"`     // from the first post to the last completion
	Gbps        float64 `json:"gbps"`        // payload
	Retransmits uint64  `json:"retransmits"` // retransmitted packets
}

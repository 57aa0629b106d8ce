package verbs

// Faults injects faults into an adapter. The rules, one per line or separated by
// semicolons, are described in docs/faults.md and by "softhca faults --list".
type Faults struct {
	Rules string // such as "drop nth=3 op=RDMA_WRITE_MIDDLE; drop op=REP nth=1; fail op=RegMR errno=ENOMEM nth=1"
	File  string // a file with more rules
	// Seed makes the random choices of the rules repeatable. Zero draws a seed,
	// which Context.FaultSeed returns.
	Seed uint64
}

// WithFaults returns an option for Open with fault rules and their seed.
func WithFaults(rules string, seed uint64) Option {
	return func(c *Config) { c.Faults.Rules, c.Faults.Seed = rules, seed }
}

// Environment variables that add rules to every adapter of a program. FaultsEnv
// contains rules; a line that begins with @ is the name of a file with more of them.
const (
	FaultsEnv     = "SOFTHCA_FAULTS"
	FaultsSeedEnv = "SOFTHCA_FAULTS_SEED"
)

// FaultStat is what a rule has done so far.
type FaultStat struct {
	Rule     string `json:"rule"`               // text of the rule
	Matched  uint64 `json:"matched"`            // packets or calls that matched its selectors, except nth, every, p and count
	Applied  uint64 `json:"applied"`            // number of times that it acted
	Overflow uint64 `json:"overflow,omitempty"` // packets lost because too many were held back
}

// FaultStats returns what each rule has done so far, in the order of the
// rules; nothing if there are none. A request of an unreliable service completes
// before its last packet is sent and counted. After a later call into the adapter,
// such as QP.Query, that packet is counted.
func (c *Context) FaultStats() (stats []FaultStat) {
	for _, s := range c.dev().FaultStats() {
		stats = append(stats, FaultStat(s))
	}
	return stats
}

// FaultSeed returns the seed of the rules, 0 if there are none.
func (c *Context) FaultSeed() uint64 { return c.dev().FaultSeed() }

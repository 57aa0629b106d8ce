package verbs

// Faults make an adapter go wrong on demand. The rules, one to a line or with
// semicolons between them, are described in docs/faults.md and by "softhca
// faults --list".
type Faults struct {
	Rules string // such as "drop nth=3 op=RDMA_WRITE_MIDDLE; drop op=REP nth=1; fail op=RegMR errno=ENOMEM nth=1"
	File  string // a file with more rules
	// Seed makes what the rules choose at random repeatable. Zero draws one,
	// which Context.FaultSeed tells.
	Seed uint64
}

// WithFaults returns an option for Open: these rules, with this seed.
func WithFaults(rules string, seed uint64) Option {
	return func(c *Config) { c.Faults.Rules, c.Faults.Seed = rules, seed }
}

// The environment of a program adds rules to every adapter that it opens:
// rules, or the name of a file with rules after an @.
const (
	FaultsEnv     = "SOFTHCA_FAULTS"
	FaultsSeedEnv = "SOFTHCA_FAULTS_SEED"
)

// FaultStat is what a rule has done so far.
type FaultStat struct {
	Rule     string `json:"rule"`               // as it is written
	Matched  uint64 `json:"matched"`            // what its selectors that do not count fitted
	Applied  uint64 `json:"applied"`            // how often it acted
	Overflow uint64 `json:"overflow,omitempty"` // packets lost because too many were held back
}

// FaultStats returns what each rule has done so far, in the order of the
// rules; nothing if there are none. A request of an unreliable service is complete
// before its last packet leaves, which may not be counted yet; any call that asks
// the adapter, such as QP.Query, comes after it.
func (c *Context) FaultStats() (stats []FaultStat) {
	for _, s := range c.dev().FaultStats() {
		stats = append(stats, FaultStat(s))
	}
	return stats
}

// FaultSeed returns the seed of the rules, 0 if there are none.
func (c *Context) FaultSeed() uint64 { return c.dev().FaultSeed() }

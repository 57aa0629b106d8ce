package sim

import "github.com/softhca/softhca/internal/sim/storm"

// runStorm makes a run of the profile of connection storms.
func runStorm(c Config) *Result {
	s := storm.Run(storm.Config{Seed: c.Seed, Ops: c.Ops, Skip: c.Skip, Trace: c.Trace, Ladder: c.Ladder})
	r := &Result{
		Seed: c.Seed, Profile: c.Profile, Ops: c.Ops, Troubles: s.Troubles, Packets: s.Packets, Posted: s.Posted,
		Completions: s.Completions, Virtual: s.Virtual, Marks: s.Marks, Cells: s.Cells, Ladder: s.Ladder,
	}
	if v := s.Violation; v != nil {
		r.Violation = &Violation{Check: v.Check, Detail: v.Detail, Action: v.Action, At: v.At}
	}
	return r
}

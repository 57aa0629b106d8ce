package device

import (
	"fmt"
	"os"
	"strconv"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fault"
)

// Faults holds the rules for injected faults.
type Faults struct {
	Rules string
	File  string // file with more rules
	Seed  uint64 // seed of random choices of the rules; 0 draws one
}

// rules returns all rules: of the configuration, of its file, of the
// environment.
func (c *Config) rules() ([]fault.Rule, error) {
	f := &c.Faults
	env, files := fault.Split(c.Env.Faults)
	texts := []struct{ from, text string }{{"faults", f.Rules}, {faultsEnv, env}}
	for _, name := range append([]string{f.File}, files...) {
		if name == "" {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("faults: %w", err)
		}
		texts = append(texts, struct{ from, text string }{name, string(text)})
	}
	var all []fault.Rule
	for _, t := range texts {
		rules, err := fault.Parse(t.text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.from, err)
		}
		all = append(all, rules...)
	}
	if len(all) > fault.MaxRules {
		return nil, fmt.Errorf("faults: %d rules, at most %d: %w", len(all), fault.MaxRules, ib.EINVAL)
	}
	return all, nil
}

// seed returns the seed to use.
func (c *Config) seed() (uint64, error) {
	if c.Faults.Seed != 0 {
		return c.Faults.Seed, nil
	}
	if env := c.Env.FaultsSeed; env != "" {
		n, err := strconv.ParseUint(env, 0, 64)
		if err != nil || n == 0 {
			return 0, fmt.Errorf("%s=%q: want a number of at least 1: %w", faultsSeedEnv, env, ib.EINVAL)
		}
		return n, nil
	}
	return uint64(random()) + 1, nil // short enough to type
}

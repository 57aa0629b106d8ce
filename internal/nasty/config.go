package nasty

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/softhca/softhca/ib"
)

// Config selects behaviours. The zero value has no seed: everything is off.
type Config struct {
	Seed    uint64
	Without [NumParts]bool
}

// Syntax describes the text of a Config.
const Syntax = "SEED, or seed=SEED, and without=NAME for each behaviour to leave out, separated by commas"

// WithoutPrefix begins a word of the text that leaves a behaviour out.
const WithoutPrefix = "without="

// Parse reads a Config, such as "7" or "seed=7,without=placement,without=cm". An empty text is
// the zero Config. EINVAL for a text that is none; the error begins with the quoted text.
func Parse(text string) (c Config, err error) {
	if text == "" {
		return c, nil
	}
	for _, word := range strings.Split(text, ",") {
		key, value, named := strings.Cut(word, "=")
		switch {
		case !named:
			err = c.seed(word)
		case key == "seed":
			err = c.seed(value)
		case key == "without":
			err = c.leaveOut(value)
		default:
			err = fmt.Errorf("there is no %q", key)
		}
		if err != nil {
			return Config{}, fmt.Errorf("%q: %w; want %s: %w", text, err, Syntax, ib.EINVAL)
		}
	}
	if c.Seed == 0 {
		return Config{}, fmt.Errorf("%q: the seed is missing; want %s: %w", text, Syntax, ib.EINVAL)
	}
	return c, nil
}

// seed reads the seed, which may be given once.
func (c *Config) seed(text string) error {
	n, err := strconv.ParseUint(text, 0, 64)
	switch {
	case err != nil || n == 0:
		return fmt.Errorf("the seed %q is no number of at least 1", text)
	case c.Seed != 0:
		return fmt.Errorf("a second seed")
	}
	c.Seed = n
	return nil
}

// leaveOut reads the name of a behaviour to leave out.
func (c *Config) leaveOut(name string) error {
	for p := range NumParts {
		if p.String() == name {
			c.Without[p] = true
			return nil
		}
	}
	return fmt.Errorf("there is no behaviour %q (%s)", name, Names())
}

// Names returns the names of all behaviours, separated by commas.
func Names() string {
	var names []string
	for p := range NumParts {
		names = append(names, p.String())
	}
	return strings.Join(names, ", ")
}

// String returns the shortest text that Parse reads; empty for the zero Config.
func (c Config) String() string {
	if c.Seed == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprint(&b, c.Seed)
	for p, without := range c.Without {
		if without {
			fmt.Fprintf(&b, ",%s%v", WithoutPrefix, Part(p))
		}
	}
	return b.String()
}

// Nothing reports whether every behaviour is left out.
func (c Config) Nothing() bool {
	for _, without := range c.Without {
		if !without {
			return false
		}
	}
	return true
}

// LeftOut returns the names of the behaviours that are left out, separated by commas.
func (c Config) LeftOut() string {
	var names []string
	for p, without := range c.Without {
		if without {
			names = append(names, Part(p).String())
		}
	}
	return strings.Join(names, ", ")
}

// SeedOf returns a seed for what a behaviour does outside of the engine, at an adapter counted
// from 0; 0 without the behaviour.
func (c Config) SeedOf(p Part, adapter int) uint64 {
	if c.Seed == 0 || c.Without[p] {
		return 0
	}
	return max(1, rand.NewPCG(c.Seed, uint64(adapter)<<8|uint64(p)).Uint64())
}

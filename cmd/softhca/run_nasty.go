package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/launch"
	"github.com/softhca/softhca/internal/nasty"
	"github.com/softhca/softhca/verbs"
)

// nastyRandom is the value of --nasty without one: run draws the seed.
const nastyRandom = "random"

// nastyOption is the option --nasty of run.
type nastyOption struct{ text string }

// flags adds the option to a command.
func (n *nastyOption) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&n.text, "nasty", "",
		"make the adapter behave as badly as the specification permits; `choices` after =: the seed that an earlier run printed, and without=NAME for each behaviour to leave out, separated by commas (see softhca faults --nasty)")
	f.Lookup("nasty").NoOptDefVal = nastyRandom
}

// config returns the choices of the option, the zero Config if it was not given. args are the
// program and its arguments. Without the option it checks the variable, with which the adapter
// of the program would not open.
func (n *nastyOption) config(args []string) (nasty.Config, error) {
	if n.text == "" {
		if _, err := nasty.Parse(os.Getenv(verbs.NastyEnv)); err != nil {
			return nasty.Config{}, usagef("%s %w", verbs.NastyEnv, err)
		}
		return nasty.Config{}, nil
	}
	if _, err := exec.LookPath(args[0]); err != nil && n.text == nastyRandom && isNasty(args[0]) {
		return nasty.Config{}, usagef("there is no program %s: write --nasty=%s, with =", args[0], args[0])
	}
	c, err := nasty.Parse(withSeed(n.text))
	if err != nil {
		return nasty.Config{}, usagef("--nasty %w", err)
	}
	if c.Nothing() {
		return nasty.Config{}, usagef("--nasty=%s leaves every behaviour out: remove a without=, or --nasty", n.text)
	}
	return c, nil
}

// isNasty reports whether a word is a value of --nasty.
func isNasty(word string) bool {
	_, err := nasty.Parse(withSeed(word))
	return err == nil
}

// withSeed returns a text with a seed: a random one, short enough to type, if it has none.
func withSeed(text string) string {
	seed := strconv.Itoa(rand.IntN(math.MaxInt32) + 1)
	switch {
	case text == nastyRandom:
		return seed
	case strings.HasPrefix(text, nastyRandom+","):
		return seed + strings.TrimPrefix(text, nastyRandom)
	}
	for word := range strings.SplitSeq(text, ",") {
		if !strings.HasPrefix(word, nasty.WithoutPrefix) {
			return text
		}
	}
	return seed + "," + text
}

// start passes the choices to the program and its children, and says how to repeat them.
func (n *nastyOption) start(o *launch.Options, c nasty.Config) {
	if c.Seed == 0 {
		return
	}
	text := c.String()
	o.Set = append(o.Set, launch.Var{Name: verbs.NastyEnv, Value: text})
	said := fmt.Sprintf("seed %d", c.Seed)
	if left := c.LeftOut(); left != "" {
		said += " without " + left
	}
	o.Say("softhca: nasty: %s; to repeat: --nasty=%s", said, text)
}

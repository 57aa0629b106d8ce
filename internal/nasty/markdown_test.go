package nasty

import (
	"fmt"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/golden"
)

// TestDocumentation compares docs/nasty.md with the table of behaviours.
func TestDocumentation(t *testing.T) {
	golden.Check(t, "../../docs/nasty.md", markdown())
}

// markdown returns the page about the behaviours.
func markdown() string {
	var b strings.Builder
	b.WriteString(preface)
	for p := range NumParts {
		fmt.Fprintf(&b, "- [%v](#%v)\n", p, p)
	}
	for p := range NumParts {
		why, source := p.Permission()
		fmt.Fprintf(&b, "\n## %v\n\n%s\n\n- Permission: %s\n- Source: %s.\n- Finds: %s\n", p, p.Title(), why, source, p.Bug())
	}
	b.WriteString(programs)
	return b.String()
}

// programs is what became of Debian's programs.
const programs = `
## Programs that fail

Of the programs that run on our libibverbs ([programs.md](programs.md)), these were seen to fail:

| program | behaviour | why |
|---|---|---|
| ` + "`ib_send_lat -e`" + ` of perftest | late, events | After an event it polls once and goes on, also if the queue was empty: it then reads the status of a completion that it has not got, and both sides wait. |
| ` + "`qperf -cm 1 ... rc_lat`" + ` | signals | It has a signal handler without SA_RESTART, reports "failed to get CQ event: Interrupted system call", and ends. |
| ` + "`mckey -s`" + ` of rdmacm-utils | delays | The sender reports success and ends, and the receiver still waits for messages: the sender does not seem to wait for its sends before it destroys the queue pair. |
`

const preface = `# As badly as the specification permits

<!-- Generated from internal/nasty: go test ./internal/nasty -rewrite -->

    softhca run --nasty -- PROGRAM

runs a program on an adapter that does what the specification and the manual pages permit and
hardware seldom does: the behaviours below. A program that depends on what one adapter happens to do works there, and fails on another adapter, under load, or once
a month. ` + "`--nasty`" + ` makes it fail now, and from a seed.

No behaviour makes an operation fail. Each has its permission below: if a program fails with ` + "`--nasty`" + ` and not
without, the bug is in the program, or the permission is wrong: please report that. What the specification does not permit is a
[fault](faults.md), and needs a rule of ` + "`--fault`" + `.

## How to use it

    $ softhca run --nasty -- ./my_test
    softhca: nasty: seed 1804289383; to repeat: --nasty=1804289383

Run a test some dozen times, each time with another seed. When it fails, repeat the seed, and leave out one behaviour after another,
and keep them left out, until the test passes: the last one names the bug.

    softhca run --nasty=1804289383,without=placement -- ./my_test
    softhca run --nasty=1804289383 --check --explain -- ./my_test      # with the other reports

The value of ` + "`--nasty`" + ` is a seed, or ` + "`seed=`SEED" + `, and ` + "`without=`NAME" + ` for each behaviour to leave out, separated by
commas. Without a seed, run draws one and prints it. ` + "`softhca faults --nasty`" + ` prints the behaviours in the terminal.

The seed fixes the choices of the adapter: how many, how late, in which order. Each behaviour has its own choices, so leaving one out does not
change the others; only order and events choose when completions enter if late is left out. The seed does not fix when the threads of the program run, so a bug may need a seed more than once.

The option sets the variable ` + "`SOFTHCA_NASTY`" + ` for the program and all processes that it starts. Programs in Go heed it too:

    SOFTHCA_NASTY=7 go test ./...

An adapter does not open with a value that is wrong (EINVAL).

## The behaviours

`

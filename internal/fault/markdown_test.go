package fault

import (
	"fmt"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/golden"
)

// TestDocumentation compares docs/faults.md with the catalogue.
func TestDocumentation(t *testing.T) {
	golden.Check(t, "../../docs/faults.md", markdown())
}

// markdown returns the documentation of the rules.
func markdown() string {
	var b strings.Builder
	b.WriteString(preface)
	b.WriteString(Grammar)
	for l := Packets; l <= Verbs; l++ {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| fault | what it does | example |\n|---|---|---|\n", l, layerTexts[l])
		used := map[Param]bool{}
		var args []Param
		for a := range NumActions {
			if a.Layer() != l {
				continue
			}
			fmt.Fprintf(&b, "| `%s` | %s | `%s` |\n", cell(a.Usage()), a.Text(), a.Example())
			for _, p := range a.Args() {
				if !used[p] {
					used[p] = true
					args = append(args, p)
				}
			}
		}
		b.WriteString("\n| argument or selector | meaning |\n|---|---|\n")
		for _, p := range append(args, selectors[l]...) {
			fmt.Fprintf(&b, "| `%s` | %s |\n", p, p.Text())
		}
	}
	return b.String()
}

func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

var layerTexts = [...]string{
	Packets: "They act at the adapter's port, packet by packet, also where the system merges packets or cuts runs. " +
		"A capture shows what the adapter sends and receives: a packet that is lost on the way out is in it, one that is lost on the way in is not.",
	Responder: "They act on requests that an RC responder is about to execute: in sequence, of an operation that the queue pair allows.",
	Verbs:     "They act when the program calls, before the call is carried out, or by themselves at a time.",
}

const preface = `# Faults on demand

<!-- Generated from internal/fault: go test ./internal/fault -rewrite -->

An adapter can be told to go wrong: to lose, repeat, delay, change and reorder packets, to refuse requests, to fail
calls, to move queue pairs, to overflow completion queues, to raise events. From Go:

` + "```go" + `
hca, err := verbs.Open(verbs.Config{}, verbs.WithFaults("drop p=0.01; fail op=RegMR nth=3", 42))
` + "```" + `

From the command line (` + "`--fault`" + ` may be repeated), from a file, and from the environment of any program that opens
adapters with package verbs:

` + "```sh" + `
softhca perf write --local --fault 'drop nth=100'
softhca demo --fault 'drop op=REP nth=1'   # a message of the connection manager
softhca perf send --fault-file rules.txt --fault-seed 42
SOFTHCA_FAULTS='delay 5ms op=ACK; drop p=0.01' SOFTHCA_FAULTS_SEED=42 program
SOFTHCA_FAULTS=@rules.txt program
softhca faults --list                     # this page, in the terminal
softhca faults 'drop nth=3 op=SEND'       # check rules, and read what they will do
` + "```" + `

A seed of 0, or none, draws one; the command prints it. What each rule did is in ` + "`Context.FaultStats`" + `, and each time it
acts there is a record of the kind Fault in the trace.

`

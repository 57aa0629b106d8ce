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
	Packets: "These faults act at the adapter's port on each packet, also with segmentation offload (GSO, GRO). " +
		"A capture has the packets that the adapter sends and receives: it contains an outgoing packet that a rule loses, but not an incoming one.",
	Connections: "These faults act on requests for connections that are valid, when the program that listens for them is about to get them.",
	Responder:   "These faults act on requests that a responder of RC, XRC or RD is about to execute: in sequence, and of an operation that the queue pair allows.",
	Requests:    "These faults act on work requests, when a queue pair begins them.",
	Verbs:       "These faults act on calls of the program, before the call is carried out; with after= alone they act at that time, without a call.",
}

const preface = `# Faults on demand

<!-- Generated from internal/fault: go test ./internal/fault -rewrite -->

You can make an adapter lose, repeat, delay, change and reorder packets, refuse requests, fail calls, move queue
pairs to an error state, overflow completion queues, and raise events. From Go:

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
softhca faults 'drop nth=3 op=SEND'       # check rules, and print what they will do
` + "```" + `

Without a seed, or with seed 0, the adapter draws one, and the command prints it. ` + "`Context.FaultStats`" + ` counts what each rule
did, and the trace has a record of the kind Fault each time that a rule acts.

A peer that is gone is noticed late: after timeout and retry_cnt of the queue pair, or after a minute by the connection manager. With SOFTHCA_RETRY_SPEEDUP=50 in
the environment, these timers are 50 times shorter, but not below 20 ms, once the first of a queue pair or connection has expired, and until the peer answers.

`

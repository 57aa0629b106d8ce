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
## Programs

All programs of [programs.md](programs.md) ran with seed 1, on Debian 12: 407 cases, and the 20 that are skipped there. The 259 cases that take up to 1.5 s also ran with seeds 2 to 8, 11, 14 and 17 to 20; the others, but MPI with 8 and 32 ranks and ` + "`rstream`" + `, also with 3, 6, 8, 11, 14 and 18. All processes of a case had the same seed.
A case that failed ran again alone, with and without ` + "`--nasty`" + `, three times or more, and then with one behaviour left out at a time. Each failure was judged by the source of the program.
All cases pass with all seeds but these:

| program | behaviour | seeds | verdict | why |
|---|---|---|---|---|
| ` + "`ib_send_lat -e`" + ` of perftest, also with UD | each of late, order, events, losses; with UD order, events | fails with 1, 2, 3 | a bug | ` + "`ctx_notify_events`" + ` takes an event of either completion queue. ` + "`run_iter_lat_send`" + ` then polls once the queue that it waits for, and goes on if that is empty: it reads the status of a completion that it has not got ("Failed status 376878848"), or waits for an event that it has taken. |
| ` + "`ib_read_lat -e`, `ib_atomic_lat -e`" + ` of perftest | events | fails with 1, 2, 3 | a bug | ` + "`run_iter_lat`" + ` polls once after an event, and posts its next request if the queue was empty: its send queue is full, "Couldn't post send". |
| ` + "`mckey -s`" + ` of rdmacm-utils | delays | fails with 1 and 2, not 3 | a bug | ` + "`post_sends`" + ` requests no completions, and ` + "`run`" + ` polls none, before ` + "`destroy_node`" + ` destroys the queue pair. Requests that have not begun by then are not sent (IBA volume 1, Destroy Queue Pair), and the receiver waits in ` + "`poll_cqs`" + ` for each datagram. |
| MPI over UCX, transport rc_verbs, and ` + "`meet`" + ` | sizes | of seeds 1, 3, 4, 5, 6, 8, 11, 14 and 18, fails with 4 and 18; on Debian 13, of seeds 3 and 4, with both | a bug | ` + "`uct_rc_verbs_iface_init`" + ` creates a queue pair "to find out max_inline", destroys it, and uses its actual inline size for all others. Theirs may be smaller: ` + "`ibv_post_send() returned 22`" + `. |
| MPICH over UCX with 8 ranks, transport rc_verbs | losses, or none | on two processors, of 20 runs with losses alone, seed 5, 4 fail; without ` + "`--nasty`" + ` 0 of 19, of which 3 were stopped after 32 s, and beside two busy programs 1 of 4 | probably too few processors; one run is not explained | In most failures a send completes with RETRY_EXC_ERR because its peer answers none of the 7 repetitions in 8 s: the peer's polling thread is ready to run, and Linux 6.18 does not run it, while that of another rank keeps the processor. Such threads waited for up to 27 s with losses alone, 14 s without losses, and 16 s without ` + "`--nasty`" + `. In one failure no thread had waited for more than a second. A lost response costs its request one retry at most. |
| ` + "`iperf`" + `, ` + "`iperf3`" + ` and ` + "`rcopy`" + ` over rsockets | placement | of seeds 1, 8, 11 and 14, fail with 8 and 11 | a bug of librdmacm | ` + "`rs_can_send`" + ` waits until ` + "`target_sgl[].length`" + ` in its memory is not 0, which the peer writes together with an address and a key. It does not wait for the completion of that write, so it may use the address of before. |
| pyverbs, ` + "`test_mr_rereg_pd`, `test_mr_rereg_addr`" + ` | order | of seeds 1, 2, 3, 6, 7, 8, 11, 14 and 18, fails with 1, 6, 7, 14 and 18 | a bug of the tests | ` + "`traffic`" + ` posts a receive and a send that use the same completion queue, and wants the error of the send in the first completion. That of the receive, which is flushed, may come before. The other 169 tests end as without ` + "`--nasty`" + `. |
| ` + "`ib_send_bw -c UC -n 5000`" + ` of perftest | placement | 11 of 16 runs fail; without ` + "`--nasty`" + ` 2 of 16 | not right on any adapter | ` + "`run_iter_bw_server`" + ` waits for every message of an unreliable connection. A receiver that writes more slowly loses packets earlier. With a rate limit and ` + "`-n 500`" + `, 3 of 17 runs fail, all while other programs kept the processors busy. |

Reports that are no failures:

- ` + "`rstream`" + ` exchanges 200,000 messages one after the other. Completions that are up to 1 ms late make that 70 s instead of 1.6 s.
- With ` + "`--check`" + `, 27 cases of 15 programs have the findings of [checks-programs.md](checks-programs.md), and one more, of ` + "`rping`" + `, which is in its table.

` + "`qperf`" + ` and 10 tests of pyverbs once failed here, and were right: a behaviour let ibv_get_cq_event fail with EINTR if the program had a handler without SA_RESTART, but no handler
ran. read(2) fails with EINTR only if one has run. ` + "`qperf`" + ` knows from a flag that its handlers set whether EINTR is the end of its time, and reports any other. The behaviour was removed.
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

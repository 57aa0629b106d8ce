package explain

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/golden"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/roce"
)

var seed = flag.Uint64("damage-seed", 1, "of the damaged files")

// truth is what a capture of Linux is known to show from how it was made.
type truth struct {
	name, outcome, cause, made string
}

// truths reads what is known.
func truths(t testing.TB) (all []truth) {
	t.Helper()
	b, err := os.ReadFile("testdata/captures.txt")
	must.Do(t, err)
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		if f := strings.Split(lines.Text(), "|"); len(f) == 4 {
			all = append(all, truth{strings.TrimSpace(f[0]), strings.TrimSpace(f[1]), strings.TrimSpace(f[2]), strings.TrimSpace(f[3])})
		}
	}
	return all
}

// TestLinuxCaptures explains every capture of Linux: the verdict is what is
// known from how it was made, and a clean one has no finding.
func TestLinuxCaptures(t *testing.T) {
	known := map[string]truth{}
	for _, k := range truths(t) {
		known[k.name] = k
	}
	files, err := filepath.Glob(captures + "*.pcap")
	if err != nil || len(files) != len(known) {
		t.Fatalf("%d captures, %d are known; %v", len(files), len(known), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".pcap")
		r := load(t, name).explain()
		if k := known[name]; r.Verdict.Outcome != k.outcome || r.Verdict.Cause != k.cause {
			t.Errorf("%s (%s): %s %s, want %s %s; found %s", name, k.made, r.Verdict.Outcome, r.Verdict.Cause, k.outcome, k.cause, names(r))
		}
	}
}

// problems returns the findings that say more than that the capture does not tell something.
func problems(r *Report) []*Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f *Finding) bool { return !f.problem() })
}

// clean returns the captures in which nothing is seen to go wrong.
func clean(t testing.TB) (names []string) {
	for _, k := range truths(t) {
		if k.outcome == "clean" || k.outcome == "unknown" && k.name != "loss_cm_sidr_req.client" {
			names = append(names, k.name)
		}
	}
	if len(names) < 80 {
		t.Fatalf("only %d clean captures", len(names))
	}
	return names
}

// TestPartsOfCleanCaptures explains parts of captures in which nothing went
// wrong: what is not in the file is not taken for lost.
func TestPartsOfCleanCaptures(t *testing.T) {
	for _, name := range clean(t) {
		all := load(t, name)
		for _, who := range []byte{client, server} {
			s := &scene{t, slices.Clone(all.frames)}
			s.keep(func(_ int, f *frame) bool { return f.from() == who })
			if r := s.explain(); len(problems(r)) > 0 {
				t.Errorf("%s, only what .%d sends: %s: %s", name, who, names(r), problems(r)[0].Detail)
			}
		}
		step := max(1, len(all.frames)/40)
		for k := 0; k < len(all.frames); k += step {
			for part, frames := range map[string][]frame{"from": all.frames[k:], "up to": all.frames[:k]} {
				if r := (&scene{t, frames}).explain(); len(problems(r)) > 0 {
					t.Errorf("%s, %s packet %d: %s: %s", name, part, k, names(r), problems(r)[0].Detail)
				}
			}
		}
	}
}

// TestTruncatedCaptures cuts the packets of every capture at 80 bytes: the
// verdict is not worse than that of the whole, and says so.
func TestTruncatedCaptures(t *testing.T) {
	const snap = 80
	for _, k := range truths(t) {
		s := load(t, k.name)
		s.each(0, func(f *frame) { f.data = f.data[:min(len(f.data), snap)] })
		r, err := Read(bytes.NewReader(s.file()), Config{})
		must.Do(t, err)
		if k.outcome == "clean" && len(problems(r)) > 0 {
			t.Errorf("%s: %s", k.name, names(r))
		}
		if r.Truncated > 0 && len(r.Verdict.Caveats) == 0 {
			t.Errorf("%s: nothing says that %d packets are cut", k.name, r.Truncated)
		}
	}
}

// TestRunsOfPackets explains a capture of the sending host, in which a record may be a run of
// several packets: there is no finding.
func TestRunsOfPackets(t *testing.T) {
	b, err := os.ReadFile("../../cmd/softhca/internal/decode/testdata/gso.pcap")
	must.Do(t, err)
	r, err := Read(bytes.NewReader(b), Config{Packets: 100})
	if err != nil || len(problems(r)) > 0 || r.Records != 8 || r.Packets != 23 || len(r.Kept) != 23 || r.Conversations[0].AToB.Messages != 16 {
		t.Errorf("%v; found %s; %d packets in %d records, %d kept; %+v", err, names(r), r.Packets, r.Records, len(r.Kept), r.Conversations)
	}
}

// TestMergedCaptures merges captures: of two connections, and of one connection
// at two places.
func TestMergedCaptures(t *testing.T) {
	list := clean(t)
	for i, name := range list {
		a, b := load(t, name), load(t, list[(i+7)%len(list)])
		if len(a.frames) < minMerged || len(b.frames) == 0 {
			continue
		}
		shift := a.frames[0].at.Sub(b.frames[0].at)
		for k := range b.frames {
			b.frames[k].at = b.frames[k].at.Add(shift)
		}
		both := &scene{t, append(slices.Clone(a.frames), b.frames...)}
		both.sort()
		if r := both.explain(); len(problems(r)) > 0 {
			t.Errorf("%s and %s: %s: %s", name, list[(i+7)%len(list)], names(r), problems(r)[0].Detail)
		}
		twice := &scene{t: t}
		for _, f := range a.frames {
			twice.frames = append(twice.frames, f, frame{f.at.Add(20 * time.Microsecond), f.data})
		}
		if r := twice.explain(); len(problems(r)) > 0 {
			t.Errorf("%s, each packet twice: %s: %s", name, names(r), problems(r)[0].Detail)
		}
	}
}

func (s *scene) sort() {
	slices.SortStableFunc(s.frames, func(a, b frame) int { return a.at.Compare(b.at) })
}

// TestDamagedFiles explains 20,000 captures with bytes changed, cut out and
// doubled: there is a report or an error, and no more kept than there is.
func TestDamagedFiles(t *testing.T) {
	t.Logf("seed %d (-damage-seed)", *seed)
	rnd := rand.New(rand.NewPCG(*seed, 0))
	var files [][]byte
	for _, k := range truths(t) {
		if f := load(t, k.name).file(); len(f) < 4000 {
			files = append(files, f)
		}
	}
	reports := 0
	for range 20_000 {
		b := slices.Clone(files[rnd.IntN(len(files))])
		for range 1 + rnd.IntN(12) {
			at := rnd.IntN(len(b))
			switch rnd.IntN(4) {
			case 0, 1:
				b[at] ^= 1 << rnd.IntN(8)
			case 2:
				b = append(b[:at:at], b[min(len(b), at+rnd.IntN(40)):]...)
			default:
				b = append(b[:at:at], append(slices.Clone(b[max(0, at-rnd.IntN(300)):]), b[at:]...)...)
			}
			if len(b) == 0 {
				b = []byte{0}
			}
		}
		r, err := Read(bytes.NewReader(b), Config{Conversations: 4})
		if r == nil && err == nil {
			t.Fatalf("neither a report nor an error for % x", b)
		}
		if r == nil {
			continue
		}
		reports++
		if r.Packets > r.Records || len(r.Conversations) > r.Packets {
			t.Fatalf("%d conversations of %d packets of %d records in % x", len(r.Conversations), r.Packets, r.Records, b)
		}
	}
	if reports < 10_000 {
		t.Errorf("only %d files could be read at all", reports)
	}
}

// TestBounds shows a follower more connections than it may keep.
func TestBounds(t *testing.T) {
	const many, limit = 3000, 100
	s := &scene{t: t}
	for i := range many {
		s.add(client, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, ib.QPN(100+i), uint32(i)*100)})
		s.add(server, time.Microsecond, &roce.Packet{
			BTH: bth(roce.RCAcknowledge, ib.QPN(100_000+i), uint32(i)*100), AETH: roce.AETH{Syndrome: roce.ACKUnlimited, MSN: 1},
		})
		s.add(client, time.Microsecond, &roce.Packet{BTH: bth(roce.UDSendOnly, ib.QPN(200_000+i), 0), DETH: roce.DETH{SrcQP: 7}})
	}
	f := New(Config{Conversations: limit})
	s.follow(f, func() {
		if n := max(f.alive.Len(), len(f.flows)/2, len(f.byQPN)/2, len(f.alone)); n > limit {
			t.Fatalf("%d are kept, more than %d", n, limit)
		}
	})
	r := f.Report()
	if r.Ended != 2*many-limit || len(r.Conversations)+r.Unlisted != 2*many {
		t.Errorf("%d ended early, %d listed, %d not; of %d", r.Ended, len(r.Conversations), r.Unlisted, 2*many)
	}
	if len(problems(r)) > 0 {
		t.Errorf("found %s", names(r))
	}
}

// TestPage compares the page of the documentation with the rules and the
// captures.
func TestPage(t *testing.T) {
	var b strings.Builder
	b.WriteString(pageHead)
	for i := range table {
		r := &table[i]
		fmt.Fprintf(&b, "### %s\n\n**%s** (%v; look at: %v). %s\n", r.Name, r.Title, r.Severity, r.Side, r.Means)
		for _, s := range [...]struct {
			who string
			are Statuses
		}{{"requester", r.Requester}, {"responder", r.Responder}} {
			var links []string
			for _, status := range s.are {
				links = append(links, fmt.Sprintf("[%v](statuses.md#%s)", Statuses{status}, strings.ToLower(status.String())))
			}
			if len(links) > 0 {
				fmt.Fprintf(&b, "The program at the %s gets %s.\n", s.who, strings.Join(links, " or "))
			}
		}
		fmt.Fprintf(&b, "\n*Try:* %s\n\n", r.Try)
	}
	b.WriteString(captureHead)
	for _, k := range truths(t) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", k.name, k.made, k.outcome, k.cause)
	}
	b.WriteString(programHead)
	for _, k := range programTruths(t) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", strings.TrimSuffix(strings.TrimSuffix(k.name, "ng"), ".pcap"), k.made, k.outcome, k.cause)
	}
	b.WriteString(faultHead)
	for _, k := range faultTruths(t) {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", k.rule, k.at, k.seen, k.outcome, k.cause)
	}
	golden.Check(t, "../../docs/explain.md", b.String())
}

const pageHead = `<!-- Written by "go test ./internal/explain -run TestPage -rewrite". Do not edit. -->
# What explain finds

    softhca explain FILE...

prints what went wrong in a capture and why: the verdict, a summary, the conversations, the findings, and the packets around the finding that explains the
verdict. The *capture point* is the interface at which the packets were captured. A finding is *repaired* (it cost time only, or had no effect), *unknown* (the capture does not show the outcome of a request), *lost* (a message is gone and
no program gets an error) or *failed* (a program saw an error). A capture is *clean* if every request was answered and there is no finding, and *empty* if it has no
RoCEv2 packet. Messages of UC and UD have no answers, so a capture with any of them is never clean. A packet that is merely missing from the capture does not count as
lost: the verdict's caveats say what the capture cannot show.

The exit code is 0 for clean and repaired, 1 for failed and lost, 2 if the command line is wrong, the capture cannot be read or the report cannot be written, and 3 for unknown and empty.

Statuses, events and reasons of rejected connections have pages of their own: [statuses](statuses.md), [events](events.md), [rejects](rejects.md).

` + "`--json`" + ` prints one object with all of it: [its fields](json.md#softhca-explain---json-file). Records are numbered from 1, as Wireshark does. A record
can hold several packets if the capturing host uses segmentation offload (GSO, GRO).

A file is read once. One core follows 1.6 to 1.9 million packets per second in 23 MB of memory, measured with a pcapng of two million packets of 64 bytes and
their answers ([measured](../bench/results/2026-11-23-explain.json)). Memory grows with the number of open connections, not of packets.

` + "`--html FILE`" + ` writes a page that needs no network access. It has the verdict, a ladder of the packets to scroll, filter and search
(a minus before a word excludes it), their PSNs and the throughput over time, the first 5000 messages and up to 5000 later ones with a problem, every packet's fields,
and the state of both queue pairs after it. It has the keys of a pager: arrows, ` + "`n`" + ` and ` + "`N`" + ` for the next and the previous packet with a finding or a mark, ` + "`/`" + ` to filter;
in the list of messages, arrows choose a message and Enter goes to its packets. Links go to the project's site, so the page works without other files.

` + "`softhca explain --live INTERFACE`" + ` follows the packets of a network interface (Linux, CAP_NET_RAW) until you press Ctrl-C, and then prints the report. With ` + "`--explain`" + `,
every command that opens an adapter follows the packets of that adapter, and ` + "`softhca run`" + ` those of its programs; this needs no privilege.
Both report a failed connection at once: when a NAK refuses a request, or when the connection has been silent for at least a second and four times as long as between its
last repeats. If an answer refutes the NAK later, they report that the connection did not fail. They also report when a message of the
connection manager is repeated without an answer.

## What the adapters say

Captures of softhca (` + "`--capture`" + `) also contain the adapter's [log](logs.md) from level info on: lines between the packets, which Wireshark shows as entries of a systemd
journal. So ` + "`explain`" + ` tells what no packet shows, for each side whose adapter is one of softhca:

- *reason*: why a request was refused, with the bounds or the rights of the region, or the size of the receive; why packets got no answer, for example because the queue
  pair was still in INIT; that the process of the other side had ended (with ` + "`run --explain`" + `);
- *programs got*: the status and the wr_id of the first failed work request of each side. Without such a line the report has the statuses that follow from the packets;
- findings without packets: [completion-error](#completion-error), [call-failed](#call-failed), [cq-overrun](#cq-overrun);
- under FROM THE ADAPTERS: the last state of each queue pair, errors, events, drops, repeats, and failed calls with their reasons: at most 4096 queue pairs, and 22 lines about each
  beside its statuses.

What an adapter says is as true as the file: whoever can write it can write anything. Anyone can send packets that an adapter drops, so a drop counts as the reason only if more
than one packet of the other end was dropped while the connection lasted.

` + "`softhca run --explain`" + ` follows the adapters of all processes that the program starts, 256 at most, in the order of time, and makes one report; with ` + "`--capture`" + ` it also
writes their packets to one file. ` + "`softhca explain client.pcapng server.pcapng`" + ` does the same with files: of each packet, the outgoing copy is followed.

For tests, ` + "`--expect clean`" + ` fails unless nothing was found, ` + "`--expect repaired`" + ` if a program got an error or a message was lost, and ` + "`--expect REM_ACCESS_ERR`" + ` (or another
status) unless a program got it; ` + "`--require-packets`" + ` fails if no packet passed. The exit code of a failure is 1, with ` + "`run`" + ` 86.

## Clocks of several captures

` + "`softhca explain client.pcapng server.pcapng`" + ` corrects the times of captures whose clocks differ. Capture at both ends, and give it both files:

- It compares packets that are in both files. Half of the difference of the smallest delays in the two directions is the offset of the clocks, as in NTP; the error is at most half of the
  sum of these delays, a round trip. A line *clocks* says both. All times in the report are those of the first file.
- It measures the offset again in each 10 seconds (in shorter captures, in each sixteenth) and interpolates, so it follows clocks that drift by up to 100 µs a second. Within
  20 seconds of the moment at which a clock was set, times may be wrong.
- It adjusts offsets with which a compared packet would arrive before it was sent, unless that is by more than twice the error: then two different packets were matched.
- Clocks that differ by less than the error, such as those of captures of one host, are not corrected, and the report says nothing about them.
- If the packets in both files went in one direction only, no offset can be known: the fastest packet is taken to need no time. The report says so, in a line *not shown*.
- If no packet is in both files, times are not corrected, and a line *not shown* says so. Files with a common connection are necessary, but not in each pair: a file is compared
  with the one that shows its clock best.
- Of equal packets, such as retransmissions, the first in one file is matched with the first in the other, and so on, if both files have the same number of them, at most 16; otherwise none is.
- At most 131072 packets of each file are compared, evenly chosen, and at most 32 files. The files are read twice; a pipe is copied to a temporary file first.

In JSON, [clocks](json.md#explainclock) has an element for each file after the first, unless all clocks agree.

## Shared memory

On Linux, programs of one user on one host exchange packets through [shared memory](run.md#shared-memory-on-one-host), which passes no interface: ` + "`--live`" + ` and tcpdump do not see them, and
` + "`--live`" + ` says so at the end if it knows of any. Run both programs with ` + "`--wire udp`" + `, or ` + "`SOFTHCA_WIRE=udp`" + `, to see their packets at ` + "`lo`" + `.
` + "`--explain`" + ` and captures of ` + "`--capture`" + ` have all packets, on either way; ` + "`--explain`" + ` reports how many took shared memory.

## Findings

`

const captureHead = `## Captures of Linux

The verdict on each capture between Linux's own adapters. If there are two, one was taken at each end, and only one of them has the packets that were lost between the ends.

| capture | how it was made | verdict | cause |
|---|---|---|---|
`

const programHead = `
## Captures of programs

The verdict on captures of softhca's commands that were killed or had one or two faults, and on parts of captures. The captures of one direction and of killed processes
were taken at the host's interface, the others at the adapter that has the fault, or at the connecting one.

| capture | how it was made | verdict | cause |
|---|---|---|---|
`

const faultHead = `
## Captures with faults

The verdict on captures between two adapters of ours. One of them has a [fault rule](faults.md) and captures, as with ` + "`--fault` and `--capture`" + `. The verdict also
names the rule if it affected packets. The capture has each packet as it was before the rule: outbound packets before they leave, inbound packets as they arrived.

| rule | at the | what it does | verdict | cause |
|---|---|---|---|---|
`

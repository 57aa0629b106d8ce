package main

import (
	"bytes"
	"fmt"

	"github.com/softhca/softhca/internal/check/findings"
)

const head = `<!-- Written by "go generate ./internal/tools/findings". Do not edit. -->
# What --check finds

    softhca run --check -- PROGRAM

runs a program and reports its wrong use of the verbs: buffers that change while the adapter sends them, memory that is freed too early, queues that are too small on hardware, wrong
keys, events that are never acknowledged. Most of these bugs do not show on every run, and some do not show on this adapter at all, but corrupt data or hang on hardware.
[checks-programs.md](checks-programs.md) lists what it finds in fio, UCX, QEMU and other programs.

The program needs no changes and no recompilation; debug information (` + "`-g`" + `) gives the reports source lines. The report covers the program and all processes that it starts. It is printed to standard error when the program
has ended. Each finding has a sentence with the facts, the stacks of the calls that matter, and the rule.

## Which findings

` + "`--check`" + ` takes words, separated by commas:

| word | |
|---|---|
| ` + "`error`" + ` | the default: report [errors](#errors) |
| ` + "`advice`" + ` | also report [advice](#advice): legal use that is rarely wanted |
| ` + "`fatal`" + ` | end the process at its first error, with exit code 86 |

    softhca run --check=advice -- ./my_server
    softhca run --check=fatal --explain --fault 'drop p=0.01' -- ./my_client

The exit code is that of the program. A report with findings does not change it; ` + "`fatal`" + ` makes it 86.

## Hiding findings

    softhca run --check --suppress known.txt -- ./my_server

A file of ` + "`--suppress`" + `, which can be repeated, hides findings that you know. Each line has the name of a finding, or ` + "`*`" + ` for any, and a pattern. The finding is hidden if the pattern matches
the name of a function, or the path or the file name of a library, of one of its frames. In Go programs the name of a function also matches without the path of its package
(` + "`server.(*Conn).send`" + `). Patterns are globs (` + "`*`" + `, ` + "`?`" + `, ` + "`[a-z]`" + `); ` + "`#`" + ` begins a comment. The report says how many findings were hidden.

    # the logging library frees its buffers late
    memory-freed log_flush*
    *            libold.so.*

## Reports for programs

    softhca run --check --report findings.sarif --report junit.xml -- ./my_test

` + "`--report`" + ` writes the report to a file, too, and can be repeated. The suffix of the file gives the format:

| suffix | |
|---|---|
| ` + "`.json`" + ` | [one object](json.md#softhca-run---check---report-filejson) |
| ` + "`.xml`" + ` | JUnit: a test case for each error that can be found; findings are failures |
| ` + "`.sarif`" + ` | SARIF 2.1.0, which code hosting sites show at the source lines |

# What is not found

- Memory that is freed by an allocator that is linked into the program: only the functions ` + "`free`, `realloc`, `munmap` and `mremap`" + ` of shared libraries are seen (memory-freed, memory-unmapped).
- What is left at the end of a process that a signal kills. Programs that end by ` + "`_exit` or `quick_exit`" + ` are checked to the end.
- Events of rdma_cm that are read and not acknowledged: librdmacm counts them itself.

# With ThreadSanitizer

Compile a C or C++ program with ` + "`-fsanitize=thread -g`" + ` (GCC or Clang), and ThreadSanitizer also reports data races between the program and the adapter:

    gcc -g -fsanitize=thread -o my_server my_server.c -libverbs -lpthread
    softhca run --check -- ./my_server

The program races with the adapter if it writes to the buffer of a send request, or accesses the buffer of a receive, a READ or an atomic, after the post and before it has polled the completion. The report is
ThreadSanitizer's own, with its exit code 66. One of its two stacks has the access of the program, and the other one the post, below the function ` + "`adapter_reads_payload`" + ` or ` + "`adapter_writes_payload`" + `:

    WARNING: ThreadSanitizer: data race (pid=7709)
      Write of size 8 at 0x7bc000010000 by thread T8:
        #0 adapter_writes_payload tsan.c:157
        #1 ibv_post_recv verbs.h:3377
        #2 main my_server.c:48
      Previous read of size 1 at 0x7bc000010000 by main thread:
        #0 main my_server.c:51

Both threads may be the same one: the example has posted a buffer again before it has read the message in it. ThreadSanitizer's options (` + "`TSAN_OPTIONS`" + `, suppressions) work as for other races.

ThreadSanitizer is told that

- what a thread did before a post happens before the accesses of the adapter, which happen before any thread polls the completion; the completion of a later send request covers earlier unsignaled ones
- what a thread did before a post happens before the poll of its completion, whether it has succeeded or not, and before another thread of the process polls a receive of the message, or of one sent later
- a receive is only written as far as the message reaches, and not by a WRITE with an immediate.

To avoid false reports, it is not told of

- accesses at the responder: the memory that a WRITE or an atomic of the peer writes, and that a READ reads. Memory that the peer writes may be read atomically, or after a later message
- the order of threads of one process that exchange data only by one-sided operations
- sends of UD queue pairs: a program may also learn from the answer of the peer that a datagram was sent
- requests that fail, inline data, receives of XRC, and requests that are not polled.

The accesses are told at the poll of the completion. Races can be missed: ThreadSanitizer remembers only a few accesses to each 8 bytes; and if the completion of a later request is polled first, a race
with an earlier request is missed if both use the same page, and with a chance of 1 in 32 otherwise. With GCC, ThreadSanitizer needs another 27 MB for the adapter.

If ThreadSanitizer ends with "unexpected memory mapping", put ` + "`setarch -R`" + ` before the command: the kernel places memory more randomly than older versions of ThreadSanitizer support (` + "`vm.mmap_rnd_bits`" + ` above 28). After a fork, a child that opens an
adapter of its own needs ` + "`TSAN_OPTIONS=die_after_fork=0`" + `, because the adapter starts threads.

# Go programs

` + "`run --check`" + ` also checks programs in Go that use the packages verbs and rdmacm. Without it, such programs have an option of ` + "`verbs.Open`" + `:

    ctx, err := verbs.Open(verbs.Config{}, verbs.WithCheck(func(f *verbs.Finding) { log.Print(f) }))

It calls the function once for each place with a bug. In a test, package verbs/verbstest makes the test fail:

    check := verbstest.Check(t)
    ctx, err := verbs.Open(verbs.Config{Network: network, Addr: "10.0.0.1"}, check)

An error fails the test and advice is only logged. If the test does not close the adapter, it fails, too. Use one option for all adapters of a process: the checker does not report send-buffer-changed
while the process has an adapter that is not checked, because it does not know what that writes. Without the option, a call costs a comparison more.

The findings, the rules and the levels are those below, with these differences:

- Some bugs cannot happen. Go keeps the memory of a region alive (memory-freed, memory-unmapped, stack-memory-gone, poisoned-memory). Events of completion channels need no acknowledgement, and a second
  ` + "`Ack`" + ` of an asynchronous event does nothing (events-not-acknowledged, acknowledged-twice, async-acknowledged-twice). Go programs do not fork (used-in-child).
- async-events-not-acknowledged: Destroy does not wait but returns ErrBusy. It is reported if Destroy fails for longer than 3 s, or if the adapter is closed and the object still exists.
- A call that is refused has an error with the reason, and is not reported (call-refused, armed-without-channel).
- ` + "`CQ.Poll`" + ` and ` + "`CQ.Wait`" + ` of a destroyed queue are a way to end a goroutine, and are not reported (polled-while-destroyed, used-after-destroy). Goroutines that sleep are not reported either (waits-without-polling).
- ` + "`QP.PostSend`, `QP.PostRecv`, `SRQ.PostRecv` and `CQ.ReqNotify`" + ` of an object that another goroutine has destroyed return an error, which may end the caller's work. The checker does not report them
  (used-after-destroy).
- A second ` + "`Destroy`, `Dealloc`, `Dereg`, `Free` or `Close`" + ` returns an error and does nothing else, so a program may also defer the call. It is not reported (destroyed-twice).
- objects-left-at-close is advice, because ` + "`Context.Close`" + ` releases all objects. An object is left if the program has destroyed others of its kind.
- Go has no function that runs when a program ends. A finding is written when it is found, before the call returns and before the function of ` + "`WithCheck`" + ` is called, so it is in the report even if the
  program then calls ` + "`os.Exit`" + `, panics or is killed. What is found at the end of an object is lost if the program ends without ` + "`Destroy`" + ` or ` + "`Context.Close`" + `: error-never-polled, completions-never-polled,
  path-not-loaded, objects-left-at-close, async-events-not-acknowledged, and cq-overrun if the queue is not polled until it is empty. So is peer-access-refused: the adapter finds it, and the next call of the
  program writes it. To find these, close the adapters before the program ends.
- objects-left-at-exit is only found by package verbstest, and is about an adapter that is not closed.
- Events of package rdmacm that are not read are not reported (cm-events-never-read).
- Posts in vain to a full shared receive queue are reported, too (receive-queue-overfilled). In programs in C they are only refused.
- There is no advice about READs that wait for each other (reads-one-at-a-time).
- There is no advice about the values of ` + "`verbs.ConnectionAttr`" + `, nor about queue pairs that package rdmacm moves to other states. The calls of package rdmacm/stream are not the program's, and are not reported.

`

// page returns the text of the page.
func page() []byte {
	var b bytes.Buffer
	b.WriteString(head)
	level := ""
	for _, f := range findings.All() {
		if f.Level != level {
			level = f.Level
			if level == findings.Error {
				b.WriteString("# Errors\n\n")
			} else {
				b.WriteString("# Advice\n\n")
			}
		}
		fmt.Fprintf(&b, "## %s\n\n%s\n\n**Rule.** %s\n\n**Source.** %s.\n\n**Fix.** %s\n\n", f.Name, f.Title, f.Rule, f.Source, f.Fix)
	}
	b.Truncate(b.Len() - 1)
	return b.Bytes()
}

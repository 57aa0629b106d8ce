package stacks

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/check"
	"github.com/softhca/softhca/internal/must"
)

// waiting is a program with threads that wait: two for a condition, one in a function deep below itself, one in the handler of a signal.
// It says when it is ready.
const waiting = `#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int ends[2];

__attribute__((noinline)) int wait_for_condition(void)
{
	pthread_mutex_lock(&mutex);
	for (;;)
		pthread_cond_wait(&cond, &mutex);
}
static void *first(void *arg) { wait_for_condition(); return arg; }

__attribute__((noinline)) int descend(int n)
{
	volatile char room[100];
	room[0] = 0;
	if (n == 0)
		return (int)read(ends[0], (char *)room, 1) + room[0];
	return descend(n - 1) + 1;
}
static void *second(void *arg) { descend(DEPTH); return arg; }

static void handler(int number) { descend(number - number); }
__attribute__((noinline)) int raise_it(void) { return raise(SIGUSR1) + 1; }
static void *third(void *arg) { raise_it(); return arg; }

__attribute__((visibility("default"), noinline)) int exported_wait(void)
{
	char byte;
	return (int)read(ends[0], &byte, 1) + 1;
}

int main(void)
{
	pthread_t t;
	if (pipe(ends) != 0)
		return 1;
	signal(SIGUSR1, handler);
	pthread_create(&t, NULL, first, NULL);
	pthread_create(&t, NULL, first, NULL);
	pthread_create(&t, NULL, second, NULL);
	pthread_create(&t, NULL, third, NULL);
	puts("ready");
	fflush(stdout);
	return exported_wait();
}
`

// compile compiles the program and returns its path. It skips the test where there is no compiler.
func compile(t *testing.T, options ...string) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip(err) // no compiler is installed
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "waiting.c"), filepath.Join(dir, "waiting")
	must.Do(t, os.WriteFile(source, []byte(waiting), 0o600))
	out, err := exec.CommandContext(t.Context(), "gcc", append(options, "-pthread", "-o", program, source)...).CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return program
}

// start starts a program and waits until it is ready. It ends with the test.
func start(t *testing.T, program string) (pid int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program)
	out, err := cmd.StdoutPipe()
	must.Do(t, err)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it ends with the context, too
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the program says %q, %v", line, err)
	}
	return cmd.Process.Pid
}

// collected collects the stacks of a process until they satisfy a condition: its threads take a moment to wait.
func collected(t *testing.T, pid int, is func(*Process) bool) *Process {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		all := Collect([]int{pid})
		if len(all) != 1 || all[0].PID != pid {
			t.Fatalf("the stacks are %+v", all)
		}
		if is(&all[0]) {
			return &all[0]
		}
		if time.Now().After(end) {
			var b strings.Builder
			all[0].Text(&b, "")
			t.Fatalf("after 20 s the stacks are\n%s", b.String())
		}
	}
}

// functions returns the names of the functions of a stack.
func functions(frames []check.Frame) (all []string) {
	for i := range frames {
		all = append(all, frames[i].Function)
	}
	return all
}

// holds reports whether a thread of the process has all these functions next to each other in its stack, the innermost first; count is how
// many threads have it.
func (p *Process) holds(count int, names ...string) bool {
	return slices.ContainsFunc(p.Threads, func(th Thread) bool {
		all := functions(th.Frames)
		for i := range all {
			if th.Count == count && slices.Equal(all[i:min(i+len(names), len(all))], names) {
				return true
			}
		}
		return false
	})
}

// TestStacks finds the functions in which the threads of a program wait, compiled in several ways.
func TestStacks(t *testing.T) {
	for _, options := range [][]string{
		{"-O0", "-g"}, {"-O2", "-fno-optimize-sibling-calls", "-fno-ipa-icf"}, {"-O1", "-fomit-frame-pointer", "-no-pie"}, {"-O1", "-fno-omit-frame-pointer", "-Wl,-z,now"},
	} {
		pid := start(t, compile(t, append(options, "-DDEPTH=5")...))
		p := collected(t, pid, func(p *Process) bool {
			return p.holds(2, "wait_for_condition", "first") && p.holds(1, "descend", "descend", "descend", "descend", "descend", "descend", "second") &&
				p.holds(1, "descend", "handler") && p.holds(1, "raise_it", "third") && p.holds(1, "exported_wait", "main")
		})
		if p.Name != "waiting" || p.Problem != "" || p.Engine != 0 || p.More != 0 || p.GoProgram() || len(p.Threads) != 4 {
			t.Errorf("%q: %+v", options, p)
		}
		for _, th := range p.Threads {
			if n := len(th.Frames); th.Cut || !slices.Contains([]string{"first", "second", "third", "main"}, th.Frames[n-1].Function) {
				t.Errorf("%q: the stack of thread %d is %v", options, th.TID, functions(th.Frames))
			}
		}
		if options[1] == "-g" && !strings.HasSuffix(p.Threads[0].Frames[len(p.Threads[0].Frames)-1].File, "waiting.c") {
			t.Errorf("the frame of main is %+v", p.Threads[0])
		}
	}
}

// TestStripped finds the stacks of a program without symbols: only exported functions have names.
func TestStripped(t *testing.T) {
	pid := start(t, compile(t, "-O1", "-s", "-rdynamic", "-DDEPTH=1"))
	p := collected(t, pid, func(p *Process) bool {
		return p.holds(1, "exported_wait", "main") && p.holds(1, "descend", "descend", "")
	})
	var b strings.Builder
	p.Text(&b, "> ")
	if text := b.String(); !strings.Contains(text, "> process waiting (") || !strings.Contains(text, "(waiting+0x") || strings.Contains(text, " second ") {
		t.Errorf("the text is\n%s", text)
	}
	pid = start(t, compile(t, "-O1", "-s", "-DDEPTH=1"))
	collected(t, pid, func(p *Process) bool {
		return len(p.Threads) == 4 && !slices.ContainsFunc(p.Threads, func(th Thread) bool { return len(th.Frames) < 3 })
	})
}

// TestFramesAreBounded cuts the stack of a thread that has called itself very often.
func TestFramesAreBounded(t *testing.T) {
	pid := start(t, compile(t, "-O1", "-DDEPTH=5000"))
	collected(t, pid, func(p *Process) bool {
		return slices.ContainsFunc(p.Threads, func(th Thread) bool {
			return th.Cut && len(th.Frames) == maxShown && th.Frames[maxShown-1].Function == "descend"
		})
	})
}

// TestProcessesGoOn lets the threads of a process go on afterwards, and says nothing about processes that do not exist.
func TestProcessesGoOn(t *testing.T) {
	pid := start(t, compile(t, "-O1", "-DDEPTH=1"))
	for range 3 {
		collected(t, pid, func(p *Process) bool { return p.Problem == "" && len(p.Threads) >= 3 })
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must.Do(t, err)
	if !strings.Contains(string(status), "TracerPid:\t0\n") || strings.Contains(string(status), "State:\tt") {
		t.Errorf("after it was traced, its status is\n%s", status)
	}
	if all := Collect([]int{1 << 30}); len(all) != 1 || len(all[0].Threads) != 0 {
		t.Errorf("a process that does not exist has the stacks %+v", all)
	}
	if all := Collect(slices.Repeat([]int{1 << 30}, MaxProcesses+1)); len(all) != MaxProcesses {
		t.Errorf("there are stacks of %d processes", len(all))
	}
}

// TestRefused tells what /proc says about a process that another thread traces, and why its stacks are not known.
func TestRefused(t *testing.T) {
	pid := start(t, compile(t, "-O1", "-DDEPTH=1"))
	traced, done := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread() // it ends with the goroutine, and with it the tracing
		traced <- unix.PtraceSeize(pid)
		<-done
	}()
	must.Do(t, <-traced)
	defer close(done)
	p := collected(t, pid, func(p *Process) bool {
		return strings.Contains(p.Problem, "the kernel refuses ptrace: operation not permitted") && len(p.Threads) > 0 && strings.Contains(p.Threads[0].State, "sleeping")
	})
	if !strings.Contains(p.Threads[0].State, "in the system call read") {
		t.Errorf("the state of a thread that reads is %q", p.Threads[0].State)
	}
	for scope, want := range map[string]string{"2\n": "ptrace_scope is 2: only administrators", "3\n": "ptrace_scope is 3: ptrace is disabled", "1\n": "some containers", "": "some containers"} {
		if why := refused(unix.EPERM, scope); !strings.Contains(why, want) {
			t.Errorf("with the scope %q: %s", scope, why)
		}
	}
	if why := refused(errors.New("other"), ""); why != "the kernel refuses ptrace: other" {
		t.Error(why)
	}
}

// TestEqualStacks counts threads with equal stacks, and bounds the others.
func TestEqualStacks(t *testing.T) {
	p := &Process{Name: "many \x1b[31m", PID: 7, Engine: 3, QueuePairs: []string{"qp 1"}, Goroutines: "goroutine 1:\n\tmain.go:1 \x1b[31m\n"}
	for i := range 3 * maxStacks {
		p.add(Thread{TID: i, Name: "t", Frames: []check.Frame{{Function: fmt.Sprintf("f%d", i/2), Address: "0x1"}}})
	}
	p.add(Thread{TID: 999, Name: "t", Inside: true, State: "sleeping", Cut: true})
	if len(p.Threads) != maxStacks || p.Threads[0].Count != 2 || p.Threads[maxStacks-1].Count != 2 || p.More != maxStacks+1 {
		t.Errorf("%d stacks, %d more, the first %+v", len(p.Threads), p.More, p.Threads[0])
	}
	p.Threads = append(p.Threads[:1], Thread{TID: 999, Name: "t", Count: 1, Inside: true, State: "sleeping", Cut: true})
	var b strings.Builder
	p.Text(&b, "")
	want := `process many \x1b[31m (7):
  2 threads, such as t (0):
    #0  f0 (0x1)
  thread t (999): sleeping, in softhca's engine:
    and more frames
  3 of its threads are softhca's own
  33 more threads
  qp 1
  goroutines:
    goroutine 1:
      main.go:1 \x1b[31m
`
	if b.String() != want {
		t.Errorf("the text is\n%s\nwant\n%s", b.String(), want)
	}
}

// TestDamagedFiles reads damaged ELF files, and files that are none.
func TestDamagedFiles(t *testing.T) {
	program := compile(t, "-O1", "-DDEPTH=1")
	whole, err := os.ReadFile(program)
	must.Do(t, err)
	if o := openObject(program); o == nil || o.table == nil || o.isGo || o.table.Find(o.entry) == nil {
		t.Errorf("the program is read as %+v", o)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := 0; i < len(whole); i += len(whole)/300 + 1 {
		b := slices.Clone(whole)
		for j := range min(7, len(b)-i) {
			b[i+j] = byte(random.Uint32())
		}
		for _, b := range [][]byte{b, whole[:i]} {
			if o := readObject(strings.NewReader(string(b))); o != nil {
				addr, _ := o.addressOf(random.Uint64N(uint64(len(whole))))
				if o.table != nil {
					o.table.Find(addr)
				}
			}
		}
	}
	for _, name := range []string{"", "/", "/dev/zero", "/nowhere", "/proc/self/maps"} {
		if o := openObject(name); o != nil {
			t.Errorf("%q is read as %+v", name, o)
		}
	}
}

// FuzzMapping reads lines of /proc/PID/maps.
func FuzzMapping(f *testing.F) {
	f.Add("55d0c0a00000-55d0c0a21000 r-xp 00002000 fe:00 1234                       /usr/bin/a b (deleted)")
	f.Add("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]")
	f.Add("7ffd1000-7ffd0000 rwxp 0 0 0")
	f.Fuzz(func(t *testing.T, line string) {
		if m, ok := parseMapping(line); ok && m.end <= m.begin {
			t.Errorf("%q is the mapping %+v", line, m)
		}
	})
}

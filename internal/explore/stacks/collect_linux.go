package stacks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/check"
	"github.com/softhca/softhca/internal/check/symbols"
	"github.com/softhca/softhca/internal/explore/stacks/cfi"
	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/internal/printable"
)

const (
	traceTime = 3 * time.Second        // for stopping the threads of all processes
	stackTime = 30 * time.Second       // for all stacks: those of threads that come later are not looked for
	pause     = 100 * time.Microsecond // between two looks whether a thread has stopped
	maxFiles  = 256                    // ELF files that are read
)

// collector collects the stacks of processes.
type collector struct {
	objects map[string]*object
	symbols *symbols.Table
	end     time.Time
}

// Collect returns the stacks of processes, of the first MaxProcesses of them. It stops their threads for a moment. No other thread of
// this process may wait for these processes meanwhile: it would get the state of a stopped thread, which Collect waits for.
func Collect(pids []int) []Process {
	// The kernel knows the tracing thread, not the tracing process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := &collector{objects: map[string]*object{}, symbols: symbols.New(symbols.DebugDir, symbols.MaxDebug), end: time.Now().Add(traceTime)}
	all := []Process{}
	for _, pid := range pids[:min(len(pids), MaxProcesses)] {
		all = append(all, c.process(pid))
	}
	describeQueues(all)
	return all
}

// object returns the ELF file with a path; nil if it cannot be read.
func (c *collector) object(path string) *object {
	o, known := c.objects[path]
	if !known && len(c.objects) < maxFiles {
		o = openObject(path)
		c.objects[path] = o
	}
	return o
}

// process returns the stacks of a process.
func (c *collector) process(pid int) Process {
	p := Process{PID: pid, Name: value(pid, pid, "comm"), Threads: []Thread{}}
	t := &tracer{pid: pid, stopped: map[int]int{}}
	defer t.detach()
	tids := threads(pid)
	if len(tids) > maxThreads {
		p.More, tids = len(tids)-maxThreads, tids[:maxThreads]
	}
	for _, tid := range tids {
		if err := t.stop(tid, c.end); err != nil && !errors.Is(err, unix.ESRCH) && p.Problem == "" {
			scope, _ := os.ReadFile(scopeFile) // kernels without Yama do not have it
			p.Problem = refused(err, string(scope))
		}
	}
	s, err := c.openSpace(pid)
	if err != nil && p.Problem == "" {
		p.Problem = err.Error()
	}
	exe := c.object(fmt.Sprintf("/proc/%d/exe", pid))
	p.goProgram = exe != nil && exe.isGo
	program, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)) // without it, no file is the program's
	for _, tid := range tids {
		name := value(pid, tid, "comm")
		if name == "" {
			continue // the thread has ended
		}
		one := Thread{TID: tid, Name: name}
		regs, err := t.registers(tid)
		if err != nil || s == nil || time.Now().After(c.end.Add(stackTime)) {
			one.State = state(pid, tid)
			p.add(one)
			continue
		}
		places, more := s.unwind(regs)
		if own := c.frames(&one, places, program); own && tid != pid {
			p.Engine++
			continue
		}
		one.Cut = one.Cut || more
		p.add(one)
	}
	return p
}

// frames sets the frames of a thread, without those of the engine and of the system's library that starts threads. It reports whether the
// thread is one of softhca's own. program is the path of the program.
func (c *collector) frames(t *Thread, places []place, program string) (own bool) {
	engine := -1
	foreign := false
	for i := range places {
		m := places[i].mapping
		switch {
		case m == nil:
		case m.object != nil && m.object.isGo && m.path != program || filepath.Base(m.path) == libraries.Engine:
			engine, own = i, true
		case isOwn(m.path):
			own = true
		case !isSystem(m.path):
			foreign = true
		}
	}
	t.Inside = engine >= 0
	places = places[engine+1:]
	for n := len(places); n > 1 && starts(&places[n-1]); n-- {
		places = places[:n-1]
	}
	for i := range places {
		t.Frames = append(t.Frames, c.frame(&places[i])...)
	}
	if len(t.Frames) > maxShown {
		t.Frames, t.Cut = t.Frames[:maxShown], true
	}
	return own && !foreign
}

// isOwn reports whether a file is a library of softhca in C.
func isOwn(path string) bool {
	switch filepath.Base(path) {
	case libraries.Verbs, libraries.Preload, libraries.Memory:
		return true
	}
	return false
}

// isSystem reports whether a file is part of the C library, or of the kernel.
func isSystem(path string) bool {
	base := filepath.Base(path)
	return path == vdso || strings.HasPrefix(base, "libc.") || strings.HasPrefix(base, "libpthread") || strings.HasPrefix(base, "ld-") || strings.HasPrefix(base, "libc-")
}

// entrySize is more than the size of the code at a program's entry, in bytes.
const entrySize = 64

// starts reports whether a frame, the outermost one, belongs to the code that starts programs and threads.
func starts(p *place) bool {
	m := p.mapping
	return m != nil && (isSystem(m.path) || m.object != nil && p.addr-m.object.entry < entrySize)
}

// frame returns the function at a place. Functions that are inlined there come first.
func (c *collector) frame(p *place) []check.Frame {
	m := p.mapping
	if m == nil {
		return []check.Frame{{Address: fmt.Sprintf("0x%x", p.pc)}}
	}
	base := check.Frame{Library: printable.Line(m.path, maxWord), Address: fmt.Sprintf("0x%x", p.addr)}
	if m.object == nil {
		base.Address = fmt.Sprintf("0x%x", p.pc-m.begin+m.offset)
	}
	if m.file == "" {
		return []check.Frame{base}
	}
	found := c.symbols.Lookup(m.file, p.addr)
	if len(found) == 0 {
		return []check.Frame{base}
	}
	all := make([]check.Frame, len(found))
	for i, s := range found {
		all[i] = base
		all[i].Function, all[i].File, all[i].Line = printable.Line(s.Function, maxWord), printable.Line(s.File, maxWord), s.Line
		all[i].Inlined = i < len(found)-1
	}
	return all
}

// tracer traces the threads of a process.
type tracer struct {
	pid     int
	stopped map[int]int // threads that have stopped, with the signal that they are to get when they continue; 0 is none
}

// stop stops a thread.
func (t *tracer) stop(tid int, end time.Time) error {
	if err := unix.PtraceSeize(tid); err != nil {
		return err
	}
	if err := unix.PtraceInterrupt(tid); err != nil {
		return err
	}
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(tid, &status, unix.WNOHANG|unix.WALL, nil)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		case got == tid && !status.Stopped():
			return unix.ESRCH // it has ended
		case got == tid:
			t.stopped[tid] = 0
			if event := int(status) >> 16; event == 0 {
				t.stopped[tid] = int(status.StopSignal())
			}
			return nil
		case time.Now().After(end):
			return fmt.Errorf("thread %d does not stop: %w", tid, unix.EBUSY)
		}
		time.Sleep(pause)
	}
}

// ntPRStatus is the set of a thread's general registers.
const ntPRStatus = 1

// registers returns the registers of a thread that has stopped.
func (t *tracer) registers(tid int) (*cfi.Registers, error) {
	if _, ok := t.stopped[tid]; !ok || numSaved == 0 {
		return nil, unix.ESRCH
	}
	var saved [numSaved]uint64
	v := unix.Iovec{Base: (*byte)(unsafe.Pointer(&saved))}
	v.SetLen(int(unsafe.Sizeof(saved)))
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GETREGSET, uintptr(tid), ntPRStatus, uintptr(unsafe.Pointer(&v)), 0, 0); errno != 0 {
		return nil, os.NewSyscallError("ptrace "+strconv.Itoa(tid), errno)
	}
	return registers(&saved), nil
}

// detach lets the threads continue.
func (t *tracer) detach() {
	for tid, signal := range t.stopped {
		_, _, _ = unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(tid), 0, uintptr(signal), 0, 0) // it may have been killed
	}
}

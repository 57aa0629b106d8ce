package stacks

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/printable"
)

// threads returns the threads of a process, the first one first.
func threads(pid int) (all []int) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil // it has ended
	}
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, tid)
		}
	}
	slices.Sort(all)
	if i := slices.Index(all, pid); i > 0 {
		all = slices.Insert(slices.Delete(all, i, i+1), 0, pid)
	}
	return all
}

// value returns the first line of a file in the directory of a thread in /proc; "" if it cannot be read.
func value(pid, tid int, name string) string {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "task", strconv.Itoa(tid), name))
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return printable.Line(line, maxWord)
}

// states are the letters of states in /proc.
var states = map[string]string{"R": "running", "S": "sleeping", "D": "sleeping, and not to be interrupted", "T": "stopped", "t": "stopped by a debugger", "Z": "ended", "I": "idle"}

// calls are the system calls in which threads wait.
var calls = map[int]string{
	unix.SYS_READ: "read", unix.SYS_WRITE: "write", unix.SYS_READV: "readv", unix.SYS_RECVFROM: "recvfrom", unix.SYS_RECVMSG: "recvmsg", unix.SYS_SENDMSG: "sendmsg",
	unix.SYS_ACCEPT: "accept", unix.SYS_ACCEPT4: "accept4", unix.SYS_CONNECT: "connect", unix.SYS_FUTEX: "futex", unix.SYS_PPOLL: "ppoll", unix.SYS_PSELECT6: "pselect6",
	unix.SYS_EPOLL_PWAIT: "epoll_pwait", unix.SYS_NANOSLEEP: "nanosleep", unix.SYS_CLOCK_NANOSLEEP: "clock_nanosleep", unix.SYS_WAIT4: "wait4", unix.SYS_WAITID: "waitid",
	unix.SYS_RT_SIGTIMEDWAIT: "rt_sigtimedwait", unix.SYS_RT_SIGSUSPEND: "rt_sigsuspend", unix.SYS_FLOCK: "flock", unix.SYS_FSYNC: "fsync", unix.SYS_MSGRCV: "msgrcv",
}

// state says what a thread does, as far as /proc tells.
func state(pid, tid int) string {
	var parts []string
	stat := value(pid, tid, "stat")
	if fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]); len(fields) > 0 {
		name, ok := states[fields[0]]
		if !ok {
			name = "state " + fields[0]
		}
		parts = append(parts, name)
	}
	number, _, _ := strings.Cut(value(pid, tid, "syscall"), " ")
	if n, err := strconv.Atoi(number); err == nil && n >= 0 {
		parts = append(parts, "in the system call "+cmp.Or(calls[n], olderCalls[n], fmt.Sprintf("number %d", n)))
	}
	if where := value(pid, tid, "wchan"); where != "" && where != "0" {
		parts = append(parts, "in the kernel's function "+where)
	}
	if kernel := value(pid, tid, "stack"); kernel != "" {
		parts = append(parts, "kernel stack "+kernel)
	}
	return strings.Join(parts, ", ")
}

// scopeFile has Yama's rule about ptrace.
const scopeFile = "/proc/sys/kernel/yama/ptrace_scope"

// refused says why ptrace is refused. scope is the content of scopeFile.
func refused(err error, scope string) string {
	why := fmt.Sprintf("the kernel refuses ptrace: %v", err)
	switch strings.TrimSpace(scope) {
	case "2":
		return why + "; " + scopeFile + " is 2: only administrators may use it"
	case "3":
		return why + "; " + scopeFile + " is 3: ptrace is disabled until the next boot"
	}
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		why += "; the process may be another user's, have more rights than softhca, or already have a debugger, or a filter of system calls forbids ptrace, as in some containers"
	}
	return why
}

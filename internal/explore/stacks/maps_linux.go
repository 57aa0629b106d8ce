package stacks

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// vdso is the name of the code that the kernel maps into each process.
const vdso = "[vdso]"

// maxVDSO bounds the kernel's code that is read, in bytes.
const maxVDSO = 1 << 20

// openSpace reads the executable parts of the address space of a process.
func (c *collector) openSpace(pid int) (*space, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	s := &space{pages: map[uint64][]byte{}, read: func(p []byte, addr uint64) int { return readMemory(pid, p, addr) }}
	root := rootOf(pid)
	for line := range strings.SplitSeq(string(text), "\n") {
		m, ok := parseMapping(line)
		if !ok || len(s.mappings) == maxMappings {
			continue
		}
		switch {
		case m.path == vdso:
			code := make([]byte, min(m.end-m.begin, maxVDSO))
			m.object = readObject(bytes.NewReader(code[:readMemory(pid, code, m.begin)]))
		case strings.HasPrefix(m.path, "/") && !strings.HasSuffix(m.path, " (deleted)"):
			m.file = filepath.Join(root, m.path)
			m.object = c.object(m.file)
		}
		s.mappings = append(s.mappings, m)
	}
	return s, nil
}

// parseMapping reads a line of /proc/PID/maps. It reports false unless the mapping is executable.
func parseMapping(line string) (m mapping, ok bool) {
	// The addresses, the rights, the offset, the device, the inode, and the path, which may contain blanks.
	fields := strings.SplitN(line, " ", 6)
	if len(fields) < 5 || !strings.Contains(fields[1], "x") {
		return m, false
	}
	begin, end, _ := strings.Cut(fields[0], "-")
	var errs [3]error
	m.begin, errs[0] = strconv.ParseUint(begin, 16, 64)
	m.end, errs[1] = strconv.ParseUint(end, 16, 64)
	m.offset, errs[2] = strconv.ParseUint(fields[2], 16, 64)
	if len(fields) == 6 {
		m.path = strings.TrimLeft(fields[5], " ")
	}
	return m, errs == [3]error{} && m.end > m.begin
}

// rootOf returns the directory below which this process finds the files of another one; "" if both have the same.
func rootOf(pid int) string {
	dir := fmt.Sprintf("/proc/%d/", pid)
	own, err1 := os.Readlink("/proc/self/ns/mnt")
	other, err2 := os.Readlink(dir + "ns/mnt")
	root, err3 := os.Readlink(dir + "root")
	if err1 == nil && err2 == nil && err3 == nil && own == other && root == "/" {
		return "/"
	}
	return dir + "root"
}

// readMemory reads memory of a process, and returns how many bytes it has read.
func readMemory(pid int, p []byte, addr uint64) int {
	if len(p) == 0 {
		return 0
	}
	local := []unix.Iovec{{Base: &p[0]}}
	local[0].SetLen(len(p))
	n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(p)}}, 0)
	if err != nil {
		return 0
	}
	return n
}

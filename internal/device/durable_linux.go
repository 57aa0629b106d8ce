package device

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// WritesBack says whether memory can be durable on this system.
const WritesBack = true

// mapping is a line of /proc/self/maps.
type mapping struct {
	start, end uint64
	shared     bool
	dev, inode uint64 // of the file; 0: there is none
	path       string // as it was when the file was opened
}

// durable reports whether all of the memory is mapped shared from files that survive a loss of
// power. It is not if that cannot be found out.
func durable(mem []byte) bool {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return false
	}
	defer f.Close()
	return durableIn(f, mem, (*mapping).stays)
}

// durableIn is durable for the mappings in maps, which are sorted by address. stays says which
// are of files that survive.
func durableIn(maps io.Reader, mem []byte, stays func(*mapping) bool) bool {
	at := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem))))
	end := at + uint64(len(mem))
	lines := bufio.NewScanner(maps)
	lines.Buffer(nil, 64<<10)
	for at < end && lines.Scan() {
		m, ok := parseMapping(lines.Text())
		switch {
		case !ok || m.start > at:
			return false
		case m.end <= at:
		case !stays(&m):
			return false
		default:
			at = m.end
		}
	}
	return len(mem) > 0 && at >= end
}

// parseMapping parses a line: "start-end perms offset major:minor inode path".
func parseMapping(line string) (m mapping, ok bool) {
	var perms, offset string
	var major, minor uint32
	n, _ := fmt.Sscanf(line, "%x-%x %s %s %x:%x %d", &m.start, &m.end, &perms, &offset, &major, &minor, &m.inode)
	if n != 7 || len(perms) != 4 {
		return m, false
	}
	m.shared, m.dev = perms[3] == 's', unix.Mkdev(major, minor)
	// The path follows the inode and blanks. The kernel escapes line feeds in it.
	if _, path, found := strings.Cut(line, " "+strconv.FormatUint(m.inode, 10)+" "); found {
		m.path = strings.ReplaceAll(strings.TrimLeft(path, " "), `\012`, "\n")
	}
	return m, true
}

// stays reports whether the mapping is shared and of a regular file on a file system with
// storage. A file that was deleted, or replaced by another of its name, does not stay.
func (m *mapping) stays() bool {
	var file unix.Stat_t
	var fs unix.Statfs_t
	if !m.shared || m.inode == 0 || unix.Stat(m.path, &file) != nil || unix.Statfs(m.path, &fs) != nil {
		return false
	}
	if file.Mode&unix.S_IFMT != unix.S_IFREG || file.Dev == m.dev && file.Ino != m.inode {
		return false
	}
	switch uint32(fs.Type) {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.HUGETLBFS_MAGIC:
		return false
	}
	return true
}

// writeBack writes memory back to its file, and returns when that is done.
func writeBack(mem []byte) error {
	start := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	into := start % uintptr(os.Getpagesize())
	// The memory may be unmapped meanwhile, which msync reports. So it gets no slice.
	if _, _, errno := unix.Syscall(unix.SYS_MSYNC, start-into, into+uintptr(len(mem)), unix.MS_SYNC); errno != 0 {
		return errno
	}
	return nil
}
